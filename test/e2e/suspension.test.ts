import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import test from 'node:test';
import { Api, problem, success, type Listed, admin, newTenant } from '../support/api.js';
import { openEvents, openSocket, Receiver, refusedUpgrade } from '../support/api-channels.js';
import { tally, totals } from '../support/csharp.js';
import { startService, temporaryDirectory, until, type Answer } from '../support/service.js';

test('a suspended tenant stands still, and goes on where it was', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  const receiver = await Receiver.open(t);
  // A busy machine may be long in folding: the states of answers are held to what they are, not to when.
  const options = { dataDirectory, env: { FOLD_DEADLINE_MS: '30000', ANSWER_DEADLINE_MS: '60000' } };
  let service = await startService(t, options);
  const apiKey = await newTenant(service, { tenantId: 'acme' });
  const acme = (): Api => new Api(service, apiKey);
  const suspend = async (suspended: boolean): Promise<Record<string, unknown>> =>
    success(await admin(service, 'PATCH', '/admin/tenants/acme', { suspended }), 200).json();
  const add = (n: number): ReturnType<Api['append']> => acme().append('a-1', 'Added', { key: 'x', n });

  await acme().deployReducer({ 'Tally.cs': tally('a') });
  const config = JSON.stringify({ sse: true, webhook: { url: `${receiver.url}/hook` } });
  const projectionId = await acme().deployProjection({ 'Totals.cs': totals() }, { config });
  // A kill may come before the cursor of a delivery is saved: then it is made again, under its id.
  const told = (): number[] => [
    ...new Map(
      receiver
        .of('/hook')
        .map(({ headers, record }) => [headers['webhook-id'], (record.state as { total: number }).total]),
    ).values(),
  ];
  await add(1);
  await until(() => told().length === 1);

  await t.test('everything is refused, streams and waiting polls end, others are not touched', async () => {
    const socket = await openSocket(t, acme(), projectionId);
    const events = await openEvents(t, acme(), projectionId);
    const [{ sequence } = { sequence: 0 }] = await acme().notifications(projectionId, 1);
    const waiting = acme().get(`/projections/${projectionId}/notifications?afterSequence=${sequence}&waitSeconds=30`);
    await new Api(service).append('other-1', 'Made');
    const record = await suspend(true);
    assert.equal(record['suspended'], true);
    assert.ok(typeof record['suspendedAt'] === 'string');
    assert.equal(await socket.closed, 4403);
    await events.ended;
    problem(await waiting, 403, 'TENANT_SUSPENDED');
    for (const [method, path] of [
      ['GET', '/auth/whoami'],
      ['GET', '/events/a-1'],
      ['GET', `/projections/${projectionId}/states`],
      ['POST', '/events'],
      ['POST', '/events/batch'],
      ['POST', '/webhooks/rotate'],
      ['DELETE', `/projections/${projectionId}`],
    ] as const)
      problem(await acme().request(method, path), 403, 'TENANT_SUSPENDED');
    problem(await acme().upload('reducers', { 'Tally.cs': tally('b') }), 403, 'TENANT_SUSPENDED');
    assert.equal((await service.request('GET', '/schema-registry/subjects', { key: apiKey })).status, 403);
    assert.equal(
      (await refusedUpgrade(`${service.url}/projections/${projectionId}/stream`, { 'x-api-key': apiKey })).status,
      403,
    );
    await new Api(service).append('other-1', 'Made');
    const again = await suspend(true);
    assert.equal(again['suspendedAt'], record['suspendedAt']);
  });

  await t.test('it outlives a restart, which sends and opens nothing of it', async () => {
    receiver.statuses.set('/hook', 503);
    await service.kill();
    service = await startService(t, options);
    problem(await acme().get('/events/a-1'), 403, 'TENANT_SUSPENDED');
    await new Api(service).append('other-1', 'Made');
    const metrics = await admin(service, 'GET', '/metrics');
    assert.match(metrics.text, /^statefold_active_tenants 1$/m);
    receiver.statuses.delete('/hook');
  });

  await t.test('taken back it has all that it had, and tells each change once', async () => {
    const record = await suspend(false);
    assert.deepEqual([record['suspended'], record['suspendedAt']], [undefined, undefined]);
    const { events } = await acme().read<Listed>('/events/a-1');
    assert.equal(events.length, 1);
    const appended = await add(2);
    assert.deepEqual([appended.version, appended.state], [2, { count: 2, version: 2, last: 'Added' }]);
    await until(() => told().includes(3));
    assert.deepEqual(told(), [1, 3]);
    assert.deepEqual(
      (await acme().notifications(projectionId, 2)).map(({ state }) => state),
      [{ total: 1 }, { total: 3 }],
    );
  });

  await t.test('code that waited for its compilation is compiled when that is taken back', async () => {
    // Nobody has compiled it before.
    const code = `${tally('late')}// ${randomUUID()}`;
    const uploaded = success(await acme().upload('reducers', { 'Tally.cs': code }), 202).json<{
      reducerId: string;
    }>();
    await suspend(true);
    await suspend(false);
    const compiled = await acme().compiled<{ status: string }>('reducers', uploaded.reducerId);
    assert.equal(compiled.status, 'compiled');
  });

  await t.test('suspended and taken back in turns under appends, nothing that was acknowledged is lost', async () => {
    let acknowledged = 0;
    let stop = false;
    const appending = (async () => {
      while (!stop) {
        const answer = await acme().post('/events', { aggregateId: 'turns-1', eventType: 'Made', data: {} });
        if (answer.status === 201) acknowledged++;
        else assert.ok([403, 503].includes(answer.status), answer.text);
      }
    })();
    for (let round = 0; round < 8; round++) {
      const before = acknowledged;
      await until(() => acknowledged > before);
      await suspend(true);
      await suspend(false);
    }
    stop = true;
    await appending;
    const { events } = await acme().read<Listed>('/events/turns-1');
    // An answer of 503 leaves open whether the event was stored.
    assert.ok(events.length >= acknowledged);
    assert.deepEqual(
      events.map(({ version }) => version),
      events.map((_, i) => i + 1),
    );
  });

  await t.test('it can be deleted while it is suspended', async () => {
    await suspend(true);
    success(await admin(service, 'DELETE', '/admin/tenants/acme'), 204);
    problem(await acme().get('/auth/whoami'), 401, 'UNAUTHENTICATED');
    problem(await admin(service, 'PATCH', '/admin/tenants/acme', { suspended: false }), 404, 'NOT_FOUND');
  });
});

test('a tenant is changed as the body says, and a wrong body changes nothing', async (t) => {
  const service = await startService(t, { dataDirectory: temporaryDirectory(t) });
  const patch = (body: unknown): Promise<Answer> => admin(service, 'PATCH', '/admin/tenants/default', body);
  const read = async (): Promise<Record<string, unknown>> =>
    success(await admin(service, 'GET', '/admin/tenants/default'), 200).json();
  success(await patch({ name: 'Shop', quotas: { storageBytes: 1_000_000, projections: 3 } }), 200);
  success(await patch({ quotas: { projections: null, reducers: 0 } }), 200);
  assert.deepEqual((await read())['quotas'], { storageBytes: 1_000_000, reducers: 0 });
  for (const [bad, said] of [
    [{ suspend: true }, /did you mean "suspended"/],
    [{ suspended: 'yes' }, /must be true or false/],
    [{ name: '' }, /invalid fields/],
    [{ quotas: { storage: 5 } }, /there is no such quota; there are requestsPerSecond/],
    [{ quotas: { storageBytes: -1 } }, /must be a whole number/],
    [{ quotas: { storageBytes: 1.5 } }, /must be a whole number/],
    [[], /./],
  ] as const)
    assert.match(problem(await patch(bad), 400, 'INVALID_REQUEST').detail, said);
  problem(await new Api(service).request('PATCH', '/admin/tenants/default', { body: {} }), 401, 'UNAUTHENTICATED');
  const { quotas, name } = await read();
  assert.deepEqual([quotas, name], [{ storageBytes: 1_000_000, reducers: 0 }, 'Shop']);
});
