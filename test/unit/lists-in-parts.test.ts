// Who lists much gives way to others: a page is read part by part, each on a turn that is paid for, and is the page it would be at once.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AggregateReads } from '../../src/aggregates/aggregate-reads.js';
import { background } from '../../src/core/background.js';
import { nextTurn, nextTurnOfAppend } from '../../src/core/slices.js';
import { ProjectionReads } from '../../src/projections/projection-reads.js';
import type { PartitionTables } from '../../src/store/partition-tables.js';
import { localTables } from '../support/local-tables.js';
import { turnsDuring } from '../support/loop-turns.js';

const COUNT = 300;
const numbered = (i: number): string => String(i).padStart(4, '0');

/** Counts what is paid. `on`: called at each turn. */
function turns(on: (nth: number) => void = () => undefined) {
  const paid: number[] = [];
  const turn = (cost: number): Promise<void> => {
    on(paid.push(cost));
    return Promise.resolve();
  };
  return { paid, turn };
}

const aggregatesOf = (tables: PartitionTables, mustAnswer = (): void => undefined): AggregateReads =>
  new AggregateReads({
    ...{ tables, partition: { caughtUpAsOwner: () => Promise.resolve(), mustAnswer } },
  } as unknown as ConstructorParameters<typeof AggregateReads>[0]);

test('aggregates and their types are listed as at once, on a turn for each part of them', async (t) => {
  const tables = localTables(t);
  for (let i = 0; i < COUNT; i++)
    tables.addCommit(`a-${numbered(i)}`, { version: 1, type: `t-${numbered(i)}`, timestamp: i }, 0, i);
  const reads = aggregatesOf(tables);
  for (const limit of [1, 127, 128, 129, 256, 299, 300, 301, 1000]) {
    const { paid, turn } = turns();
    for (let cursor: string | undefined, isEnd = false; !isEnd; isEnd = cursor === undefined) {
      const query = { aggregateType: undefined, limit, cursor };
      const page = await reads.list({ ...query, turn });
      assert.deepEqual(page, await reads.list(query), `${limit}`);
      cursor = page.nextCursor;
    }
    assert.ok(paid.length >= Math.ceil(COUNT / 128), `${limit}: ${paid.length}`);
    const types = { after: 't-0010', limit };
    assert.deepEqual(await reads.types({ ...types, turn }), await reads.types(types), `${limit}`);
  }
});

test('a list whose process answers no more ends with an error, and not as the end of all', async (t) => {
  const tables = localTables(t);
  for (let i = 0; i < COUNT; i++) tables.addCommit(`a-${numbered(i)}`, { version: 1, type: 't', timestamp: i }, 0, i);
  let isStopped = false;
  const reads = aggregatesOf(tables, () => assert.ok(!isStopped, 'another answers'));
  const { turn } = turns((nth) => {
    isStopped = nth === 2;
  });
  const query = { aggregateType: undefined, limit: 1000, cursor: undefined, turn };
  await assert.rejects(reads.list(query), /another answers/);
});

function projectionOf(tables: PartitionTables): ProjectionReads {
  for (const revision of [1, 2])
    for (let i = 0; i < COUNT; i++)
      tables.setKeyState('p', revision, `k${numbered(i)}`, 0, {
        ...{ state: Buffer.from(String(revision)), sequence: i, lastModified: 1, fault: undefined },
        origin: { eventId: 'e', aggregateId: 'a-1', aggregateType: 'a', version: 1 },
      });
  tables.setLiveProjection('p', { revision: 1, artefactId: 'a', classNames: ['C'] });
  return new ProjectionReads({
    ...{ tables, builds: undefined, projections: { mustServe: () => undefined } },
    ...{ cursor: undefined, changes: undefined },
  } as unknown as ConstructorParameters<typeof ProjectionReads>[0]);
}

test('the states of a projection are listed as at once, on a turn for each part of them', async (t) => {
  const reads = projectionOf(localTables(t));
  for (const limit of [1, 128, 129, 299, 300, 301, 1000])
    for (const bytes of [undefined, 160 * 200]) {
      const { paid, turn } = turns();
      const query = { projectionId: 'p', prefix: '', limit, bytes, cursor: undefined };
      const page = await reads.states({ ...query, turn });
      assert.deepEqual(page, await reads.states(query), `${limit} ${bytes}`);
      assert.ok(paid.length >= page.states.length / 128, `${limit}: ${paid.length}`);
    }
});

test('a page of states has those of one revision, though another goes live while it is read', async (t) => {
  const tables = localTables(t);
  const reads = projectionOf(tables);
  const { turn } = turns((nth) => {
    if (nth === 3) tables.setLiveProjection('p', { revision: 2, artefactId: 'b', classNames: ['C'] });
  });
  const { states } = await reads.states({ projectionId: 'p', prefix: '', limit: 1000, cursor: undefined, turn });
  assert.equal(states.length, COUNT);
  assert.deepEqual([...new Set(states.map(({ state }) => state?.toString()))], ['2']);
});

test('an append does not wait for the slices of those who read, however many these are', async () => {
  background.asked('a');
  const done: string[] = [];
  await turnsDuring(() =>
    Promise.all([
      ...Array.from({ length: 50 }, async () => {
        await nextTurn();
        done.push('read');
      }),
      nextTurnOfAppend().then(() => done.push('append')),
    ]),
  );
  assert.ok(done.indexOf('append') <= 1, `behind ${done.indexOf('append')}`);
  assert.equal(done.length, 51);
});
