import assert from 'node:assert/strict';
import test from 'node:test';
import { Api, problem, success, type Notification } from '../support/api.js';
import { openEvents, openSocket, refusedUpgrade } from '../support/api-channels.js';
import { totals } from '../support/csharp.js';
import { startService, temporaryDirectory, until } from '../support/service.js';

test('notifications', async (t) => {
  const dataDirectory = temporaryDirectory(t);
  let service = await startService(t, { dataDirectory });
  let api = new Api(service);
  let n = 0;
  const add = async (count: number, key = 'x'): Promise<void> => {
    for (let i = 0; i < count; i++) await api.append('a-1', 'Added', { key, n: ++n });
  };
  const poll = async (query = ''): Promise<Notification[]> =>
    (await api.read<{ notifications: Notification[] }>(`/projections/${id}/notifications?limit=1000${query}`))
      .notifications;
  const id = await api.deployProjection({ 'Totals.cs': totals() }, { config: JSON.stringify({ sse: true }) });
  const other = await api.deployProjection({ 'Totals.cs': totals() });

  await t.test('polling from the oldest, by pages, by cursor and by key', async () => {
    await add(3);
    await add(2, 'y');
    await add(2);
    const all = await api.notifications(id, 7);
    assert.deepEqual(
      all.map(({ key, version }) => [key, version]),
      [1, 2, 3, 4, 5, 6, 7].map((version) => [version === 4 || version === 5 ? 'y' : 'x', version]),
    );
    assert.ok(all.every(({ sequence }, i) => i === 0 || sequence > (all[i - 1]?.sequence ?? 0)));
    const paged: Notification[] = [];
    for (let after = 0; ; after = paged.at(-1)?.sequence ?? 0) {
      const { notifications: page } = await api.read<{ notifications: Notification[] }>(
        `/projections/${id}/notifications?limit=2&afterSequence=${after}`,
      );
      if (page.length === 0) break;
      assert.ok(page.length <= 2);
      paged.push(...page);
    }
    assert.deepEqual(paged, all);
    assert.deepEqual(await poll(`&afterSequence=${all[4]?.sequence}`), all.slice(5));
    assert.deepEqual(await poll(`&afterSequence=${Number.MAX_SAFE_INTEGER}`), []);
    assert.deepEqual(await poll('&key=y'), all.slice(3, 5));
    assert.deepEqual(await poll('&key=nothing'), []);
    for (const query of [
      'afterSequence=-1',
      'afterSequence=x',
      'afterSequence=1e3',
      'afterSequence=',
      'afterSequence=9007199254740993',
      'afterSequence=1&afterSequence=2',
      'limit=0',
      'limit=1001',
      'waitSeconds=61',
      'waitSeconds=-1',
      'key=',
      'key=%00',
      `key=${'k'.repeat(257)}`,
    ])
      problem(await api.get(`/projections/${id}/notifications?${query}`), 400, 'INVALID_REQUEST');
    problem(await api.get('/projections/nothing/notifications'), 404, 'NOT_FOUND');
    assert.equal((await api.get(`/projections/${id}/notifications`, { key: null })).status, 401);
  });

  await t.test('a long poll waits for what comes, and no longer', async () => {
    const last = (await poll()).at(-1)?.sequence;
    const began = performance.now();
    const waiting = api.read<{ notifications: Notification[] }>(
      `/projections/${id}/notifications?afterSequence=${last}&waitSeconds=30`,
    );
    await add(1);
    assert.equal((await waiting).notifications.length, 1);
    assert.ok(performance.now() - began < 20_000);
    const newest = (await poll()).at(-1)?.sequence;
    const empty = performance.now();
    assert.deepEqual(
      (
        await api.read<{ notifications: unknown[] }>(
          `/projections/${id}/notifications?afterSequence=${newest}&waitSeconds=1`,
        )
      ).notifications,
      [],
    );
    assert.ok(performance.now() - empty >= 900);
  });

  await t.test('an upgrade is refused in HTTP', async () => {
    const url = `${service.url}/projections/${id}/stream`;
    const headers = { 'x-api-key': String(api.key) };
    for (const [path, given, status, code] of [
      [url, {}, 401, 'UNAUTHENTICATED'],
      [url, { 'x-api-key': 'not-a-key' }, 401, 'UNAUTHENTICATED'],
      [`${service.url}/projections/nothing/stream`, headers, 404, 'NOT_FOUND'],
      [`${service.url}/projections/nothing/stream`, {}, 401, 'UNAUTHENTICATED'],
      [`${service.url}/health`, headers, 404, 'NOT_FOUND'],
      [`${url}?afterSequence=x`, headers, 400, 'INVALID_REQUEST'],
      [`${url}?afterSequence=-1`, headers, 400, 'INVALID_REQUEST'],
      [`${service.url}/projections/%zz/stream`, headers, 400, 'INVALID_REQUEST'],
    ] as const) {
      const refused = await refusedUpgrade(path, given);
      assert.deepEqual(
        [refused.status, refused.problem['status'], refused.problem['code']],
        [status, status, code],
        path,
      );
      assert.equal(typeof refused.problem['requestId'], 'string');
    }
    problem(await api.get(`/projections/${id}/stream`), 400, 'INVALID_REQUEST');
  });

  await t.test('the same records on polling, WebSocket and SSE', async () => {
    const socket = await openSocket(t, api, id);
    const events = await openEvents(t, api, id);
    const ofX = await openSocket(t, api, id, '?key=x');
    const elsewhere = await openSocket(t, api, other);
    const last = (await poll()).at(-1)?.sequence;
    await add(3);
    await add(2, 'y');
    await add(1);
    // Live only: nothing of what was before.
    const [first] = await socket.received(6);
    assert.deepEqual(Object.keys(first ?? {}).slice(0, 2), ['sequence', 'projectionId']);
    await events.received(6);
    await ofX.received(4);
    await elsewhere.received(6);
    const answer = await api.get(`/projections/${id}/notifications?afterSequence=${last}`);
    assert.equal(answer.text, `{"notifications":[${socket.texts.join(',')}]}`);
    assert.deepEqual(events.texts, socket.texts);
    assert.deepEqual(
      ofX.records,
      socket.records.filter(({ key }) => key === 'x'),
    );
    assert.deepEqual(
      elsewhere.records.map(({ projectionId }) => projectionId),
      Array.from({ length: 6 }, () => other),
    );
    for (const { sequence, version, state, timestamp, aggregateId, aggregateType, projectionId } of socket.records) {
      assert.ok(Number.isInteger(sequence) && Number.isInteger(version) && typeof state === 'object');
      assert.deepEqual([typeof timestamp, aggregateId, aggregateType, projectionId], ['string', 'a-1', 'a', id]);
    }
    for (const channel of [socket, events, ofX, elsewhere]) channel.close();
    assert.equal(await socket.closed, 1005);
  });

  await t.test('a resume at any sequence goes on without gap or repeat while events come', async () => {
    const all = await poll();
    const cursors = [0, all[3]?.sequence, all.at(-2)?.sequence, all.at(-1)?.sequence];
    const writing = add(30);
    const sockets = await Promise.all(cursors.map((after) => openSocket(t, api, id, `?afterSequence=${after}`)));
    const streams = await Promise.all(
      cursors.map((after, i) =>
        i % 2 === 0
          ? openEvents(t, api, id, `?afterSequence=${after}`)
          : openEvents(t, api, id, '?afterSequence=0', { 'last-event-id': String(after) }),
      ),
    );
    await writing;
    const total = await api.notifications(id, all.length + 30);
    for (const [i, after] of cursors.entries())
      for (const channel of [sockets[i], streams[i]]) {
        const expected = total.filter(({ sequence }) => sequence > (after ?? 0));
        assert.deepEqual(await channel?.received(expected.length), expected);
        channel?.close();
      }
  });

  await t.test('SSE: off unless the config says so; a bad Last-Event-ID is refused', async () => {
    problem(await api.get(`/projections/${other}/sse`), 404, 'SSE_DISABLED');
    problem(await api.get('/projections/nothing/sse'), 404, 'NOT_FOUND');
    problem(await api.get(`/projections/${id}/sse`, { key: null }), 401, 'UNAUTHENTICATED');
    problem(await api.get(`/projections/${id}/sse`, { headers: { 'last-event-id': 'x' } }), 400, 'INVALID_REQUEST');
  });

  await t.test('a client that says anything but pong is closed', async () => {
    const socket = await openSocket(t, api, id);
    socket.socket.send('{"type":"pong"}');
    socket.socket.send('{"type":"subscribe"}');
    assert.equal(await socket.closed, 1008);
    const loud = await openSocket(t, api, id);
    loud.socket.send('x'.repeat(8192));
    assert.equal(await loud.closed, 1009);
  });

  await t.test('followers resume over kills and restarts: every record once', async () => {
    const start = (await poll()).at(-1)?.sequence ?? 0;
    const seen: Notification[] = [];
    const last = (): number => seen.at(-1)?.sequence ?? start;
    for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
      const socket = await openSocket(t, api, id, `?afterSequence=${last()}`);
      const events = await openEvents(t, api, id, '', { 'last-event-id': String(last()) });
      await add(5);
      await until(() => socket.records.length >= 1 && events.records.length >= 1);
      // The last appends may be acknowledged and not yet pushed.
      const ending = service.kill(signal);
      const code = await socket.closed;
      await events.ended;
      await ending;
      assert.equal(code, signal === 'SIGTERM' ? 1001 : 1006);
      const shorter = Math.min(socket.texts.length, events.texts.length);
      assert.deepEqual(socket.texts.slice(0, shorter), events.texts.slice(0, shorter));
      seen.push(...socket.records);
      service = await startService(t, { dataDirectory });
      api = new Api(service);
    }
    const socket = await openSocket(t, api, id, `?afterSequence=${last()}`);
    await add(3);
    await until(() => seen.length + socket.records.length >= 13);
    seen.push(...socket.records);
    assert.deepEqual(seen, await poll(`&afterSequence=${start}`));
    assert.equal(seen.length, 13);
  });

  await t.test('a deletion ends its followers', async () => {
    const socket = await openSocket(t, api, id);
    const events = await openEvents(t, api, id);
    const waiting = api.get(`/projections/${id}/notifications?waitSeconds=30&afterSequence=${Number.MAX_SAFE_INTEGER}`);
    success(await api.delete(`/projections/${id}`), 204);
    assert.equal(await socket.closed, 4404);
    await events.ended;
    problem(await waiting, 404, 'NOT_FOUND');
  });
});
