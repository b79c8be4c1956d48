import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '../../src/core/logger.js';
import { Turns } from '../../src/core/turns.js';
import { FeedHub } from '../../src/feed/hub.js';
import { Replays } from '../../src/feed/replays.js';
import { changesOf } from '../../src/feed/sources.js';
import type { TenantFeed } from '../../src/feed/tenant-feeds.js';
import { systemTimers } from '../../src/feed/timers.js';
import type { PendingMessage } from '../../src/webhooks/delivery-window.js';
import { Lane, type LaneHome } from '../../src/webhooks/lane.js';
import { changeMessages, type MessageFeed } from '../../src/webhooks/webhook-message.js';
import type { FollowedFeed } from '../../src/feed/feed.js';
import type { Change } from '../../src/core/change.js';
import { change, ListFeed, ListTenants, until } from '../support/notifier-world.js';

const STREAMS = 1000;
const PAGES = 3;
const PAGE = 256;

/** A feed of which is known how it is read: how many reads are under way, and how many pages were given in one round of the event loop. */
class WatchedFeed extends ListFeed {
  underWay = 0;
  most = 0;
  pages = 0;

  override of(projectionId: string): FollowedFeed<Change> {
    const feed = super.of(projectionId);
    return {
      ...feed,
      get head() {
        return feed.head;
      },
      recent: (from, budget) => {
        const page = feed.recent(from, budget);
        if (page !== undefined) this.pages++;
        return page;
      },
      read: async (from, budget) => {
        this.most = Math.max(this.most, ++this.underWay);
        this.pages++;
        try {
          return await feed.read(from, budget);
        } finally {
          this.underWay--;
        }
      },
    };
  }
}

/** A tenant with three pages of history, and streams over all of it that want nothing of it. */
function replaying(tailSize: number) {
  const feed = new WatchedFeed(tailSize);
  feed.accept(...Array.from({ length: PAGES * PAGE }, (_, i) => change(i + 1)));
  const tenants = new ListTenants();
  tenants.activate('t1', feed);
  const turns = new Turns();
  const hub = new FeedHub({ notified: tenants, replays: new Replays(turns) });
  let caughtUp = 0;
  const subscriptions = Array.from({ length: STREAMS }, () =>
    hub.subscribe(
      { tenantId: 't1', source: changesOf('p1'), from: 1, wanted: () => false },
      {
        push: () => assert.fail('nothing is wanted'),
        caughtUp: () => caughtUp++,
        ended: (reason) => assert.fail(String(reason)),
      },
    ),
  );
  return {
    feed,
    hub,
    tenant: tenants.active('t1') as TenantFeed,
    turns,
    subscriptions,
    isDone: () => caughtUp === STREAMS,
  };
}

test('of a thousand streams of a tenant that read the log few do so at once, and a neighbour has its turn meanwhile', async () => {
  const { feed, turns, subscriptions, isDone } = replaying(1);
  for (const one of subscriptions) one.start();
  for (let round = 0; !isDone() && round < 100_000; round++) {
    const before = feed.pages;
    await new Promise((resolve) => setImmediate(resolve));
    assert.ok(feed.pages - before <= 16, `${feed.pages - before} pages in a round`);
    if (round % 10 === 0) assert.equal(turns.enter(`neighbour-${round}`, 1), undefined);
    // The tenant's own requests are a few turns behind.
    assert.ok(turns.waiting <= 4, `${turns.waiting} wait`);
  }
  assert.equal(feed.most, 4);
  assert.equal(feed.pages, STREAMS * PAGES);
});

test('of a thousand streams of a tenant that replay what memory has few go on in a round of the event loop', async () => {
  const { feed, subscriptions, isDone } = replaying(Infinity);
  for (const one of subscriptions) one.start();
  assert.equal(feed.pages, STREAMS);
  while (!isDone()) {
    const before = feed.pages;
    await new Promise((resolve) => setImmediate(resolve));
    assert.ok(feed.pages - before <= 16, `${feed.pages - before} pages in a round`);
  }
});

test('streams that end while they wait for their page read nothing, and leave their place to the next', async () => {
  const { feed, subscriptions } = replaying(1);
  for (const one of subscriptions) one.start();
  for (const one of subscriptions.slice(0, -1)) one.close();
  await until(() => subscriptions.at(-1)?.end === PAGES * PAGE + 1, 'all are caught up');
  assert.equal(feed.pages, PAGES);
});

test('a thousand lanes of webhooks that begin where they were read what is pending as few at once as streams read', async () => {
  const { feed, hub, tenant } = replaying(1);
  const messages: MessageFeed<Change> = changeMessages('p1');
  const home: LaneHome<Change> = {
    ...{ id: 'e1', tenantId: 't1', messages, hub, logger: silentLogger, timers: systemTimers },
    capacity: { count: 10, bytes: 1_000_000 },
    wanted: () => true,
    took: () => true,
    keeps: () => true,
    advanced: () => undefined,
  };
  const pending = [1, 2, 3].map((position): PendingMessage => [position, 0]);
  const restored = await Promise.all(
    Array.from({ length: STREAMS }, () => Lane.restored(tenant, { end: 4, pending }, Infinity, home, () => 0)),
  );
  assert.equal(feed.most, 4);
  assert.ok(restored.every(({ window }) => window.size === pending.length));
});

test('reads that fail leave their place to the next', async () => {
  const { feed, subscriptions } = replaying(1);
  const [failing, others] = [subscriptions.slice(0, 8), subscriptions.slice(8, 16)];
  feed.unavailable = true;
  for (const one of failing) one.start();
  await until(() => feed.pages === failing.length && feed.underWay === 0, 'all are caught up');
  for (const one of failing) one.close();
  feed.unavailable = false;
  for (const one of others) one.start();
  await until(() => others.every(({ end }) => end === PAGES * PAGE + 1), 'all are caught up');
});
