import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readSettings } from '../../src/config/settings.js';
import { eventsOf, MAX_COMMIT_EVENTS } from '../../src/core/event.js';
import { isEvent, positionOfPlace, type PositionedEvent } from '../../src/feed/feed-item.js';
import type { EventsBody } from '../../src/core/records.js';
import { INPUTS, type Input } from '../../src/feed/inputs.js';
import { LogFeed } from '../../src/feed/log-feed.js';
import { ALL_EVENTS } from '../../src/feed/sources.js';
import type { TenantFeed } from '../../src/feed/tenant-feeds.js';
import type { BodyCodec } from '../../src/log/codec/codec.js';
import type { Log } from '../../src/log/log.js';
import { commit, feedOf, ListedInputs } from '../support/listed-inputs.js';
import { hubOf } from '../support/all-changes.js';
import { until } from '../support/notifier-world.js';

/** Three of them are a page. */
const LARGE = Buffer.alloc(400_000, ' ');

const idsIn = (records: readonly (Input | undefined)[]): string[] =>
  records.flatMap((input) =>
    input?.kind === 'commit' ? Array.from(eventsOf(input.commit), ({ eventId }) => eventId) : [],
  );

/** A number of events, or a record that holds none. */
const record = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 1, max: 6 }) },
  { weight: 1, arbitrary: fc.constant(0) },
);

const add = (inputs: ListedInputs, events: number): void => {
  if (events > 0) inputs.commit(events);
  else inputs.records.push(undefined);
};

test('every event has a position of its own, from 1 on, which ascends also within a commit and is the same from wherever one reads', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(record, { minLength: 1, maxLength: 12 }),
      fc.integer({ min: 1, max: 7 }),
      fc.integer({ min: 0, max: 12 }),
      async (records, items, tail) => {
        const inputs = new ListedInputs(tail);
        for (const events of records) add(inputs, events);
        const feed = feedOf(inputs);
        const all: PositionedEvent[] = [];
        let end = await feed.start();
        for (let reads = 0; end < feed.head; reads++) {
          assert.ok(reads < 200, 'it comes to the head');
          const page = feed.recent(end, { items }) ?? (await feed.read(end, { items }));
          assert.ok(page.items.length <= items, 'a commit is cut where the page is full');
          assert.ok(page.end > end);
          for (const event of page.items) assert.ok(event.position >= end && event.position < page.end);
          all.push(...page.items.filter(isEvent));
          end = page.end;
        }
        assert.deepEqual(
          all.map(({ eventId }) => eventId),
          idsIn(inputs.records),
        );
        const positions = all.map(({ position }) => position);
        assert.ok(positions.every((position, i) => position >= 1 && position > (positions[i - 1] ?? 0)));
        for (const { position, eventId } of all) {
          const [again] = (await feed.read(position, { items: 1 })).items.filter(isEvent);
          assert.deepEqual([again?.position, again?.eventId], [position, eventId]);
        }
        assert.deepEqual(await feed.read(feed.head, {}), { items: [], end: feed.head });
        assert.deepEqual(await feed.read(feed.head + 5, {}), { items: [], end: feed.head + 5 }, 'past the head');
      },
    ),
    { numRuns: 200 },
  );
});

test('the last event is known from wherever the feed ends, also behind many records that hold none, and as it grows', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.oneof(record, fc.constant(0)), { maxLength: 60 }),
      fc.integer({ min: 0, max: 12 }),
      async (records, tail) => {
        const inputs = new ListedInputs(tail);
        const feed = feedOf(inputs);
        const lasts = [0];
        for (const events of records) {
          add(inputs, events);
          const place = inputs.records.length - 1;
          lasts.push(events > 0 ? positionOfPlace(place, events - 1) : (lasts.at(-1) ?? 0));
          if (place % 3 === 0) assert.equal(await feed.latest(), lasts.at(-1));
        }
        for (const [place, last] of lasts.entries()) assert.equal(await feed.lastBefore(place), last);
        // What is placed and can't be read yet is not there yet.
        inputs.hidden = Math.floor(records.length / 2);
        assert.equal(await feedOf(inputs).latest(), lasts[inputs.hidden]);
        inputs.hidden = Infinity;
        assert.equal(await feed.latest(), lasts.at(-1));
      },
    ),
    { numRuns: 100 },
  );
});

test('records without events behind the last event are looked through once', async () => {
  const inputs = new ListedInputs(0);
  inputs.commit(2);
  for (let i = 0; i < 10_000; i++) inputs.records.push(undefined);
  const feed = feedOf(inputs);
  let read = 0;
  const page = inputs.read.bind(inputs);
  inputs.read = async (from, budget) => {
    const found = await page(from, budget);
    read += found.end - from;
    return found;
  };
  const last = positionOfPlace(0, 1);
  assert.equal(await feed.latest(), last);
  assert.ok(read >= 10_000);
  read = 0;
  inputs.records.push(undefined);
  assert.equal(await feed.latest(), last);
  assert.equal(await feed.latest(), last);
  assert.ok(read < 100, `${read} were read again`);
});

test('the positions of a commit have no gap, and stay below 2^53 for more commits than a log can hold', () => {
  const inputs = new ListedInputs(Infinity);
  inputs.records.push(undefined);
  inputs.commit(3);
  inputs.commit(1);
  const { items } = feedOf(inputs).recent(1, {}) ?? { items: [] };
  const [first = 0] = items.map(({ position }) => position);
  assert.deepEqual(
    items.map(({ position }) => position - first),
    [0, 1, 2, MAX_COMMIT_EVENTS],
  );
  assert.ok(Number.isSafeInteger(positionOfPlace(2 ** 35, MAX_COMMIT_EVENTS - 1)));
  // A batch that were longer would run into the positions of the next commit.
  assert.throws(() => readSettings({ MAX_BATCH_EVENTS: String(MAX_COMMIT_EVENTS) }));
});

test('13: the hub follows it as it follows changes: replay and live without a seam, with full subscribers, records without events, and places that can not be read yet', async () => {
  const step = fc.oneof(
    { weight: 4, arbitrary: fc.record({ do: fc.constant('accept' as const), events: record }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('turn' as const), events: fc.constant(0) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('resume' as const), events: fc.constant(0) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('hide' as const), events: fc.constant(0) }) },
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(record, { maxLength: 6 }),
      fc.array(step, { maxLength: 30 }),
      fc.integer({ min: 0, max: 6 }),
      fc.integer({ min: 1, max: 4 }),
      async (before, steps, tail, room) => {
        const inputs = new ListedInputs(tail);
        for (const events of before) add(inputs, events);
        const tenant = { tenantId: 't1', events: feedOf(inputs) } as unknown as TenantFeed;
        const hub = hubOf(tenant);
        const got: string[] = [];
        const following = hub.subscribe(
          { tenantId: 't1', source: ALL_EVENTS, from: 1 },
          {
            push: (item) => got.push(isEvent(item) ? item.eventId : '') % room !== 0,
            ended: (reason) => assert.fail(String(reason)),
          },
        );
        following.start();
        for (const { do: what, events } of steps) {
          if (what === 'accept') {
            add(inputs, events);
            inputs.tell();
          } else if (what === 'turn') await new Promise((resolve) => setImmediate(resolve));
          else if (what === 'resume') following.resume();
          else inputs.hidden = inputs.hidden === Infinity ? inputs.records.length : Infinity;
        }
        inputs.hidden = Infinity;
        inputs.tell();
        await until(() => {
          following.resume();
          return got.length >= idsIn(inputs.records).length;
        }, 'all of it');
        assert.deepEqual(got, idsIn(inputs.records));
        following.close();
        assert.equal(inputs.subscribers, 0);
      },
    ),
    { numRuns: 200 },
  );
});

test('from now on means what comes then; each time that all is there the subscriber hears where it ends', () => {
  const inputs = new ListedInputs(Infinity);
  inputs.commit(2);
  const tenant = { tenantId: 't1', events: feedOf(inputs) } as unknown as TenantFeed;
  const hub = hubOf(tenant);
  const got: string[] = [];
  const ends: number[] = [];
  hub
    .subscribe(
      { tenantId: 't1', source: ALL_EVENTS, from: undefined, wanted: ({ aggregateId }) => aggregateId !== 'a1' },
      {
        push: (item) => got.push(isEvent(item) ? item.eventId : '') > 0,
        caughtUp: (end) => ends.push(end),
        ended: () => undefined,
      },
    )
    .start();
  assert.equal(tenant.events.subscribers, 1, 'it keeps the tenant');
  for (const events of [1, 3]) {
    inputs.commit(events);
    inputs.tell();
  }
  assert.deepEqual(got, ['2.0', '2.1', '2.2'], 'pushed on the turn of the commit');
  assert.deepEqual(
    ends,
    [1, 2, 3].map((place) => positionOfPlace(place)),
  );
  hub.close();
  assert.equal(tenant.events.subscribers, 0);
});

/** A log of which all that is asked for lies in memory. */
const inMemory = (
  folded: { readonly position: number },
  of: { readonly log: Log; readonly start: number } = { log: {} as Log, start: 0 },
): LogFeed<EventsBody, Input> =>
  new LogFeed({
    ref: { topic: 't', partition: 0 },
    codec: {} as BodyCodec<EventsBody>,
    kind: INPUTS,
    tailBytes: 64 * 1024 * 1024,
    voids: [],
    folded,
    ...of,
  });

function largeCommit(offset: number): Input {
  const one = commit(offset, 1);
  return { kind: 'commit', commit: { ...one, events: one.events.map((event) => ({ ...event, data: LARGE })) } };
}

test('history that can not be read while the log is away is waited for', async (t) => {
  let isAway = true;
  const log = {
    // As a client of Kafka says it.
    read: () => (isAway ? Promise.reject(new Error('no broker answers')) : Promise.resolve({ records: [], end: 1 })),
    startOffset: () => Promise.resolve(0),
  } as unknown as Log;
  const feed = inMemory({ position: 1 }, { log, start: 1 });
  await assert.rejects(feed.read(0, {}), { code: 'UNAVAILABLE' });
  const tenant = { tenantId: 't1', events: feedOf(feed) } as TenantFeed;
  const hub = hubOf(tenant);
  t.after(() => hub.close());
  const ends: number[] = [];
  const reasons: unknown[] = [];
  hub
    .subscribe(
      { tenantId: 't1', source: ALL_EVENTS, from: 1 },
      { push: () => true, caughtUp: (end) => ends.push(end), ended: (reason) => reasons.push(reason) },
    )
    .start();
  await assert.rejects(tenant.events.read(1, {}), { code: 'UNAVAILABLE' });
  isAway = false;
  await until(() => ends.length > 0, 'it is live');
  assert.deepEqual(reasons, []);
});

test('events that are more together than a page takes are all pushed, live too', async (t) => {
  const folded = { position: 0 };
  const log = inMemory(folded);
  const add = (): void => log.push(largeCommit(folded.position++));
  const tenant = {
    tenantId: 't1',
    events: feedOf(log),
  } as TenantFeed;
  const hub = hubOf(tenant);
  t.after(() => hub.close());
  const got: number[] = [];
  const ends: number[] = [];
  hub
    .subscribe(
      { tenantId: 't1', source: ALL_EVENTS, from: 1 },
      {
        push: ({ position }) => got.push(position) > 0,
        caughtUp: (end) => ends.push(end),
        ended: () => undefined,
      },
    )
    .start();
  await until(() => ends.length > 0, 'it is live');
  for (let i = 0; i < 10; i++) add();
  await until(() => got.length === 10, 'all are pushed');
  assert.deepEqual(
    got,
    Array.from({ length: 10 }, (_, place) => positionOfPlace(place)),
  );
});

test('whoever reads pages that their bytes end has a turn behind each', async (t) => {
  const folded = { position: 0 };
  const log = inMemory(folded);
  while (folded.position < 10) log.push(largeCommit(folded.position++));
  const hub = hubOf({ tenantId: 't1', events: feedOf(log) } as TenantFeed);
  t.after(() => hub.close());
  const got: number[] = [];
  const before: number[] = [];
  const nextPage = (): Promise<void> => Promise.resolve(void before.push(got.length));
  await new Promise<void>((resolve) =>
    hub
      .subscribe(
        { tenantId: 't1', source: ALL_EVENTS, from: 1, nextPage },
        { push: ({ position }) => got.push(position) > 0, caughtUp: () => resolve(), ended: () => undefined },
      )
      .start(),
  );
  assert.deepEqual(before, [3, 6, 9]);
  assert.equal(got.length, 10);
});
