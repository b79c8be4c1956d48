import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setImmediate as microtasksDone } from 'node:timers/promises';
import type { Fault } from '../../src/core/event.js';
import { silentLogger } from '../../src/core/logger.js';
import { AggregateReads, type AggregateReadsOptions } from '../../src/aggregates/aggregate-reads.js';
import { Bindings, type BoundReducer } from '../../src/aggregates/bindings.js';
import { LocalStore } from '../../src/store/local-store.js';
import { PartitionTables } from '../../src/store/partition-tables.js';
import { temporaryDirectory } from '../support/service.js';

const GENERATION = 3;
const reducer: BoundReducer = { aggregateType: 'account', generation: GENERATION, artefactId: 'A', className: 'C' };
const fault = { message: 'it threw' } as unknown as Fault;

/** Aggregates with commits of two events, of which as many are folded as a test says; a fold on demand goes to the head. */
class World {
  readonly tables: PartitionTables;
  readonly reads: AggregateReads;
  /** Aggregates that were folded on demand. */
  readonly ensured: string[] = [];
  /** The most of them at a time. */
  together = 0;
  readonly #offsets = new Map<string, readonly number[]>();

  constructor(t: TestContext) {
    const store = new LocalStore({ path: temporaryDirectory(t), logger: silentLogger });
    t.after(() => store.close());
    this.tables = new PartitionTables(store.section('t'));
    let underWay = 0;
    const reducers = {
      stored: (aggregateId: string, { generation }: BoundReducer) => {
        const row = this.tables.reducerState(aggregateId);
        return row?.generation === generation ? row : undefined;
      },
      ensure: async (aggregateId: string) => {
        this.ensured.push(aggregateId);
        this.together = Math.max(this.together, ++underWay);
        await microtasksDone();
        underWay--;
        this.folded(aggregateId, this.#offsets.get(aggregateId)?.length ?? 0);
      },
    };
    const bindings = new Bindings();
    bindings.bind(reducer);
    this.reads = new AggregateReads({
      tables: this.tables,
      reducers,
      bindings,
      partition: { caughtUpAsOwner: () => Promise.resolve() },
    } as unknown as AggregateReadsOptions);
  }

  commits(aggregateId: string, offsets: readonly number[], type = 'account'): void {
    this.#offsets.set(aggregateId, offsets);
    for (const [i, offset] of offsets.entries())
      this.tables.addCommit(aggregateId, { version: 2 * i + 2, type, timestamp: offset }, 2 * i, offset);
  }

  /** The first so many commits are. */
  folded(
    aggregateId: string,
    count: number,
    more: { generation?: number; version?: number; fault?: Fault } = {},
  ): void {
    const offset = this.#offsets.get(aggregateId)?.[count - 1] ?? 0;
    this.tables.setReducerState(aggregateId, {
      generation: GENERATION,
      version: 2 * count,
      state: Buffer.from(`${count}`),
      lastModified: offset,
      offset,
      fault: undefined,
      ...more,
    });
  }

  /** What is told, as aggregate and count of commits; and who was folded for it. */
  async told(ids: readonly string[], end: number, lastOnly?: boolean): Promise<{ told: string[]; ensured: string[] }> {
    this.ensured.length = 0;
    const states = await this.reads.aggregateStates(ids, end, lastOnly);
    return {
      told: states.map(({ aggregateId, state }) => `${aggregateId} ${state?.toString()}`).sort(),
      ensured: [...this.ensured],
    };
  }
}

test('a state with all commits below the offset is told without folding what is behind it, another is folded first', async (t) => {
  const world = new World(t);
  world.commits('a', [10, 20, 30]);
  world.folded('a', 2);
  assert.deepEqual(await world.told(['a'], 25), { told: ['a 2'], ensured: [] });
  assert.deepEqual(await world.told(['a'], 30), { told: ['a 2'], ensured: [] }, 'the offset is exclusive');
  assert.deepEqual(await world.told(['a'], 15), { told: ['a 2'], ensured: [] }, 'it is past the offset');
  assert.deepEqual(await world.told(['a'], 31), { told: ['a 3'], ensured: ['a'] });
  assert.deepEqual(await world.told(['a'], Infinity), { told: ['a 3'], ensured: [] }, 'there is nothing behind it');
  const [state] = await world.reads.aggregateStates(['a'], 31);
  assert.deepEqual(state, {
    aggregateId: 'a',
    aggregateType: 'account',
    version: 6,
    state: Buffer.from('3'),
    lastModified: 30,
    logOffset: GENERATION * 2 ** 40 + 30,
  });
});

test('whether a state has all commits below the offset is known of long histories too, also when they were written', async (t) => {
  const world = new World(t);
  const offsets = Array.from({ length: 100 }, (_, i) => 10 + 10 * i);
  world.commits('a', offsets);
  for (const isWritten of [false, true]) {
    if (isWritten) await world.tables.section.flush();
    for (const count of [1, 15, 16, 17, 40, 98, 99]) {
      const next = offsets[count] ?? assert.fail();
      world.folded('a', count);
      assert.deepEqual(await world.told(['a'], next), { told: [`a ${count}`], ensured: [] }, `${count} commits`);
      assert.deepEqual(await world.told(['a'], next + 1), { told: ['a 100'], ensured: ['a'] }, `${count} commits`);
    }
  }
});

test('only those that are behind are folded, at the same time, and those that cannot be are left out or told as they are', async (t) => {
  const world = new World(t);
  for (const id of ['behind', 'new', 'rebound', 'stopped', 'through']) world.commits(id, [10, 20, 30]);
  world.commits('unbound', [10], 'note');
  world.folded('behind', 1);
  world.folded('rebound', 3, { generation: GENERATION - 1 });
  world.folded('stopped', 1, { fault });
  world.folded('through', 2);
  assert.deepEqual(await world.told(['behind', 'new', 'rebound', 'stopped', 'through', 'unbound', 'unknown'], 25), {
    told: ['behind 3', 'new 3', 'rebound 3', 'stopped 1', 'through 2'],
    ensured: ['behind', 'new', 'rebound'],
  });
  assert.equal(world.together, 3);
});

test('asked for the last states only, those with a commit at the offset or past it are left out', async (t) => {
  const world = new World(t);
  for (const id of ['behind', 'further', 'here', 'new', 'stopped']) world.commits(id, [10, 20, 30]);
  world.commits('old', [12, 15]);
  world.folded('behind', 1);
  for (const id of ['further', 'here']) world.folded(id, 3);
  world.folded('old', 2);
  world.folded('stopped', 1, { fault });
  const ids = ['further', 'here', 'old', 'stopped'];
  assert.deepEqual(await world.told(ids, 25, true), { told: ['old 2', 'stopped 1'], ensured: [] });
  assert.deepEqual(
    await world.told(ids, 30, true),
    { told: ['old 2', 'stopped 1'], ensured: [] },
    'the offset is exclusive',
  );
  assert.deepEqual(await world.told(ids, 31, true), {
    told: ['further 3', 'here 3', 'old 2', 'stopped 1'],
    ensured: [],
  });
  assert.deepEqual(await world.told(ids, 25), { told: ['further 3', 'here 3', 'old 2', 'stopped 1'], ensured: [] });
  assert.deepEqual(
    await world.told(['behind', 'new'], 25, true),
    { told: [], ensured: ['behind', 'new'] },
    'the fold found another commit',
  );
});

test('a state that stands within a commit below the offset is folded first', async (t) => {
  const world = new World(t);
  world.commits('a', [10, 20]);
  world.commits('last', [10]);
  for (const id of ['a', 'last']) world.folded(id, 1, { version: 1 });
  assert.deepEqual(await world.told(['a', 'last'], 15), { told: ['a 2', 'last 1'], ensured: ['a', 'last'] });
});
