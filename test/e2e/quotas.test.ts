import assert from 'node:assert/strict';
import { connect } from 'node:net';
import test from 'node:test';
import { QUOTA_NAMES, type QuotaName } from '../../src/core/quotas.js';
import { Api, problem, success, type Listed, type Problem, admin, newTenant } from '../support/api.js';
import { openSocket, refusedUpgrade } from '../support/api-channels.js';
import { tally, totals } from '../support/csharp.js';
import { startService, temporaryDirectory, until, type Answer } from '../support/service.js';

type Amounts = Readonly<Record<QuotaName, number>>;

const LARGE = `
public sealed record Padded(string Padding);
public sealed class LargeReducer : IReducer<Padded>
{
    public Padded? Apply(Padded? state, Event e) => new(e.EventType == "Emptied" ? "" : new string('x', 900_000));
}`;

test('quotas of a tenant', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  let service = await startService(t, { dataDirectory });
  const apiKey = await newTenant(service, { tenantId: 'acme' });
  const acme = (): Api => new Api(service, apiKey);
  const set = async (quotas: Partial<Record<QuotaName, number | null>>): Promise<void> =>
    void success(await admin(service, 'PATCH', '/admin/tenants/acme', { quotas }), 200);
  const usage = (): Promise<{ usage: Amounts; quotas: Record<QuotaName, number | null> }> => acme().read('/usage');
  const paced = (answer: Answer, quota: QuotaName, q: string): Problem => {
    const refused = problem(answer, 429, 'RATE_LIMITED');
    assert.equal(answer.headers.get('ratelimit-policy'), `"${quota}";${q}`);
    assert.match(answer.headers.get('ratelimit') ?? '', new RegExp(`^"${quota}";r=0;t=\\d+$`));
    assert.match(answer.headers.get('retry-after') ?? '', /^[1-9]\d*$/);
    assert.equal(refused['quota'], quota);
    return refused;
  };
  const exceeded = (answer: Answer, quota: QuotaName, limit: number): Problem => {
    const refused = problem(answer, 507, 'QUOTA_EXCEEDED');
    assert.deepEqual([refused['quota'], refused['limit']], [quota, limit]);
    assert.ok((refused['usage'] as number) >= limit);
    return refused;
  };

  await t.test('there is one of everything, and both sides see the same', async () => {
    const told = await usage();
    assert.deepEqual(Object.keys(told.usage), QUOTA_NAMES);
    assert.deepEqual(Object.keys(told.quotas), QUOTA_NAMES);
    for (const quota of Object.values(told.quotas)) assert.ok(quota !== null && quota > 0);
    const seen = success(await admin(service, 'GET', '/admin/tenants/acme/usage'), 200).json<typeof told>();
    assert.deepEqual(seen.quotas, told.quotas);
    problem(await admin(service, 'GET', '/admin/tenants/nobody/usage'), 404, 'NOT_FOUND');
    problem(await acme().get('/usage', { key: null }), 401, 'UNAUTHENTICATED');
  });

  await t.test('requests and events past their pace are refused, those of others are not', async () => {
    await set({ requestsPerSecond: 2 });
    const answers = await Promise.all(Array.from({ length: 12 }, () => acme().get('/aggregates')));
    const refused = answers.filter(({ status }) => status === 429);
    assert.ok(refused.length >= 6 && refused.length < 12, `${refused.length} of 12`);
    for (const answer of refused) paced(answer, 'requestsPerSecond', 'q=2;w=1');
    await new Api(service).append('other-1', 'Made');
    await set({ requestsPerSecond: null, eventsPerSecond: 10 });
    const events = Array.from({ length: 40 }, () => ({ eventType: 'Made', data: {} }));
    success(await acme().post('/events/batch', { aggregateId: 'paced-1', events }), 201);
    paced(
      await acme().post('/events', { aggregateId: 'paced-1', eventType: 'Made', data: {} }),
      'eventsPerSecond',
      'q=10;w=1',
    );
    await set({ eventsPerSecond: null });
    assert.equal((await acme().append('paced-1', 'Made')).version, 41);
  });

  await t.test('requests that are refused are requests too', async () => {
    const { apiKey: narrow } = success(
      await admin(service, 'POST', '/admin/tenants/acme/keys', { scopes: ['webhooks'] }),
      201,
    ).json<{ apiKey: string }>();
    const event = { body: { aggregateId: 'paced-1', eventType: 'Made', data: {} } };
    for (const [method, path, key, status] of [
      ['GET', '/aggregates', narrow, 403],
      ['POST', '/events', narrow, 403],
      ['GET', '/nothing', apiKey, 404],
      ['PUT', '/usage', apiKey, 405],
      ['POST', '/admin/tenants', apiKey, 401],
    ] as const) {
      await set({ requestsPerSecond: null });
      const before = await service.request(method, path, { key, ...(method === 'POST' && event) });
      assert.equal(before.status, status, path);
      await set({ requestsPerSecond: 2 });
      const answers = await Promise.all(
        Array.from({ length: 12 }, () => service.request(method, path, { key, ...(method === 'POST' && event) })),
      );
      const refused = answers.filter((answer) => answer.status === 429);
      assert.ok(refused.length >= 6 && refused.length < 12, `${refused.length} of 12 to ${path}`);
      for (const answer of refused) paced(answer, 'requestsPerSecond', 'q=2;w=1');
      for (const answer of answers) assert.ok([status, 429].includes(answer.status), `${answer.status} of ${path}`);
    }
    // A key that is revoked takes nothing from its tenant.
    const { apiKey: old, keyId } = success(await admin(service, 'POST', '/admin/tenants/acme/keys', {}), 201).json<{
      apiKey: string;
      keyId: string;
    }>();
    success(await admin(service, 'DELETE', `/admin/tenants/acme/keys/${keyId}`), 204);
    for (let i = 0; i < 12; i++) problem(await service.get('/usage', { key: old }), 401, 'UNAUTHENTICATED');
    await set({ requestsPerSecond: null });
  });

  let projectionId = '';
  await t.test('code past its quota is refused, a redeploy is not, and a deletion makes room', async () => {
    await set({ projections: 1, reducers: 1 });
    projectionId = await acme().deployProjection({ 'Totals.cs': totals() }, { config: '{"sse":true}' });
    exceeded(await acme().upload('projections', { 'Totals.cs': totals() }), 'projections', 1);
    success(await acme().upload('projections', { 'Totals.cs': totals('Totals', 2) }, { projectionId }), 202);
    const uploads = await Promise.all(
      Array.from({ length: 5 }, () => acme().upload('reducers', { 'Tally.cs': tally('none') })),
    );
    assert.deepEqual(uploads.map(({ status }) => status).sort(), [202, 507, 507, 507, 507]);
    const [first] = uploads.filter(({ status }) => status === 202);
    const { reducerId } = (first as Answer).json<{ reducerId: string }>();
    await acme().compiled('reducers', reducerId);
    assert.deepEqual((({ projections, reducers }) => [projections, reducers])((await usage()).usage), [1, 1]);
    await set({ reducers: null });
    await set({ pendingUploads: 0 });
    paced(await acme().upload('reducers', { 'Tally.cs': tally('none') }), 'pendingUploads', 'q=0');
    await set({ pendingUploads: null });
  });

  await t.test('connections that wait are counted, and given back', async () => {
    await set({ connections: 1 });
    const socket = await openSocket(t, acme(), projectionId);
    assert.equal((await usage()).usage.connections, 1);
    paced(await acme().get(`/projections/${projectionId}/sse`), 'connections', 'q=1');
    const { status, problem: refused } = await refusedUpgrade(`${service.url}/projections/${projectionId}/stream`, {
      'x-api-key': apiKey,
    });
    assert.deepEqual([status, refused['code']], [429, 'RATE_LIMITED']);
    socket.close();
    await until(async () => (await usage()).usage.connections === 0);
    (await openSocket(t, acme(), projectionId)).close();
    await set({ connections: null });
  });

  await t.test('uploads that wait for the memory to be read are connections that wait', async () => {
    await set({ connections: 2 });
    const { hostname, port } = new URL(service.url);
    const head = `POST /reducers/upload HTTP/1.1\r\nHost: x\r\nX-API-Key: ${apiKey}\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 4000000\r\n\r\n--x\r\n`;
    const answers: string[] = [];
    const sockets = Array.from({ length: 24 }, () => {
      const socket = connect(Number(port), hostname);
      socket.on('error', () => undefined).once('data', (chunk: Buffer) => answers.push(chunk.toString('latin1')));
      socket.write(head);
      return socket;
    });
    await until(async () => answers.length > 0 && (await usage()).usage.connections === 2);
    assert.match(answers[0] ?? '', /^HTTP\/1\.1 429 .*retry-after: \d+\r\n.*"quota":"connections"/is);
    // Who hasn't to wait is taken on.
    await acme().append('beside-1', 'Made');
    for (const socket of sockets) socket.destroy();
    await until(async () => (await usage()).usage.connections === 0);
    await set({ connections: null });
  });

  await t.test('a tenant that is full can read and delete, and appends again when it may', async () => {
    const before = (await usage()).usage.storageBytes;
    const data = { key: 'x', n: 1, fill: 'f'.repeat(50_000) };
    await acme().append('full-1', 'Added', data, {}, { 'idempotency-key': 'first' });
    await acme().notifications(projectionId, 1);
    const after = (await usage()).usage.storageBytes;
    assert.ok(after - before > 50_000 && after - before < 53_000, `${after - before} bytes`);
    await set({ storageBytes: after });
    const refused = exceeded(
      await acme().post('/events', { aggregateId: 'full-1', eventType: 'Added', data }),
      'storageBytes',
      after,
    );
    assert.match(refused.detail, /bytes stored, and may have/);
    exceeded(await acme().upload('reducers', { 'Tally.cs': tally('none') }), 'storageBytes', after);
    // What was stored before is answered as it was, and a conflict is told as one.
    const again = await acme().append('full-1', 'Added', data, {}, { 'idempotency-key': 'first' });
    assert.equal(again.version, 1);
    problem(
      await acme().post('/events', { aggregateId: 'full-1', eventType: 'Added', data, expectedVersion: 7 }),
      409,
      'VERSION_CONFLICT',
    );
    assert.equal((await acme().read<Listed>('/events/full-1')).events.length, 1);
    await new Api(service).append('other-1', 'Made');
    // What it stores is known again after a kill, from the store and without one.
    await service.kill();
    service = await startService(t, { dataDirectory });
    const restored = (await usage()).usage.storageBytes;
    assert.ok(Math.abs(restored - after) < 2_000, `${restored} after the kill, ${after} before`);
    await set({ storageBytes: restored });
    exceeded(
      await acme().post('/events', { aggregateId: 'full-1', eventType: 'Added', data }),
      'storageBytes',
      restored,
    );
    success(await acme().delete(`/projections/${projectionId}`), 204);
    assert.ok((await usage()).usage.storageBytes < restored);
    await acme().append('full-1', 'Added', { key: 'x', n: 1 });
    await set({ storageBytes: null });
    await acme().append('full-1', 'Added', data);
  });

  await t.test('states count as they are stored, however small the events are that they were made of', async () => {
    const { reducerId } = success(await acme().upload('reducers', { 'Large.cs': LARGE }), 202).json<{
      reducerId: string;
    }>();
    await acme().compiled('reducers', reducerId);
    const before = (await usage()).usage.storageBytes;
    await set({ storageBytes: before + 2_000_000 });
    const append = (n: number): Promise<Answer> =>
      acme().post('/events', { aggregateId: `large-${n}`, eventType: 'Made', data: {} });
    let made = 0;
    let answer = await append(made);
    while (answer.status === 201 && made < 20) {
      // A state that is late, since the processor is elsewhere, is made by who asks for it.
      success(await acme().get(`/aggregate-types/large/large-${made}/state`), 200);
      answer = await append(++made);
    }
    exceeded(answer, 'storageBytes', before + 2_000_000);
    assert.equal(made, 3);
    await service.kill();
    service = await startService(t, { dataDirectory });
    // Those that were not written down before the kill are made again by who asks for them.
    for (let n = 0; n < made; n++) success(await acme().get(`/aggregate-types/large/large-${n}/state`), 200);
    assert.equal((await append(made)).status, 507);
    // A smaller state takes the place of the large one where it is the same aggregate's.
    await set({ storageBytes: null });
    const full = (await usage()).usage.storageBytes;
    success(await acme().post('/events', { aggregateId: 'large-0', eventType: 'Emptied', data: {} }), 201);
    await until(async () => (await usage()).usage.storageBytes < full - 800_000);
  });
});
