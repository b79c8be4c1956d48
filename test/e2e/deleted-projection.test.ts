import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { Api, problem, success } from '../support/api.js';
import { openEvents, openSocket, Receiver } from '../support/api-channels.js';
import { totals } from '../support/csharp.js';
import { AS_ADMIN, startService, temporaryDirectory, until } from '../support/service.js';

test('a projection that is deleted ends everywhere, and others do not notice', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  let service = await startService(t, { readStore: true, dataDirectory });
  let api = new Api(service);
  const receiver = await Receiver.open(t);
  const ask = async (statement: string): Promise<unknown[]> => {
    const { url, user, password, database } = await api.readStoreAccess();
    const answer = await fetch(`${url}/?database=${database}`, {
      method: 'POST',
      headers: { 'X-ClickHouse-User': user, 'X-ClickHouse-Key': password },
      body: `${statement} FORMAT JSONCompactEachRow`,
    });
    const text = await answer.text();
    assert.equal(answer.status, 200, text);
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as unknown);
  };
  const rowsOf = async (id: string): Promise<unknown[]> => [
    ...(await ask(`SELECT key FROM projection_states FINAL WHERE projection_id = '${id}' ORDER BY key`)),
    ...(await ask(`SELECT key FROM notifications FINAL WHERE projection_id = '${id}' ORDER BY key`)),
  ];
  const add = (key: string): ReturnType<Api['append']> => api.append(`a-${key}`, 'Added', { key, n: 1 });

  await until(async () => (await api.get('/admin/read-store', AS_ADMIN)).status === 200);
  await add('x');
  const config = JSON.stringify({ sse: true, webhook: { url: `${receiver.url}/gone` } });
  const id = await api.deployProjection({ 'Totals.cs': totals() }, { config });
  const other = await api.deployProjection({ 'Totals.cs': totals() });
  const events = await openEvents(t, api, id);
  const socket = await openSocket(t, api, id);
  const polled = api.get(`/projections/${id}/notifications?afterSequence=1000000&waitSeconds=60`);
  for (const one of [id, other]) await until(async () => (await rowsOf(one)).length === 2);
  await until(() => receiver.of('/gone').length === 1);

  await t.test('subscribers are told, and webhooks are called off', async () => {
    receiver.statuses.set('/gone', 500);
    await add('y');
    await until(() => receiver.of('/gone').length > 1);
    success(await api.delete(`/projections/${id}`), 204);
    await events.ended;
    assert.ok((await socket.closed) >= 1000);
    problem(await polled, 404, 'NOT_FOUND');
    const tries = receiver.of('/gone').length;
    await add('z');
    await until(async () => (await api.notifications(other, 3)).length === 3);
    assert.equal(receiver.of('/gone').length, tries);
  });

  await t.test('its states are gone from ClickHouse, and stay so after a rebuild', async () => {
    await until(async () => (await rowsOf(id)).length === 0);
    await until(async () => (await rowsOf(other)).length === 6);
    success(await api.post('/admin/read-store/rebuild', undefined, AS_ADMIN), 202);
    await until(async () => (await rowsOf(other)).length === 6);
    assert.deepEqual(await rowsOf(id), []);
  });

  await t.test('a rebuild makes a table anew that an analyst dropped, with all its rows', async () => {
    const command = async (statement: string): Promise<void> => {
      const { url, user, password, database } = await api.readStoreAccess();
      const answer = await fetch(`${url}/?database=${database}`, {
        method: 'POST',
        headers: { 'X-ClickHouse-User': user, 'X-ClickHouse-Key': password },
        body: statement,
      });
      assert.equal(answer.status, 200, await answer.text());
    };
    const events = (): Promise<unknown[]> =>
      ask('SELECT aggregate_id, version FROM events FINAL ORDER BY aggregate_id, version');
    const stored = await events();
    assert.ok(stored.length > 0);
    for (const tables of [
      ['events'],
      ['events', 'aggregate_states', 'projection_states', 'notifications', 'watermarks'],
    ]) {
      for (const table of tables) await command(`DROP TABLE ${table} SYNC`);
      success(await api.post('/admin/read-store/rebuild', undefined, AS_ADMIN), 202);
      await until(async () => (await events()).length === stored.length && (await rowsOf(other)).length === 6);
      assert.deepEqual(await events(), stored);
    }
  });

  await t.test('after a kill, and without the local store, it is not there', async () => {
    await service.kill();
    rmSync(join(dataDirectory, 'store'), { recursive: true });
    service = await startService(t, { readStore: true, dataDirectory });
    api = new Api(service);
    await until(async () => (await api.get('/admin/read-store', AS_ADMIN)).status === 200);
    problem(await api.get(`/projections/${id}/states`), 404, 'NOT_FOUND');
    await add('w');
    await until(async () => (await rowsOf(other)).length === 8);
    assert.deepEqual(await rowsOf(id), []);
  });
});
