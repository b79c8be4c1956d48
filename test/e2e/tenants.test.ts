import assert from 'node:assert/strict';
import test from 'node:test';
import { SCOPES } from '../../src/core/scopes.js';
import { Api, problem, success, TIMESTAMP, UUIDV7, type Listed } from '../support/api.js';
import { openEvents, openSocket, refusedUpgrade } from '../support/api-channels.js';
import { tally, totals } from '../support/csharp.js';
import { ADMIN_KEY, API_KEY, startService, temporaryDirectory, until, type Answer } from '../support/service.js';

interface NewTenant {
  readonly tenantId: string;
  readonly name: string;
  readonly createdAt: string;
  readonly keyId: string;
  readonly apiKey: string;
}
interface NewKey {
  readonly keyId: string;
  readonly tenantId: string;
  readonly prefix: string;
  readonly createdAt: string;
  readonly apiKey: string;
  readonly revokedAt?: string;
}

/** What a client can tell two answers by, but for the id that it asked for itself. */
function visible(answer: Answer, id: string): object {
  const headers = Object.fromEntries([...answer.headers].filter(([name]) => !['date', 'x-request-id'].includes(name)));
  return {
    status: answer.status,
    headers,
    body: answer.text.replaceAll(id, '<id>').replace(/"requestId":"[^"]*"/, '"requestId":""'),
  };
}

test('tenants', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  let service = await startService(t, { readStore: true, dataDirectory });
  const api = new Api(service);
  const admin = (method: string, path: string, body?: unknown, key = ADMIN_KEY): Promise<Answer> =>
    new Api(service, null).request(method, path, {
      ...(body === undefined ? {} : { body }),
      headers: { 'x-admin-key': key },
    });
  const create = async (body: object): Promise<NewTenant> =>
    success(await admin('POST', '/admin/tenants', body), 201).json<NewTenant>();
  const as = (apiKey: string): Api => new Api(service, apiKey);

  await t.test('what is misspelt is told, and changes nothing', async () => {
    problem(await admin('POST', '/admin/tenants', { tenantId: 'parted', partition: 8 }), 400, 'INVALID_REQUEST');
    problem(await admin('GET', '/admin/tenants/parted/keys'), 404, 'NOT_FOUND');
    const refused = problem(await admin('POST', '/admin/read-store/rebuild?tenant=default'), 400, 'INVALID_REQUEST');
    assert.match(refused.detail, /tenant is not a known query parameter; did you mean "tenantId"\?/);
    problem(await admin('DELETE', '/admin/read-store/rebuild?tenantId=default'), 400, 'INVALID_REQUEST');
    problem(
      await api.post('/events?expectedVersion=3', { aggregateId: 'misspelt-1', eventType: 'E', data: {} }),
      400,
      'INVALID_REQUEST',
    );
    problem(await api.get('/events/misspelt-1'), 404, 'NOT_FOUND');
  });

  await t.test('one that is deleted while it is being opened can be made again at once', async () => {
    for (let round = 0; round < 12; round++) {
      const { tenantId, apiKey } = await create({ tenantId: 'again', name: `round ${round}` });
      const opening = as(apiKey).post('/events', { aggregateId: 'a-1', eventType: 'E', data: {} });
      const deleted = await admin('DELETE', `/admin/tenants/${tenantId}`);
      assert.equal(deleted.status, 204);
      assert.ok([201, 401, 404, 503].includes((await opening).status));
      const next = await create({ tenantId, name: 'made again' });
      // A task that is still being closed answers 503 for a moment, which says to try again.
      const append = (): Promise<Answer> =>
        as(next.apiKey).post('/events', { aggregateId: 'a-1', eventType: 'E', data: {}, expectedVersion: 0 });
      let answer = await append();
      await until(async () => answer.status !== 503 || (answer = await append()).status !== 503);
      assert.equal(success(answer, 201).json<{ version: number }>().version, 1);
      assert.equal((await admin('DELETE', `/admin/tenants/${tenantId}`)).status, 204);
    }
  });

  await t.test('a key tells its tenant', async () => {
    const { scopes, ...me } = await api.read<Record<string, string>>('/auth/whoami');
    assert.deepEqual(Object.keys(me), ['tenantId', 'name', 'createdAt']);
    assert.deepEqual(scopes, SCOPES);
    assert.deepEqual([me['tenantId'], me['name']], ['default', 'default']);
    assert.match(me['createdAt'] ?? '', TIMESTAMP);
    for (const key of [
      null,
      'wrong',
      '',
      `${API_KEY} `,
      `${API_KEY}x`,
      API_KEY.slice(0, -1),
      ADMIN_KEY,
      'k'.repeat(5000),
    ]) {
      const refused = await as('').get('/auth/whoami', { key });
      // Header values are trimmed by the client, so the key with a space behind it is the key.
      if (key === `${API_KEY} `) success(refused, 200);
      else problem(refused, 401, 'UNAUTHENTICATED');
      if (refused.status === 401) assert.match(refused.headers.get('www-authenticate') ?? '', /^ApiKey/);
    }
    for (const path of [
      '/events/x',
      '/aggregates',
      '/aggregate-types',
      '/aggregate-types/a',
      '/aggregate-types/a/b/state',
      '/reducers',
      '/reducers/x/status',
      '/projections',
      '/projections/x/status',
      '/projections/x/states',
      '/projections/x/states/k',
      '/projections/x/notifications',
      '/projections/x/stream',
      '/projections/x/sse',
    ])
      problem(await api.get(path, { key: null }), 401, 'UNAUTHENTICATED');
    for (const path of [
      '/events',
      '/events/batch',
      '/reducers/upload',
      '/projections/upload',
      '/projections/x/webhook/rotate',
      '/webhooks/rotate',
    ])
      problem(await api.post(path, {}, { key: null }), 401, 'UNAUTHENTICATED');
    assert.deepEqual((await api.get('/health', { key: null })).json(), { status: 'ok' });
  });

  await t.test('the admin interface takes the admin key alone', async () => {
    for (const [method, path] of [
      ['GET', '/admin/tenants'],
      ['POST', '/admin/tenants'],
      ['GET', '/admin/tenants/default'],
      ['DELETE', '/admin/tenants/default'],
      ['GET', '/admin/tenants/default/keys'],
      ['POST', '/admin/tenants/default/keys'],
      ['DELETE', '/admin/tenants/default/keys/x'],
      ['GET', '/admin/read-store'],
      ['POST', '/admin/read-store/rebuild'],
      ['DELETE', '/admin/read-store/rebuild'],
      ['GET', '/metrics'],
    ] as const) {
      problem(await admin(method, path, undefined, 'wrong'), 401, 'UNAUTHENTICATED');
      problem(await api.request(method, path), 401, 'UNAUTHENTICATED');
    }
  });

  let ada: NewTenant;
  let bob: NewTenant;
  await t.test('tenants and keys are created, listed and refused', async () => {
    ada = await create({ name: 'Ada & \u{1f600}' });
    assert.deepEqual(Object.keys(ada), ['tenantId', 'name', 'createdAt', 'keyId', 'apiKey']);
    assert.match(ada.tenantId, UUIDV7);
    assert.match(ada.apiKey, /^sf_[0-9A-Za-z]{8}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$/);
    bob = await create({ tenantId: 'bob' });
    assert.deepEqual([bob.tenantId, bob.name], ['bob', 'bob']);
    problem(await admin('POST', '/admin/tenants', { tenantId: 'bob' }), 409, 'ALREADY_EXISTS');
    for (const bad of [
      {},
      { tenantId: 'Bob' },
      { tenantId: '' },
      { tenantId: '-a' },
      { tenantId: 'a'.repeat(65) },
      { tenantId: 'a/b' },
      { name: '' },
      { name: 'n'.repeat(257) },
      { name: 1 },
      [],
      null,
    ])
      problem(await admin('POST', '/admin/tenants', bad), 400, 'INVALID_REQUEST');
    const { tenants } = (await admin('GET', '/admin/tenants')).json<{ tenants: { tenantId: string }[] }>();
    assert.deepEqual(tenants.map(({ tenantId }) => tenantId).sort(), [ada.tenantId, 'bob', 'default'].sort());
    assert.ok(!JSON.stringify(tenants).includes('whsec_') && !JSON.stringify(tenants).includes('sealed'));
    const page = (await admin('GET', '/admin/tenants?limit=2')).json<{ tenants: object[]; nextCursor: string }>();
    assert.equal(
      (await admin('GET', `/admin/tenants?limit=2&cursor=${page.nextCursor}`)).json<{ tenants: object[] }>().tenants
        .length,
      1,
    );
    assert.deepEqual((await admin('GET', '/admin/tenants/bob')).json(), {
      tenantId: 'bob',
      name: 'bob',
      createdAt: bob.createdAt,
    });
    for (const [method, path] of [
      ['GET', ''],
      ['DELETE', ''],
      ['GET', '/keys'],
      ['POST', '/keys'],
      ['DELETE', '/keys/x'],
    ] as const)
      problem(await admin(method, `/admin/tenants/nobody${path}`), 404, 'NOT_FOUND');
    assert.deepEqual(await as(ada.apiKey).read('/auth/whoami'), {
      tenantId: ada.tenantId,
      name: ada.name,
      createdAt: ada.createdAt,
      scopes: [...SCOPES],
    });
    const second = success(await admin('POST', '/admin/tenants/bob/keys'), 201).json<NewKey>();
    assert.deepEqual(await as(second.apiKey).read('/auth/whoami'), await as(bob.apiKey).read('/auth/whoami'));
    const { keys } = (await admin('GET', '/admin/tenants/bob/keys')).json<{ keys: NewKey[] }>();
    assert.deepEqual(
      keys.map(({ keyId }) => keyId),
      [bob.keyId, second.keyId],
    );
    assert.ok(keys.every((key) => !('apiKey' in key) && !('hash' in key) && second.apiKey.startsWith(second.prefix)));
  });

  let reducerId = '';
  let projectionId = '';
  await t.test('tenants share nothing: the same ids are two things', async () => {
    const [a, b] = [as(ada.apiKey), as(bob.apiKey)];
    reducerId = await a.deployReducer({ 'Tally.cs': tally('same') });
    projectionId = await a.deployProjection({ 'Totals.cs': totals() }, { config: '{"sse":true}' });
    assert.equal((await a.append('same-1', 'A', { key: 'x', n: 1 })).version, 1);
    const other = await b.append('same-1', 'B', { key: 'x', n: 7 });
    assert.deepEqual([other.version, other.state], [1, undefined]);
    assert.deepEqual(
      (await b.read<Listed>('/events/same-1')).events.map(({ eventType }) => eventType),
      ['B'],
    );
    await b.append('only-bob', 'B');
    problem(await a.get('/events/only-bob'), 404, 'NOT_FOUND');
    assert.deepEqual(
      (await a.notifications(projectionId, 1)).map(({ state }) => state),
      [{ total: 1 }],
    );
    for (const [path, member] of [
      ['/reducers', 'reducers'],
      ['/projections', 'projections'],
    ] as const) {
      assert.equal((await a.read<Record<string, object[]>>(path))[member]?.length, 1);
      assert.deepEqual(await b.read(path), { [member]: [] });
    }
    assert.deepEqual(
      (await a.read<{ aggregates: { aggregateId: string }[] }>('/aggregates')).aggregates.map(
        ({ aggregateId }) => aggregateId,
      ),
      ['same-1'],
    );
    problem(await b.get('/aggregate-types/same/same-1/state'), 404, 'NO_REDUCER_BOUND');
    // The idempotency keys of one tenant are not those of another.
    const keyed = (client: Api): Promise<Answer> =>
      client.post(
        '/events',
        { aggregateId: 'keyed-1', eventType: 'K', data: {} },
        { headers: { 'idempotency-key': 'same' } },
      );
    assert.notEqual(
      success(await keyed(a), 201).json<{ eventId: string }>().eventId,
      success(await keyed(b), 201).json<{ eventId: string }>().eventId,
    );
  });

  await t.test('a foreign id answers what a missing one does, byte for byte', async () => {
    const b = as(bob.apiKey);
    const missing = '01890a5d-ac96-774b-bcce-b302099a8057';
    const asked: readonly (readonly [name: string, own: string, ask: (id: string) => Promise<Answer>])[] = [
      ...['status'].map(
        (path) => [`reducer ${path}`, reducerId, (id: string) => b.get(`/reducers/${id}/${path}`)] as const,
      ),
      ...['status', 'states', 'states/x', 'notifications', 'notifications?waitSeconds=1', 'sse', 'stream'].map(
        (path) => [path, projectionId, (id: string) => b.get(`/projections/${id}/${path}`)] as const,
      ),
      ['delete', projectionId, (id) => b.delete(`/projections/${id}`)],
      ['rotate', projectionId, (id) => b.post(`/projections/${id}/webhook/rotate`)],
      ['bind', reducerId, (id) => b.put('/aggregate-types/same', { reducerId: id })],
      [
        'bind with a class',
        reducerId,
        (id) => b.put('/aggregate-types/same', { reducerId: id, className: 'Tests.Tally' }),
      ],
      ['redeploy', projectionId, (id) => b.upload('projections', { 'Totals.cs': totals() }, { projectionId: id })],
    ];
    for (const [name, own, ask] of asked) {
      const foreign = await ask(own);
      problem(foreign, 404, 'NOT_FOUND');
      assert.deepEqual(visible(foreign, own), visible(await ask(missing), missing), name);
    }
    const upgrade = async (id: string): Promise<object> => {
      const { status, problem: body } = await refusedUpgrade(`${service.url}/projections/${id}/stream`, {
        'x-api-key': bob.apiKey,
      });
      return JSON.parse(JSON.stringify({ status, ...body, requestId: '' }).replaceAll(id, '<id>')) as object;
    };
    assert.deepEqual(await upgrade(projectionId), await upgrade(missing));
    // Keys of a tenant under the path of another.
    const ofBob = await admin('DELETE', `/admin/tenants/${ada.tenantId}/keys/${bob.keyId}`);
    problem(ofBob, 404, 'NOT_FOUND');
    assert.deepEqual(
      visible(ofBob, bob.keyId),
      visible(await admin('DELETE', `/admin/tenants/${ada.tenantId}/keys/${missing}`), missing),
    );
    assert.equal(
      (await as(ada.apiKey).read<{ status: string }>(`/projections/${projectionId}/status`)).status,
      'compiled',
    );
  });

  await t.test('a revoked key is refused at once, and what it opened is closed', async () => {
    const second = success(await admin('POST', `/admin/tenants/${ada.tenantId}/keys`), 201).json<NewKey>();
    const [first, revoked] = [as(ada.apiKey), as(second.apiKey)];
    const [kept, closed] = [await openSocket(t, first, projectionId), await openSocket(t, revoked, projectionId)];
    const events = await openEvents(t, revoked, projectionId);
    success(await admin('DELETE', `/admin/tenants/${ada.tenantId}/keys/${second.keyId}`), 204);
    assert.equal(await closed.closed, 4401);
    await events.ended;
    problem(await revoked.get('/auth/whoami'), 401, 'UNAUTHENTICATED');
    problem(await revoked.post('/events', { aggregateId: 'x', eventType: 'X', data: {} }), 401, 'UNAUTHENTICATED');
    assert.equal(
      (await refusedUpgrade(`${service.url}/projections/${projectionId}/stream`, { 'x-api-key': second.apiKey }))
        .status,
      401,
    );
    await first.append('same-1', 'A', { key: 'x', n: 1 });
    await kept.received(1);
    kept.close();
    success(await admin('DELETE', `/admin/tenants/${ada.tenantId}/keys/${second.keyId}`), 204);
    const { keys } = (await admin('GET', `/admin/tenants/${ada.tenantId}/keys`)).json<{ keys: NewKey[] }>();
    assert.match(keys.find(({ keyId }) => keyId === second.keyId)?.revokedAt ?? '', TIMESTAMP);
  });

  await t.test('a deleted tenant takes all that it had, and its id can be used afresh', async () => {
    const carl = await create({ tenantId: 'carl' });
    const c = as(carl.apiKey);
    await c.deployReducer({ 'Tally.cs': tally('same') });
    const projection = await c.deployProjection({ 'Totals.cs': totals() });
    for (let i = 0; i < 3; i++) await c.append('same-1', 'A', { key: 'x', n: 1 });
    const socket = await openSocket(t, c, projection);
    success(await admin('DELETE', '/admin/tenants/carl'), 204);
    await socket.closed;
    problem(await c.get('/auth/whoami'), 401, 'UNAUTHENTICATED');
    problem(await admin('GET', '/admin/tenants/carl'), 404, 'NOT_FOUND');
    problem(await admin('DELETE', '/admin/tenants/carl'), 404, 'NOT_FOUND');
    const again = await create({ tenantId: 'carl' });
    problem(await c.get('/auth/whoami'), 401, 'UNAUTHENTICATED');
    const fresh = as(again.apiKey);
    assert.deepEqual(
      [
        await fresh.read('/aggregates'),
        await fresh.read('/reducers'),
        await fresh.read('/projections'),
        await fresh.read('/aggregate-types'),
      ],
      [{ aggregates: [] }, { reducers: [] }, { projections: [] }, { aggregateTypes: [] }],
    );
    const first = await fresh.append('same-1', 'A', { key: 'x', n: 1 });
    assert.deepEqual([first.version, first.state], [1, undefined]);
    const rebuilt = await fresh.deployProjection({ 'Totals.cs': totals() });
    assert.deepEqual(
      (await fresh.notifications(rebuilt, 1)).map(({ state, version }) => [state, version]),
      [[{ total: 1 }, 1]],
    );
  });

  await t.test('all of it outlives a kill', async () => {
    await service.kill();
    service = await startService(t, { dataDirectory });
    assert.equal((await as(ada.apiKey).read<{ tenantId: string }>('/auth/whoami')).tenantId, ada.tenantId);
    const { tenants } = (await admin('GET', '/admin/tenants')).json<{ tenants: { tenantId: string }[] }>();
    assert.deepEqual(tenants.map(({ tenantId }) => tenantId).sort(), [ada.tenantId, 'bob', 'carl', 'default'].sort());
    const { keys } = (await admin('GET', `/admin/tenants/${ada.tenantId}/keys`)).json<{ keys: NewKey[] }>();
    assert.deepEqual(
      keys.map(({ revokedAt }) => revokedAt === undefined),
      [true, false],
    );
  });
});
