// Every method of the client against the real service, over a link that loses answers: what may be repeated is, and comes to its end;
// what may not is sent once.
import assert from 'node:assert/strict';
import test from 'node:test';
import { isRefused, StatefoldClient, UnreachableError } from '../../packages/client/src/index.js';
import { tally } from '../support/csharp.js';
import { lossyProxy } from '../support/lossy-proxy.js';
import { API_KEY, until } from '../support/service.js';
import { World } from '../support/webhook-world.js';

const all = async <T>(items: AsyncIterable<T>): Promise<T[]> => {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
};

/** They hold connections open, and are cut in the tests of the client and of its feed. */
const LIVE = ['subscribe', 'producer', 'feed.subscribe'];

/** Names of all that the client can do. */
function methodsOf(client: StatefoldClient): string[] {
  const parts = { '': client, ...{ feed: client.feed, endpoints: client.endpoints } };
  const more = { eventTypes: client.eventTypes, sqlAccounts: client.sqlAccounts };
  return Object.entries<object>({ ...parts, ...more }).flatMap(([part, of]) =>
    Object.getOwnPropertyNames(Object.getPrototypeOf(of))
      .filter((name) => name !== 'constructor')
      .map((name) => (part === '' ? name : `${part}.${name}`)),
  );
}

test('every method of the client, over a link that loses answers', async (t) => {
  const w = await World.open(t, { WEBHOOK_RETRY_SECONDS: '3600', READ_STORE: 'clickhouse' });
  await w.api.deployReducer({ 'Tally.cs': tally('a') });
  const proxy = await lossyProxy(t, w.service.url);
  const client = new StatefoldClient({ url: proxy.url, apiKey: API_KEY, retry: { firstDelayMs: 1 } });
  const { feed, endpoints, eventTypes, sqlAccounts } = client;
  const noted = { eventType: 'Noted', data: {} };
  await w.api.append('a-old', 'Noted', {});
  const endpoint = await w.create('/hook');
  const { endpointId: id } = endpoint;
  const doomed = await w.create('/doomed');
  w.receiver.answers.set('/hook', () => ({ status: 500 }));
  await w.add();
  await until(async () => (await w.attempts(endpoint)).length > 0);
  const messageId = (await w.attempts(endpoint))[0]?.messageId ?? '';

  /** What each gives, or what it comes to; in this order. */
  const repeated: Readonly<Record<string, () => Promise<unknown>>> = {
    append: async () => assert.equal((await client.append({ aggregateId: 'a-1', ...noted })).version, 1),
    appendBatch: async () =>
      assert.equal((await client.appendBatch({ aggregateId: 'a-1', events: [noted, noted] })).endVersion, 3),
    appendTransaction: async () => {
      const appends = ['a-1', 'a-2'].map((aggregateId) => ({ aggregateId, events: [noted] }));
      const stored = await client.appendTransaction({ appends });
      assert.deepEqual(
        stored.appends.map(({ endVersion }) => endVersion),
        [4, 1],
      );
    },
    events: async () => assert.equal((await all(client.events('a-1'))).length, 4),
    state: async () => assert.equal((await client.state('a-1')).version, 4),
    decide: async () => assert.equal((await client.decide('a-1', () => [noted]))?.endVersion, 5),
    request: async () => assert.equal((await client.request('whoami')).tenantId, 'default'),
    sql: async () => assert.deepEqual(await client.sql('SELECT 1 AS n'), [{ n: 1 }]),
    sqlText: async () => assert.equal((await client.sqlText('SELECT 1', 'CSV')).text, '1\n'),
    erase: async () => assert.match((await client.erase('a-old')).status, /^eras/),
    'feed.read': async () => assert.equal((await feed.read({ limit: 1 })).events.length, 1),
    'feed.events': async () => assert.equal((await all(feed.events({ eventType: 'Noted' }))).length, 6),
    'feed.newest': async () => assert.ok((await feed.newest()) > 0),
    'endpoints.list': async () => assert.equal((await all(endpoints.list())).length, 2),
    'endpoints.get': async () => assert.equal((await endpoints.get(id)).endpointId, id),
    'endpoints.delete': () => endpoints.delete(doomed.endpointId),
    'endpoints.pause': async () => assert.equal((await endpoints.pause(id)).state.status, 'paused'),
    'endpoints.resume': async () => assert.notEqual((await endpoints.resume(id)).state.status, 'paused'),
    'endpoints.attempts': async () => assert.ok((await all(endpoints.attempts(id))).length > 0),
    'endpoints.parked': async () => assert.deepEqual(await all(endpoints.parked(id)), []),
    'eventTypes.set': async () => assert.equal((await eventTypes.set('Noted', { type: 'object' })).eventType, 'Noted'),
    'eventTypes.check': async () => assert.equal((await eventTypes.check('Noted', true)).eventType, 'Noted'),
    'eventTypes.list': async () =>
      assert.ok((await all(eventTypes.list())).some(({ eventType }) => eventType === 'Noted')),
    'eventTypes.get': async () => assert.equal((await eventTypes.get('Noted')).eventType, 'Noted'),
    'eventTypes.end': () => eventTypes.end('Noted'),
    // Without a server of its own there are none to be had, which is an answer too.
    'sqlAccounts.list': () => assert.rejects(all(sqlAccounts.list()), (error) => isRefused(error, 'SQL_NOT_ISOLATED')),
    'sqlAccounts.delete': () => sqlAccounts.delete('none'),
  };
  const once: Readonly<Record<string, () => Promise<unknown>>> = {
    'endpoints.create': () =>
      endpoints.create({ url: `${w.receiver.url}/once`, source: { projectionId: w.projectionId } }),
    'endpoints.change': () => endpoints.change(id, { description: 'changed' }),
    'endpoints.rotate': () => endpoints.rotate(id),
    'endpoints.test': () => endpoints.test(id),
    'endpoints.retry': () => endpoints.retry(id, messageId),
    'endpoints.resend': () => endpoints.resend(id, messageId),
    'endpoints.resendAll': () => endpoints.resendAll(id),
    'endpoints.replay': () => endpoints.replay(id, { from: 1 }),
    'sqlAccounts.create': () => sqlAccounts.create({ name: 'once' }),
  };

  await t.test('each is here', () => {
    assert.deepEqual([...LIVE, ...Object.keys(repeated), ...Object.keys(once)].sort(), methodsOf(client).sort());
  });
  for (const [name, ask] of Object.entries(repeated))
    await t.test(`${name} is repeated`, async () => {
      const { length } = proxy.seen;
      // The first request of a kind is answered, and nobody hears of it.
      const asked = new Set<string>();
      proxy.fate = ({ method, url }) => {
        const what = `${method} ${url}`;
        if (asked.has(what)) return 'pass';
        asked.add(what);
        return 'lose answer';
      };
      await ask();
      assert.ok(proxy.seen.length >= length + 2, 'it was asked once');
    });
  for (const [name, ask] of Object.entries(once))
    await t.test(`${name} is sent once`, async () => {
      const { length } = proxy.seen;
      proxy.fate = () => 'lose answer';
      await assert.rejects(ask, UnreachableError);
      assert.equal(proxy.seen.length, length + 1);
    });
});
