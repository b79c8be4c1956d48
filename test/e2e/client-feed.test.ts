// The feed of the client package against the real service, also through a link that loses requests, answers and connections.
import assert from 'node:assert/strict';
import test from 'node:test';
import { WebSocket } from 'ws';
import {
  isRefused,
  StatefoldClient,
  UnreachableError,
  type Channel,
  type FeedErasure,
  type FeedEvent,
  type FeedSubscribeOptions,
  type FeedSubscription,
  type WebSocketFactory,
} from '../../packages/client/src/index.js';
import { lossyProxy } from '../support/lossy-proxy.js';
import { API_KEY, startService, until } from '../support/service.js';

const webSocket: WebSocketFactory = (url, headers) => new WebSocket(url, { headers });
const CHANNELS = ['websocket', 'sse', 'ndjson', 'poll'] as const satisfies readonly Channel[];
const QUICK = { firstDelayMs: 5, mostDelayMs: 50 };

test('the feed of the client', async (t) => {
  const service = await startService(t);
  const client = new StatefoldClient({ url: service.url, apiKey: API_KEY });
  let appended = 0;
  const append = async (count: number): Promise<number> => {
    let last = 0;
    for (let i = 0; i < count; i++, appended++) {
      const eventType = appended % 3 === 0 ? 'Third' : 'Other';
      const event = { aggregateId: `${appended % 2 === 0 ? 'even' : 'odd'}-${appended % 5}`, eventType };
      last = (await client.append({ ...event, data: { n: appended } })).position ?? 0;
    }
    return last;
  };
  const all = async (): Promise<FeedEvent[]> => {
    const events: FeedEvent[] = [];
    for (let after = 0; ;) {
      const page = await client.feed.read({ after, limit: 7 });
      if (page.events.length === 0) return events;
      events.push(...page.events.filter((item): item is FeedEvent => 'eventId' in item));
      after = page.position;
    }
  };

  await t.test('appends tell their position, and pages, lines and the newest position agree on it', async () => {
    assert.equal(await client.feed.newest(), 0);
    assert.deepEqual(await client.feed.read(), { events: [], position: 0 });
    const position = await append(20);
    const batch = await client.appendBatch({
      aggregateId: 'even-0',
      events: [
        { eventType: 'Third', data: { n: -1 } },
        { eventType: 'Third', data: { n: -2 } },
      ],
    });
    const producer = client.producer();
    const produced = await producer.append({ aggregateId: 'odd-1', eventType: 'Other', data: { n: -3 } });
    const events = await all();
    assert.equal(events.length, 23);
    assert.deepEqual(
      [19, 21, 22].map((i) => events[i]?.position),
      [position, batch.position, produced.position],
    );
    assert.equal(await client.feed.newest(), produced.position);
    const lines: FeedEvent[] = [];
    for await (const event of client.feed.events()) lines.push(event);
    assert.deepEqual(lines, events);
    const wanted = { aggregateType: 'even', eventType: ['Third', 'Nothing'] };
    const some: FeedEvent[] = [];
    for await (const event of client.feed.events({ ...wanted, after: events[3]?.position ?? 0 })) some.push(event);
    const expected = events
      .slice(4)
      .filter(({ aggregateType, eventType }) => aggregateType === 'even' && eventType === 'Third');
    assert.deepEqual(some, expected);
    assert.deepEqual((await client.feed.read({ ...wanted, after: events[3]?.position ?? 0 })).events, expected);
    const next = produced.position ?? 0;
    const waiting = client.feed.read({ after: next, waitSeconds: 20 });
    await append(1);
    assert.equal((await waiting).events.length, 1);
    await assert.rejects(client.feed.read({ waitFor: next + 1e9, waitSeconds: 0 }), (error) =>
      isRefused(error, 'NOT_CAUGHT_UP'),
    );
  });

  await t.test('all there is comes once and in order, over a link that breaks off in the middle', async (t) => {
    await append(200);
    const proxy = await lossyProxy(t, service.url);
    const fates = ['lose request', 'cut answer', 'lose answer', 'cut answer', 'cut answer', 'pass'] as const;
    proxy.fate = (_, number) => fates[number % fates.length] ?? 'pass';
    const lossy = new StatefoldClient({ url: proxy.url, apiKey: API_KEY });
    const events: FeedEvent[] = [];
    for await (const event of lossy.feed.events()) events.push(event);
    assert.deepEqual(events, await all());
    assert.ok(proxy.seen.length >= 6, proxy.seen.join('\n'));
    proxy.fate = () => 'lose request';
    const given: FeedEvent[] = [];
    await assert.rejects(async () => {
      for await (const event of lossy.feed.events()) given.push(event);
    }, UnreachableError);
    assert.deepEqual(given, []);
    const enough = new Error('enough');
    const signal = AbortSignal.abort(enough);
    await assert.rejects(client.feed.events({}, { signal }).next(), enough);
  });

  for (const channel of CHANNELS)
    await t.test(`a subscription by ${channel} has each event once and in its order, whatever is cut`, async (t) => {
      const proxy = await lossyProxy(t, service.url);
      const ended = new AbortController();
      const retry = { ...QUICK, attempts: 20 };
      const subscription = new StatefoldClient({ url: proxy.url, apiKey: API_KEY, retry }).feed.subscribe({
        ...QUICK,
        channels: [channel],
        webSocket,
        signal: ended.signal,
      });
      const told: FeedEvent[] = [];
      const reading = (async () => {
        for await (const event of subscription) told.push(event);
      })();
      for (let i = 0; i < 4; i++) {
        await append(10);
        const { length } = await all();
        await until(() => told.length >= length);
        proxy.cut();
      }
      await append(10);
      const expected = await all();
      await until(() => told.length >= expected.length);
      ended.abort();
      await reading;
      assert.deepEqual(told, expected);
      assert.equal(subscription.position, expected.at(-1)?.position);
      const live = { websocket: /^UPGRADE .*stream/, sse: /feed\/sse/, ndjson: /follow=true/, poll: /waitSeconds/ };
      assert.ok(proxy.seen.filter((one) => live[channel].test(one)).length >= 2, proxy.seen.join('\n'));
    });

  for (const channel of CHANNELS)
    await t.test(`from now by ${channel}: nothing of before, and all from then on, filtered`, async (t) => {
      const proxy = await lossyProxy(t, service.url);
      const lossy = new StatefoldClient({ url: proxy.url, apiKey: API_KEY });
      const subscription = lossy.feed.subscribe({
        ...QUICK,
        from: 'now',
        channels: [channel],
        webSocket,
        eventType: 'Third',
      });
      const before = await client.feed.newest();
      const told: FeedEvent[] = [];
      const reading = (async () => {
        for await (const event of subscription) {
          told.push(event);
          if (told.length === 4) break;
        }
      })();
      // Where now is was asked once: from then on nothing is missed, also while no connection is open.
      await until(() => subscription.position !== undefined);
      assert.equal(subscription.position, before);
      await append(3);
      proxy.cut();
      await append(3);
      await until(() => told.length >= 2);
      await append(6);
      await reading;
      const { events } = await client.feed.read({ after: before, eventType: 'Third', limit: 4 });
      assert.deepEqual(told, events);
    });

  await t.test('goes on behind what was committed, also past what the filters left out', async () => {
    let kept: number | undefined;
    const cursor = {
      load: () => Promise.resolve(kept),
      save: (position: number) => Promise.resolve(void (kept = position)),
    };
    const known = await all();
    const first = client.feed.subscribe({ cursor, channels: ['poll'] });
    let n = 0;
    for await (const event of first) {
      if (++n === 3) await first.commit(event);
      if (n === 5) break;
    }
    assert.equal(kept, known[2]?.position);
    const second = client.feed.subscribe({ cursor });
    for await (const event of second) {
      assert.deepEqual(event, known[3]);
      await second.commit();
      break;
    }
    assert.equal(kept, known[3]?.position);
    // Nothing passes: how far it came is told, and can be committed.
    const ended = new AbortController();
    const none = client.feed.subscribe({ cursor, aggregateId: 'nobody-1', channels: ['poll'], signal: ended.signal });
    const reading = none[Symbol.asyncIterator]().next();
    await until(() => none.position === known.at(-1)?.position);
    await none.commit();
    assert.equal(kept, known.at(-1)?.position);
    ended.abort();
    assert.equal((await reading).done, true);
    await assert.rejects(client.feed.subscribe().commit(), TypeError);
  });

  for (const channel of CHANNELS)
    await t.test(`an erasure is told by ${channel} at its place, whatever types of events are wanted`, async () => {
      const from = await client.feed.newest();
      const aggregateId = `odd-erased-${channel}`;
      const subscription = (then: FeedSubscribeOptions): FeedSubscription =>
        client.feed.subscribe({ ...QUICK, from, channels: [channel], webSocket, eventType: 'Noted', ...then });
      const told: unknown[] = [];
      const failure = new Error('the copies are not erased');
      const failing = subscription({ onErased: () => Promise.reject(failure) });
      const failed = failing[Symbol.asyncIterator]().next();
      // A copy that was not erased is told of again: its place is not reached.
      const failedInTime = assert.rejects(failed, failure);
      const reading = (async () => {
        const onErased = ({ aggregateId }: FeedErasure): void => void told.push(aggregateId);
        for await (const { data } of subscription({ onErased })) if (told.push(data) === 2) break;
      })();
      await client.append({ aggregateId, eventType: 'Secret', data: {} });
      await client.erase(aggregateId, { reason: 'asked for' });
      await client.append({ aggregateId: 'odd-kept', eventType: 'Noted', data: { by: channel } });
      await reading;
      await failedInTime;
      assert.deepEqual(told, [aggregateId, { by: channel }]);
      const page = await client.feed.read({ after: from, eventType: 'Noted' });
      const [erasure] = page.events;
      assert.ok(erasure !== undefined && 'type' in erasure && erasure.reason === 'asked for');
      assert.ok(failing.position === undefined || failing.position < erasure.position);
      const history: unknown[] = [];
      const onErased = (one: FeedErasure): void => void history.push(one);
      for await (const event of client.feed.events({ after: from, eventType: 'Noted', onErased })) history.push(event);
      assert.deepEqual(history, page.events);
      const away = new UnreachableError(service.url, failure);
      const stopped = client.feed.events({ after: from, onErased: () => Promise.reject(away) });
      await assert.rejects(async () => {
        for await (const { eventType } of stopped) assert.notEqual(eventType, 'Noted');
      }, away);
      for await (const { eventType } of subscription({})) {
        assert.equal(eventType, 'Noted');
        break;
      }
    });

  await t.test('a channel that does not work gives way to the next', async (t) => {
    const proxy = await lossyProxy(t, service.url);
    proxy.fate = ({ url = '' }) => (/\/(stream|sse)|follow/.test(url) ? 'lose request' : 'pass');
    const channels: Channel[] = [];
    const proxied = new StatefoldClient({ url: proxy.url, apiKey: API_KEY });
    const subscription = proxied.feed.subscribe({
      ...QUICK,
      webSocket,
      from: await client.feed.newest(),
      onChannel: (channel) => channels.push(channel),
    });
    const next = subscription[Symbol.asyncIterator]().next();
    await until(() => channels.length === 3);
    const position = await append(1);
    assert.equal((await next).value?.position, position);
    assert.deepEqual(channels, ['sse', 'ndjson', 'poll']);
    subscription.close();
  });

  await t.test('ends with the refusal where to go on makes no sense', async () => {
    const stranger = new StatefoldClient({ url: service.url, apiKey: 'nobody' });
    for (const channel of CHANNELS) {
      const subscription = stranger.feed.subscribe({ channels: [channel], webSocket });
      const next = subscription[Symbol.asyncIterator]().next();
      await assert.rejects(next, (error) => isRefused(error, 'UNAUTHENTICATED'));
    }
    await assert.rejects(stranger.feed.events().next(), (error) => isRefused(error, 'UNAUTHENTICATED'));
    await assert.rejects(client.feed.subscribe({ aggregateType: 'no type' })[Symbol.asyncIterator]().next(), (error) =>
      isRefused(error, 'INVALID_REQUEST'),
    );
  });
});
