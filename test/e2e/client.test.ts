// The client package against the real service, also through a link that loses requests and answers.
import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { WebSocket } from 'ws';
import {
  isRefused,
  NotStoredError,
  StatefoldClient,
  UnreachableError,
  type Channel,
  type Event,
  type Notification,
  type Produced,
  type WebSocketFactory,
} from '../../packages/client/src/index.js';
import { Api } from '../support/api.js';
import { tally, totals } from '../support/csharp.js';
import { lossyProxy, type LossyProxy } from '../support/lossy-proxy.js';
import { ADMIN_KEY, API_KEY, startService, until } from '../support/service.js';

const webSocket: WebSocketFactory = (url, headers) => new WebSocket(url, { headers });
const all = async <T>(items: AsyncIterable<T>): Promise<T[]> => {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
};
const numbers = (events: readonly Event[]): unknown[] => events.map(({ data }) => data['n']);

test('the client', async (t) => {
  const service = await startService(t);
  const api = new Api(service);
  const client = new StatefoldClient({ url: service.url, apiKey: API_KEY, adminKey: ADMIN_KEY });
  const through = (proxy: LossyProxy): StatefoldClient =>
    new StatefoldClient({ url: proxy.url, apiKey: API_KEY, retry: { firstDelayMs: 5, mostDelayMs: 50, attempts: 40 } });

  await t.test('appends, reads back, and tells a refusal by its code', async () => {
    const appended = await client.append({
      aggregateId: 'read-1',
      eventType: 'Noted',
      data: { n: 0 },
      expectedVersion: 0,
    });
    assert.equal(appended.version, 1);
    const events = Array.from({ length: 24 }, (_, i) => ({ eventType: 'Noted', data: { n: i + 1 } }));
    assert.equal((await client.appendBatch({ aggregateId: 'read-1', events })).endVersion, 25);
    assert.deepEqual(
      numbers(await all(client.events('read-1'))),
      Array.from({ length: 25 }, (_, i) => i),
    );
    assert.deepEqual(numbers(await all(client.events('read-1', { direction: 'backward', limit: 2 }))), [24, 23]);
    assert.deepEqual(await all(client.events('nobody-1')), []);
    await assert.rejects(
      client.append({ aggregateId: 'read-1', eventType: 'Noted', data: {}, expectedVersion: 3 }),
      (error) => isRefused(error, 'VERSION_CONFLICT') && error.problem.currentVersion === 25,
    );
    await assert.rejects(client.state('read-1'), (error) => isRefused(error, 'NO_REDUCER_BOUND'));
    const { tenantId } = await client.request('whoami');
    assert.equal(tenantId, 'default');
    assert.equal((await client.request('getTenant', { path: { id: tenantId } })).tenantId, tenantId);
    assert.equal((await client.request('listAggregates', { query: { type: 'read' } })).aggregates.length, 1);
  });

  await t.test('decides anew when others were first', async () => {
    await api.deployReducer({ 'Tally.cs': tally('counted') });
    const count = (): Promise<unknown> =>
      client.decide('counted-1', ({ version }) => [{ eventType: 'Counted', data: { n: version } }], { attempts: 100 });
    await Promise.all(Array.from({ length: 20 }, count));
    assert.deepEqual(
      numbers(await all(client.events('counted-1'))),
      Array.from({ length: 20 }, (_, i) => i),
    );
    const { version, state } = await client.state('counted-1');
    assert.equal(version, 20);
    assert.ok(state !== null);
    assert.deepEqual(await client.state('counted-2'), { version: 0, state: null });
    const seen: number[] = [];
    const nothing = await client.decide(
      'counted-1',
      ({ events }) => {
        seen.push(events.length);
        return undefined;
      },
      { load: 'events' },
    );
    assert.deepEqual([nothing, seen], [undefined, [20]]);
  });

  await t.test('of each append there is exactly one event, whatever the link loses', async () => {
    const proxy = await lossyProxy(t, service.url);
    const fates = ['lose answer', 'lose request', 'cut answer', 'pass'] as const;
    proxy.fate = (_, number) => fates[(number * 7 + (number >> 2)) % fates.length] ?? 'pass';
    const lossy = through(proxy);
    const versions = await Promise.all(
      Array.from(
        { length: 40 },
        async (_, n) => (await lossy.append({ aggregateId: `lost-${n % 4}`, eventType: 'Noted', data: { n } })).version,
      ),
    );
    for (let i = 0; i < 4; i++) {
      const events = await all(client.events(`lost-${i}`));
      assert.deepEqual(numbers(events).sort(), Array.from({ length: 10 }, (_, k) => i + 4 * k).sort());
      for (const { data, version } of events) assert.equal(versions[data['n'] as number], version);
    }
    const batch = await lossy.appendBatch({
      aggregateId: 'lost-9',
      events: [
        { eventType: 'A', data: {} },
        { eventType: 'B', data: {} },
      ],
    });
    assert.deepEqual([batch.startVersion, batch.endVersion], [1, 2]);
    assert.equal(
      (await lossy.decide('lost-9', () => [{ eventType: 'C', data: {} }], { load: 'events' }))?.endVersion,
      3,
    );
    assert.equal((await all(client.events('lost-9'))).length, 3);
    // Transactions too, each of both aggregates.
    const moved = await Promise.all(
      Array.from({ length: 12 }, (_, n) =>
        lossy.appendTransaction({
          appends: ['lost-10', 'lost-11'].map((aggregateId) => ({
            aggregateId,
            events: [{ eventType: 'Noted', data: { n } }],
          })),
        }),
      ),
    );
    const sides = await Promise.all(['lost-10', 'lost-11'].map((id) => all(client.events(id))));
    for (const [side, events] of sides.entries())
      assert.deepEqual(
        events.map(({ eventId }) => eventId),
        [...moved].sort((a, b) => a.position! - b.position!).map(({ appends }) => appends[side]?.eventIds[0]),
      );
    const elsewhere = client.appendTransaction({
      appends: [{ aggregateId: 'lost-10', expectedVersion: 3, events: [{ eventType: 'Noted', data: {} }] }],
    });
    await assert.rejects(elsewhere, (error) => {
      assert.ok(isRefused(error, 'VERSION_CONFLICT'));
      assert.deepEqual(error.problem['mismatches'], [
        { aggregateId: 'lost-10', expectedVersion: 3, currentVersion: 12 },
      ]);
      return true;
    });
    assert.ok(proxy.seen.length > 60, `${proxy.seen.length} requests: nothing was lost`);
  });

  await t.test('a producer stores each event once and in its order, whatever the link loses', async () => {
    const proxy = await lossyProxy(t, service.url);
    const fates = ['pass', 'lose answer', 'cut answer', 'lose request', 'pass'] as const;
    proxy.fate = (_, number) => fates[number % fates.length] ?? 'pass';
    const producer = through(proxy).producer({ mostLines: 100, mostPending: 300, firstDelayMs: 5 });
    const stored: Promise<Produced>[] = [];
    let most = 0;
    for (let n = 0; n < 2_000; n++) {
      stored.push((await producer.send({ aggregateId: `made-${n % 7}`, eventType: 'Noted', data: { n } })).stored);
      most = Math.max(most, producer.pending);
    }
    await producer.close();
    assert.ok(most <= 300, `${most} events waited`);
    const produced = await Promise.all(stored);
    for (let i = 0; i < 7; i++) {
      const events = await all(client.events(`made-${i}`));
      assert.deepEqual(
        numbers(events),
        Array.from({ length: 2_000 }, (_, n) => n).filter((n) => n % 7 === i),
      );
      for (const { data, eventId } of events) assert.equal(produced[data['n'] as number]?.eventId, eventId);
    }
    await assert.rejects(producer.append({ aggregateId: 'made-1', eventType: 'Noted', data: {} }), /is closed/);
  });

  await t.test('a producer tells what was refused of what, and goes on', async () => {
    const producer = client.producer();
    const outcomes = await Promise.allSettled([
      producer.append({ aggregateId: 'told-1', eventType: 'Noted', data: {} }),
      producer.append({ aggregateId: 'told-1', eventType: 'Noted', data: {}, expectedVersion: 5 }),
      producer.append({ aggregateId: 'told-1', eventType: '', data: {} }),
      producer.append({ aggregateId: 'told-1', eventType: 'Noted', data: {} }),
    ]);
    assert.deepEqual(
      outcomes.map((outcome) =>
        outcome.status === 'fulfilled'
          ? outcome.value.version
          : isRefused(outcome.reason, 'VERSION_CONFLICT', 'INVALID_REQUEST') && [
              outcome.reason.code,
              outcome.reason.problem.errors?.[0]?.pointer,
            ],
      ),
      [1, ['VERSION_CONFLICT', undefined], ['INVALID_REQUEST', '/eventType'], 2],
    );
    const ended = new AbortController();
    const other = client.producer({ signal: ended.signal });
    ended.abort(new Error('enough'));
    await assert.rejects(other.append({ aggregateId: 'told-1', eventType: 'Noted', data: {} }), /enough/);
  });

  await t.test('a producer goes on through an outage, and tells of each event that it gave up', async (t) => {
    const proxy = await lossyProxy(t, service.url);
    proxy.fate = (_, number) => (number < 25 ? 'lose request' : 'pass');
    const quick = { firstDelayMs: 1, mostDelayMs: 5 };
    const producer = through(proxy).producer({ ...quick, mostLines: 10 });
    const aggregateId = 'outlived-1';
    for (let n = 0; n < 30; n++) await producer.send({ aggregateId, eventType: 'Noted', data: { n } });
    await Promise.all([producer.flush(), producer.flush()]);
    const inOrder = Array.from({ length: 30 }, (_, n) => n);
    assert.deepEqual(numbers(await all(client.events(aggregateId))), inOrder);
    assert.ok(proxy.seen.length > 25);

    proxy.fate = () => 'lose answer';
    const impatient = through(proxy).producer({ ...quick, deliveryTimeoutMs: 50, mostLines: 10 });
    for (let n = 30; n < 60; n++) await impatient.send({ aggregateId, eventType: 'Noted', data: { n } });
    const lost = await impatient.flush().catch((error: unknown) => error);
    assert.ok(lost instanceof NotStoredError);
    assert.deepEqual([lost.count, lost.failures.length], [30, 30]);
    for (const { error } of lost.failures) assert.ok(error instanceof UnreachableError);
    // What is told of is sent again with the keys that it had.
    for (const { event } of lost.failures) await producer.send(event);
    proxy.fate = () => 'pass';
    await producer.close();
    await impatient.close();
    const again = await all(client.events(aggregateId));
    assert.deepEqual(new Set(numbers(again)), new Set(Array.from({ length: 60 }, (_, n) => n)));
    assert.equal(again.length, 60);

    const refused = client.producer();
    await refused.send({ aggregateId, eventType: 'Noted', data: {}, expectedVersion: 1 });
    await assert.rejects(
      refused.close(),
      (error) => error instanceof NotStoredError && isRefused(error.failures[0]?.error, 'VERSION_CONFLICT'),
    );
    const ended = new AbortController();
    const calledOff = through(proxy).producer({ signal: ended.signal });
    proxy.fate = () => 'lose request';
    await calledOff.send({ aggregateId, eventType: 'Noted', data: {} });
    ended.abort(new Error('enough'));
    await assert.rejects(calledOff.close(), /1 event is not known to be stored; the first: enough/);
  });

  await subscriptions(t, service.url, api, client);
});

async function subscriptions(t: TestContext, url: string, api: Api, client: StatefoldClient): Promise<void> {
  const projectionId = await api.deployProjection({ 'Totals.cs': totals() }, { config: '{"sse":true}' });
  let appended = 0;
  const append = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i++)
      await client.append({
        aggregateId: `sum-${i % 5}`,
        eventType: 'Counted',
        data: { key: `k${i % 5}`, n: appended++ },
      });
  };
  /** One an event; of the newest ones they come a moment later. */
  const changes = async (): Promise<Notification[]> => {
    for (;;) {
      const query = { limit: 1000 };
      const { notifications } = await client.request('pollNotifications', { path: { id: projectionId }, query });
      if (notifications.length === appended) return notifications as Notification[];
    }
  };

  for (const channel of ['websocket', 'sse', 'poll'] satisfies Channel[])
    await t.test(`a subscription by ${channel} has each change once and in its order, whatever is cut`, async (t) => {
      const proxy = await lossyProxy(t, url);
      const lossy = new StatefoldClient({
        url: proxy.url,
        apiKey: API_KEY,
        retry: { firstDelayMs: 5, mostDelayMs: 50 },
      });
      const ended = new AbortController();
      const subscription = lossy.subscribe(projectionId, {
        channels: [channel],
        webSocket,
        signal: ended.signal,
        firstDelayMs: 5,
        mostDelayMs: 50,
      });
      const live = { websocket: /^UPGRADE .*stream/, sse: /^GET .*\/sse/, poll: /waitSeconds/ }[channel];
      const opened = (): number => proxy.seen.filter((one) => live.test(one)).length;
      const told: Notification[] = [];
      const reading = (async () => {
        for await (const change of subscription) told.push(change);
      })();
      for (let i = 0; i < 4; i++) {
        await append(10);
        const before = await changes();
        await until(() => told.length >= before.length);
        // By now all may have come by polls alone: a stream is opened once there is nothing to catch up with.
        await until(() => opened() > i);
        proxy.cut();
      }
      await append(10);
      const expected = await changes();
      await until(() => told.length >= expected.length);
      ended.abort();
      await reading;
      assert.deepEqual(told, expected);
      assert.equal(subscription.sequence, expected.at(-1)?.sequence);
    });

  for (const channel of ['websocket', 'sse'] satisfies Channel[])
    await t.test(`from the states by ${channel}, with tickets alone: all there is, whatever is cut`, async (t) => {
      const proxy = await lossyProxy(t, url);
      const asked: object[] = [];
      const places: string[] = [];
      const ended = new AbortController();
      const subscription = new StatefoldClient({ url: proxy.url }).subscribe<{ total: number }>(projectionId, {
        from: 'snapshot',
        key: ['k1', 'k3'],
        channels: [channel],
        webSocket: (address) => new WebSocket(address),
        ticket: async (wanted) => {
          asked.push(wanted);
          if (asked.length === 2) throw new Error('the backend is away');
          return (await client.request('createTicket', { body: { ...wanted, key: [...(wanted.key ?? [])] } })).ticket;
        },
        onSnapshot: (place) => places.push(place),
        signal: ended.signal,
        firstDelayMs: 5,
        mostDelayMs: 50,
      });
      const latest = new Map<string, unknown>();
      const told: Notification[] = [];
      const reading = (async () => {
        for await (const change of subscription) {
          told.push(change);
          latest.set(change.key, change.state);
        }
      })();
      const isThere = async (): Promise<boolean> => {
        const { states } = await client.request('listStates', { path: { id: projectionId }, query: { limit: 1000 } });
        return ['k1', 'k3'].every(
          (key) =>
            JSON.stringify(latest.get(key)) ===
            JSON.stringify(states.find((one) => one.key === key)?.state ?? undefined),
        );
      };
      await append(10);
      await until(() => places.includes('end'));
      await until(isThere);
      for (let i = 0; i < 3; i++) {
        proxy.cut();
        await append(10);
        await until(isThere);
      }
      ended.abort();
      await reading;
      assert.deepEqual(places, ['begin', 'end'], 'what was missed later came as changes');
      assert.ok(told.every(({ key }) => key === 'k1' || key === 'k3'));
      const live = told.filter(({ cause }) => cause !== 'snapshot').map(({ sequence }) => sequence);
      assert.deepEqual(
        live,
        [...new Set(live)].sort((a, b) => a - b),
        'each once, and in its order',
      );
      assert.ok(asked.length >= 4, 'a ticket for each connection');
      const path = `/projections/${projectionId}/${channel === 'sse' ? 'sse' : 'stream'}`;
      assert.deepEqual(asked[0], { path, key: ['k1', 'k3'] });
      assert.ok(proxy.seen.every((one) => !one.includes('/notifications')));
    });

  await t.test('a channel that does not work gives way to the next', async (t) => {
    const proxy = await lossyProxy(t, url);
    proxy.fate = ({ url: path = '' }) => (/\/(stream|sse)/.test(path) ? 'lose request' : 'pass');
    const channels: Channel[] = [];
    const subscription = new StatefoldClient({ url: proxy.url, apiKey: API_KEY }).subscribe(projectionId, {
      webSocket,
      from: (await changes()).at(-1)?.sequence ?? 0,
      firstDelayMs: 1,
      mostDelayMs: 5,
      onChannel: (channel) => channels.push(channel),
    });
    const next = subscription[Symbol.asyncIterator]().next();
    await until(() => channels.length === 2);
    await append(1);
    assert.equal((await next).value?.sequence, (await changes()).at(-1)?.sequence);
    assert.deepEqual(channels, ['sse', 'poll']);
    subscription.close();
  });

  for (const channel of ['websocket', 'sse', 'poll'] satisfies Channel[])
    await t.test(`from now by ${channel}: also what comes while no connection is open`, async (t) => {
      const proxy = await lossyProxy(t, url);
      let isAway = true;
      let tries = 0;
      // Where now is is asked by a page of one.
      proxy.fate = ({ url: path = '' }) => (/limit=1(?!\d)/.test(path) || (tries++, !isAway) ? 'pass' : 'lose request');
      const subscription = new StatefoldClient({ url: proxy.url, apiKey: API_KEY, retry: { attempts: 1 } }).subscribe(
        projectionId,
        { webSocket, from: 'now', channels: [channel], firstDelayMs: 1, mostDelayMs: 5 },
      );
      const before = (await changes()).length;
      const told: number[] = [];
      const reading = (async () => {
        for await (const { sequence } of subscription) told.push(sequence);
      })();
      await until(() => tries > 0);
      await append(3);
      isAway = false;
      await append(3);
      const expected = (await changes()).slice(before).map(({ sequence }) => sequence);
      await until(() => told.length >= expected.length);
      subscription.close();
      await reading;
      assert.deepEqual(told, expected);
    });

  await t.test('goes on behind the cursor that was committed, of one key', async () => {
    let kept: number | undefined;
    const cursor = {
      load: () => Promise.resolve(kept),
      save: (sequence: number) => Promise.resolve(void (kept = sequence)),
    };
    const known = await changes();
    const first: number[] = [];
    const subscription = client.subscribe(projectionId, { cursor });
    for await (const change of subscription) {
      first.push(change.sequence);
      if (first.length === 3) await subscription.commit(change);
      if (first.length === 5) break;
    }
    assert.deepEqual(
      first,
      known.slice(0, 5).map(({ sequence }) => sequence),
    );
    const again = client.subscribe(projectionId, { cursor });
    for await (const change of again) {
      assert.equal(change.sequence, known[3]?.sequence);
      await again.commit();
      break;
    }
    assert.equal(kept, known[3]?.sequence);
    const key = known[0]?.key ?? '';
    const ofKey = known.filter((change) => change.key === key).map(({ sequence }) => sequence);
    const found: number[] = [];
    for await (const { sequence } of client.subscribe(projectionId, { key })) {
      found.push(sequence);
      if (found.length === ofKey.length) break;
    }
    assert.deepEqual(found, ofKey);
    const live = client.subscribe(projectionId, { from: 'now', webSocket })[Symbol.asyncIterator]();
    const next = live.next();
    let settled = false;
    void next.then(() => (settled = true));
    // Whether the socket is open yet is not to be seen from here: one of these comes after it.
    while (!settled) await append(1);
    assert.ok(((await next).value?.sequence ?? 0) > (known.at(-1)?.sequence ?? 0));
    await live.return();
  });

  await t.test('ends with the refusal where to go on makes no sense', async () => {
    for (const channels of [['websocket'], ['sse'], ['poll']] satisfies Channel[][])
      await assert.rejects(
        client.subscribe('nothing', { channels, webSocket })[Symbol.asyncIterator]().next(),
        (error) => isRefused(error, 'NOT_FOUND'),
      );
    await client.request('deleteProjection', { path: { id: projectionId } });
    await assert.rejects(client.subscribe(projectionId)[Symbol.asyncIterator]().next(), (error) =>
      isRefused(error, 'NOT_FOUND'),
    );
  });
}
