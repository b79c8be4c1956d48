// Webhook endpoints by the client package, against the real service and a receiver; each message is verified by the package, too.
import assert from 'node:assert/strict';
import test from 'node:test';
import {
  isRefused,
  StatefoldClient,
  verifyWebhook,
  type FeedEvent,
  type Notification,
} from '../../packages/client/src/index.js';
import type { Delivery } from '../support/api-channels.js';
import { lossyProxy } from '../support/lossy-proxy.js';
import { API_KEY, until } from '../support/service.js';
import { World } from '../support/webhook-world.js';

const all = async <T>(items: AsyncIterable<T>): Promise<T[]> => {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
};

test('endpoints by the client', async (t) => {
  const world = await World.open(t, { WEBHOOK_RETRY_SECONDS: '0,0' });
  const { receiver } = world;
  const client = new StatefoldClient({ url: world.service.url, apiKey: API_KEY });
  const { endpoints } = client;
  const body = ({ body }: Delivery): string => body;

  const made = await endpoints.create({
    url: `${receiver.url}/events`,
    source: { feed: { aggregateTypes: ['a'] } },
    from: 'start',
    isolateSecret: true,
    description: 'of the client',
  });
  const id = made.endpointId;

  await t.test('one of the feed is made, told of events, and they are verified', async () => {
    await world.add('x');
    await world.api.append('b-1', 'Added', { key: 'x', n: 1 });
    await world.add('y');
    await until(() => receiver.of('/events').length === 2);
    const messages = await Promise.all(
      receiver
        .of('/events')
        .map((one) =>
          verifyWebhook<{ type: string; data: FeedEvent }>(body(one), one.headers, { secret: made.secret }),
        ),
    );
    const { events } = await client.feed.read({ aggregateType: 'a' });
    assert.deepEqual(
      messages.map(({ payload }) => payload.data).sort((a, b) => a.position - b.position),
      events,
    );
    assert.ok(messages.every(({ payload }) => payload.type === 'event.appended'));
  });

  await t.test('listed, shown, changed, paused and resumed', async () => {
    const others = await Promise.all(
      ['/1', '/2'].map((path) =>
        endpoints.create({ url: receiver.url + path, source: { projectionId: world.projectionId }, keys: ['k'] }),
      ),
    );
    assert.deepEqual(
      (await all(endpoints.list())).map(({ endpointId }) => endpointId),
      [id, ...others.map(({ endpointId }) => endpointId)].sort(),
    );
    for (const { endpointId } of others) await endpoints.delete(endpointId);
    await assert.rejects(endpoints.get(others[0]?.endpointId ?? ''), (error) => isRefused(error, 'NOT_FOUND'));
    const changed = await endpoints.change(id, { description: null, headers: { 'x-team': 'orders' } });
    assert.deepEqual([changed.description, changed.headerNames, changed.secret], [undefined, ['x-team'], undefined]);
    assert.equal((await endpoints.pause(id)).state.status, 'paused');
    const before = receiver.of('/events').length;
    await world.add('z');
    assert.equal((await endpoints.get(id)).state.status, 'paused');
    assert.equal((await endpoints.resume(id)).state.status, 'healthy');
    await until(() => receiver.of('/events').length === before + 1);
    assert.equal(receiver.of('/events').at(-1)?.headers['x-team'], 'orders');
  });

  await t.test('tested, and rotated: the message of a test is signed with both secrets', async () => {
    const { secret, isolated } = await endpoints.rotate(id);
    assert.equal(isolated, true);
    const tested = await endpoints.test(id);
    assert.deepEqual([tested.delivered, tested.status], [true, 200]);
    const message: Delivery | undefined = receiver
      .of('/events')
      .find(({ headers }) => headers['webhook-id'] === tested.messageId);
    const types = await Promise.all(
      [secret, made.secret].map(async (one) => {
        const { payload } = await verifyWebhook<{ type: string }>(message?.body ?? '', message?.headers ?? {}, {
          secret: one,
        });
        return payload.type;
      }),
    );
    assert.deepEqual(types, ['endpoint.test', 'endpoint.test']);
  });

  await t.test('what was given up is parked and sent again, and a range is replayed', async () => {
    receiver.statuses.set('/events', 500);
    await world.add('given-up');
    await until(async () => (await all(endpoints.parked(id))).length === 1);
    const failed = await all(endpoints.attempts(id, { status: '5xx' }));
    assert.deepEqual(
      failed.map(({ attempt, status }) => [attempt, status]),
      [3, 2, 1].map((attempt) => [attempt, 500]),
    );
    receiver.statuses.set('/events', 200);
    const [parked] = await all(endpoints.parked(id));
    const { from, to } = await endpoints.resend(id, parked?.messageId ?? '');
    assert.deepEqual([from, to], [parked?.position, parked?.position]);
    await until(async () => (await all(endpoints.parked(id))).length === 0);
    assert.equal((await endpoints.resendAll(id, { since: '2020-01-01T00:00:00Z' })).messages, 0);
    await assert.rejects(endpoints.retry(id, parked?.messageId ?? ''), (error) => isRefused(error, 'NOT_FOUND'));
    const before = receiver.of('/events').length;
    const range = await endpoints.replay(id, { from: 1 });
    await until(() => receiver.of('/events').length === before + 4);
    assert.equal(range.from, 1);
    assert.ok((await all(endpoints.attempts(id, { status: 'delivered' }))).length >= 4);
    await assert.rejects(endpoints.replay(id, { from: 9, to: 1 }), (error) => isRefused(error, 'INVALID_REQUEST'));
  });

  await t.test('one of a projection says the changes that a subscription says', async () => {
    const { secret, endpointId } = await endpoints.create({
      url: `${receiver.url}/changes`,
      source: { projectionId: world.projectionId },
      keys: ['x'],
      from: 'start',
    });
    const polled = async (): Promise<readonly Notification[]> =>
      (
        await world.api.read<{ notifications: Notification[] }>(
          `/projections/${world.projectionId}/notifications?key=x`,
        )
      ).notifications;
    const before = (await polled()).length;
    await world.add('x');
    await until(async () => (await polled()).length > before);
    const notifications = await polled();
    await until(() => receiver.of('/changes').length >= notifications.length);
    const told = await Promise.all(
      receiver.of('/changes').map((one) => verifyWebhook<{ data: Notification }>(body(one), one.headers, { secret })),
    );
    assert.deepEqual(
      told.map(({ payload }) => payload.data),
      notifications,
    );
    await assert.rejects(endpoints.rotate(endpointId), (error) => isRefused(error, 'WEBHOOK_SECRET_SHARED'));
  });

  await t.test('what may be repeated is, over a link that loses answers; what may not is sent once', async (t) => {
    const proxy = await lossyProxy(t, world.service.url);
    const lossy = new StatefoldClient({ url: proxy.url, apiKey: API_KEY, retry: { firstDelayMs: 1 } });
    proxy.fate = (_, number) => (number % 2 === 0 ? 'lose answer' : 'pass');
    assert.equal((await lossy.endpoints.pause(id)).state.status, 'paused');
    assert.equal((await lossy.endpoints.resume(id)).state.status, 'healthy');
    assert.equal((await lossy.endpoints.get(id)).endpointId, id);
    const { length } = await all(endpoints.list());
    proxy.fate = () => 'lose answer';
    await assert.rejects(
      lossy.endpoints.create({ url: `${receiver.url}/once`, source: { projectionId: world.projectionId } }),
      /cannot be reached/,
    );
    assert.equal((await all(endpoints.list())).length, length + 1);
  });
});
