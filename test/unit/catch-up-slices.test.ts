// What a catch-up does at once while clients are about.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Reducers } from '../../src/aggregates/reducers.js';
import type { FoldItem } from '../../src/code-host/code-host.js';
import { background } from '../../src/core/background.js';
import type { AggregateCommit } from '../../src/core/event.js';
import { silentLogger } from '../../src/core/logger.js';
import { NO_MARKS } from '../../src/store/fault-tables.js';
import { localTables } from '../support/local-tables.js';
import { busy, turnsDuring } from '../support/loop-turns.js';

const COUNT = 64;
const REDUCER = { aggregateType: 'a', artefactId: 'r', className: 'C', generation: 1 };

const commitOf = (aggregateId: string): AggregateCommit => ({
  ...{ offset: 2, commandId: 'c', aggregateId, aggregateType: 'a', baseVersion: 0, timestamp: 1 },
  ...{ correlationId: undefined, causationId: undefined, metadata: undefined },
  events: [{ eventId: 'e', eventType: 'E', data: Buffer.from('{}') }],
});

test('others have their turn between the aggregates of a catch-up, before their code runs and when it has', async (t) => {
  const tables = localTables(t);
  let sofar = (): number => 0;
  let before: number | undefined;
  const reducers = new Reducers({
    tables,
    kept: { find: () => undefined, replaced: () => undefined },
    code: {
      runner: {
        fold: (items: readonly FoldItem[]) => {
          before = sofar();
          // However long ago the last fold was planned, on a machine that is busy.
          background.asked('t');
          return Promise.resolve(items.map(() => ({ states: [{ version: 1, state: Buffer.from('{}') }] })));
        },
      },
      load: () => undefined,
      isHalted: () => false,
    },
    bindings: { of: () => REDUCER, isEmpty: false },
    history: undefined,
    faults: {
      stopOf: () => undefined,
      // Looked at when a fold is planned, and when its result is stored.
      marks: () => {
        background.asked('t');
        busy(2);
        return NO_MARKS;
      },
    },
    deadlineMs: 10_000,
    listener: { shed: () => assert.fail('nothing is shed') },
    logger: silentLogger,
  } as unknown as ConstructorParameters<typeof Reducers>[0]);
  t.after(() => reducers.close());
  const ids = Array.from({ length: COUNT }, (_, i) => `a-${i}`);
  background.asked('t');
  const { turns } = await turnsDuring((count) => {
    sofar = count;
    return reducers.catchUp(ids.map((id) => [commitOf(id)]));
  });
  assert.deepEqual(
    ids.map((id) => tables.reducerState(id)?.version),
    ids.map(() => 1),
  );
  // Of 128 milliseconds before as well as behind.
  const first = before ?? assert.fail('nothing was folded');
  assert.ok(first >= COUNT / 8 && turns - first >= COUNT / 8, `${first} turns before, ${turns - first} behind`);
});
