// What is faulted may have states of a megabyte each, which are read beside what is asked for.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AggregateReads } from '../../src/aggregates/aggregate-reads.js';
import { ProjectionReads } from '../../src/projections/projection-reads.js';
import type { PartitionTables, ReducerState } from '../../src/store/partition-tables.js';
import { TenantFaults } from '../../src/tenancy/faults.js';
import { localTables } from '../support/local-tables.js';

const P = 'p1';
const MIB = 1024 * 1024;
const LARGE = Buffer.alloc(MIB, 0x20);
const origin = { eventId: 'e', aggregateId: 'a-1', aggregateType: 'a', version: 1 };
const faultOf = (aggregateId: string) => ({
  ...{ eventId: 'e', aggregateId, version: 1, className: 'C0', message: 'boom' },
  ...{ file: null, line: null, at: '2026-01-01T00:00:00.000Z' },
});

/** The key stands in each of the classes, with a state of a megabyte. */
function stop(tables: PartitionTables, key: string, classes = 1, state = LARGE): void {
  for (let classIndex = 0; classIndex < classes; classIndex++) {
    const row = { state, sequence: 1, lastModified: 1, fault: faultOf('a-1'), origin };
    tables.setKeyState(P, 1, key, classIndex, row);
    tables.faults.setKey(P, 1, key, classIndex, true);
  }
}

/** All that stand. */
const ALL = {
  projectionId: P,
  key: undefined,
  className: undefined,
  mode: 'retry',
  eventId: undefined,
  version: undefined,
} as const;
const classNames = (count: number): string[] => Array.from({ length: count }, (_, i) => `C${i}`);
const mustServe = (): void => undefined;

/** `waiting` gives each release its place in the log. */
function faultsOf(tables: PartitionTables) {
  const waiting: (() => void)[] = [];
  const propose = (): Promise<number> => new Promise((resolve) => waiting.push(() => resolve(1)));
  const releases = {
    outcomeOf: () => ({ outcome: Promise.resolve({ outcome: 'superseded' as const }), forget: () => undefined }),
  };
  const faults = new TenantFaults({
    tables,
    code: { isHalted: () => false },
    input: { first: { propose } },
    projections: { mustServe, releases },
  } as unknown as ConstructorParameters<typeof TenantFaults>[0]);
  return { faults, waiting };
}

test('a page of faulted keys ends with what was read of their states, and all pages have each key once', async (t) => {
  const tables = localTables(t);
  tables.setLiveProjection(P, { revision: 1, artefactId: 'a', classNames: classNames(1) });
  const keys = Array.from({ length: 30 }, (_, i) => `k${String(i).padStart(2, '0')}`);
  for (const key of keys) stop(tables, key);
  const { faults } = faultsOf(tables);
  const found: string[][] = [];
  for (let cursor: string | undefined, isEnd = false; !isEnd;) {
    let turns = 0;
    const turn = (): Promise<void> => Promise.resolve(void turns++);
    const page = await faults.ofProjection(P, { limit: 1_000, cursor, turn });
    found.push(page.faults.map(({ key }) => key));
    assert.ok(turns >= page.faults.length, `${turns} turns for ${page.faults.length} large states`);
    cursor = page.nextCursor;
    isEnd = cursor === undefined;
  }
  assert.deepEqual(found.flat(), keys);
  assert.ok(
    found.every(({ length }) => length <= 9),
    String(found.map(({ length }) => length)),
  );
});

test('keys that are taken on at once are bounded, however many requests ask for it', async (t) => {
  const tables = localTables(t);
  tables.setLiveProjection(P, { revision: 1, artefactId: 'a', classNames: classNames(1) });
  for (let i = 0; i < 5; i++) stop(tables, `k${i}`);
  const { faults, waiting } = faultsOf(tables);
  const under = [faults.releaseKeys(ALL), faults.releaseKeys(ALL)];
  await assert.rejects(faults.releaseKeys(ALL), { code: 'RATE_LIMITED' });
  const ended = Promise.all(under);
  while (waiting.length < 10) await new Promise((resolve) => setImmediate(resolve));
  for (const go of waiting.splice(0)) go();
  assert.deepEqual(
    (await ended).map(({ length }) => length),
    [5, 5],
  );
  const again = faults.releaseKeys(ALL);
  while (waiting.length < 5) await new Promise((resolve) => setImmediate(resolve));
  for (const go of waiting.splice(0)) go();
  assert.equal((await again).length, 5);
});

test('keys are taken on some on a turn, all of them also where the client leaves, and of one revision', async (t) => {
  const tables = localTables(t);
  tables.setLiveProjection(P, { revision: 1, artefactId: 'a', classNames: classNames(1) });
  for (let i = 0; i < 1_000; i++) stop(tables, `k${String(i).padStart(4, '0')}`, 1, Buffer.from('{}'));
  const { faults, waiting } = faultsOf(tables);
  let written = 0;
  const turn = (): Promise<void> => {
    assert.ok(waiting.length - written <= 128, `${waiting.length - written} were written on one turn`);
    written = waiting.length;
    return Promise.resolve();
  };
  const released = faults.releaseKeys({ ...ALL, turn });
  while (waiting.length < 1_000) await new Promise((resolve) => setImmediate(resolve));
  for (const go of waiting.splice(0)) go();
  assert.equal((await released).length, 1_000);

  // The client leaves while the keys are written: it is done whole.
  let turns = 0;
  const leaves = (): Promise<void> => (++turns > 9 ? Promise.reject(new Error('gone')) : Promise.resolve());
  const left = faults.releaseKeys({ ...ALL, turn: leaves });
  while (waiting.length < 1_000) await new Promise((resolve) => setImmediate(resolve));
  for (const go of waiting.splice(0)) go();
  assert.equal((await left).length, 1_000);
  assert.ok(turns > 9);
  // While it is read nothing is done yet.
  await assert.rejects(faults.releaseKeys({ ...ALL, turn: () => Promise.reject(new Error('gone')) }), /gone/);
  // Another revision goes live between two parts.
  let parts = 0;
  const swapped = (): Promise<void> => {
    if (++parts === 3) tables.setLiveProjection(P, { revision: 2, artefactId: 'b', classNames: classNames(1) });
    return Promise.resolve();
  };
  await assert.rejects(faults.ofProjection(P, { limit: 1_000, cursor: undefined, turn: swapped }), {
    code: 'UNAVAILABLE',
  });
});

test('the states of one key come in pages where its classes have large ones', async (t) => {
  const tables = localTables(t);
  tables.setLiveProjection(P, { revision: 1, artefactId: 'a', classNames: classNames(20) });
  stop(tables, 'k', 20);
  stop(tables, 'k2', 1);
  const reads = new ProjectionReads({
    ...{ tables, builds: undefined, projections: { mustServe }, cursor: undefined, changes: undefined },
  } as unknown as ConstructorParameters<typeof ProjectionReads>[0]);
  const first = await reads.statesOf({ projectionId: P, key: 'k', cursor: undefined });
  assert.ok(first.states.length < 10, `${first.states.length} in one page`);
  const found = [...first.states];
  for (let { nextCursor } = first; nextCursor !== undefined;) {
    const page = await reads.statesOf({ projectionId: P, key: 'k', cursor: nextCursor });
    found.push(...page.states);
    ({ nextCursor } = page);
  }
  assert.deepEqual(found.map(({ className }) => className).sort(), classNames(20).sort());
  assert.ok(found.every(({ key }) => key === 'k'));
});

test('aggregates whose faults are of an earlier binding are passed over some at a time', async (t) => {
  const tables = localTables(t);
  const state = (generation: number, fault: boolean, id: string): ReducerState => ({
    ...{ generation, version: 1, state: Buffer.from('{}'), lastModified: 1, offset: 1 },
    fault: fault ? faultOf(id) : undefined,
  });
  const ids = Array.from({ length: 2_500 }, (_, i) => `a-${String(i).padStart(4, '0')}`);
  const last = ids.at(-1) ?? '';
  for (const id of ids) {
    tables.faults.setAggregate('a', id, true);
    tables.setReducerState(id, state(id === last ? 2 : 1, true, id));
  }
  let looked = 0;
  const reads = new AggregateReads({
    tables,
    bindings: { of: () => ({ generation: 2 }), isEmpty: false },
    reducers: {
      stored: (id: string) => {
        looked++;
        const row = tables.reducerState(id);
        return row?.generation === 2 ? row : undefined;
      },
    },
    partition: { caughtUpAsOwner: () => Promise.resolve(), mustAnswer: () => undefined },
  } as unknown as ConstructorParameters<typeof AggregateReads>[0]);
  const faults = new TenantFaults({
    input: { all: () => Promise.resolve([{ reads }]) },
  } as unknown as ConstructorParameters<typeof TenantFaults>[0]);
  const found: string[] = [];
  let pages = 0;
  for (let cursor: string | undefined, isEnd = false; !isEnd; pages++) {
    looked = 0;
    let before = 0;
    const turn = (): Promise<void> => {
      assert.ok(looked - before <= 128, `${looked - before} were looked at on one turn`);
      before = looked;
      return Promise.resolve();
    };
    const page = await faults.ofType('a', { limit: 100, cursor, turn });
    assert.ok(looked <= 1_000, `${looked} were looked at for one page`);
    found.push(...page.faults.map(({ aggregateId }) => aggregateId));
    cursor = page.nextCursor;
    isEnd = cursor === undefined;
  }
  assert.deepEqual(found, [last]);
  assert.equal(pages, 3);
});
