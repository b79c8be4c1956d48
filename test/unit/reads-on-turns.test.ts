// What a partition answers part by part: on each turn it is of this process still, and who has left is told so.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AggregateHistory } from '../../src/aggregates/aggregate-history.js';
import { AggregateReads } from '../../src/aggregates/aggregate-reads.js';
import type { EventTypesPage } from '../../src/aggregates/aggregates.js';
import { commitInput, type Input } from '../../src/feed/inputs.js';
import type { Picked } from '../../src/feed/log-feed.js';
import type { PartitionTables } from '../../src/store/partition-tables.js';
import { TenantAggregates } from '../../src/tenancy/tenant-aggregates.js';
import { localTables } from '../support/local-tables.js';

const COUNT = 300;
const mustAnswer = (): void => undefined;

function readsOf(tables: PartitionTables, answers = mustAnswer, at?: () => Promise<Picked<Input>>): AggregateReads {
  const read = (offsets: readonly number[]): Promise<Picked<Input>> =>
    Promise.resolve({
      items: offsets.map((offset) =>
        commitInput({
          ...{ offset, commandId: `c${offset}`, aggregateId: 'a-1', aggregateType: 'a', baseVersion: offset },
          ...{ timestamp: 1, correlationId: undefined, causationId: undefined, metadata: undefined },
          events: [{ eventId: `e${offset}`, eventType: 'E', data: Buffer.from('{}') }],
        }),
      ),
      looked: offsets.length,
    });
  return new AggregateReads({
    tables,
    history: new AggregateHistory({ at: at ?? read }, tables),
    bindings: { of: () => undefined },
    reducers: undefined,
    partition: { caughtUpAsOwner: () => Promise.resolve(), mustAnswer: answers },
  } as unknown as ConstructorParameters<typeof AggregateReads>[0]);
}

const QUERY = { aggregateId: 'a-1', fromVersion: undefined, toVersion: undefined, limit: 1_000 } as const;

for (const direction of ['forward', 'backward'] as const)
  test(`a page of events, ${direction}: a process that gave the partition up answers nothing of it`, async (t) => {
    const tables = localTables(t);
    for (let i = 0; i < COUNT; i++) tables.addCommit('a-1', { version: i + 1, type: 'a', timestamp: 1 }, i, i);
    let asked = 0;
    let turns = 0;
    const turn = (): Promise<void> => Promise.resolve(void turns++);
    const page = await readsOf(tables, () => void asked++).events({ ...QUERY, direction, turn });
    assert.equal(page.events.length, COUNT);
    assert.equal(asked, turns + 1, 'behind each turn, and at the end');
    const gone = new Error('another process answers');
    const reads = readsOf(tables, () => {
      if (++asked === 3) throw gone;
    });
    asked = 0;
    await assert.rejects(reads.events({ ...QUERY, direction, turn }), gone);
    // Without a turn, too.
    asked = 2;
    await assert.rejects(reads.events({ ...QUERY, direction }), /send the request again/);
  });

test('a page of events: that the client has left is no failure of the log', async (t) => {
  const tables = localTables(t);
  for (let i = 0; i < COUNT; i++) tables.addCommit('a-1', { version: i + 1, type: 'a', timestamp: 1 }, i, i);
  const left = new Error('the client closed the connection');
  const leaves = readsOf(tables).events({ ...QUERY, direction: 'forward', turn: () => Promise.reject(left) });
  await assert.rejects(leaves, left);
  const broken = readsOf(tables, mustAnswer, () => Promise.reject(new Error('connection refused')));
  await assert.rejects(broken.events({ ...QUERY, direction: 'forward', turn: () => Promise.resolve() }), {
    code: 'UNAVAILABLE',
  });
});

/** All pages, from the first on. */
async function eventTypes(
  of: { eventTypes(query: { after: string; limit: number }): Promise<EventTypesPage> },
  limit: number,
): Promise<{ readonly names: string[]; readonly events: number; readonly pages: EventTypesPage[] }> {
  const pages: EventTypesPage[] = [];
  for (let after: string | undefined = ''; after !== undefined; after = pages.at(-1)?.upTo)
    pages.push(await of.eventTypes({ after, limit }));
  const types = pages.flatMap((page) => page.eventTypes);
  return {
    names: types.map(({ eventType }) => eventType),
    events: types.reduce((sum, { events }) => sum + events, 0),
    pages,
  };
}

test('event types: a page ends with its limit, or with the bytes of a list', async (t) => {
  const tables = localTables(t);
  const name = (i: number): string => `type-${String(i).padStart(4, '0')}`;
  for (let i = 0; i < 500; i++)
    for (let j = 0; j < 50; j++) tables.eventTypes.add(name(i), `${'x'.repeat(190)}-${j}`, 1);
  const all = Array.from({ length: 500 }, (_, i) => name(i));
  const reads = readsOf(tables);
  const found = await eventTypes(reads, 1_000);
  assert.deepEqual(found.names, all);
  assert.ok(found.pages.length >= 4, `${found.pages.length} pages of 5 MB`);
  assert.deepEqual((await eventTypes(reads, 7)).names, all);
  assert.deepEqual((await eventTypes(reads, 100)).names, all);
  assert.equal((await reads.eventType(name(3)))?.events, 50);
  assert.equal(await reads.eventType('none'), undefined);
});

test('event types of several partitions: a page goes as far as all of them were read', async (t) => {
  const partitions = Array.from({ length: 3 }, () => localTables(t));
  let events = 0;
  const add = (tables: PartitionTables | undefined, eventType: string, aggregateType: string): void => {
    tables?.eventTypes.add(eventType, aggregateType, 1);
    events++;
  };
  const expected = new Set<string>();
  for (let i = 0; i < 400; i++) {
    // Names past the first plane sort behind those of the last part of it, and before them by their units.
    const eventType = `${i % 50 === 0 ? '\u{1F600}' : i % 50 === 1 ? '\uFB01' : 't'}-${i}`;
    expected.add(eventType);
    add(partitions[i % 3], eventType, 'a');
    if (i % 5 === 0) add(partitions[(i + 1) % 3], eventType, 'b');
    if (i % 7 === 0) for (let j = 0; j < 50; j++) add(partitions[1], eventType, `${'x'.repeat(190)}-${j}`);
  }
  const input = { all: () => Promise.resolve(partitions.map((tables) => ({ reads: readsOf(tables) }))) };
  const aggregates = new TenantAggregates(input as unknown as ConstructorParameters<typeof TenantAggregates>[0]);
  for (const limit of [1_000, 100, 9]) {
    const found = await eventTypes(aggregates, limit);
    assert.equal(found.names.length, expected.size);
    assert.deepEqual(new Set(found.names), expected);
    assert.equal(found.events, events, 'each page has the sums of all partitions');
    assert.ok(found.pages.every((page) => page.eventTypes.length <= limit));
  }
  assert.equal((await aggregates.eventType('t-5'))?.events, 2);
});
