import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { DeliveryWindow, type Deliverable } from '../../src/webhooks/delivery-window.js';
import { FairPermits, type Permit, type PermitLimits } from '../../src/webhooks/fair-permits.js';
import { MAX_RETRY_AFTER_MS, RETRY_DELAYS_MS, retryAfterMs, retryDelay } from '../../src/webhooks/retry-schedule.js';
import { ManualTimers } from '../support/notifier-world.js';

const CAPACITY = { count: 6, bytes: 1_000 };

test('14: whatever fails, is given up or is cut by a restart, each message is delivered or a dead letter, in order a key, within the window', () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 30 }),
      fc.infiniteStream(fc.nat(99)),
      (keys, choices) => {
        const next = (): number => choices.next().value as number;
        const items = keys.map((key, i) => ({ position: 1 + 3 * i, key: `k${key}` }));
        const done: number[] = [];
        const inFlight: Deliverable[] = [];
        let window = new DeliveryWindow<Deliverable>(1, CAPACITY);
        let now = 0;
        for (let steps = 0; done.length < items.length; steps++) {
          assert.ok(steps < 5_000, 'it comes to an end');
          const choice = next();
          const upcoming = items.find(({ position }) => position >= window.end);
          if (choice < 30 && upcoming !== undefined && window.hasRoom) window.add(upcoming, 10);
          else if (choice < 60) {
            const item = window.take(now);
            if (item !== undefined) inFlight.push(item);
            else now = Math.max(now, window.nextDue() ?? now);
          } else if (choice < 90 && inFlight.length > 0) {
            const [item] = inFlight.splice(choice % inFlight.length, 1) as [Deliverable];
            if (choice < 75) {
              window.finish(item.position);
              done.push(item.position);
            } else if (choice < 85) window.failed(item.position, now + 5);
            else window.released(item.position);
          } else if (choice >= 97) {
            // A restart: what was in flight has an unknown end and comes again.
            const { end, pending } = window.checkpoint();
            inFlight.length = 0;
            window = new DeliveryWindow<Deliverable>(end, CAPACITY);
            for (const [position, attempts] of pending)
              window.add(items.find((item) => item.position === position) as Deliverable, 10, { attempts });
          }
          assert.ok(window.size <= CAPACITY.count);
          const open = items.filter(({ position }) => position < window.end && !done.includes(position));
          assert.deepEqual(
            window.checkpoint().pending.map(([position]) => position),
            open.map(({ position }) => position),
          );
          // The cursor stops before the first gap and nowhere else.
          assert.equal(window.cursor, open.length === 0 ? window.end : (open[0] as Deliverable).position);
        }
        for (const key of new Set(items.map((item) => item.key))) {
          const ofKey = items.filter((item) => item.key === key).map(({ position }) => position);
          assert.deepEqual(
            done.filter((position) => ofKey.includes(position)),
            ofKey,
            `order of ${key}`,
          );
        }
      },
    ),
    { numRuns: 500 },
  );
});

test('a failing key waits for its time and holds back nothing but itself; once the endpoint answers it is due at once', () => {
  const window = new DeliveryWindow<Deliverable>(11, CAPACITY);
  for (const [position, key] of [
    [11, 'a'],
    [12, 'a'],
    [13, 'b'],
  ] as const)
    window.add({ position, key }, 10);
  assert.equal(window.take(0)?.position, 11);
  assert.equal(window.take(0)?.position, 13);
  assert.equal(window.take(0), undefined);
  window.failed(11, 500);
  window.finish(13);
  assert.deepEqual([window.cursor, window.end, window.nextDue()], [11, 14, 500]);
  assert.equal(window.take(499), undefined);
  window.hurry();
  assert.equal(window.take(0)?.position, 11);
  assert.equal(window.attempts(11), 1);
  window.finish(11);
  assert.equal(window.take(0)?.position, 12);
  assert.throws(() => window.finish(11), RangeError);
  assert.throws(() => window.add({ position: 13, key: 'b' }, 10), RangeError);
  window.add({ position: 14, key: 'c' }, 2_000);
  assert.equal(window.hasRoom, false, 'bytes bound it too');
});

test('an endpoint that answers again uses nothing up of the schedule of a key that it still refuses', () => {
  const window = new DeliveryWindow<Deliverable>(1, CAPACITY);
  for (const [position, key] of [
    [1, 'poison'],
    [2, 'well'],
  ] as const)
    window.add({ position, key }, 10);
  assert.equal(window.take(0)?.position, 1);
  window.failed(1, 5_000);
  // It is due early once, for as long as its own time has not come.
  window.hurry();
  assert.deepEqual(window.checkpoint().pending[0], [1, 1, 5_000], 'a restart keeps to the schedule');
  assert.equal(window.take(10, true)?.position, 2, 'a probe is what failed least');
  assert.equal(window.take(10)?.position, 1);
  assert.equal(window.isEarly(1, 20), true);
  window.failedEarly(1, 20);
  assert.deepEqual([window.nextDue(), window.checkpoint().pending[0]], [5_000, [1, 1, 5_000]]);
  window.hurry();
  assert.equal(window.take(4_999), undefined, 'not again');
  assert.equal(window.take(5_000)?.position, 1);
  assert.equal(window.isEarly(1, 5_001), false);
  window.failed(1, 35_000);
  window.hurry();
  assert.equal(window.take(6_000)?.position, 1);
  // Another address says nothing of the one before.
  window.failedEarly(1, 6_000);
  window.hurry(true);
  assert.equal(window.take(6_001)?.position, 1);
});

test('the schedule is 5 s to 24 h, each within a fifth of its time, over about three days, and then it ends', () => {
  assert.deepEqual(
    RETRY_DELAYS_MS.map((ms) => ms / 1000),
    [5, 30, 120, 900, 3600, 10800, 21600, 43200, 86400, 86400],
  );
  RETRY_DELAYS_MS.forEach((delay, i) => {
    assert.equal(retryDelay(i + 1, 0), delay * 0.8);
    assert.equal(retryDelay(i + 1, 1), delay * 1.2);
  });
  assert.equal(retryDelay(11, 0.5), undefined);
  assert.equal(retryDelay(1, 0.5, 60_000), 60_000);
  assert.equal(retryDelay(3, 0.5, 60_000), 120_000);
});

test('Retry-After is seconds or a date, and never longer than an hour', () => {
  const now = Date.parse('2026-01-01T00:00:00Z');
  assert.equal(retryAfterMs('30', now), 30_000);
  assert.equal(retryAfterMs('Thu, 01 Jan 2026 00:02:00 GMT', now), 120_000);
  assert.equal(retryAfterMs('Wed, 31 Dec 2025 00:00:00 GMT', now), 0);
  assert.equal(retryAfterMs('999999999', now), MAX_RETRY_AFTER_MS);
  for (const text of [undefined, '', '-1', 'soon', '1e3']) assert.equal(retryAfterMs(text, now), undefined, text);
});

/** Permits, and what ran of whom. */
function permitsOf(limits: PermitLimits) {
  const timers = new ManualTimers();
  const permits = new FairPermits(limits, timers);
  const ran: string[] = [];
  const held = new Map<string, Permit[]>();
  const ask = (owner: string, name: string, lane = 'one'): (() => void) =>
    permits.acquire(owner, lane, (permit) => {
      ran.push(name);
      held.set(owner, [...(held.get(owner) ?? []), permit]);
    });
  const release = (owner: string): void => permits.release(held.get(owner)?.shift() as Permit);
  return { timers, permits, ran, ask, release };
}

test('permits go round the tenants, and none holds more than its share', () => {
  const { permits, ran, ask, release } = permitsOf({ total: 3, perOwner: 2 });
  for (let i = 0; i < 4; i++) ask('a', `a${i}`);
  ask('b', 'b0');
  const withdraw = ask('c', 'c0');
  ask('c', 'c1');
  assert.deepEqual(ran, ['a0', 'a1', 'b0'], 'a has its share, b the rest');
  withdraw();
  for (const owner of ['b', 'a', 'c']) release(owner);
  assert.deepEqual(ran.slice(3), ['c1', 'a2']);
  release('a');
  assert.deepEqual(ran.slice(5), ['a3']);
  for (const owner of ['a', 'a']) release(owner);
  assert.equal(permits.taken, 0);
});

test('permits go round the endpoints of a tenant: one that waits with many is no further in front than one with a single message', () => {
  const { ran, ask, release } = permitsOf({ total: 1, perOwner: 1 });
  for (let i = 0; i < 3; i++) ask('a', `many${i}`, 'many');
  const withdraw = ask('a', 'none', 'withdrawn');
  ask('a', 'single', 'single');
  withdraw();
  for (let i = 0; i < 3; i++) release('a');
  assert.deepEqual(ran, ['many0', 'many1', 'single', 'many2']);
});

test('a permit that is held for long makes room for those that wait, within what may be held so', () => {
  const { timers, permits, ran, ask, release } = permitsOf({
    total: 2,
    perOwner: 2,
    long: { afterMs: 100, total: 3, perOwner: 2, kept: 0 },
  });
  for (let i = 0; i < 5; i++) ask('slow', `slow${i}`);
  ask('quick', 'quick0');
  assert.deepEqual(ran, ['slow0', 'slow1']);
  timers.advance(99);
  assert.equal(ran.length, 2);
  timers.advance(1);
  assert.deepEqual(ran.slice(2), ['quick0', 'slow2'], 'both that were held are long, and who holds none is first');
  release('quick');
  assert.deepEqual(ran.slice(4), ['slow3']);
  ask('quick', 'quick1');
  timers.advance(1_000);
  assert.equal(ran.length, 5, 'an owner has a share of what may be long, too');
  release('slow');
  assert.deepEqual(ran.slice(5), ['quick1'], 'a long one that ends lets another be one');
  release('slow');
  assert.deepEqual(ran.slice(6), ['slow4']);
  assert.equal(permits.taken, 4);
  for (const owner of ['slow', 'slow', 'slow', 'quick']) release(owner);
  assert.equal(permits.taken, 0);
  assert.equal(timers.nextAt, undefined, 'nobody waits, and nothing is looked at');
});

test('a tenant whose requests are quick goes on beside however many whose requests are slow', () => {
  const { timers, permits } = permitsOf({
    total: 64,
    perOwner: 16,
    long: { afterMs: 250, total: 512, perOwner: 32, kept: 16 },
  });
  const slow = (owner: string, lane: string): unknown =>
    permits.acquire(owner, lane, (permit) =>
      timers.after(10_000, () => {
        permits.release(permit);
        slow(owner, lane);
      }),
    );
  // Each could have 48 under way.
  const owners = Array.from({ length: 16 }, (_, i) => `slow${i}`);
  for (const owner of owners)
    for (let endpoint = 0; endpoint < 6; endpoint++) for (let i = 0; i < 8; i++) slow(owner, `endpoint${endpoint}`);
  timers.advance(5_000);
  assert.equal(permits.taken, 512 + 48, 'they have all that they may');
  const waits: number[] = [];
  const ask = (owner: string): unknown => {
    const asked = timers.now();
    return permits.acquire(owner, 'quick', (permit) => {
      waits.push(timers.now() - asked);
      timers.after(5, () => permits.release(permit));
    });
  };
  for (let i = 0; i < 100; i++) {
    ask('quick');
    timers.advance(50);
  }
  assert.deepEqual(waits, Array<number>(100).fill(0));

  // One that has a slow endpoint, too, has no part of what is kept. What comes free is its own first, since it has the fewest.
  slow('both', 'slow');
  timers.advance(5_000);
  waits.length = 0;
  for (let i = 0; i < 400; i++) {
    ask('both');
    timers.advance(50);
  }
  assert.ok(waits.length > 350, `${waits.length} of 400 were sent`);
  assert.ok(Math.max(...waits) <= 10_000, `one waited for ${Math.max(...waits)} ms`);
});
