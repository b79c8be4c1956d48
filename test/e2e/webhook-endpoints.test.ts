// Webhook endpoints as things of their own: made, changed, paused, rotated and tested by their owner, on a real service.
import assert from 'node:assert/strict';
import test from 'node:test';
import { Api, problem, success, TIMESTAMP } from '../support/api.js';
import type { Delivery } from '../support/api-channels.js';
import { ADMIN_KEY, until } from '../support/service.js';
import { ENDPOINTS, idOf, verify, World, type Endpoint } from '../support/webhook-world.js';

test('endpoints of a projection: made, changed without a redeploy, paused, rotated, tested, deleted', async (t) => {
  const w = await World.open(t, { WEBHOOK_RETRY_SECONDS: '1,1,1', MAX_WEBHOOK_ENDPOINTS: '4' });
  let shared: Endpoint;
  let own: Endpoint;

  await t.test('each has a place and a secret of its own; `from` says where it begins', async () => {
    await w.add('before');
    await w.api.notifications(w.projectionId, 1);
    shared = await w.create('/shared', { description: 'all of it' });
    own = await w.create('/own', { isolateSecret: true, from: 'start' });
    assert.deepEqual([shared.isolated, own.isolated, shared.description], [false, true, 'all of it']);
    assert.notEqual(shared.secret, own.secret);
    assert.deepEqual(shared.source, { projectionId: w.projectionId });
    assert.equal(shared.state.status, 'healthy');
    assert.match(shared.state.since, TIMESTAMP);
    await until(() => w.receiver.of('/own').length === 1);
    await w.add('x');
    await until(() => w.receiver.of('/own').length === 2 && w.receiver.of('/shared').length === 1);
    verify(w.receiver.of('/shared')[0], shared.secret);
    verify(w.receiver.of('/own')[1], own.secret);
    assert.throws(() => verify(w.receiver.of('/own')[1], shared.secret));
    assert.equal(idOf(w.receiver.of('/own')[1] as Delivery), idOf(w.receiver.of('/shared')[0] as Delivery));
    const { endpoints } = await w.api.read<{ endpoints: Endpoint[] }>(ENDPOINTS);
    assert.deepEqual(
      endpoints.map(({ endpointId, secret }) => [endpointId, secret]),
      [shared, own].map(({ endpointId }) => [endpointId, undefined]),
    );
  });

  await t.test("another tenant's endpoint is missing, byte for byte", async () => {
    const { apiKey } = success(
      await w.api.post('/admin/tenants', { tenantId: 'other' }, { headers: { 'x-admin-key': ADMIN_KEY } }),
      201,
    ).json<{ apiKey: string }>();
    const other = new Api(w.service, apiKey);
    const nothing = own.endpointId.replace(/.{4}$/, '0000');
    const requestId = (text: string): string => text.replace(/"requestId":"[^"]*"/, '');
    const ask = async (id: string): Promise<string[]> => {
      const at = `${ENDPOINTS}/${id}`;
      const answers = [
        await other.get(at),
        await other.patch(at, { description: 'mine' }),
        await other.delete(at),
        await other.get(`${at}/attempts`),
        await other.get(`${at}/parked`),
        ...(await Promise.all(['rotate', 'test', 'pause', 'resume'].map((what) => other.post(`${at}/${what}`)))),
        await other.post(`${at}/replay`, { from: 1 }),
        await other.post(`${at}/parked/msg_x/resend`),
      ];
      return answers.map((answer) => {
        problem(answer, 404, 'NOT_FOUND');
        return requestId(answer.text).replaceAll(id, '');
      });
    };
    assert.deepEqual(await ask(own.endpointId), await ask(nothing));
    assert.deepEqual((await other.read<{ endpoints: unknown[] }>(ENDPOINTS)).endpoints, []);
    problem(
      await other.post(ENDPOINTS, { url: w.receiver.url, source: { projectionId: w.projectionId } }),
      404,
      'NOT_FOUND',
    );
    assert.equal((await w.get(own)).description, undefined);
  });

  await t.test('what is not as it must be is refused with its place', async () => {
    const refused = async (fields: object, pointer: string): Promise<void> => {
      const body = { url: `${w.receiver.url}/never`, source: { projectionId: w.projectionId }, ...fields };
      const { errors } = problem(await w.api.post(ENDPOINTS, body), 400, 'INVALID_REQUEST');
      assert.equal((errors as { pointer: string }[])[0]?.pointer, pointer, JSON.stringify(errors));
    };
    await refused({ url: '' }, '/url');
    await refused({ source: {} }, '/source');
    await refused({ source: { projectionId: 'p', feed: {} } }, '/source');
    await refused({ keys: [] }, '/keys');
    await refused({ ratePerSecond: 0 }, '/ratePerSecond');
    await refused({ from: 'yesterday' }, '/from');
    await refused({ isolatedSecret: true }, '/isolatedSecret');
    for (const name of ['Webhook-Id', 'webhook-signature', 'Content-Type', 'Host', 'Connection', 'Proxy_Foo', 'a b'])
      await refused({ headers: { [name]: 'x' } }, `/headers/${name}`);
    await refused({ headers: { 'x-a': 'b\r\nwebhook-id: forged' } }, '/headers/x-a');
    problem(
      await w.api.post(ENDPOINTS, { url: 'ftp://a.example', source: { projectionId: w.projectionId } }),
      400,
      'WEBHOOK_URL_REFUSED',
    );
  });

  await t.test('there are no more of them than the owner of the service lets a tenant have', async () => {
    const [third, fourth] = [await w.create('/3'), await w.create('/4')];
    const body = { url: w.receiver.url, source: { projectionId: w.projectionId } };
    problem(await w.api.post(ENDPOINTS, body), 507, 'QUOTA_EXCEEDED');
    for (const one of [third, fourth]) success(await w.api.delete(`${ENDPOINTS}/${one.endpointId}`), 204);
  });

  await t.test('a change holds from the next attempt on: URL, headers, secret', async () => {
    w.receiver.statuses.set('/own', 500);
    await w.add('moving');
    await until(async () => (await w.get(own)).state.status === 'failing');
    assert.equal((await w.get(own)).state.reason, 'answered 500');
    const changed = success(
      await w.api.patch(`${ENDPOINTS}/${own.endpointId}`, {
        url: `${w.receiver.url}/moved`,
        headers: { Authorization: 'Bearer t', 'X-Team': 'orders' },
      }),
      200,
    ).json<Endpoint>();
    assert.deepEqual(changed.headerNames, ['authorization', 'x-team']);
    assert.equal(changed.secret, undefined);
    await until(() => w.receiver.of('/moved').length >= 1);
    const [moved] = w.receiver.of('/moved');
    verify(moved, own.secret);
    assert.deepEqual([moved?.record.key, moved?.headers['authorization']], ['moving', 'Bearer t']);
    await until(async () => (await w.get(own)).state.status === 'healthy');
    // Merged by name; the values are nowhere shown.
    const merged = success(
      await w.api.patch(`${ENDPOINTS}/${own.endpointId}`, { headers: { 'X-TEAM': null, 'x-more': '1' } }),
      200,
    );
    assert.deepEqual(merged.json<Endpoint>().headerNames, ['authorization', 'x-more']);
    assert.ok(!merged.text.includes('Bearer'));
    await w.add('again');
    await until(() => w.receiver.of('/moved').length === 2);
    const { headers } = w.receiver.of('/moved')[1] as Delivery;
    assert.deepEqual([headers['authorization'], headers['x-team'], headers['x-more']], ['Bearer t', undefined, '1']);
    problem(await w.api.patch(`${ENDPOINTS}/${own.endpointId}`, { source: { feed: {} } }), 400, 'INVALID_REQUEST');
  });

  await t.test('the rotation of one changes no other; a shared secret is not rotated by one', async () => {
    const { secret } = success(await w.post(own, 'rotate'), 200).json<{ secret: string }>();
    assert.notEqual(secret, own.secret);
    await w.add('rotated');
    await until(() => w.receiver.of('/moved').some(({ record }) => record.key === 'rotated'));
    const delivery = w.receiver.of('/moved').find(({ record }) => record.key === 'rotated');
    verify(delivery, secret);
    verify(delivery, own.secret);
    problem(await w.post(shared, 'rotate'), 400, 'WEBHOOK_SECRET_SHARED');
    own = { ...own, secret };
    const isolated = success(
      await w.api.patch(`${ENDPOINTS}/${shared.endpointId}`, { isolateSecret: true }),
      200,
    ).json<Endpoint>();
    assert.ok(isolated.isolated && isolated.secret !== shared.secret);
    const back = success(
      await w.api.patch(`${ENDPOINTS}/${shared.endpointId}`, { isolateSecret: false }),
      200,
    ).json<Endpoint>();
    assert.deepEqual([back.isolated, back.secret], [false, shared.secret]);
  });

  await t.test('a paused one gets nothing, also across a kill, and all of it when it is resumed', async () => {
    const paused = success(await w.post(shared, 'pause'), 200).json<Endpoint>();
    assert.equal(paused.state.status, 'paused');
    const before = w.receiver.of('/shared').length;
    // A kill may repeat what was delivered just before it, under its id.
    const told = new Set(w.receiver.of('/shared').map(({ headers }) => headers['webhook-id']));
    await w.add('late');
    await until(() => w.receiver.of('/moved').some(({ record }) => record.key === 'late'));
    await w.service.kill();
    await w.start();
    await w.add('later');
    await until(() => w.receiver.of('/moved').some(({ record }) => record.key === 'later'));
    assert.equal((await w.get(shared)).state.status, 'paused');
    assert.equal(w.receiver.of('/shared').length, before);
    // A test goes out all the same.
    assert.equal(success(await w.post(shared, 'test'), 200).json<{ delivered: boolean }>().delivered, true);
    const sent = w.receiver.of('/shared').at(-1);
    assert.match(sent?.body ?? '', /^\{"type":"endpoint\.test",/);
    verify(sent, shared.secret);
    assert.equal(success(await w.post(shared, 'resume'), 200).json<Endpoint>().state.status, 'healthy');
    const keys = (): string[] =>
      w.receiver
        .of('/shared')
        .slice(before + 1)
        .flatMap(({ headers, record }) => (told.has(headers['webhook-id']) ? [] : [record.key]));
    // They are of two keys, which are sent side by side.
    await until(() => new Set(keys()).size === 2);
    assert.deepEqual(new Set(keys()), new Set(['late', 'later']));
  });

  await t.test('410 disables it with a reason; a resume enables it', async () => {
    w.receiver.statuses.set('/shared', 410);
    await w.add('gone');
    await until(async () => (await w.get(shared)).state.status === 'disabled');
    const { state } = await w.get(shared);
    assert.match(state.reason ?? '', /410/);
    assert.match(state.since, TIMESTAMP);
    const acts = `/audit?key=service&object=${shared.endpointId}&outcome=done`;
    await until(async () => (await w.api.read<{ entries: unknown[] }>(acts)).entries.length > 0);
    const [act] = (await w.api.read<{ entries: { action: string; details: object }[] }>(acts)).entries;
    assert.deepEqual([act?.action, act?.details], ['endpoint.disable', { why: 'gone' }]);
    w.receiver.statuses.set('/shared', 503);
    const tested = success(await w.post(shared, 'test'), 200).json<{ delivered: boolean; status: number }>();
    assert.deepEqual([tested.delivered, tested.status], [false, 503]);
    w.receiver.statuses.delete('/shared');
    success(await w.post(shared, 'resume'), 200);
    await until(() => w.receiver.of('/shared').filter(({ record }) => record.key === 'gone').length === 2);
    assert.equal((await w.get(shared)).state.status, 'healthy');
  });

  await t.test("the webhook of an upload is the projection's first endpoint", async () => {
    const config = { webhook: { url: `${w.receiver.url}/first` }, isolateSecret: true };
    success(await w.api.put(`/projections/${w.projectionId}/config`, config), 200);
    const first = await w.api.read<Endpoint>(`${ENDPOINTS}/${w.projectionId}`);
    assert.deepEqual([first.url, first.isolated], [`${w.receiver.url}/first`, true]);
    success(await w.api.patch(`${ENDPOINTS}/${w.projectionId}`, { keys: ['only'], url: `${w.receiver.url}/1` }), 200);
    await w.add('other');
    await w.add('only');
    await until(() => w.receiver.of('/1').length === 1);
    assert.equal(w.receiver.of('/1')[0]?.record.key, 'only');
    // What the config does not say stays.
    success(await w.api.put(`/projections/${w.projectionId}/config`, config), 200);
    assert.deepEqual((await w.api.read<Endpoint>(`${ENDPOINTS}/${w.projectionId}`)).keys, ['only']);
    success(await w.api.delete(`${ENDPOINTS}/${w.projectionId}`), 204);
    problem(await w.api.get(`${ENDPOINTS}/${w.projectionId}`), 404, 'NOT_FOUND');
  });

  await t.test('what is deleted gets nothing more, and goes with its projection', async () => {
    success(await w.api.delete(`${ENDPOINTS}/${shared.endpointId}`), 204);
    problem(await w.api.get(`${ENDPOINTS}/${shared.endpointId}`), 404, 'NOT_FOUND');
    const before = w.receiver.of('/shared').length;
    await w.add('end');
    await until(() => w.receiver.of('/moved').some(({ record }) => record.key === 'end'));
    assert.equal(w.receiver.of('/shared').length, before);
    success(await w.api.delete(`/projections/${w.projectionId}`), 204);
    problem(await w.api.get(`${ENDPOINTS}/${own.endpointId}`), 404, 'NOT_FOUND');
  });
});

test('SSRF: a changed URL is checked, redirects are not followed', async (t) => {
  const w = await World.open(t);
  const endpoint = await w.create('/redirects');
  w.receiver.answers.set('/redirects', () => ({ status: 307, headers: { location: `${w.receiver.url}/inside` } }));
  const tested = success(await w.post(endpoint, 'test'), 200).json<{
    delivered: boolean;
    status: number;
    error: string;
  }>();
  assert.deepEqual([tested.delivered, tested.status], [false, 307]);
  assert.match(tested.error, /redirects are not followed/);
  assert.equal(w.receiver.of('/inside').length, 0);
  await w.service.stop();
  await w.start({ WEBHOOK_ALLOW_PRIVATE: 'false' });
  const { port } = new URL(w.receiver.url);
  const before = w.receiver.deliveries.length;
  for (const host of [
    '127.0.0.1',
    'localhost',
    '169.254.169.254',
    '[::1]',
    '[::ffff:7f00:1]',
    '0x7f.1',
    'nothing.invalid',
  ])
    problem(
      await w.api.patch(`${ENDPOINTS}/${endpoint.endpointId}`, { url: `http://${host}:${port}/ssrf` }),
      400,
      'WEBHOOK_URL_REFUSED',
    );
  assert.equal((await w.get(endpoint)).url, `${w.receiver.url}/redirects`);
  // What was stored while they were allowed is refused when it is dialled.
  const refused = success(await w.post(endpoint, 'test'), 200).json<{ delivered: boolean; error: string }>();
  assert.equal(refused.delivered, false);
  assert.match(refused.error, /not public/);
  assert.equal(w.receiver.deliveries.length, before);
});
