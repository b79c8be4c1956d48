// What a catch-up does at once while clients are about.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FoldItem, FoldOutcome } from '../../src/code-host/code-host.js';
import { background } from '../../src/core/background.js';
import { NO_MARKS } from '../../src/store/fault-tables.js';
import { localTables } from '../support/local-tables.js';
import { busy, turnsDuring } from '../support/loop-turns.js';
import { commitOf, reducersAlone } from '../support/reducers-alone.js';

const COUNT = 64;

test('others have their turn between the aggregates of a catch-up, before their code runs and when it has', async (t) => {
  const tables = localTables(t);
  let sofar = (): number => 0;
  let before: number | undefined;
  const fold = (items: readonly FoldItem[]): Promise<FoldOutcome[]> => {
    before = sofar();
    // However long ago the last fold was planned, on a machine that is busy.
    background.asked('t');
    return Promise.resolve(items.map(() => ({ states: [{ version: 1, state: Buffer.from('{}') }] })));
  };
  const faults = {
    stopOf: () => undefined,
    // Looked at when a fold is planned, and when its result is stored.
    marks: () => {
      background.asked('t');
      busy(2);
      return NO_MARKS;
    },
  };
  const reducers = reducersAlone(t, fold, { tables, faults });
  const ids = Array.from({ length: COUNT }, (_, i) => `a-${i}`);
  background.asked('t');
  const { turns } = await turnsDuring((count) => {
    sofar = count;
    return reducers.catchUp(ids.map((id) => [commitOf(id, 0)]));
  });
  assert.deepEqual(
    ids.map((id) => tables.reducerState(id)?.version),
    ids.map(() => 1),
  );
  // Of 128 milliseconds before as well as behind.
  const first = before ?? assert.fail('nothing was folded');
  assert.ok(first >= COUNT / 8 && turns - first >= COUNT / 8, `${first} turns before, ${turns - first} behind`);
});
