import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { StatefoldError } from '../../src/core/errors.js';
import type { Subscription } from '../../src/feed/subscription.js';
import { followDeletions } from '../../src/app/follow-deletions.js';
import { FeedHub } from '../../src/feed/hub.js';
import { changesOf } from '../../src/feed/sources.js';
import { notificationBytes } from '../../src/feed/notification-record.js';
import { change, ListFeed, ListTenants, ManualTimers, MapCatalog, until } from '../support/notifier-world.js';

function world(tailSize?: number, deferred = false) {
  const feed = new ListFeed(tailSize, deferred);
  const tenants = new ListTenants();
  tenants.activate('t1', feed);
  const catalog = new MapCatalog();
  const timers = new ManualTimers();
  const hub = new FeedHub({ notified: tenants, timers });
  followDeletions(catalog, hub);
  return { feed, tenants, catalog, timers, hub };
}

/**
 * Follows into a list; full after every `room` changes until it is resumed. `later`: it doesn't take the one after these, until then;
 * `rereads`: what comes next is not kept for it.
 */
function into(
  hub: FeedHub,
  after: number | undefined,
  options: { room?: number; key?: string; later?: boolean; rereads?: boolean } = {},
) {
  const { room, later = false, rereads = false } = options;
  const got: number[] = [];
  let asked = false;
  const ends: unknown[] = [];
  const follower: Subscription = hub.subscribe(
    {
      tenantId: 't1',
      source: changesOf('p1'),
      from: after === undefined ? undefined : after + 1,
      wanted: options.key === undefined ? undefined : ({ key }) => key === options.key,
    },
    {
      keeps: () => !rereads,
      push: ({ sequence }) => {
        if (later && room !== undefined && got.length % room === 0 && (asked = !asked)) return 'later';
        got.push(sequence);
        return room === undefined || later || got.length % room !== 0;
      },
      ended: (reason) => ends.push(reason),
    },
  );
  follower.start();
  return { got, ends, follower };
}

test('13: any interleaving of changes, trims of the tail, full buffers and reactivations gives a follower each change once, in order', async () => {
  const step = fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({
        do: fc.constant('accept' as const),
        count: fc.integer({ min: 1, max: 5 }),
        ours: fc.boolean(),
      }),
    },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('turn' as const) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('resume' as const) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('reactivate' as const) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('away' as const) }) },
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 40 }),
      fc.integer({ min: 1, max: 8 }),
      fc.integer({ min: 0, max: 24 }),
      fc.integer({ min: 1, max: 4 }),
      fc.boolean(),
      fc.boolean(),
      fc.record({ later: fc.boolean(), rereads: fc.boolean() }),
      async (steps, tailSize, after, room, deferred, begun, kind) => {
        const w = world(tailSize, deferred);
        let feed = w.feed;
        let sequence = 0;
        const accept = (count: number, ours: boolean): void => {
          // Gaps are normal, and other projections share the sequence.
          feed.accept(
            ...Array.from({ length: count }, () => change((sequence += 2), { projectionId: ours ? 'p1' : 'p2' })),
          );
        };
        accept(10, begun);
        const { got, ends, follower } = into(w.hub, after, { room, ...kind });
        for (const each of steps) {
          if (each.do === 'accept') accept(each.count, each.ours);
          else if (each.do === 'turn') await new Promise((resolve) => setImmediate(resolve));
          else if (each.do === 'resume') follower.resume();
          else if (each.do === 'away') feed.unavailable = !feed.unavailable;
          else {
            const next = new ListFeed(tailSize, deferred);
            next.accept(...feed.changes);
            feed = next;
            w.tenants.activate('t1', next);
          }
        }
        feed.unavailable = false;
        const expected = feed.changes
          .filter((c) => c.projectionId === 'p1' && c.sequence > after)
          .map((c) => c.sequence);
        for (let turns = 0; got.length < expected.length && turns < 500; turns++) {
          follower.resume();
          w.timers.advance(10_000);
          await new Promise((resolve) => setImmediate(resolve));
        }
        assert.deepEqual(got, expected);
        assert.deepEqual(ends, []);
      },
    ),
    {
      numRuns: 500,
      examples: [
        // Twice others on one turn: told late of the first, it took the change of the second for one that it had.
        [
          [
            ...([{ do: 'turn' }, { do: 'turn' }, { do: 'reactivate' }, { do: 'reactivate' }] as const),
            ...([{ do: 'resume' }, { do: 'resume' }, { do: 'accept', count: 1, ours: true }] as const),
          ],
          ...([1, 4, 3, true, true, { later: false, rereads: false }] as const),
        ],
      ],
    },
  );
});

test('a live follower is pushed on the turn of the change, and idle projections cost nothing', () => {
  const { feed, hub } = world(10);
  const { got } = into(hub, undefined);
  feed.accept(change(1), change(2, { projectionId: 'p2' }), change(3, { fault: {} as never }), change(4));
  assert.deepEqual(got, [1, 4]);
  assert.equal(feed.reads, 0);
});

test('a key filter passes over other keys, in replay and live', async () => {
  const { feed, hub } = world(2);
  feed.accept(...[1, 2, 3, 4, 5, 6].map((n) => change(n)));
  const { got } = into(hub, 0, { key: 'k0' });
  await until(() => got.length === 2, 'the replay');
  feed.accept(change(7), change(9));
  assert.deepEqual(got, [3, 6, 9]);
});

test('followers end with the projection, the tenant, an expired cursor and the hub; the last one lets go of the feed', async () => {
  const { feed, hub, catalog } = world(1);
  const code = (ends: unknown[]): unknown => (ends[0] as StatefoldError | undefined)?.code;
  catalog.addTenant('t1');
  catalog.addProjection('t1', 'p1');
  const first = into(hub, undefined);
  catalog.set('projection', 'p1', undefined);
  assert.equal(code(first.ends), 'NOT_FOUND');
  const second = into(hub, undefined);
  catalog.set('tenant', 't1', undefined);
  assert.equal(code(second.ends), 'NOT_FOUND');
  feed.accept(change(1), change(2), change(3));
  feed.trimmed = 2;
  const third = into(hub, 0);
  await until(() => third.ends.length === 1, 'the cursor expires');
  assert.equal(code(third.ends), 'CURSOR_EXPIRED');
  const fourth = into(hub, undefined);
  assert.equal(feed.listeners, 1);
  hub.close();
  assert.equal(code(fourth.ends), 'UNAVAILABLE');
  assert.equal(hub.subscriptions, 0);
  assert.equal(feed.listeners, 0);
  assert.throws(() => into(hub, 0), { code: 'UNAVAILABLE' });
});

test('a sink that throws ends its own follower only', () => {
  const { feed, hub } = world();
  const ends: unknown[] = [];
  hub
    .subscribe(
      { tenantId: 't1', source: changesOf('p1'), from: undefined },
      {
        push: () => {
          throw new Error('broken');
        },
        ended: (reason) => ends.push(reason),
      },
    )
    .start();
  const { got } = into(hub, undefined);
  feed.accept(change(1));
  feed.accept(change(2));
  assert.deepEqual(got, [1, 2]);
  assert.equal(ends.length, 1);
});

test('a record is encoded once, with the state byte for byte; line breaks in it stay within one SSE event', () => {
  const state = Buffer.from('{"big":90071992547409931, "f":1.0,\r\n"s":"a\\u0000\\n","__proto__":1}');
  const one = change(7, { state, key: 'ä"b', cause: 'build' });
  const { record, message, serverSentEvent } = notificationBytes(one);
  assert.equal(notificationBytes(one).record, record);
  assert.ok(record.includes(state));
  assert.deepEqual(Object.keys(JSON.parse(record.toString()) as object), [
    'sequence',
    'projectionId',
    'aggregateId',
    'aggregateType',
    'state',
    'timestamp',
    'key',
    'version',
    'eventId',
    'className',
    'cause',
  ]);
  assert.equal(message.toString(), `{"type":"state_changed",${record.subarray(1).toString()}`);
  const lines = serverSentEvent.toString().split('\n');
  assert.deepEqual([lines[0], lines[1], lines.at(-1), lines.at(-2)], ['id: 7', 'event: state_changed', '', '']);
  const data = lines.slice(2, -2).map((line) => line.replace(/^data: /, ''));
  assert.equal(data.length, 2);
  assert.deepEqual(JSON.parse(data.join('\n')), JSON.parse(record.toString()));
  assert.match(
    notificationBytes(change(8, { state: null })).record.toString(),
    /"state":null,"timestamp":"2023-11-14T22:13:20\.008Z"/,
  );
});
