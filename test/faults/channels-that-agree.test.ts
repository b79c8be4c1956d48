// Invariants 8 to 12: all channels of a projection and of the feed tell the same records, over kills of the service, takeovers, and
// links that drop, delay and cut.
import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { WebSocket } from 'ws';
import {
  StatefoldClient,
  type Appended,
  type Channel,
  type FeedEvent,
  type Notification,
  type WebSocketFactory,
} from '../../packages/client/src/index.js';
import { PatientApi, success } from '../support/api.js';
import { Receiver, type Delivery } from '../support/api-channels.js';
import { ClusterWorld } from '../support/cluster-world.js';
import { totals } from '../support/csharp.js';
import { pages } from '../support/feed-channels.js';
import { kafkaForTests, needsKafka } from '../support/kafka.js';
import { seeded } from '../support/load.js';
import { API_KEY, startService, temporaryDirectory, until, type Service } from '../support/service.js';
import { wildLink } from '../support/wild-link.js';

const AGGREGATES = 8;
const WRITERS = 4;
/** Appends that are acknowledged between two breaks. */
const BETWEEN = 120;
const webSocket: WebSocketFactory = (url, headers) => new WebSocket(url, { headers });
const QUICK = { firstDelayMs: 10, mostDelayMs: 200 };
const ENV = { WEBHOOK_RETRY_SECONDS: Array(20).fill('1').join(','), WEBHOOK_TIMEOUT_MS: '3000' };

/** What is broken, and mends. */
interface Broken {
  /** Undefined while nothing runs. */
  readonly service: () => Service | undefined;
  /** Kills what serves, and returns when another one may be asked. */
  readonly kill: () => Promise<void>;
  readonly kills: number;
}

async function agree(t: TestContext, { service, kill, kills }: Broken): Promise<void> {
  const seed = Number(process.env['FAULT_SEED'] ?? Date.now() % 1_000_000);
  const random = seeded(seed);
  t.diagnostic(`FAULT_SEED=${seed}`);
  const running = (): Service => {
    const one = service();
    assert.ok(one !== undefined);
    return one;
  };
  const link = await wildLink(t, { wild: 0.5, random, target: () => service()?.url });
  const receiver = await Receiver.open(t);
  const hooks = await wildLink(t, { wild: 0.1, random, target: () => receiver.url });
  const projectionId = await new PatientApi(running()).deployProjection(
    { 'Totals.cs': totals() },
    { config: '{"sse":true}' },
  );
  for (const [path, source] of [
    ['/events', { feed: {} }],
    ['/changes', { projectionId }],
  ] as const) {
    const body = { url: hooks.url + path, source, from: 'start' };
    success(await new PatientApi(running()).post('/webhooks/endpoints', body), 201);
  }

  const client = new StatefoldClient({ url: link.url, apiKey: API_KEY, retry: { ...QUICK, attempts: 1_000 } });
  const ended = new AbortController();
  const follow = <T>(items: AsyncIterable<T>): { readonly told: T[]; readonly reading: Promise<void> } => {
    const told: T[] = [];
    const reading = (async () => {
      for await (const item of items) told.push(item);
    })();
    reading.catch((error: unknown) => t.diagnostic(`a subscription ended: ${String(error)}`));
    return { told, reading };
  };
  const options = (channel: Channel): object => ({
    ...QUICK,
    channels: [channel],
    webSocket,
    signal: ended.signal,
    onChannel: (to: Channel, why: unknown) => t.diagnostic(`${channel} gave way to ${to}: ${String(why)}`),
  });
  const events = (['websocket', 'sse', 'ndjson', 'poll'] as const).map((channel) => ({
    channel,
    ...follow(client.feed.subscribe(options(channel))),
  }));
  const changes = (['websocket', 'sse', 'poll'] as const).map((channel) => ({
    channel,
    ...follow(client.subscribe(projectionId, options(channel))),
  }));

  const acknowledged: Appended[] = [];
  let writing = true;
  let sent = 0;
  const writers = Array.from({ length: WRITERS }, async () => {
    while (writing) {
      // From 1 on: to add 0 to a sum that others came to before is no change, and isn't told.
      const n = ++sent;
      const event = { aggregateId: `sum-${n % AGGREGATES}`, eventType: 'Counted', data: { key: `k${n % 5}`, n } };
      acknowledged.push(await client.append(event));
    }
  });
  try {
    for (let i = 0; i <= kills; i++) {
      if (i > 0) await kill();
      const before = acknowledged.length;
      await until(() => acknowledged.length >= before + BETWEEN, 120_000);
    }
  } finally {
    writing = false;
  }
  await Promise.all(writers);

  // What is told by now, by whoever serves without a wild link between.
  const api = new PatientApi(running());
  const feed = await pages(api, '&limit=1000');
  const listed = async (): Promise<readonly Notification[]> =>
    (await api.read<{ notifications: Notification[] }>(`/projections/${projectionId}/notifications?limit=1000`))
      .notifications;
  await until(async () => (await listed()).length >= Math.min(1_000, feed.length), 60_000).catch(async () => {
    const paths = [`/projections/${projectionId}/status`, `/projections/${projectionId}/faults`, '/health/ready'];
    const states = await Promise.all(paths.map(async (path) => (await api.get(path)).text));
    const said = api.service.output.slice(-8_000);
    assert.fail(`${(await listed()).length} changes of ${feed.length} are told: ${states.join('\n')}\n${said}`);
  });
  const told: Notification[] = [];
  for (let after = 0; ;) {
    const path = `/projections/${projectionId}/notifications?limit=1000&afterSequence=${after}`;
    const { notifications } = await api.read<{ notifications: Notification[] }>(path);
    if (notifications.length === 0) break;
    told.push(...notifications);
    after = notifications.at(-1)?.sequence ?? 0;
  }

  await t.test('each append is one event, where its 201 said', () => {
    assert.equal(feed.length, acknowledged.length);
    assert.equal(told.length, acknowledged.length, 'each event changes one key');
    const byId = new Map(feed.map((event) => [event.eventId, event]));
    for (const { eventId, aggregateId, version, position } of acknowledged) {
      const event = byId.get(eventId);
      assert.deepEqual([event?.aggregateId, event?.version], [aggregateId, version]);
      if (position !== undefined) assert.equal(event?.position, position);
    }
  });

  // One budget for all of them: the first that is behind says so before the file's time is over.
  const deadline = performance.now() + 90_000;
  const left = (): number => Math.max(1_000, deadline - performance.now());
  for (const { channel, told: given } of events)
    await t.test(`the feed by ${channel} tells them, each once and in their order`, async () => {
      await until(() => given.length >= feed.length, left()).catch(() => undefined);
      assert.deepEqual(given, feed);
    });
  for (const { channel, told: given } of changes)
    await t.test(`the projection by ${channel} tells its changes, each once and in their order`, async () => {
      await until(() => given.length >= told.length, left()).catch(() => undefined);
      assert.deepEqual(given, told);
    });
  ended.abort();
  await Promise.all([...events, ...changes].map(({ reading }) => reading));

  const delivered = async <T extends FeedEvent | Notification>(
    path: string,
    records: readonly T[],
    placeOf: (record: T) => number,
    keyOf: (record: T) => string,
  ): Promise<number> => {
    // What a webhook that was lost has in its way is tried again after its pause.
    hooks.calm();
    const first = new Map<number, T>();
    let read = 0;
    const take = (all: readonly Delivery[]): void => {
      for (; read < all.length; read++) {
        const { data } = JSON.parse(all[read]?.body ?? '') as { readonly data: T };
        if (!first.has(placeOf(data))) first.set(placeOf(data), data);
        else assert.deepEqual(data, first.get(placeOf(data)), 'a repetition says the same');
      }
    };
    await until(() => {
      take(receiver.of(path));
      return first.size >= records.length;
    }, 60_000);
    const byPlace = new Map(records.map((record) => [placeOf(record), record]));
    const last = new Map<string, number>();
    for (const [place, record] of first) {
      assert.deepEqual(record, byPlace.get(place));
      assert.ok((last.get(keyOf(record)) ?? 0) < place, `${keyOf(record)} is told in its order`);
      last.set(keyOf(record), place);
    }
    return read - first.size;
  };
  await t.test('webhooks of the feed tell them, in the order of each aggregate', async () => {
    const repeated = await delivered<FeedEvent>(
      '/events',
      feed as readonly FeedEvent[],
      ({ position }) => position,
      ({ aggregateId }) => aggregateId,
    );
    t.diagnostic(`${repeated} of them came again`);
  });
  await t.test('webhooks of the projection tell its changes, in the order of each key', async () => {
    await delivered<Notification>(
      '/changes',
      told,
      ({ sequence }) => sequence,
      ({ key }) => key,
    );
  });
  t.diagnostic(
    `${feed.length} events; the link: ${JSON.stringify(link.done)}; webhooks: ${JSON.stringify(hooks.done)}`,
  );
  assert.ok(link.done.cut > 5 && link.done.dropped > 1 && link.done.delayed > 20, JSON.stringify(link.done));
}

test('channels agree over kill -9 and a wild link', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  let service: Service | undefined = await startService(t, { dataDirectory, env: ENV });
  await agree(t, {
    service: () => service,
    kill: async () => {
      const dying = service;
      service = undefined;
      await dying?.kill('SIGKILL');
      service = await startService(t, { dataDirectory, env: ENV });
    },
    kills: 3,
  });
});

test('channels agree over takeovers and a wild link', { skip: needsKafka }, async (t) => {
  const { brokers } = await kafkaForTests();
  const world = new ClusterWorld(t, { brokers, processes: 2, env: ENV });
  await world.start();
  const one = (): Service | undefined => {
    try {
      return world.service;
    } catch {
      return undefined;
    }
  };
  let starting: Promise<unknown> = Promise.resolve();
  await agree(t, {
    service: one,
    kill: async () => {
      await starting;
      const owner = await world.owner();
      await world.endOne(owner);
      // The other one takes over meanwhile.
      starting = world.startOne(owner);
      starting.catch(() => undefined);
    },
    kills: 3,
  });
  await starting;
});
