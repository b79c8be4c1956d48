import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ReducerFaults } from '../../src/aggregates/reducer-faults.js';
import type { FoldItem, FoldOutcome } from '../../src/code-host/code-host.js';
import type { AggregateCommit } from '../../src/core/event.js';
import { silentLogger } from '../../src/core/logger.js';
import { KeptStates } from '../../src/store/kept-states.js';
import { localTables } from '../support/local-tables.js';
import { commitOf, REDUCER, reducersAlone } from '../support/reducers-alone.js';

const STATE = Buffer.from('{"n":1}');

/** Of the aggregate, from the version on. */
async function* historyOf(aggregateId: string, from: number, to: number): AsyncGenerator<readonly AggregateCommit[]> {
  await new Promise(setImmediate);
  yield Array.from({ length: to - from + 1 }, (_, i) => commitOf(aggregateId, from + i - 1));
}

const recorded = (tables: ReturnType<typeof localTables>): ReducerFaults =>
  new ReducerFaults({
    tables,
    partition: { owned: false, propose: () => assert.fail('nothing is written') },
    logger: silentLogger,
  });

test('an event that is skipped while the history behind the state is read is not in what is stored', async (t) => {
  const tables = localTables(t);
  const faults = recorded(tables);
  let read: (() => void) | undefined;
  const history = {
    commits: async function* (aggregateId: string, from: number, to: number) {
      if (read === undefined) await new Promise<void>((resolve) => (read = resolve));
      yield* historyOf(aggregateId, from, to);
    },
  };
  const folded: number[][] = [];
  const fold = (items: readonly FoldItem[]): Promise<FoldOutcome[]> => {
    folded.push(...items.map(({ events }) => events.map(({ version }) => version)));
    return Promise.resolve(items.map(() => ({ states: [{ version: 5, state: STATE }] })));
  };
  const reducers = reducersAlone(t, fold, { tables, faults, history, kept: new KeptStates(tables, 1) });
  tables.addCommit('a-1', { version: 5, type: 'a', timestamp: 1 }, 4, 2);
  tables.setReducerState('a-1', {
    ...{ generation: 1, version: 3, state: STATE, lastModified: 1, offset: 1 },
    fault: undefined,
  });
  const answer = reducers.fold(commitOf('a-1', 4));
  while (read === undefined) await new Promise(setImmediate);
  const { artefactId, className } = REDUCER;
  faults.fold({
    kind: 'ReducerRelease',
    value: { aggregateId: 'a-1', artefactId, className, version: 2, mode: 'skip', commandId: 'c' },
  });
  read();
  assert.deepEqual(await answer, { status: 'unavailable' });
  assert.equal(tables.reducerState('a-1'), undefined);
  await reducers.ensure('a-1');
  assert.deepEqual(folded, [
    [4, 5],
    [1, 3, 4, 5],
  ]);
  assert.equal(tables.reducerState('a-1')?.version, 5);
});

test('history whose code was halted in its midst, and revived since, is gone on with where the state is', async (t) => {
  const tables = localTables(t);
  const faults = recorded(tables);
  tables.addCommit('a-1', { version: 1002, type: 'a', timestamp: 1 }, 1001, 2);
  const { artefactId, className } = REDUCER;
  const fault = Buffer.from('{"eventId":"e","version":1001,"stopped":true}');
  faults.fold({ kind: 'ReducerFault', value: { aggregateId: 'a-1', artefactId, className, version: 1001, fault } });
  const folded: [from: number, to: number][] = [];
  const fold = (items: readonly FoldItem[]): Promise<FoldOutcome[]> => {
    const outcomes = items.map(({ events }): FoldOutcome => {
      const [from = 0, to = 0] = [events[0]?.version, events.at(-1)?.version];
      folded.push([from, to]);
      return folded.length === 1
        ? { states: [{ version: 10, state: STATE }], halted: true }
        : { states: [{ version: to, state: STATE }] };
    });
    return Promise.resolve(outcomes);
  };
  const kept = new KeptStates(tables, 1);
  const reducers = reducersAlone(t, fold, { tables, faults, kept, history: { commits: historyOf } });
  assert.deepEqual(await reducers.fold(commitOf('a-1', 1001)), { status: 'faulted' });
  assert.equal(tables.reducerState('a-1')?.version, 10);
  await reducers.ensure('a-1');
  assert.equal(tables.reducerState('a-1')?.version, 1000);
  assert.deepEqual(folded, [
    [1, 1000],
    [11, 1000],
  ]);
});

test('a state that is kept of former code is gone with a skip, which another process may have come to', (t) => {
  const tables = localTables(t);
  const faults = recorded(tables);
  const kept = new KeptStates(tables, 1);
  const by = { ...REDUCER, artefactId: 'other', generation: 2 };
  const former = [{ ...REDUCER, generation: 1 }];
  const stored = { generation: 1, version: 10, state: STATE, lastModified: 1, offset: 1, fault: undefined };
  tables.addCommit('a-1', { version: 10, type: 'a', timestamp: 1 }, 9, 2);
  kept.replaced('a-1', stored, { ...by, former });
  const again = { ...REDUCER, generation: 3, former: [...former, by] };
  assert.equal(kept.find('a-1', undefined, again)?.version, 10);
  const { artefactId, className } = REDUCER;
  const value = { aggregateId: 'a-1', artefactId, className, version: 5, mode: 'skip', commandId: 'c' } as const;
  faults.fold({ kind: 'ReducerRelease', value });
  assert.equal(kept.find('a-1', undefined, again), undefined);
  assert.equal(tables.bytes.total(0), 0);
});
