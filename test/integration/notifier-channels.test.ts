import assert from 'node:assert/strict';
import { createServer, get, type IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { test, type TestContext } from 'node:test';
import { WebSocket } from 'ws';
import {
  isRefused,
  StatefoldClient,
  type SubscribeOptions,
  type WebSocketFactory,
} from '../../packages/client/src/index.js';
import { MemoryBudget } from '../../src/core/budget.js';
import { StatefoldError } from '../../src/core/errors.js';
import { silentLogger } from '../../src/core/logger.js';
import { costOfListed, type Turns } from '../../src/core/turns.js';
import { Authenticator } from '../../src/http/auth.js';
import { Channels } from '../../src/http/channels.js';
import { ConcurrencyQuota } from '../../src/http/concurrency-quota.js';
import { Refusals } from '../../src/http/refusals.js';
import type { Followed } from '../../src/http/followed.js';
import { integerFrom } from '../../src/http/parameters.js';
import { RequestMemory, UNBOUNDED_REQUESTS } from '../../src/http/request-memory.js';
import { createRouter, upgradesOf } from '../../src/http/router.js';
import { Tickets } from '../../src/http/tickets.js';
import { route, type Route, type RouteDependencies } from '../../src/http/routes/dependencies.js';
import { FEED } from '../../src/http/routes/feed.js';
import { NOTIFICATIONS } from '../../src/http/routes/notifications.js';
import { followDeletions } from '../../src/app/follow-deletions.js';
import type { EventFeed } from '../../src/feed/events.js';
import type { FeedItem, PositionedEvent } from '../../src/feed/feed-item.js';
import { FeedHub } from '../../src/feed/hub.js';
import { ALL_EVENTS } from '../../src/feed/sources.js';
import { feedOf, ListedInputs } from '../support/listed-inputs.js';
import {
  change,
  ListFeed,
  ListTenants,
  listening,
  ManualTimers,
  MapCatalog,
  until,
} from '../support/notifier-world.js';

// With an id of its own for the request, answers that should be the same are so to the byte.
const KEY = { 'x-api-key': 'key-of-t1', 'x-request-id': 'r' };

async function world(
  t: TestContext,
  options: {
    tailSize?: number;
    perTenant?: number;
    maxBufferedBytes?: number;
    budget?: MemoryBudget;
    events?: EventFeed;
    more?: readonly Route[];
    turns?: Turns;
    answerDeadlineMs?: number;
  } = {},
) {
  const feed = new ListFeed(options.tailSize);
  const tenants = new ListTenants();
  tenants.activate('t1', feed, options.events);
  tenants.activate('t2', new ListFeed());
  const catalog = new MapCatalog();
  catalog.addTenant('t1');
  catalog.addTenant('t2');
  catalog.addProjection('t1', 'p1', { sse: true });
  catalog.addProjection('t2', 'foreign', { sse: true });
  const timers = new ManualTimers();
  const hub = new FeedHub({ notified: tenants, timers });
  followDeletions(catalog, hub);
  const tickets = new Tickets('the master key of this test');
  const authenticator = new Authenticator(catalog, undefined, tickets);
  const authenticate: typeof authenticator.authenticate = (request, scope) => {
    const principal = authenticator.authenticate(request, scope);
    const { turns } = options;
    if (turns !== undefined) RequestMemory.begin(request, principal.tenantId, { ...UNBOUNDED_REQUESTS, turns });
    return principal;
  };
  const admission = {
    authenticator,
    admit: authenticate,
    connections: new ConcurrencyQuota(options.perTenant ?? 100),
    ...(options.budget && { memory: { ...UNBOUNDED_REQUESTS, budget: options.budget } }),
  };
  const limits = { maxBufferedBytes: options.maxBufferedBytes ?? 1024 * 1024 };
  const logger = silentLogger;
  const { answerDeadlineMs = 10_000 } = options;
  const channels = new Channels({
    ...{ hub, notified: tenants, catalog, admission, timers, limits, logger, answerDeadlineMs },
    drainMs: 50,
  });
  const { polling, sockets: streams } = channels;
  const dependencies = { channels, catalog } as unknown as RouteDependencies;
  const routes: readonly Route[] = [...NOTIFICATIONS, ...(options.more ?? [])];
  const refusals = new Refusals(logger);
  const server = createServer(
    createRouter({
      rooms: [{ routes }],
      dependencies,
      authenticate,
      requireAdmin: () => assert.fail('no route here is for the admin'),
      settings: { maxBodyBytes: 0, maxJsonDepth: 0, maxUploadBytes: 0, maxInflatedBytes: 0, maxArchiveEntries: 0 },
      refusals,
    }),
  );
  const findUpgrade = upgradesOf(routes, dependencies);
  server.on('upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) => {
    try {
      void findUpgrade(request).take(request, socket, head, 'r');
    } catch (error) {
      refusals.upgrade(request, socket, error, 'r');
    }
  });
  const port = await listening(server);
  const close = async (): Promise<void> => {
    await channels.close();
    hub.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  t.after(close);
  const poll = async (query: string, id = 'p1', headers: Record<string, string> = KEY) => {
    const response = await fetch(`http://127.0.0.1:${port}/projections/${id}/notifications${query}`, { headers });
    const text = await response.text();
    const body = JSON.parse(text) as {
      notifications: { sequence: number; key: string }[];
      cursor?: number;
      code?: string;
      oldestSequence?: number;
    };
    const newest = response.headers.get('statefold-position');
    return {
      status: response.status,
      newest,
      newestSequence: response.headers.get('statefold-sequence'),
      text,
      body,
      sequences: () => body.notifications.map(({ sequence }) => sequence),
    };
  };
  return { feed, tenants, catalog, tickets, timers, hub, polling, streams, port, poll, close };
}
type World = Awaited<ReturnType<typeof world>>;

/** A client that answers pings as long as `pong` says so, and remembers what it got. */
function stream(
  t: TestContext,
  w: World,
  query = '',
  options: { pong?: boolean; headers?: Record<string, string>; id?: string } = {},
) {
  const socket = new WebSocket(`ws://127.0.0.1:${w.port}/projections/${options.id ?? 'p1'}/stream${query}`, {
    headers: options.headers ?? KEY,
  });
  t.after(() => socket.terminate());
  const state = {
    socket,
    opened: false,
    texts: [] as string[],
    sequences: [] as number[],
    pings: 0,
    code: 0,
    reason: '',
    status: 0,
    refusal: '',
  };
  socket.on('open', () => (state.opened = true));
  socket.on('message', (data) => {
    const text = (data as Buffer).toString('utf8');
    const message = JSON.parse(text) as { type: string; sequence: number };
    if (message.type === 'ping') {
      state.pings++;
      if (options.pong !== false) socket.send('{"type":"pong"}');
    } else {
      state.texts.push(text);
      state.sequences.push(message.sequence);
    }
  });
  socket.on('close', (code, reason) => {
    state.code = code;
    state.reason = reason.toString();
  });
  socket.on('unexpected-response', (_request, response) => {
    response
      .on('data', (chunk: Buffer) => (state.refusal += chunk.toString()))
      .on('end', () => (state.status = response.statusCode ?? 0));
  });
  socket.on('error', () => undefined);
  return state;
}

/** An SSE reader: whole events as [id, event, data]. */
function events(t: TestContext, w: World, query = '', headers: Record<string, string> = KEY, id = 'p1') {
  const state = {
    status: 0,
    body: '',
    ended: false,
    headers: {} as IncomingMessage['headers'],
    events: () => [] as { id: number; data: string }[],
  };
  const request = get(
    { port: w.port, host: '127.0.0.1', path: `/projections/${id}/sse${query}`, headers, agent: false },
    (response) => {
      state.status = response.statusCode ?? 0;
      state.headers = response.headers;
      response
        .on('data', (chunk: Buffer) => (state.body += chunk.toString()))
        .on('end', () => (state.ended = true))
        .on('error', () => undefined);
    },
  );
  request.on('error', () => undefined);
  t.after(() => request.destroy());
  state.events = () =>
    [...state.body.matchAll(/^id: (\d+)\nevent: state_changed\ndata: (.*)\n\n/gm)].map((match) => ({
      id: Number(match[1]),
      data: match[2] as string,
    }));
  return state;
}

test('12: polling, WebSocket and SSE carry the same records, byte for byte', async (t) => {
  const w = await world(t);
  const live = stream(t, w);
  const sse = events(t, w);
  await until(() => live.opened && sse.body.includes('retry: 3000\n\n'), 'both are open');
  w.feed.accept(change(3), change(5, { projectionId: 'p2' }), change(6, { state: null, cause: 'redeploy' }));
  await until(() => live.texts.length === 2 && sse.events().length === 2, 'the pushes');
  const { text } = await w.poll('');
  const records = live.texts.map((message) => message.replace('{"type":"state_changed",', '{'));
  assert.equal(text, `{"notifications":[${records.join(',')}]}`);
  assert.deepEqual(
    sse.events().map(({ data }) => data),
    records,
  );
  assert.deepEqual(
    sse.events().map(({ id }) => id),
    [3, 6],
  );
  assert.equal(sse.headers['content-type'], 'text/event-stream; charset=utf-8');
  const fields = JSON.parse(live.texts[0] as string) as Record<string, unknown>;
  for (const field of [
    'type',
    'projectionId',
    'aggregateId',
    'aggregateType',
    'version',
    'state',
    'sequence',
    'timestamp',
    'key',
  ])
    assert.ok(field in fields, field);
});

test('13: a resume under concurrent appends has no gap and no repetition, on a WebSocket and over SSE, also where the tail does not reach', async (t) => {
  const w = await world(t, { tailSize: 20, maxBufferedBytes: 2_000 });
  let sequence = 0;
  const accept = (count: number): void =>
    w.feed.accept(...Array.from({ length: count }, () => change((sequence += 2))));
  accept(200);
  const sockets = [0, 50, 399, 400].map((after) => ({ after, got: stream(t, w, `?afterSequence=${after}`) }));
  const readers = [
    { after: 120, got: events(t, w, '?afterSequence=120') },
    { after: 300, got: events(t, w, '?afterSequence=5', { ...KEY, 'Last-Event-ID': '300' }) },
  ];
  for (let i = 0; i < 100; i++) {
    accept(1 + (i % 3));
    await new Promise((resolve) => setImmediate(resolve));
  }
  const expected = (after: number): number[] => w.feed.changes.map((c) => c.sequence).filter((s) => s > after);
  for (const { after, got } of sockets) {
    await until(() => got.sequences.at(-1) === sequence, `all after ${after}`);
    assert.deepEqual(got.sequences, expected(after));
  }
  for (const { after, got } of readers) {
    await until(() => got.events().at(-1)?.id === sequence, `all after ${after}`);
    assert.deepEqual(
      got.events().map(({ id }) => id),
      expected(after),
    );
  }
});

test('polling pages, filters by key, waits for a change and ends with the client or the service', async (t) => {
  const w = await world(t);
  w.feed.accept(...Array.from({ length: 250 }, (_, i) => change(i + 1)));
  assert.equal((await w.poll('')).sequences().length, 100);
  assert.deepEqual((await w.poll('?afterSequence=10&limit=2')).sequences(), [11, 12]);
  const filtered = await w.poll('?afterSequence=240&key=k0');
  assert.deepEqual([filtered.sequences(), filtered.body.cursor], [[243, 246, 249], 250]);
  assert.equal(filtered.newest, null, 'a sequence is no position of the feed');
  const limited = await w.poll('?key=k0&limit=3');
  assert.deepEqual([limited.sequences(), limited.body.cursor], [[3, 6, 9], 9]);
  assert.deepEqual((await w.poll('?afterSequence=999999')).sequences(), []);

  const waiting = w.poll('?afterSequence=250&waitSeconds=60&key=k0');
  await until(() => w.hub.subscriptions === 1, 'it waits');
  w.feed.accept(change(251), change(252), change(255));
  assert.deepEqual((await waiting).sequences(), [252, 255]);
  const late = w.poll('?afterSequence=255&waitSeconds=2');
  await until(() => w.hub.subscriptions === 1, 'it waits');
  w.timers.advance(2_000);
  assert.deepEqual((await late).sequences(), []);

  const abort = new AbortController();
  const gone = fetch(`http://127.0.0.1:${w.port}/projections/p1/notifications?afterSequence=255&waitSeconds=60`, {
    headers: KEY,
    signal: abort.signal,
  });
  await until(() => w.hub.subscriptions === 1, 'it waits');
  abort.abort();
  await assert.rejects(gone);
  await until(() => w.hub.subscriptions === 0, 'nobody waits');
  const last = w.poll('?afterSequence=255&waitSeconds=60');
  await until(() => w.hub.subscriptions === 1, 'it waits');
  w.polling.close();
  assert.deepEqual((await last).sequences(), []);
  assert.equal(w.timers.nextAt, undefined, 'no timer is left');
});

test('a poll that has waited tells the newest sequence of the tenant as it is served by then', async (t) => {
  const w = await world(t);
  w.feed.accept(change(1));
  const waiting = w.poll('?afterSequence=1&waitSeconds=60&limit=1');
  await until(() => w.hub.subscriptions === 1, 'it waits');
  const anew = new ListFeed();
  anew.accept(change(1), change(2), change(3));
  w.tenants.activate('t1', anew);
  const { sequences, newestSequence } = await waiting;
  assert.deepEqual([sequences(), newestSequence], [[2], '3']);
});

test('a page takes turns part by part, and one before it is written, each by what it costs', async (t) => {
  const entered: { readonly cost: number; readonly begin: () => void }[] = [];
  const enter: Turns['enter'] = (_, cost) => new Promise((begin) => entered.push({ cost, begin }));
  const w = await world(t, { turns: { enter } as Turns });
  w.feed.accept(...Array.from({ length: 1000 }, (_, i) => change(i + 1)));
  let answered = false;
  const polled = w.poll('?limit=1000').finally(() => (answered = true));
  for (let turn = 0; turn < 4; turn++) {
    await until(() => entered.length > turn, 'it waits for its turn');
    assert.deepEqual([entered.length, answered], [turn + 1, false]);
    entered[turn]?.begin();
  }
  const { text, sequences } = await polled;
  assert.equal(sequences().length, 1000);
  const before = '{"notifications":['.length;
  const parts = [1, 257, 513, 769].map((sequence) => text.indexOf(`{"sequence":${sequence},`) - before);
  const encoded = parts.slice(1).map((end, i) => end - (parts[i] ?? 0) - 256);
  const written = text.length - before - ']}'.length - 999;
  assert.deepEqual(
    entered.map(({ cost }) => cost),
    [...encoded.map((bytes) => 1 + costOfListed(256) + bytes / (128 * 1024)), written / (64 * 1024)],
  );
  assert.equal((await w.poll('?limit=20')).sequences().length, 20);
  assert.equal(entered.length, 4, 'what costs little had its turn when it came');
});

test('bad cursors are 400, trimmed ones 410 with the oldest, foreign and unknown projections 404 with the same bytes, on every channel', async (t) => {
  const w = await world(t, { tailSize: 1 });
  w.feed.accept(change(1), change(2), change(3), change(4));
  w.feed.trimmed = 2;
  for (const query of [
    '?afterSequence=-1',
    '?afterSequence=1.5',
    '?afterSequence=',
    '?afterSequence=abc',
    '?afterSequence=9007199254740993',
    '?afterSequence=1&afterSequence=2',
    '?limit=0',
    '?limit=1001',
    '?waitSeconds=61',
    '?key=',
    '?key=%00',
  ]) {
    const { status, body } = await w.poll(query);
    assert.deepEqual([status, body.code], [400, 'INVALID_REQUEST'], query);
  }
  const expired = await w.poll('?afterSequence=1');
  assert.deepEqual([expired.status, expired.body.code, expired.body.oldestSequence], [410, 'CURSOR_EXPIRED', 3]);
  assert.deepEqual((await w.poll('')).sequences(), [3, 4]);

  const missing = await w.poll('', 'missing');
  assert.equal(missing.status, 404);
  assert.equal((await w.poll('', 'foreign')).text, missing.text.replaceAll('missing', 'foreign'));
  assert.equal((await w.poll('', 'p1', {})).status, 401);

  const refusals: [string, { id?: string; headers?: Record<string, string> }, number][] = [
    ['', { headers: {} }, 401],
    ['', { id: 'foreign' }, 404],
    ['', { id: 'a/b' }, 404],
    ['', { id: '%zz' }, 400],
    ['?afterSequence=x', {}, 400],
    ['?afterSequence=1', {}, 410],
  ];
  for (const [query, options, status] of refusals) {
    const refused = stream(t, w, query, options);
    await until(() => refused.status !== 0, `${query} ${options.id ?? ''}`);
    assert.deepEqual(
      [refused.status, (JSON.parse(refused.refusal) as { status: number }).status],
      [status, status],
      query,
    );
  }
  assert.equal(w.streams.connections, 0);

  w.catalog.addProjection('t1', 'quiet');
  for (const [query, headers, id, status] of [
    ['', KEY, 'quiet', 404],
    ['', KEY, 'foreign', 404],
    ['?afterSequence=1', KEY, 'p1', 410],
    ['', { ...KEY, 'last-event-id': 'x' }, 'p1', 400],
    ['', {}, 'p1', 401],
  ] as const) {
    const refused = events(t, w, query, headers, id);
    await until(() => refused.ended, `${id} ${query}`);
    assert.equal(refused.status, status, `${id} ${query}`);
    if (id === 'quiet') assert.match(refused.body, /SSE_DISABLED/);
  }
});

test('a poll, a WebSocket and SSE of a tenant that can not be caught up are answered 503 in time', async (t) => {
  const w = await world(t, { answerDeadlineMs: 50 });
  // A partition of the tenant that can't be had here, say.
  w.feed.caughtUp = () => new Promise(() => undefined);
  const { status, body } = await w.poll('');
  assert.deepEqual([status, body.code], [503, 'UNAVAILABLE']);
  const socket = stream(t, w);
  const sse = events(t, w);
  await until(() => socket.status !== 0 && sse.ended, 'both are answered');
  assert.deepEqual([socket.status, sse.status], [503, 503]);
  assert.equal(w.streams.connections, 0);
});

test('lines, and a wait for a position, of a feed that can not be caught up are answered 503 in time', async (t) => {
  const feed = feedOf(new ListedInputs(Infinity));
  t.mock.method(feed, 'caughtUp', () => new Promise(() => undefined));
  const w = await world(t, { answerDeadlineMs: 50, events: feed, more: FEED });
  const url = `http://127.0.0.1:${w.port}/feed`;
  const lines = await fetch(url, { headers: { ...KEY, accept: 'application/x-ndjson' }, signal: t.signal });
  const waited = await fetch(`${url}?waitFor=1`, { headers: KEY, signal: t.signal });
  assert.deepEqual([lines.status, waited.status], [503, 503]);
});

test('pings go out every 20 s; two that are not answered close the socket with 4408', async (t) => {
  const w = await world(t);
  const good = stream(t, w);
  const silent = stream(t, w, '', { pong: false });
  await until(() => good.opened && silent.opened, 'both are open');
  for (let i = 1; i <= 2; i++) {
    w.timers.advance(20_000);
    await until(() => good.pings === i && silent.pings === i, `ping ${i}`);
  }
  assert.equal(silent.code, 0);
  // The pong has to be back before the next beat judges.
  await roundTrip(good.socket);
  w.timers.advance(20_000);
  await until(() => silent.code === 4408, 'the silent one is closed');
  await until(() => good.pings === 3, 'the other goes on');
  w.feed.accept(change(1));
  await until(() => good.sequences.length === 1, 'and is pushed to');
});

/** The server has handled all that the client sent before. */
const roundTrip = (socket: WebSocket): Promise<void> =>
  new Promise((resolve) => {
    socket.once('pong', () => resolve());
    socket.ping();
  });

test('a slow reader holds a bounded buffer, gets everything when it reads on, and is closed with 4429 when it does not', async (t) => {
  const w = await world(t, { maxBufferedBytes: 256 * 1024 });
  const slow = stream(t, w);
  await until(() => slow.opened, 'it is open');
  slow.socket.pause();
  const state = Buffer.from(`"${'x'.repeat(64 * 1024)}"`);
  for (let i = 1; i <= 400; i++) w.feed.accept(change(i, { state }));
  const before = process.memoryUsage().arrayBuffers;
  for (let i = 401; i <= 1_000; i++) w.feed.accept(change(i, { state }));
  assert.ok(process.memoryUsage().arrayBuffers - before < 8 * 1024 * 1024, 'what is not read is not encoded');
  slow.socket.resume();
  await until(() => slow.sequences.length === 1_000, 'it catches up', 20_000);
  assert.deepEqual(
    slow.sequences,
    Array.from({ length: 1_000 }, (_, i) => i + 1),
  );

  slow.socket.pause();
  for (let i = 1_001; i <= 1_400; i++) w.feed.accept(change(i, { state }));
  const reader = events(t, w, '?afterSequence=1400');
  await until(() => reader.status === 200, 'another channel');
  w.timers.advance(31_000);
  assert.equal(w.hub.subscriptions, 1, 'it is followed no more');
  slow.socket.resume();
  await until(() => slow.code === 4429, 'the reason arrives once it reads');
  assert.match(slow.reason, /too slowly/);
  await until(() => w.streams.connections === 0, 'it is gone');
});

test('what a client sends besides pongs closes its socket: other messages, binary, floods, too long, garbage frames', async (t) => {
  const w = await world(t);
  const cases: [string, (socket: WebSocket) => void, number][] = [
    ['another message', (socket) => socket.send('{"type":"subscribe"}'), 1008],
    ['not JSON', (socket) => socket.send('pong'), 1008],
    ['null', (socket) => socket.send('null'), 1008],
    ['binary', (socket) => socket.send(Buffer.from('{"type":"pong"}')), 1008],
    ['too long', (socket) => socket.send('x'.repeat(5_000)), 1009],
    [
      'a flood of pongs',
      (socket) => {
        for (let i = 0; i < 40; i++) socket.send('{"type":"pong"}');
      },
      1008,
    ],
    [
      'a flood of pings',
      (socket) => {
        for (let i = 0; i < 40; i++) socket.ping();
      },
      1008,
    ],
  ];
  for (const [what, act, code] of cases) {
    const client = stream(t, w);
    await until(() => client.opened, 'it is open');
    act(client.socket);
    await until(() => client.code !== 0, what);
    assert.equal(client.code, code, what);
  }
  // A client that never stops and never reads the closing frame is cut.
  const raw = connect(w.port, '127.0.0.1');
  t.after(() => raw.destroy());
  raw.on('error', () => undefined);
  let answer = '';
  raw.on('data', (chunk) => (answer += chunk.toString('latin1')));
  raw.write(
    'GET /projections/p1/stream HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nX-API-Key: key-of-t1\r\n\r\n',
  );
  await until(() => answer.startsWith('HTTP/1.1 101'), 'the upgrade');
  const ping = Buffer.from([0x89, 0x80, 0, 0, 0, 0]);
  raw.write(Buffer.concat(Array.from({ length: 1_000 }, () => ping)));
  await until(() => raw.destroyed || raw.closed, 'it is cut');
  await until(() => w.streams.connections === 0, 'nothing is left');
  assert.equal(w.timers.nextAt, undefined, 'no timer runs without sockets');
});

test('revoked keys, deleted projections, the limit of a tenant and the end of the service close sockets and streams', async (t) => {
  const w = await world(t, { perTenant: 3 });
  w.catalog.addProjection('t1', 'p9', { sse: true });
  const [first, second] = [stream(t, w), stream(t, w, '', { id: 'p9' })];
  const sse = events(t, w);
  await until(() => first.opened && second.opened && sse.status === 200, 'three are open');
  const fourth = stream(t, w);
  await until(() => fourth.status === 429, 'the limit');
  assert.match(fourth.refusal, /RATE_LIMITED/);
  w.catalog.set('projection', 'p9', undefined);
  await until(() => second.code === 4404, 'the projection is gone');
  w.catalog.addProjection('t1', 'p1', { sse: false });
  await until(() => sse.ended, 'SSE is off');
  const key = w.catalog.get('key', 'id-t1')?.value;
  assert.ok(key);
  w.catalog.set('key', 'id-t1', { ...key, revokedAt: '2026-01-02T00:00:00.000Z' });
  await until(() => first.code === 4401, 'the key is revoked');
  w.catalog.set('key', 'id-t1', key);
  const ofTenant = stream(t, w);
  await until(() => ofTenant.opened, 'a place is free again');
  // A tenant is deleted with its keys first.
  w.catalog.set('key', 'id-t1', undefined);
  await until(() => ofTenant.code === 4404, 'the tenant is deleted');
  assert.equal(ofTenant.reason, 'the tenant was deleted');
  w.catalog.set('key', 'id-t1', key);
  const last = stream(t, w);
  await until(() => last.opened, 'a place is free again');
  await w.close();
  await until(() => last.code === 1001, 'the service ends');
  assert.equal(w.streams.connections, 0);
  assert.equal(w.hub.subscriptions, 0);
});

test('a subscription of the client from the start begins with the oldest that is kept, also where nothing is', async (t) => {
  const w = await world(t, { tailSize: 1 });
  w.feed.accept(change(1), change(2), change(3), change(4));
  w.feed.trimmed = 4;
  const client = new StatefoldClient({ url: `http://127.0.0.1:${w.port}`, apiKey: KEY['x-api-key'] });
  const webSocket: WebSocketFactory = (url, headers) => new WebSocket(url, { headers });
  const options = { firstDelayMs: 1, mostDelayMs: 5, webSocket };
  const ended = new AbortController();
  const first = async (more: SubscribeOptions): Promise<number | undefined> => {
    const subscription = client.subscribe('p1', { ...options, ...more, signal: ended.signal });
    for await (const { sequence } of subscription) return sequence;
    return undefined;
  };
  const told = Promise.all([
    first({ channels: ['websocket'] }),
    first({ channels: ['sse'] }),
    first({ channels: ['poll'] }),
    first({ channels: ['websocket'], key: ['k0', 'k1', 'k2'] }),
    first({
      channels: ['sse'],
      from: 'start',
      cursor: { load: () => Promise.resolve(undefined), save: () => Promise.resolve() },
    }),
  ]);
  await until(() => w.hub.subscriptions === 5, 'all follow');
  w.feed.accept(change(5));
  assert.deepEqual(await told, [5, 5, 5, 5, 5]);
  for (const more of [{ from: 0 }, { cursor: { load: () => Promise.resolve(0), save: () => Promise.resolve() } }])
    await assert.rejects(first(more), (error) => isRefused(error, 'CURSOR_EXPIRED'));
});

test('a page that follows by WebSocket alone is told that its cursor has expired, and from the start goes on with the oldest that is kept', async (t) => {
  const w = await world(t, { tailSize: 1 });
  w.feed.accept(change(1), change(2), change(3), change(4));
  w.feed.trimmed = 4;
  const client = new StatefoldClient({ url: `http://127.0.0.1:${w.port}` });
  const expiresAt = Date.now() + 60_000;
  const options: SubscribeOptions = {
    ...{ firstDelayMs: 1, mostDelayMs: 5, channels: ['websocket'] },
    webSocket: (url) => new WebSocket(url),
    ticket: ({ path }) => Promise.resolve(w.tickets.issue({ tenantId: 't1', keyId: 'id-t1', path, expiresAt })),
    cursor: { load: () => Promise.resolve(undefined), save: () => Promise.resolve() },
  };
  const first = async (more: SubscribeOptions): Promise<number | undefined> => {
    for await (const { sequence } of client.subscribe('p1', { ...options, ...more })) return sequence;
    return undefined;
  };
  const told = first({ from: 'start' });
  await until(() => w.hub.subscriptions === 1, 'it follows');
  w.feed.accept(change(5));
  assert.equal(await told, 5);
  const { cursor: _, ...given } = options;
  const behind = (async () => {
    for await (const { sequence } of client.subscribe('p1', { ...given, from: 2 })) return sequence;
    return undefined;
  })();
  await assert.rejects(behind, (error) => isRefused(error, 'CURSOR_EXPIRED') && error.problem.oldestSequence === 5);
  // Who sends a key is told before the upgrade, as before.
  const keyed = stream(t, w, '?afterSequence=2');
  await until(() => keyed.status > 0, 'the answer');
  assert.equal(keyed.status, 410);
});

test('SSE keeps idle connections alive, and lets go of a reader that never reads', async (t) => {
  const w = await world(t, { maxBufferedBytes: 64 * 1024 });
  const reader = events(t, w);
  await until(() => reader.status === 200, 'it is open');
  w.timers.advance(20_000);
  await until(() => reader.body.endsWith(': keep-alive\n\n'), 'the comment');
  const raw = connect(w.port, '127.0.0.1');
  t.after(() => raw.destroy());
  raw.on('error', () => undefined);
  let closed = false;
  raw.on('close', () => (closed = true));
  raw.write('GET /projections/p1/sse HTTP/1.1\r\nHost: x\r\nX-API-Key: key-of-t1\r\n\r\n');
  raw.pause();
  await until(() => w.hub.subscriptions === 2, 'two follow');
  const state = Buffer.from(`"${'x'.repeat(64 * 1024)}"`);
  for (let i = 1; i <= 400; i++) w.feed.accept(change(i, { state }));
  await until(() => reader.events().length === 400, 'the other reads all');
  w.timers.advance(31_000);
  await until(() => w.hub.subscriptions === 1, 'the slow one is let go');
  raw.resume();
  await until(() => closed, 'its connection is closed');
});

/** A client that asks for changes and never reads one. */
function deaf(t: TestContext, w: World, path: string, headers = ''): void {
  const raw = connect(w.port, '127.0.0.1');
  t.after(() => raw.destroy());
  raw.on('error', () => undefined);
  raw.write(`GET /projections/p1/${path} HTTP/1.1\r\nHost: x\r\nX-API-Key: key-of-t1\r\n${headers}\r\n`);
  raw.pause();
}
const UPGRADE =
  'Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n';

test('13: clients that never read spend the memory of their own tenant, not of the process, until they are let go', async (t) => {
  const MIB = 1024 * 1024;
  const budget = new MemoryBudget({ processBytes: 64 * MIB, tenantBytes: 16 * MIB });
  const w = await world(t, { budget });
  const DEAF = 24;
  for (let i = 0; i < DEAF; i += 2) {
    deaf(t, w, 'sse');
    deaf(t, w, 'stream', UPGRADE);
  }
  const reader = stream(t, w);
  const foreign = stream(t, w, '', { id: 'foreign', headers: { 'x-api-key': 'key-of-t2' } });
  await until(() => reader.opened && foreign.opened && w.hub.subscriptions === DEAF + 2, 'all follow');
  const state = Buffer.from(`"${'x'.repeat(64 * 1024)}"`);
  const CHANGES = 400;
  let most = 0;
  for (let i = 1; i <= CHANGES; i++) {
    w.feed.accept(change(i, { state }));
    most = Math.max(most, budget.held('streams'));
    if (i % 20 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  assert.ok(most > MIB && most <= 2 * MIB, `${most} bytes are held, of 2 MiB that the streams of the tenant may take`);
  assert.ok(budget.refusals('streams', 'tenant') > 0);
  assert.equal(budget.refusals('streams', 'process'), 0);
  assert.equal(budget.tenant('t2').full('streams'), undefined, 'the neighbour has room');
  assert.equal(
    budget
      .tenant('t2')
      .hold('appends')
      .tryAdd(8 * MIB),
    true,
  );
  (w.tenants.active('t2') as unknown as { changes: ListFeed }).changes.accept(change(1, { projectionId: 'foreign' }));
  await until(() => foreign.sequences.length === 1, 'the neighbour is pushed to');
  // Each is so long after it has taken nothing more, and on a busy machine one of them comes to that later than the others.
  const areLetGo = (): boolean => {
    w.timers.advance(1_000);
    return w.hub.subscriptions === 2;
  };
  await until(areLetGo, 'those that never read are let go');
  await until(() => reader.sequences.length === CHANGES, 'the one that reads has all, in order');
  assert.deepEqual(
    reader.sequences,
    Array.from({ length: CHANGES }, (_, i) => i + 1),
  );
  w.timers.advance(6_000);
  await until(() => w.streams.connections === 2, 'their connections are closed');
  await until(() => budget.held('streams') === 0, 'nothing is held');
});

/** All events, as entries of the table would have them. */
function eventRoutes(tenantOfFeed: string): readonly Route[] {
  const followed: Followed<FeedItem> = {
    source: ALL_EVENTS,
    encode: (item) => {
      const { position, eventId } = item as PositionedEvent;
      const record = Buffer.from(`{"position":${position},"eventId":"${eventId}"}`);
      return {
        record,
        message: record,
        line: record,
        serverSentEvent: Buffer.from(`id: ${position}\ndata: ${record.toString()}\n\n`),
      };
    },
    wanted: undefined,
    newest: 'Statefold-Position',
    guard: (tenantId) => {
      if (tenantId !== tenantOfFeed) throw new StatefoldError('NOT_FOUND', 'there is no such feed');
    },
    words: { items: 'events', cursor: 'afterPosition', gone: 'they are gone', expired: 'they are kept for ever' },
  };
  const common = {
    method: 'GET',
    tag: 'Events',
    summary: 'All events',
    servedBy: 'notifier',
    credentials: 'tenant',
    scope: 'read',
    query: { afterPosition: integerFrom(0) },
    answers: {},
  } as const;
  const asked = (call: { query(): { afterPosition: number | undefined } }) => ({
    followed,
    after: call.query().afterPosition,
  });
  return [
    route({
      ...common,
      path: '/all-events',
      operationId: 'pollEvents',
      serve: ({ channels }, call) => channels.polling.answer(call, { ...asked(call), limit: 100 }, 0),
    }),
    route({
      ...common,
      path: '/all-events/sse',
      operationId: 'followEventsBySse',
      serve: ({ channels }, call) => channels.events.answer(call, () => asked(call)),
    }),
    route({
      ...common,
      path: '/all-events/stream',
      operationId: 'followEventsByWebSocket',
      serve: () => assert.fail('it is upgraded'),
      upgrade: ({ channels }, upgrade) => channels.sockets.take(upgrade, () => asked(upgrade)),
    }),
  ];
}

test('a feed of anything else is entries of the table: all events, by each channel', async (t) => {
  const inputs = new ListedInputs(Infinity);
  inputs.commit(2);
  const w = await world(t, { events: feedOf(inputs), more: eventRoutes('t1') });
  const url = `http://127.0.0.1:${w.port}/all-events`;
  const sse = await fetch(`${url}/sse?afterPosition=0`, { headers: KEY, signal: t.signal });
  let body = '';
  const reading = (async () => {
    for await (const chunk of sse.body ?? []) body += Buffer.from(chunk as Uint8Array).toString();
  })();
  const socket = new WebSocket(`${url.replace('http', 'ws')}/stream?afterPosition=0`, { headers: KEY });
  t.after(() => socket.terminate());
  const messages: string[] = [];
  let reason = '';
  socket.on('message', (data) => messages.push((data as Buffer).toString()));
  socket.on('close', (_code, why) => (reason = why.toString()));
  await until(() => messages.length === 2, 'what was there');
  inputs.commit(1);
  inputs.tell();
  await until(() => messages.length === 3 && body.split('data: ').length === 4, 'what came then');
  const polled = await fetch(url, { headers: KEY });
  assert.equal(await polled.text(), `{"events":[${messages.join(',')}]}`);
  assert.deepEqual(
    [...body.matchAll(/^data: (.*)$/gm)].map(([, data]) => data),
    messages,
  );
  assert.deepEqual(
    messages.map((message) => (JSON.parse(message) as { eventId: string }).eventId),
    ['0.0', '0.1', '1.0'],
  );
  const foreign = await fetch(url, { headers: { 'x-api-key': 'key-of-t2' } });
  assert.equal(foreign.status, 404, 'the guard of the entry decides');
  await w.close();
  await until(() => reason !== '', 'the close');
  assert.equal(reason, 'the service is shutting down: resume with afterPosition');
  await reading;
});
