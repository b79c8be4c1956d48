import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ReducerFaults } from '../../src/aggregates/reducer-faults.js';
import type { FoldItem, FoldOutcome } from '../../src/code-host/code-host.js';
import { silentLogger } from '../../src/core/logger.js';
import { KeptStates } from '../../src/store/kept-states.js';
import { localTables } from '../support/local-tables.js';
import { commitOf, reducersAlone } from '../support/reducers-alone.js';

const STATE = Buffer.from('{"n":1}');

test('a row that a fault in the log takes away while it is folded on is counted once', async (t) => {
  const tables = localTables(t);
  const partition = { owned: false, propose: () => assert.fail('nothing is written') };
  const faults = new ReducerFaults({ tables, partition, logger: silentLogger });
  let answer: (() => void) | undefined;
  const fold = (items: readonly FoldItem[]): Promise<FoldOutcome[]> =>
    new Promise((resolve) => (answer = () => resolve(items.map(() => ({ states: [{ version: 4, state: STATE }] })))));
  const reducers = reducersAlone(t, fold, { tables, faults, kept: new KeptStates(tables, 1) });
  tables.addCommit('a-1', { version: 4, type: 'a', timestamp: 1 }, 3, 2);
  tables.setReducerState('a-1', {
    ...{ generation: 1, version: 3, state: STATE, lastModified: 1, offset: 1 },
    fault: undefined,
  });
  const bytes = tables.bytes.total(0);
  const folded = reducers.fold(commitOf('a-1', 3));
  while (answer === undefined) await new Promise(setImmediate);
  // Of other code, which was bound before: whose row it is can't be told.
  faults.fold({
    kind: 'ReducerFault',
    value: { aggregateId: 'a-1', artefactId: 'other', className: 'C', version: 2, fault: Buffer.from('{"version":2}') },
  });
  assert.equal(tables.reducerState('a-1'), undefined);
  answer();
  await folded;
  assert.equal(tables.reducerState('a-1')?.version, 4);
  assert.equal(tables.bytes.total(0), bytes);
});
