import assert from 'node:assert/strict';
import { once } from 'node:events';
import test from 'node:test';
import { Api, problem, success, type Listed } from '../support/api.js';
import { bulk, BulkClient } from '../support/bulk.js';
import { tally } from '../support/csharp.js';
import { openapiFault } from '../support/openapi.js';
import { ADMIN_KEY, API_KEY, startService, until, type Answer } from '../support/service.js';

const noted = (aggregateId: string, n = 0): object => ({ aggregateId, eventType: 'Noted', data: { n } });

test('appends line by line', async (t) => {
  const service = await startService(t, {
    env: { BULK_IDLE_MS: '1500', REQUEST_TIMEOUT_MS: '1000', HEADERS_TIMEOUT_MS: '1000' },
  });
  const api = new Api(service);
  const admin = (method: string, path: string, body?: unknown): Promise<Answer> =>
    new Api(service, null).request(method, path, { body, headers: { 'x-admin-key': ADMIN_KEY } });
  const send = (lines: readonly (object | string)[], query = '') => bulk(service.url, API_KEY, lines, query);

  await t.test('each is answered in its place, and what is wrong stops no other', async () => {
    const lines = await send([
      noted('note-1', 1),
      '',
      noted('note-2', 2),
      '{"aggregateId":"note-1",',
      { aggregateId: 'note-1', eventType: 'Noted', dta: {} },
      { ...noted('note-1', 3), expectedVersion: 7 },
      { ...noted('note-1', 3), expectedVersion: 1 },
      `{"aggregateId":"note-9","eventType":"Noted","data":{"x":"${'x'.repeat(1_100_000)}"}}`,
      '  ',
      { ...noted('note-2', 4), correlationId: 'c', metadata: { by: 'me' } },
    ]);
    assert.deepEqual(
      lines.map(({ line, status, version, code, pointer }) => [line, status, version ?? code, pointer]),
      [
        [1, 201, 1, undefined],
        [3, 201, 1, undefined],
        [4, 400, 'INVALID_REQUEST', undefined],
        [5, 400, 'INVALID_REQUEST', '/dta'],
        [6, 409, 'VERSION_CONFLICT', undefined],
        [7, 201, 2, undefined],
        [8, 413, 'PAYLOAD_TOO_LARGE', undefined],
        [10, 201, 2, undefined],
      ],
    );
    for (const line of lines) assert.equal(openapiFault('POST', '/events/bulk', 200, line), undefined);
    assert.deepEqual(Object.keys(lines[0] ?? {}), [
      'line',
      'status',
      'eventId',
      'aggregateId',
      'version',
      'timestamp',
      'position',
    ]);
    assert.equal(lines[4]?.['currentVersion'], 1);
    const { events } = await api.read<Listed>('/events/note-1');
    assert.deepEqual(
      events.map(({ eventId, data }) => [eventId, data]),
      [
        [lines[0]?.['eventId'], { n: 1 }],
        [lines[5]?.['eventId'], { n: 3 }],
      ],
    );
    // Ids of aggregates, where another path is a route of its own.
    success(await api.post('/events', { aggregateId: 'bulk', eventType: 'Noted', data: {} }), 201);
    assert.equal((await api.read<Listed>('/events/bulk')).events.length, 1);
  });

  await t.test('lines that share a record are each answered, placed and read as if they had their own', async () => {
    const body = (n: number): object => ({
      ...noted(`share-${n % 5}`, n),
      ...(n % 3 === 0 ? { correlationId: `c-${n}`, metadata: { n } } : {}),
      // These have a record of their own, in their place.
      ...(n < 200
        ? {}
        : n % 7 === 0
          ? { idempotencyKey: `share-${n}` }
          : n % 11 === 0
            ? { expectedVersion: 1_000 }
            : {}),
    });
    const lines = await send(Array.from({ length: 300 }, (_, n) => body(n)));
    const isRefused = (n: number): boolean => n >= 200 && n % 11 === 0 && n % 7 !== 0;
    assert.deepEqual(
      lines.map(({ line, status }) => [line, status]),
      Array.from({ length: 300 }, (_, n) => [n + 1, isRefused(n) ? 409 : 201]),
    );
    for (let i = 0; i < 5; i++) {
      const mine = Array.from({ length: 300 }, (_, n) => n).filter((n) => n % 5 === i && !isRefused(n));
      const { events } = await api.read<{
        events: (Listed['events'][number] & { correlationId?: string; metadata?: object })[];
      }>(`/events/share-${i}?include=metadata`);
      assert.deepEqual(
        events.map(({ data, correlationId, metadata, version, eventId }) => [
          data,
          correlationId,
          metadata,
          version,
          eventId,
        ]),
        mine.map((n, k) => [
          { n },
          n % 3 === 0 ? `c-${n}` : undefined,
          n % 3 === 0 ? { n } : undefined,
          k + 1,
          lines[n]?.eventId,
        ]),
      );
      for (const [k, n] of mine.entries()) assert.equal(lines[n]?.version, k + 1);
    }
    const { events: fed } = await api.read<{ events: { position: number; eventId: string }[] }>('/feed?limit=1000');
    const places = new Map(fed.map(({ eventId, position }) => [eventId, position]));
    for (const { status, eventId, position } of lines)
      if (status === 201) assert.equal(position, places.get(String(eventId)));
  });

  await t.test('what is refused as a whole is an ordinary problem', async () => {
    const ask = (headers: Record<string, string>, key: string | null = API_KEY, query = ''): Promise<Answer> =>
      api.post(`/events/bulk${query}`, undefined, { raw: '{}\n', headers, key });
    const type = { 'content-type': 'application/x-ndjson' };
    problem(await ask(type, null), 401, 'UNAUTHENTICATED');
    problem(await ask({ 'content-type': 'application/json' }), 415, 'UNSUPPORTED_MEDIA_TYPE');
    problem(await ask({ ...type, 'idempotency-key': 'k' }), 400, 'INVALID_REQUEST');
    problem(await ask(type, API_KEY, '?stat=true'), 400, 'INVALID_REQUEST');
    const { apiKey } = success(await admin('POST', '/admin/tenants/default/keys', { scopes: ['read'] }), 201).json<{
      apiKey: string;
    }>();
    problem(await ask(type, apiKey), 403, 'FORBIDDEN');
    const empty = await ask(type, API_KEY);
    assert.deepEqual(
      [empty.status, JSON.parse(empty.text)],
      [200, { ...JSON.parse(empty.text), line: 1, status: 400 }],
    );
    assert.deepEqual(await send([]), []);
  });

  await t.test('lines of one aggregate keep their order, also those that expect a version', async () => {
    const lines = await send(
      Array.from({ length: 3_000 }, (_, i) => ({
        ...noted(`order-${i % 3}`, i),
        ...(i % 2 === 0 ? {} : { expectedVersion: Math.floor(i / 3) }),
      })),
    );
    assert.deepEqual(new Set(lines.map(({ status }) => status)), new Set([201]));
    assert.deepEqual(
      lines.map(({ line, version }) => [line, version]),
      lines.map((_, i) => [i + 1, Math.floor(i / 3) + 1]),
    );
    const { events } = await api.read<Listed>('/events/order-1?limit=2000');
    assert.deepEqual(
      events.map(({ data }) => (data as { n: number }).n),
      events.map((_, i) => 3 * i + 1),
    );
  });

  await t.test('lines keep their order also where a record that they share is refused for another one', async () => {
    await api.request('PUT', '/event-types/Strict', { body: { schema: { type: 'object', required: ['y'] } } });
    const unfit = { ...noted('unfit-1'), eventType: 'Strict' };
    for (const [id, behind] of [
      ['kept-1', { idempotencyKey: 'kept-1' }],
      ['kept-2', { expectedVersion: 1 }],
      ['kept-3', { aggregateType: 'kept' }],
    ] as const) {
      const lines = await send([noted(id, 1), unfit, { ...noted(id, 2), ...behind }]);
      assert.deepEqual(
        lines.map(({ status, version }) => [status, version]),
        [
          [201, 1],
          [422, undefined],
          [201, 2],
        ],
        id,
      );
      const { events } = await api.read<Listed>(`/events/${id}`);
      assert.deepEqual(
        events.map(({ data }) => (data as { n: number }).n),
        [1, 2],
      );
    }
  });

  await t.test('what fails its check lets nothing behind it pass', async () => {
    // The second expects what the third would make true.
    const lines = await send([
      noted('late-1'),
      { ...noted('late-1'), expectedVersion: 2 },
      noted('late-1'),
      { ...noted('late-1'), expectedVersion: 2 },
    ]);
    assert.deepEqual(
      lines.map(({ status, version }) => [status, version]),
      [
        [201, 1],
        [409, undefined],
        [201, 2],
        [201, 3],
      ],
    );
  });

  await t.test('a key names the same append wherever it is sent', async () => {
    const event = { ...noted('keyed-1', 5) };
    const keyed = { ...event, idempotencyKey: 'k-1' };
    const [first, again] = await send([keyed, keyed]);
    assert.deepEqual({ ...again, line: 1 }, first);
    const single = success(await api.post('/events', event, { headers: { 'idempotency-key': 'k-1' } }), 201);
    assert.equal(single.json()['eventId'], first?.['eventId']);
    const [other] = await send([{ ...keyed, data: { n: 6 } }]);
    assert.equal(other?.code, 'IDEMPOTENCY_KEY_REUSED');
    assert.equal((await api.read<Listed>('/events/keyed-1')).events.length, 1);
  });

  await t.test('answers come as lines are sent, past the time that a request has, until nothing comes', async () => {
    const client = new BulkClient(service.url, API_KEY);
    const began = performance.now();
    for (let i = 0; performance.now() - began < 2_500; i++) {
      client.write(noted('slow-1', i));
      const answer = await client.next();
      assert.deepEqual([answer?.line, answer?.version], [i + 1, i + 1]);
    }
    assert.equal(await client.next(), undefined, 'the stream is ended when its client has sent nothing for too long');
    assert.ok(performance.now() - began >= 3_500);
  });

  await t.test(
    'a line that has no end is not stored, and a client that goes away has stored what was read',
    async () => {
      const client = new BulkClient(service.url, API_KEY);
      client.raw(`${JSON.stringify(noted('open-1'))}\n${JSON.stringify(noted('open-1'))}`);
      client.end();
      assert.deepEqual(
        (await client.rest()).map(({ line, status }) => [line, status]),
        [
          [1, 201],
          [2, 400],
        ],
      );
      const gone = new BulkClient(service.url, API_KEY);
      gone.write(noted('gone-1'), noted('gone-1'));
      gone.raw(JSON.stringify(noted('gone-1')));
      await gone.next();
      gone.request.destroy();
      await until(async () => (await api.get('/events/gone-1')).status === 200);
      assert.equal((await api.read<Listed>('/events/gone-1')).events.length, 2);
    },
  );

  await t.test('states are added where they are asked for', async () => {
    await api.deployReducer({ 'Tally.cs': tally('tallied') });
    const [plain] = await send([noted('tallied-1')]);
    assert.equal(plain?.['state'], undefined);
    const [, second] = await send([noted('tallied-1'), noted('tallied-1')], '?state=true');
    assert.deepEqual(
      second?.['state'],
      (await api.read<{ state: unknown }>('/aggregate-types/tallied/tallied-1/state')).state,
    );
  });

  await t.test('quotas and a suspension hold inside a stream', async () => {
    const { apiKey } = success(await admin('POST', '/admin/tenants', { tenantId: 'paced' }), 201).json<{
      apiKey: string;
    }>();
    const patch = async (body: object): Promise<void> =>
      void success(await admin('PATCH', '/admin/tenants/paced', body), 200);
    await patch({ quotas: { eventsPerSecond: 20 } });
    const began = performance.now();
    const lines = await bulk(
      service.url,
      apiKey,
      Array.from({ length: 50 }, (_, i) => noted('paced-1', i)),
    );
    assert.deepEqual(new Set(lines.map(({ status }) => status)), new Set([201]));
    assert.ok(performance.now() - began >= 1_400, 'the stream is read no faster than the tenant may append');
    await patch({ quotas: { eventsPerSecond: null, connections: 1 } });
    const open = new BulkClient(service.url, apiKey);
    open.write(noted('paced-1', 50));
    assert.equal((await open.next())?.status, 201);
    problem(
      await new Api(service, apiKey).post('/events/bulk', undefined, {
        raw: '',
        headers: { 'content-type': 'application/x-ndjson' },
      }),
      429,
      'RATE_LIMITED',
    );
    await patch({ suspended: true });
    const last = await open.next();
    assert.deepEqual([last?.line, last?.status, last?.code], [2, 403, 'TENANT_SUSPENDED']);
    assert.equal(await open.next(), undefined);
  });

  await t.test('a stream of a tenant that is deleted says so in its last line', async () => {
    const { apiKey } = success(await admin('POST', '/admin/tenants', { tenantId: 'doomed' }), 201).json<{
      apiKey: string;
    }>();
    const open = new BulkClient(service.url, apiKey);
    open.write(noted('doomed-1'));
    assert.equal((await open.next())?.status, 201);
    success(await admin('DELETE', '/admin/tenants/doomed'), 204);
    const last = await open.next();
    assert.deepEqual([last?.line, last?.status, last?.code], [2, 404, 'NOT_FOUND'], JSON.stringify(last));
    assert.equal(await open.next(), undefined);
  });

  await t.test('who does not read is not read from', async () => {
    const client = new BulkClient(service.url, API_KEY);
    const lines = Array.from(
      { length: 500 },
      (_, i) => `${JSON.stringify(noted(`unread-${i}-${'x'.repeat(240)}`, i))}\n`,
    ).join('');
    let sent = 0;
    // Until the kernel's buffers are full on both sides, the service holds what it may, and it takes no more.
    while (sent < 400) {
      if (!client.raw(lines)) {
        const drained = await Promise.race([
          once(client.request, 'drain').then(() => true),
          new Promise<boolean>((resolve) => setTimeout(() => resolve(false), 1_000)),
        ]);
        if (!drained) break;
      }
      sent++;
    }
    assert.ok(sent < 400, 'the service has read all of it though nothing of its answers was read');
    client.end();
    let answered = 0;
    for (let line = await client.next(); line !== undefined; line = await client.next()) {
      answered++;
      assert.deepEqual([line.line, line.status], [answered, 201]);
    }
    assert.equal(answered, 500 * (sent + 1));
  });

  await t.test('a shutdown answers what was read, and says from where on nothing was', async () => {
    const client = new BulkClient(service.url, API_KEY);
    client.write(noted('last-1'));
    assert.equal((await client.next())?.status, 201);
    const stopped = service.stop();
    const told = await client.next();
    assert.deepEqual([told?.line, told?.status, told?.code, told?.['retryable']], [2, 503, 'UNAVAILABLE', true]);
    assert.equal(await client.next(), undefined);
    await stopped;
  });
});

test('a tenant of several partitions', async (t) => {
  const service = await startService(t);
  const { apiKey } = success(
    await new Api(service, null).request('POST', '/admin/tenants', {
      body: { tenantId: 'wide', partitions: 4 },
      headers: { 'x-admin-key': ADMIN_KEY },
    }),
    201,
  ).json<{ apiKey: string }>();
  const lines = await bulk(
    service.url,
    apiKey,
    Array.from({ length: 400 }, (_, i) => noted(`wide-${i % 40}`, i)),
  );
  assert.deepEqual(
    lines.map(({ line, status, version }) => [line, status, version]),
    lines.map((_, i) => [i + 1, 201, Math.floor(i / 40) + 1]),
  );
});
