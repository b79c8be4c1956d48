// Two processes over one log, of which one owns the tenant and the other notifies of it, from a copy that follows.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WebSocket } from 'ws';
import { InvariantError } from '../../src/core/errors.js';
import { edgePair, PROJECTION, TENANT, type EdgeNode, type EdgePair } from '../support/edge-pair.js';
import { until } from '../support/service.js';

interface Changed {
  readonly sequence: number;
  readonly state: { readonly total: number };
  readonly key: string;
}

async function ask<T>(
  { apiKey }: EdgePair,
  node: EdgeNode,
  path: string,
  body?: object,
): Promise<{ status: number; body: T }> {
  const response = await fetch(node.url + path, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { 'X-API-Key': apiKey, 'Content-Type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: (await response.json()) as T };
}

const append = async (pair: EdgePair, node: EdgeNode, aggregateId: string): Promise<void> => {
  const { status } = await ask(pair, node, '/events', { aggregateId, eventType: 'Counted', data: {} });
  assert.equal(status, 201);
};

const poll = async (pair: EdgePair, node: EdgeNode, after: number, more = ''): Promise<readonly Changed[]> => {
  const { status, body } = await ask<{ notifications: Changed[] }>(
    pair,
    node,
    `/projections/${PROJECTION}/notifications?limit=1000&afterSequence=${after}${more}`,
  );
  assert.equal(status, 200);
  return body.notifications;
};

/** Follows over WebSocket, and connects again where it was. */
function stream(
  pair: EdgePair,
  node: EdgeNode,
): { readonly received: Changed[]; readonly connections: () => number; stop(): void } {
  const received: Changed[] = [];
  let connections = 0;
  let stopped = false;
  let socket: WebSocket | undefined;
  const connect = (): void => {
    socket = new WebSocket(
      `${node.url.replace('http', 'ws')}/projections/${PROJECTION}/stream?afterSequence=${received.at(-1)?.sequence ?? 0}`,
      { headers: { 'X-API-Key': pair.apiKey } },
    );
    socket.on('open', () => connections++);
    socket.on('error', () => undefined);
    socket.on('message', (data: Buffer) => {
      const message = JSON.parse(data.toString()) as Changed & { type: string };
      if (message.type === 'state_changed') received.push(message);
    });
    socket.on('close', () => void (stopped ? undefined : connect()));
  };
  connect();
  return {
    received,
    connections: () => connections,
    stop: () => {
      stopped = true;
      socket?.terminate();
    },
  };
}

/** `owner` owns the tenant, and `notifier` notifies of it. */
function cast({ a, b }: EdgePair, owner: EdgeNode, notifier: EdgeNode): void {
  for (const node of [a, b]) {
    node.ownership.tell(node === owner ? 'self' : { url: owner.url });
    node.ownership.tellNotifier(node === notifier ? 'self' : { url: notifier.url });
  }
}

test('polls and streams are answered by who notifies, and miss nothing as owner and notifier change', async (t) => {
  const pair = await edgePair(t, { projection: true, aligned: true });
  const { a, b } = pair;
  cast(pair, b, a);
  const streams = [a, b].map((node) => stream(pair, node));
  t.after(() => streams.forEach((one) => one.stop()));
  let sent = 0;
  const load = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i++) {
      await append(pair, sent % 2 === 0 ? a : b, `tally-${sent % 7}`);
      sent++;
    }
  };
  const settled = (): Promise<unknown> => until(() => streams.every(({ received }) => received.length === sent));

  await load(40);
  await settled();
  assert.equal(a.registry.size, 0, 'it owns nothing');
  assert.equal(a.registry.standby(TENANT)?.status, 'STANDBY');
  assert.deepEqual([a.hub.subscriptions, b.hub.subscriptions], [2, 0], 'both streams are with who notifies');

  // What was seen at the owner is in the next poll, which another process answers from its copy.
  for (let i = 0; i < 30; i++) {
    await load(1);
    let seen = 0;
    await until(async () => {
      const { body } = await ask<{ states: { sequence: number }[] }>(pair, b, `/projections/${PROJECTION}/states`);
      seen = Math.max(...body.states.map(({ sequence }) => sequence));
      return seen >= sent;
    });
    assert.equal((await poll(pair, i % 2 === 0 ? a : b, seen - 1))[0]?.sequence, seen);
    assert.deepEqual(await poll(pair, a, seen), [], 'nothing comes after it');
  }
  const waiting = poll(pair, b, sent, '&waitSeconds=30');
  await until(() => a.hub.subscriptions === 3);
  await load(1);
  assert.equal((await waiting)[0]?.sequence, sent);

  // The notifier takes the tenant, loses it again, and then the roles change places; under load each time.
  for (const [owner, notifier] of [
    [a, a],
    [b, a],
    [a, b],
    [b, b],
    [b, a],
  ] as const) {
    const loading = load(30);
    cast(pair, owner, notifier);
    await loading;
    await settled();
    const other = notifier === a ? b : a;
    await until(() => notifier.hub.subscriptions === 2 && other.hub.subscriptions === 0);
    assert.equal(owner.registry.active(TENANT)?.status, 'RUNNING');
    if (owner !== notifier)
      await until(
        () => notifier.registry.standby(TENANT)?.status === 'STANDBY' && notifier.registry.active(TENANT) === undefined,
      );
  }
  const all = await poll(pair, a, 0);
  assert.deepEqual(
    all.map(({ sequence }) => sequence),
    [...all.map(({ sequence }) => sequence)].sort((x, y) => x - y),
  );
  assert.equal(all.length, sent);
  for (const { received } of streams)
    assert.deepEqual(
      received.map(({ sequence, key, state }) => [sequence, key, state.total]),
      all.map(({ sequence, key, state }) => [sequence, key, state.total]),
    );
  assert.ok(
    streams.every(({ connections }) => connections() >= 3),
    'they were sent to the other notifier',
  );
});

test('a copy that lags answers nothing of the past: a poll has what was seen elsewhere, a live stream begins after it', async (t) => {
  const pair = await edgePair(t, { projection: true, aligned: true });
  const { a, b } = pair;
  cast(pair, b, a);
  assert.deepEqual(await poll(pair, b, 0), []);
  assert.equal(a.registry.standby(TENANT)?.status, 'STANDBY');
  const seen = async (sequence: number): Promise<void> =>
    until(async () =>
      (await ask<{ states: { sequence: number }[] }>(pair, b, `/projections/${PROJECTION}/states`)).body.states.some(
        (row) => row.sequence === sequence,
      ),
    );
  let release: () => void = () => undefined;
  a.hold.following = new Promise((resolve) => (release = resolve));
  const first: number[] = [];
  const sockets: WebSocket[] = [];
  t.after(() => sockets.forEach((socket) => socket.terminate()));
  for (const sequence of [1, 2, 3]) {
    await append(pair, b, 'tally-1');
    await seen(sequence);
    if (sequence < 3)
      assert.deepEqual(
        (await poll(pair, b, sequence - 1)).map((one) => one.sequence),
        [sequence],
      );
  }
  const events = await fetch(`${b.url}/projections/${PROJECTION}/sse`, { headers: { 'X-API-Key': pair.apiKey } });
  const reader = (events.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader();
  t.after(() => reader.cancel());
  await append(pair, b, 'tally-1');
  await seen(4);
  const socket = new WebSocket(`${b.url.replace('http', 'ws')}/projections/${PROJECTION}/stream`, {
    headers: { 'X-API-Key': pair.apiKey },
  });
  sockets.push(socket);
  socket.on('message', (data: Buffer) => void first.push((JSON.parse(data.toString()) as Changed).sequence));
  await until(() => socket.readyState === WebSocket.OPEN);
  release();
  await append(pair, b, 'tally-1');
  await until(() => first.length > 0);
  assert.equal(first[0], 5, 'what was answered before it was open is not in it');
  let text = '';
  while (!/^id: \d+$/m.test(text)) text += (await reader.read()).value ?? assert.fail(text);
  assert.equal(/^id: (\d+)$/m.exec(text)?.[1], '4');
});

test('a copy for notifications that can not follow any more is replaced, and its followers go on', async (t) => {
  const pair = await edgePair(t, { projection: true, aligned: true });
  const { a, b } = pair;
  cast(pair, b, a);
  const one = stream(pair, a);
  t.after(() => one.stop());
  await append(pair, b, 'tally-1');
  await until(() => one.received.length === 1);
  const first = a.registry.standby(TENANT);
  const lost = Promise.reject(new InvariantError('the log dropped what was not read'));
  lost.catch(() => undefined);
  a.hold.following = lost;
  await until(() => a.registry.standby(TENANT) !== first);
  a.hold.following = undefined;
  await append(pair, b, 'tally-1');
  await until(() => one.received.length === 2);
  assert.notEqual(a.registry.standby(TENANT), first);
  assert.equal(one.connections(), 1, 'clients see nothing of it');
});

test('a process without the role gateway serves other processes and its probes, and tells clients so', async (t) => {
  const pair = await edgePair(t, {
    projection: true,
    envOf: { a: {}, b: { KAFKA_BROKERS: 'kafka:9092', ROLES: 'tasks,notifier' } },
  });
  const { a, b } = pair;
  await append(pair, a, 'tally-1');
  assert.equal((await ask(pair, a, '/events/tally-1')).status, 200);
  for (const path of [
    '/events/tally-1',
    '/projections',
    '/auth/whoami',
    '/openapi.json',
    '/admin/tenants',
    '/nothing',
  ]) {
    const { status, body } = await ask<{ code: string; detail: string }>(pair, b, path);
    assert.deepEqual([status, body.code], [503, 'UNAVAILABLE'], path);
    assert.match(body.detail, /takes no requests of clients/);
  }
  const refused = await ask<{ code: string }>(pair, b, '/events', {
    aggregateId: 'tally-1',
    eventType: 'Counted',
    data: {},
  });
  assert.deepEqual([refused.status, refused.body.code], [503, 'UNAVAILABLE']);
  assert.equal((await ask(pair, b, '/health')).status, 200);
  assert.equal((await ask(pair, b, '/health/ready')).status, 200);
  const metrics = await fetch(`${b.url}/metrics`);
  assert.equal(metrics.status, 401, 'it is there, for the admin');
  const status = await new Promise<number | undefined>((resolve) => {
    const socket = new WebSocket(`${b.url.replace('http', 'ws')}/projections/${PROJECTION}/stream`, {
      headers: { 'X-API-Key': pair.apiKey },
    });
    socket.on('unexpected-response', (_request, response) => {
      resolve(response.statusCode);
      socket.terminate();
    });
    socket.on('error', () => undefined);
  });
  assert.equal(status, 503);
  const through = stream(pair, a);
  t.after(() => through.stop());
  await until(() => through.received.length === 1);
});
