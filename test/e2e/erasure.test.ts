import assert from 'node:assert/strict';
import test from 'node:test';
import { StatefoldClient } from '../../packages/client/src/index.js';
import { Api, newTenant, problem, success } from '../support/api.js';
import { statefold } from '../support/cli.js';
import { API_KEY, AS_ADMIN, sample, startService, temporaryDirectory, until, type Answer } from '../support/service.js';

const { 'AccountReducer.cs': reducer = '', 'Events.cs': events = '', 'Transfers.cs': transfers = '' } = sample('bank');

interface FeedPage {
  readonly events: readonly (
    | { readonly position: number; readonly eventId: string; readonly aggregateId: string; readonly data: unknown }
    | {
        readonly position: number;
        readonly type: 'erased';
        readonly aggregateId: string;
        readonly aggregateType: string;
        readonly reason?: string;
      }
  )[];
  readonly position: number;
}
interface Status {
  readonly erasedSinceBuild?: true;
  readonly live?: { readonly revision: number };
}

const transfer = (id: string, from: string, to: string, cents: number): object => ({
  appends: [
    { aggregateId: from, events: [{ eventType: 'TransferSent', data: { transferId: id, from, to, cents } }] },
    { aggregateId: to, events: [{ eventType: 'TransferReceived', data: { transferId: id, from, to, cents } }] },
  ],
});

test('erasure of an aggregate', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  let service = await startService(t, { dataDirectory });
  let api = new Api(service);
  const erase = (id: string, body?: object, query = ''): Promise<Answer> =>
    api.request('DELETE', `/aggregates/${id}${query}`, body === undefined ? {} : { body });
  let projection = '';

  await t.test('an unknown aggregate is 404; a key needs the scope, and a reason is told once', async () => {
    assert.equal(problem(await erase('account-none'), 404, 'NOT_FOUND').code, 'NOT_FOUND');
    await api.append('account-x', 'Opened', { owner: 'Xavier' });
    problem(await erase('account-x', { reason: 'a' }, '?reason=b'), 400, 'INVALID_REQUEST');
    problem(await erase('account-x', { reasons: 'a' }), 400, 'INVALID_REQUEST');
    const { apiKey } = success(
      await new Api(service, null).request('POST', '/admin/tenants/default/keys', {
        ...AS_ADMIN,
        body: { scopes: ['read', 'append'] },
      }),
      201,
    ).json<{ apiKey: string }>();
    problem(await new Api(service, apiKey).request('DELETE', '/aggregates/account-x'), 403, 'FORBIDDEN');
    const other = await newTenant(service, { tenantId: 'other', name: 'Other' });
    problem(await new Api(service, other).request('DELETE', '/aggregates/account-x'), 404, 'NOT_FOUND');
    assert.equal((await api.get('/events/account-x')).status, 200);
  });

  await t.test('it is gone for all who ask, and its id with it', async () => {
    await api.deployReducer({ 'AccountReducer.cs': reducer, 'Events.cs': events });
    projection = await api.deployProjection({ 'Transfers.cs': transfers, 'Events.cs': events });
    await api.append('account-ann', 'Opened', { owner: 'Ann-canary' }, {}, { 'idempotency-key': 'open-ann' });
    await api.append('account-bob', 'Opened', { owner: 'Bob' });
    await api.append('account-ann', 'Deposited', { cents: 5000 });
    success(await api.post('/events/transaction', transfer('t-1', 'account-ann', 'account-bob', 300)), 201);
    await api.append('account-bob', 'Deposited', { cents: 7 });

    const answer = success(await erase('account-ann', { reason: 'asked for by Ann' }), 202);
    assert.deepEqual(answer.json(), { aggregateId: 'account-ann', status: 'erasing' });
    for (const path of [
      '/events/account-ann',
      '/aggregate-types/account/account-ann/state',
      '/aggregate-types/account/account-ann/state?atVersion=1',
    ])
      problem(await api.get(path), 410, 'GONE');
    const event = { aggregateId: 'account-ann', eventType: 'Opened', data: { owner: 'Ann' } };
    problem(await api.post('/events', event), 410, 'GONE');
    problem(
      await api.post(
        '/events',
        { ...event, data: { owner: 'Ann-canary' } },
        { headers: { 'idempotency-key': 'open-ann' } },
      ),
      410,
      'GONE',
    );
    problem(await api.post('/events', { ...event, expectedVersion: 0 }), 410, 'GONE');
    problem(
      await api.post('/events/batch', { aggregateId: 'account-ann', events: [{ eventType: 'A', data: {} }] }),
      410,
      'GONE',
    );
    problem(await api.post('/events/transaction', transfer('t-2', 'account-bob', 'account-ann', 1)), 410, 'GONE');
    const bulk = success(
      await api.request('POST', '/events/bulk', {
        raw: `${JSON.stringify(event)}\n${JSON.stringify({ ...event, aggregateId: 'account-bob', eventType: 'Deposited', data: { cents: 1 } })}\n`,
        headers: { 'content-type': 'application/x-ndjson' },
      }),
      200,
    )
      .text.trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { status: number; code?: string });
    assert.deepEqual(
      bulk.map(({ status, code }) => [status, code]),
      [
        [410, 'GONE'],
        [201, undefined],
      ],
    );
    const { aggregates } = await api.read<{ aggregates: { aggregateId: string }[] }>('/aggregates');
    assert.deepEqual(
      aggregates.map(({ aggregateId }) => aggregateId),
      ['account-bob', 'account-x'],
    );
    await until(async () => success(await erase('account-ann'), 202).json<{ status: string }>().status === 'erased');
  });

  const told = async (query = ''): Promise<FeedPage['events']> =>
    (await api.read<FeedPage>(`/feed?limit=1000${query}`)).events;

  await t.test(
    'the feed has none of its events, and tells that it was erased; what others have of a transaction stays',
    async () => {
      const all = await told();
      assert.deepEqual(
        all.filter(({ aggregateId }) => aggregateId === 'account-ann').map((item) => 'type' in item && item.reason),
        ['asked for by Ann'],
      );
      assert.deepEqual((await told('&eventType=Deposited')).filter((item) => 'type' in item).length, 1);
      assert.deepEqual((await told('&aggregateType=order')).length, 0);
      const bob = await api.read<{ events: { eventType: string; version: number }[] }>('/events/account-bob');
      assert.deepEqual(
        bob.events.map(({ eventType, version }) => [eventType, version]),
        [
          ['Opened', 1],
          ['TransferReceived', 2],
          ['Deposited', 3],
          ['Deposited', 4],
        ],
      );
      const state = await api.read<{ state: { balance: number } }>('/aggregate-types/account/account-bob/state');
      assert.equal(state.state.balance, 308);
    },
  );

  await t.test('a projection says that it may hold it, until it is built again', async () => {
    const status = (): Promise<Status> => api.read<Status>(`/projections/${projection}/status`);
    await until(async () => (await status()).erasedSinceBuild === true);
    const states = async (): Promise<string> => JSON.stringify(await api.read(`/projections/${projection}/states`));
    assert.match(await states(), /account-ann/);
    success(await api.post(`/projections/${projection}/rebuild`), 202);
    await until(async () => (await status()).live?.revision === 2);
    assert.equal((await status()).erasedSinceBuild, undefined);
    // Bob's side of the transfer names her: what other aggregates say of one is theirs.
    assert.match(await states(), /"complete":false/);
  });

  await t.test('the command asks first, and does it then; so does the client', async () => {
    const run = (...args: string[]): ReturnType<typeof statefold> =>
      statefold({ STATEFOLD_URL: service.url, STATEFOLD_API_KEY: API_KEY }, dataDirectory, 'erase', ...args);
    assert.equal((await run('account-x')).code, 1, 'nobody confirmed it');
    assert.equal((await api.get('/events/account-x')).status, 200);
    const { code, out } = await run('account-x', '--reason', 'a mistake', '--yes');
    assert.equal(code, 0);
    assert.match(out, /^The aggregate account-x is gone/);
    problem(await api.get('/events/account-x'), 410, 'GONE');
    assert.equal((await run('account-none', '--yes')).code, 1);
    const client = new StatefoldClient({ url: service.url, apiKey: API_KEY });
    const again = await client.erase('account-x', { reason: 'a mistake' });
    assert.equal(again.aggregateId, 'account-x');
    await client.append({ aggregateId: 'account-y', eventType: 'Opened', data: {} });
    assert.equal((await client.erase('account-y')).status, 'erasing');
    await assert.rejects(client.erase('account-none'), /there is no aggregate/);
  });

  await t.test('it stays so after a restart, on a log from which its records are gone', async () => {
    await service.stop();
    service = await startService(t, { dataDirectory });
    api = new Api(service);
    problem(await api.get('/events/account-ann'), 410, 'GONE');
    problem(await api.post('/events', { aggregateId: 'account-ann', eventType: 'A', data: {} }), 410, 'GONE');
    assert.equal((await told()).filter((item) => 'type' in item).length, 3);
    assert.equal((await api.get('/events/account-bob')).status, 200);
  });
});
