// What the streams of projections and of the feed have for pages in a browser: filters by key, the states first, tickets, origins.
import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { admin, Api, newTenant, problem, success, type Notification } from '../support/api.js';
import { refusedUpgrade } from '../support/api-channels.js';
import { totals } from '../support/csharp.js';
import { API_KEY, startService, until, type Service } from '../support/service.js';
import { openKeyed, openStream, refusalOf, snapshotOf, ticketFor, type StreamKind } from '../support/streams.js';

const KINDS: readonly StreamKind[] = ['stream', 'sse'];
const APP = 'https://app.example.com';

interface World {
  readonly service: Service;
  readonly api: Api;
  /** Of `totals`, with server-sent events. */
  readonly id: string;
  /** Appends, and waits until the projection has it. */
  readonly add: (count: number, key: (i: number) => string) => Promise<void>;
  readonly settled: () => Promise<void>;
}

test('streams for browsers', async (t) => {
  const service = await startService(t, { env: { CORS_ORIGINS: `${APP}, HTTP://localhost:3000` } });
  const api = new Api(service);
  const id = await api.deployProjection({ 'Totals.cs': totals() }, { config: JSON.stringify({ sse: true }) });
  let n = 0;
  const settled = async (): Promise<void> => {
    const { headers } = success(
      await api.post('/events', { aggregateId: 'mark-1', eventType: 'Marked', data: {} }),
      201,
    );
    const position = headers.get('statefold-position');
    success(await api.get(`/projections/${id}/states?limit=1&waitFor=${position}&waitSeconds=30`), 200);
  };
  const add = async (count: number, key: (i: number) => string): Promise<void> => {
    for (let i = 0; i < count; i++) await api.append(`a-${i % 3}`, 'Added', { key: key(i), n: ++n });
    await settled();
  };
  const world = { service, api, id, add, settled };
  await keyFilters(t, world);
  await snapshots(t, world);
  await tickets(t, world);
  await origins(t, world);
});

const all = async ({ api, id }: World): Promise<readonly Notification[]> => {
  const { notifications } = await api.read<{ notifications: Notification[] }>(
    `/projections/${id}/notifications?limit=1000`,
  );
  assert.ok(notifications.length < 1000);
  return notifications;
};

async function keyFilters(t: TestContext, world: World): Promise<void> {
  const { api, id, add } = world;

  await t.test('key= may be repeated, on polls and streams, and the cursor goes past what is left out', async () => {
    await add(30, (i) => `k${i % 5}`);
    const changes = await all(world);
    const wanted = changes.filter(({ key }) => key === 'k1' || key === 'k3');
    assert.equal(wanted.length, 12);
    const page = await api.read<{ notifications: Notification[]; cursor: number }>(
      `/projections/${id}/notifications?key=k1&key=k3&limit=1000`,
    );
    assert.deepEqual(page.notifications, wanted);
    assert.ok(page.cursor >= (changes.at(-1)?.sequence ?? 0), 'past the last one, which is of k4');
    for (const kind of KINDS) {
      const stream = await openKeyed(t, api, `/projections/${id}/${kind}?afterSequence=0&key=k1&key=k3`);
      await until(() => stream.changes.length >= wanted.length);
      assert.deepEqual(
        stream.changes.map(({ sequence }) => sequence),
        wanted.map(({ sequence }) => sequence),
      );
      // It tells how far it is, past the keys that are not wanted.
      await add(3, () => 'k0');
      const last = (await all(world)).at(-1)?.sequence;
      await until(() => stream.messages.some(({ position }) => position === last), 30_000);
      assert.equal(stream.changes.length, wanted.length);
      stream.close();
    }
    const many = Array.from({ length: 101 }, (_, i) => `key=k${i}`).join('&');
    for (const path of ['notifications', 'sse'])
      for (const query of [many, 'key=', 'key=k1&key=%00'])
        problem(await api.get(`/projections/${id}/${path}?${query}`), 400, 'INVALID_REQUEST');
  });
}

interface State {
  readonly key: string;
  readonly state: unknown;
  readonly sequence: number;
}
const statesOf = async ({ api, id }: World): Promise<readonly State[]> =>
  (await api.read<{ states: State[] }>(`/projections/${id}/states?limit=1000`)).states.map(
    ({ key, state, sequence }) => ({ key, state, sequence }),
  );
const bySequence = (states: readonly State[]): readonly State[] => [...states].sort((a, b) => a.sequence - b.sequence);
const asStates = (changes: readonly Notification[]): readonly State[] =>
  changes.map(({ key, state, sequence }) => ({ key, state, sequence }));

async function snapshots(t: TestContext, world: World): Promise<void> {
  const { service, api, id, add, settled } = world;

  await t.test('snapshot=true tells the states as they are, then its end, then what changes', async (t) => {
    for (const kind of KINDS) {
      await api.append('a-1', 'Forget', { key: 'k2', n: 0 });
      await settled();
      const stream = await openKeyed(t, api, `/projections/${id}/${kind}?snapshot=true`);
      const { states, sequence } = await snapshotOf(stream);
      assert.deepEqual(asStates(states), bySequence(await statesOf(world)));
      assert.equal(states.find(({ key }) => key === 'k2')?.state, null);
      const latest = await all(world);
      for (const told of states)
        assert.deepEqual(
          { ...told, type: undefined, cause: undefined },
          { ...latest.find((one) => one.sequence === told.sequence), type: undefined, cause: undefined },
          'as the change told it',
        );
      assert.ok(sequence >= (latest.at(-1)?.sequence ?? 0));
      await add(4, (i) => `k${i}`);
      await until(() => stream.changes.length === states.length + 4);
      const live = stream.changes.slice(states.length);
      assert.deepEqual(
        live.map(({ cause }) => cause),
        [undefined, undefined, undefined, undefined],
      );
      assert.deepEqual(asStates(live), asStates((await all(world)).filter((one) => one.sequence > sequence)));
      const ofKeys = await openKeyed(t, api, `/projections/${id}/${kind}?snapshot=true&key=k1&key=k3&key=none`);
      const some = await snapshotOf(ofKeys);
      assert.deepEqual(
        asStates(some.states),
        bySequence((await statesOf(world)).filter(({ key }) => key === 'k1' || key === 'k3')),
      );
      await add(5, (i) => `k${i}`);
      await until(() => ofKeys.changes.length === some.states.length + 2);
      assert.deepEqual(
        ofKeys.changes.slice(some.states.length).map(({ key }) => key),
        ['k1', 'k3'],
      );
      stream.close();
      ofKeys.close();
    }
  });

  await t.test('there is no seam between the states and what changes, while events come', async (t) => {
    let writing = true;
    const writes = (async () => {
      for (let i = 0; writing; i++)
        await Promise.all(
          [0, 1, 2, 3].map((k) => api.append(`b-${k}`, 'Added', { key: `s${(4 * i + k) % 400}`, n: 1 })),
        );
    })();
    await until(async () => (await statesOf(world)).length > 200);
    const streams = await Promise.all(
      Array.from({ length: 12 }, (_, i) => openKeyed(t, api, `/projections/${id}/${KINDS[i % 2]}?snapshot=true`)),
    );
    const ends = await Promise.all(streams.map(async (stream) => (await snapshotOf(stream)).sequence));
    writing = false;
    await writes;
    await settled();
    const final = await statesOf(world);
    const newest = Math.max(...final.map(({ sequence }) => sequence));
    for (const [i, stream] of streams.entries()) {
      await until(() => stream.changes.at(-1)?.sequence === newest);
      const end = stream.messages.findIndex(({ type }) => type === 'snapshot_end');
      const known = new Map<string, State>();
      for (const state of asStates(stream.changes.slice(0, end))) known.set(state.key, state);
      // As of the end nothing is missing: each state was there, or is one of those that came later.
      for (const { key, sequence } of final)
        if (sequence <= (ends[i] ?? 0)) assert.equal(known.get(key)?.sequence, sequence, key);
      const live = stream.changes.slice(end);
      assert.ok(live.every(({ sequence }) => sequence > (ends[i] ?? 0)));
      for (const state of asStates(live)) known.set(state.key, state);
      assert.deepEqual(bySequence([...known.values()]), bySequence(final));
      stream.close();
    }
  });

  await t.test('a stopped key is told with its last state', async (t) => {
    await api.append('a-9', 'Added', { key: 'stopped', n: 7 });
    await api.append('a-9', 'Boom', { key: 'stopped', n: 1 });
    await until(async () => {
      // There is none until the first event is folded.
      const answer = await api.get(`/projections/${id}/states/stopped`);
      return answer.status === 200 && answer.json<{ states: { fault?: object }[] }>().states[0]?.fault !== undefined;
    });
    const stream = await openKeyed(t, api, `/projections/${id}/stream?snapshot=true`);
    const { states } = await snapshotOf(stream);
    assert.deepEqual(states.find(({ key }) => key === 'stopped')?.state, { total: 7 });
    assert.deepEqual(asStates(states), bySequence(await statesOf(world)));
    stream.close();
  });

  await t.test('Last-Event-ID goes on, without the states; afterSequence beside snapshot is refused', async (t) => {
    const last = Math.max(...(await statesOf(world)).map(({ sequence }) => sequence));
    const stream = await openKeyed(t, api, `/projections/${id}/sse?snapshot=true`, {
      headers: { 'last-event-id': String(last) },
    });
    await add(2, () => 'k1');
    await until(() => stream.changes.length === 2);
    assert.ok(stream.messages.every(({ type, cause }) => type === 'state_changed' && cause === undefined));
    stream.close();
    const query = 'snapshot=true&afterSequence=1';
    const refused = problem(await api.get(`/projections/${id}/sse?${query}`), 400, 'INVALID_REQUEST');
    assert.match(refused.detail, /afterSequence must be left out/);
    const url = `${service.url}/projections/${id}/stream?`;
    assert.equal((await refusedUpgrade(url + query, { 'x-api-key': API_KEY })).status, 400);
    assert.equal((await refusedUpgrade(`${url}snapshot=yes`, { 'x-api-key': API_KEY })).status, 400);
  });

  await t.test('of a projection without states the end comes at once', async (t) => {
    const tenant = new Api(service, await newTenant(service, { name: 'Empty' }));
    const empty = await tenant.deployProjection({ 'Totals.cs': totals() });
    const stream = await openKeyed(t, tenant, `/projections/${empty}/stream?snapshot=true`);
    assert.deepEqual((await snapshotOf(stream)).states, []);
    await tenant.append('a-1', 'Added', { key: 'x', n: 1 });
    await until(() => stream.changes.length === 1);
    stream.close();
  });
}

async function tickets(t: TestContext, world: World): Promise<void> {
  const { service, api, id, add } = world;
  const path = (kind: StreamKind, query: string): string => `/projections/${id}/${kind}?${query}`;
  const keyOf = async (body: object = {}): Promise<{ keyId: string; apiKey: string }> =>
    success(await admin(service, 'POST', '/admin/tenants/default/keys', body), 201).json();

  await t.test('a ticket opens its path in place of the key, for as long as it says', async (t) => {
    for (const kind of KINDS) {
      const { ticket, expiresAt } = await ticketFor(api, { path: `/projections/${id}/${kind}`, expiresInSeconds: 2 });
      assert.ok(Date.parse(expiresAt) <= Date.now() + 2_000 && Date.parse(expiresAt) > Date.now());
      const stream = await openStream(t, service.url, path(kind, `ticket=${ticket}`));
      await until(async () => {
        const refused = await openStream(t, service.url, path(kind, `ticket=${ticket}`)).then(
          (again) => again.close(),
          (error: unknown) => (error as Error).message,
        );
        return refused === '401';
      });
      assert.ok(Date.now() >= Date.parse(expiresAt));
      await add(1, () => 'k1');
      await until(() => stream.changes.length === 1);
      stream.close();
    }
    for (const feed of ['/feed/stream', '/feed/sse']) {
      const { ticket } = await ticketFor(api, { path: feed });
      const stream = await openStream(t, service.url, `${feed}?ticket=${ticket}&eventType=Rung`);
      await api.append('bell-1', 'Rung', {});
      await until(() => stream.messages.length > 0);
      stream.close();
    }
  });

  await t.test('it is for nothing else: not another path, key or tenant, and not if it was changed', async (t) => {
    const { ticket } = await ticketFor(api, { path: `/projections/${id}/stream`, key: ['k1', 'k 2'] });
    const with_ = (more = ''): string => path('stream', `ticket=${ticket}${more}`);
    const other = await api.deployProjection({ 'Totals.cs': totals() });
    for (const refused of [
      with_(),
      with_('&key=k1&key=k3'),
      with_('&key=k3'),
      path('sse', `ticket=${ticket}&key=k1`),
      `/projections/${other}/stream?ticket=${ticket}&key=k1`,
      `/feed/stream?ticket=${ticket}`,
      `/feed/sse?ticket=${ticket}&key=k1`,
    ])
      assert.equal(await refusalOf(t, service.url, refused), 403, refused);
    for (const good of ['&key=k1', '&key=k%202', '&key=k1&key=k+2&snapshot=true'])
      (await openStream(t, service.url, with_(good))).close();
    (await openStream(t, service.url, `/projections/${id.replace('-', '%2D')}/stream?ticket=${ticket}&key=k1`)).close();
    for (const broken of [`${ticket}x`, `x${ticket}`, ticket.slice(0, -1), ticket.replace('.', ''), 'sft_e30.x', ''])
      assert.equal(await refusalOf(t, service.url, path('stream', `key=k1&ticket=${broken}`)), 401, broken);
    assert.equal(await refusalOf(t, service.url, with_(`&key=k1&ticket=${ticket}`)), 400, 'twice');
    for (const [method, target] of [
      ['GET', `/projections?ticket=${ticket}`],
      ['GET', `/projections/${id}/states?ticket=${ticket}`],
      ['GET', `/projections/${id}/notifications?ticket=${ticket}&key=k1`],
      ['POST', `/events?ticket=${ticket}`],
      ['POST', `/events/bulk?ticket=${ticket}`],
      ['POST', `/auth/tickets?ticket=${ticket}`],
      ['DELETE', `/projections/${id}?ticket=${ticket}`],
    ] as const) {
      const body = method === 'POST' ? { aggregateId: 'a-1', eventType: 'Added', data: {} } : undefined;
      const answer = await service.request(method, target, { key: null, ...(body && { body }) });
      assert.deepEqual([answer.status, answer.json()['code']], [403, 'FORBIDDEN'], `${method} ${target}`);
    }
    const stranger = new Api(service, await newTenant(service, { name: 'Stranger' }));
    problem(await stranger.post('/auth/tickets', { path: `/projections/${id}/stream` }), 404, 'NOT_FOUND');
    assert.equal((await service.get('/projections', { key: null })).status, 401);
  });

  await t.test('what is asked for wrongly is refused', async () => {
    for (const [body, said] of [
      [{}, /\/path/],
      [{ path: '/projections' }, /must be the path of a stream/],
      [{ path: `/projections/${id}/stream?key=k1` }, /must be the path of a stream/],
      [{ path: '/projections/%zz/stream' }, /must be the path of a stream/],
      [{ path: '/feed/stream', key: 'k1' }, /\/key is for streams of projections/],
      [{ path: '/feed/stream', expiresInSeconds: 301 }, /from 1 to 300/],
      [{ path: '/feed/stream', expiresInSeconds: 0 }, /from 1 to 300/],
      [{ path: '/feed/stream', expiresIn: 5 }, /expiresIn/],
      [{ path: `/projections/${id}/stream`, key: [] }, /\/key/],
      [{ path: `/projections/${id}/stream`, key: '' }, /\/key/],
      [
        { path: `/projections/${id}/stream`, key: Array.from({ length: 60 }, () => 'k'.repeat(200)) },
        /too much for one ticket/,
      ],
    ] as const)
      assert.match(problem(await api.post('/auth/tickets', body), 400, 'INVALID_REQUEST').detail, said);
    problem(await api.post('/auth/tickets', { path: '/projections/nothing/stream' }), 404, 'NOT_FOUND');
    const { apiKey } = await keyOf({ scopes: ['append'] });
    problem(await new Api(service, apiKey).post('/auth/tickets', { path: '/feed/sse' }), 403, 'FORBIDDEN');
  });

  await t.test(
    'it ends with its key: revoked or expired, it opens nothing, and what it has opened closes',
    async (t) => {
      for (const kind of KINDS) {
        const key = await keyOf();
        const { ticket } = await ticketFor(new Api(service, key.apiKey), { path: `/projections/${id}/${kind}` });
        const stream = await openStream(t, service.url, path(kind, `ticket=${ticket}`));
        success(await admin(service, 'DELETE', `/admin/tenants/default/keys/${key.keyId}`), 204);
        assert.equal(await stream.ended, kind === 'stream' ? 4401 : 0);
        assert.equal(await refusalOf(t, service.url, path(kind, `ticket=${ticket}`)), 401);

        const expiresAt = new Date(Date.now() + 3_000).toISOString();
        const brief = await keyOf({ expiresAt });
        const ofBrief = await ticketFor(new Api(service, brief.apiKey), {
          path: `/projections/${id}/${kind}`,
          expiresInSeconds: 60,
        });
        assert.equal(ofBrief.expiresAt, expiresAt, 'the key ends first');
        const until_ = await openStream(t, service.url, path(kind, `ticket=${ofBrief.ticket}`));
        assert.equal(await until_.ended, kind === 'stream' ? 4401 : 0);
        assert.ok(Date.now() >= Date.parse(expiresAt));
      }
    },
  );

  await t.test('it is never logged', async () => {
    const { ticket } = await ticketFor(api, { path: '/feed/stream' });
    await refusalOf(t, service.url, `/feed/sse?ticket=${ticket}`);
    assert.ok(!service.output.includes('sft_'));
    assert.ok(!service.output.includes(ticket));
  });
}

async function origins(t: TestContext, { service, api, id }: World): Promise<void> {
  const ask = (method: string, path: string, headers: Record<string, string>): Promise<Response> =>
    fetch(service.url + path, { method, headers });

  await t.test('a page of an allowed origin may call every route, and read its headers', async () => {
    for (const [path, methods] of [
      ['/events', 'POST'],
      ['/events/batch', 'POST'],
      [`/projections/${id}`, 'DELETE'],
      [`/projections/${id}/sse`, 'GET'],
      ['/feed', 'GET'],
      ['/webhooks/endpoints/x', 'PATCH'],
      ['/auth/tickets', 'POST'],
    ] as const) {
      const preflight = await ask('OPTIONS', path, {
        origin: APP,
        'access-control-request-method': methods,
        'access-control-request-headers': 'content-type,x-api-key,idempotency-key',
      });
      assert.equal(preflight.status, 204, path);
      const told = (name: string): string => preflight.headers.get(`access-control-${name}`) ?? '';
      assert.equal(told('allow-origin'), APP);
      assert.ok(told('allow-methods').split(', ').includes(methods), `${path}: ${told('allow-methods')}`);
      assert.equal(told('allow-headers'), 'content-type,x-api-key,idempotency-key');
      assert.ok(Number(told('max-age')) > 0);
      assert.match(preflight.headers.get('vary') ?? '', /Origin/);
    }
    const appended = await fetch(`${service.url}/events`, {
      method: 'POST',
      headers: { origin: 'http://localhost:3000', 'x-api-key': API_KEY, 'content-type': 'application/json' },
      body: JSON.stringify({ aggregateId: 'page-1', eventType: 'Clicked', data: {} }),
    });
    assert.equal(appended.status, 201);
    for (const answer of [
      appended,
      await ask('GET', '/feed', { origin: APP, 'x-api-key': API_KEY }),
      await ask('GET', '/feed', { origin: APP }),
      await ask('GET', '/nothing', { origin: APP }),
    ]) {
      assert.match(answer.headers.get('access-control-allow-origin') ?? '', /^(https:\/\/app|http:\/\/localhost)/);
      const exposed = (answer.headers.get('access-control-expose-headers') ?? '').split(',');
      for (const name of ['Statefold-Position', 'Retry-After', 'RateLimit', 'RateLimit-Policy', 'X-Request-Id'])
        assert.ok(exposed.includes(name), name);
      assert.equal(answer.headers.get('access-control-allow-credentials'), null);
    }
    for (const origin of ['https://evil.example', 'http://app.example.com', 'null', `${APP}.evil.example`]) {
      const foreign = await ask('OPTIONS', '/events', { origin, 'access-control-request-method': 'POST' });
      assert.equal(foreign.headers.get('access-control-allow-origin'), null, origin);
      assert.equal(foreign.headers.get('access-control-allow-methods'), null, origin);
    }
  });

  await t.test(
    'a WebSocket of a foreign page is refused; of an allowed, of the same, and of none it is opened',
    async (t) => {
      const path = `/projections/${id}/stream`;
      const { ticket } = await ticketFor(api, { path });
      for (const origin of ['https://evil.example', 'null', 'http://127.0.0.1:1', 'not an origin'])
        for (const query of ['', `?ticket=${ticket}`]) {
          const headers = { origin, ...(query === '' && { 'x-api-key': API_KEY }) };
          assert.equal(await refusalOf(t, service.url, path + query, { headers }), 403, origin);
        }
      const { host, port } = new URL(service.url);
      for (const headers of [
        { origin: APP },
        { origin: 'http://localhost:3000' },
        { origin: `http://${host}` },
        { origin: `https://${host}` },
        { origin: `http://LOCALHOST:${port}`, host: `localhost:${port}` },
        { origin: 'https://events.example.com', host: 'events.example.com:443' },
        {},
      ])
        (await openStream(t, service.url, `${path}?ticket=${ticket}`, { headers })).close();
    },
  );

  await t.test('without the setting foreign WebSockets are refused as well, and nothing is told by CORS', async (t) => {
    const plain = await startService(t);
    const answer = await fetch(`${plain.url}/openapi.json`, { headers: { origin: APP } });
    assert.equal(answer.headers.get('access-control-allow-origin'), null);
    const key = { 'x-api-key': API_KEY };
    assert.equal(await refusalOf(t, plain.url, '/feed/stream', { headers: { ...key, origin: APP } }), 403);
    (await openStream(t, plain.url, '/feed/stream', { headers: { ...key, origin: plain.url } })).close();
    const everyone = await startService(t, { env: { CORS_ORIGINS: '*' } });
    (await openStream(t, everyone.url, '/feed/stream', { headers: { ...key, origin: 'null' } })).close();
    const any = await fetch(`${everyone.url}/feed`, { headers: { ...key, origin: APP } });
    assert.equal(any.headers.get('access-control-allow-origin'), '*');
  });
}
