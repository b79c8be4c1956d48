import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { Reducers, type ReducersOptions } from '../../src/aggregates/reducers.js';
import type { FoldItem, FoldOutcome } from '../../src/code-host/code-host.js';
import type { AggregateCommit } from '../../src/core/event.js';
import { silentLogger } from '../../src/core/logger.js';
import { NO_MARKS } from '../../src/store/fault-tables.js';

/** The one that is bound, whatever the type. */
export const REDUCER = { aggregateType: 'a', artefactId: 'r', className: 'C', generation: 1 };

/** What the code is asked to fold is answered by `fold`; nothing stands at a fault, and nothing is kept of former code, unless given. */
export function reducersAlone(
  t: TestContext,
  fold: (items: readonly FoldItem[]) => Promise<FoldOutcome[]>,
  { tables, ...given }: Pick<ReducersOptions, 'tables'> & Partial<Record<'kept' | 'faults' | 'history', unknown>>,
): Reducers {
  const reducers = new Reducers({
    tables,
    kept: { find: () => undefined, replaced: () => undefined },
    code: { runner: { fold }, load: () => undefined, isHalted: () => false },
    bindings: { of: () => REDUCER, isEmpty: false },
    history: undefined,
    faults: { stopOf: () => undefined, marks: () => NO_MARKS },
    deadlineMs: 10_000,
    listener: { shed: () => assert.fail('nothing is shed') },
    logger: silentLogger,
    ...given,
  } as unknown as ReducersOptions);
  t.after(() => reducers.close());
  return reducers;
}

/** Of one event, which lies at offset 2. */
export const commitOf = (aggregateId: string, baseVersion: number): AggregateCommit => ({
  ...{ offset: 2, commandId: 'c', aggregateId, aggregateType: 'a', baseVersion, timestamp: 1 },
  ...{ correlationId: undefined, causationId: undefined, metadata: undefined },
  events: [{ eventId: 'e', eventType: 'E', data: Buffer.from('{}') }],
});
