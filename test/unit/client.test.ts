// The parts of the client package that need no service.
import assert from 'node:assert/strict';
import { getEventListeners, once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Webhook } from 'standardwebhooks';
import {
  isRefused,
  OPERATIONS,
  RefusedError,
  StatefoldClient,
  TimeoutError,
  typeOf,
  type Notification,
  UnexpectedAnswerError,
  UnreachableError,
  verifyWebhook,
  WebhookError,
} from '../../packages/client/src/index.js';
import { inferAggregateType } from '../../src/core/names.js';
import { openapiDocument } from '../../src/http/openapi/document.js';
import { ENTRIES } from '../../src/http/table.js';
import { ROOT } from '../support/service.js';
import type * as wire from '../../scripts/wire-types.mjs';

// By its path at run time: the compiled tests lie elsewhere than the scripts.
const { WIRE, wireTypes } = (await import(pathToFileURL(join(ROOT, 'scripts', 'wire-types.mjs')).href)) as typeof wire;

test('the types of the wire are those of the table of routes: node scripts/wire-types.mjs writes them', async () => {
  assert.equal(readFileSync(WIRE, 'utf8'), await wireTypes(openapiDocument()));
  assert.deepEqual(
    Object.keys(OPERATIONS).sort(),
    ENTRIES.filter((entry) => !('described' in entry) || entry.described !== false)
      .map(({ operationId }) => operationId)
      .sort(),
  );
});

/** A client whose service gives these answers, one a request. */
function scripted(...answers: readonly (Response | Error)[]): {
  readonly client: StatefoldClient;
  readonly sent: { readonly url: string; readonly headers: Readonly<Record<string, string>>; readonly body: unknown }[];
} {
  const sent: { url: string; headers: Record<string, string>; body: unknown }[] = [];
  const client = new StatefoldClient({
    url: 'http://service/',
    apiKey: 'k',
    retry: { firstDelayMs: 1 },
    traceparent: () => '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
    fetch: (url, init) => {
      sent.push({ url: url as string, headers: init?.headers as Record<string, string>, body: init?.body });
      const answer = answers[sent.length - 1] ?? new TypeError('there are no more answers');
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
    },
  });
  return { client, sent };
}
const json = (body: object, status = 200, headers: Record<string, string> = {}): Response =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json', ...headers } });
const problem = (status: number, code: string, more: object = {}, headers: Record<string, string> = {}): Response =>
  json({ type: '/problems/x', title: 'x', status, detail: 'why', code, requestId: 'r', ...more }, status, headers);
const event = { aggregateId: 'a-1', eventType: 'T', data: {} };

test('an append has one key over all its attempts, and the headers of its caller', async () => {
  const { client, sent } = scripted(new TypeError('reset'), problem(503, 'UNAVAILABLE'), json({ version: 1 }, 201));
  assert.deepEqual(await client.append(event), { version: 1 });
  assert.equal(sent.length, 3);
  assert.equal(new Set(sent.map(({ headers }) => headers['Idempotency-Key'])).size, 1);
  assert.match(sent[0]?.headers['Idempotency-Key'] ?? '', /^[0-9a-f-]{36}$/);
  assert.equal(new Set(sent.map(({ body }) => body)).size, 1);
  assert.equal(sent[0]?.headers['traceparent'], '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01');
  assert.deepEqual([sent[0]?.url, sent[0]?.headers['X-API-Key']], ['http://service/events', 'k']);
});

test('the type of a change says that a key may have no state any more', () => {
  const change = { key: 'k', state: null } as Notification<{ readonly total: number }>;
  // @ts-expect-error null has no members
  assert.throws(() => change.state.total, TypeError);
  assert.equal(change.state?.total, undefined);
});

test('data may be of an interface, and what is optional be undefined', async () => {
  interface Placed {
    readonly total: number;
  }
  const data: Placed = { total: 7 };
  const none = ((): string | undefined => undefined)();
  const placed = { aggregateId: 'a-1', eventType: 'Placed', data, correlationId: none, metadata: undefined };
  const { client, sent } = scripted(json({ version: 1 }, 201), json({ events: [], position: 0 }));
  await client.append(placed, { idempotencyKey: none });
  await client.feed.read({ eventType: none, after: undefined });
  assert.deepEqual(JSON.parse(sent[0]?.body as string), {
    aggregateId: 'a-1',
    eventType: 'Placed',
    data: { total: 7 },
  });
  assert.equal(sent[1]?.url, 'http://service/feed');
  client.feed.subscribe({ eventType: none, signal: undefined, from: undefined }).close();
});

test('what is refused for good, or may not be repeated, is sent once', async () => {
  const conflict = scripted(problem(409, 'VERSION_CONFLICT', { currentVersion: 3 }));
  await assert.rejects(conflict.client.append(event), (error) => {
    assert.ok(isRefused(error, 'VERSION_CONFLICT', 'GONE'));
    const { code }: RefusedError = error;
    assert.deepEqual([code, error.problem.currentVersion, error.retryable], ['VERSION_CONFLICT', 3, false]);
    return true;
  });
  assert.equal(conflict.sent.length, 1);
  const rotation = scripted(new TypeError('reset'));
  await assert.rejects(rotation.client.request('rotateTenantSecret'), UnreachableError);
  assert.equal(rotation.sent.length, 1);
});

test("Retry-After is kept to, and one that is long is the caller's", async () => {
  const long = scripted(problem(429, 'RATE_LIMITED', {}, { 'retry-after': '3600' }));
  await assert.rejects(
    long.client.append(event),
    (error) => error instanceof RefusedError && error.retryAfterSeconds === 3600,
  );
  const short = scripted(problem(429, 'RATE_LIMITED', {}, { 'retry-after': '1' }), json({}, 201));
  const began = performance.now();
  await short.client.append(event);
  assert.ok(performance.now() - began >= 990);
});

test('Retry-After may be a date of whoever says it, and come from what is in front of the service', async () => {
  const headers = { date: 'Thu, 01 Jan 2026 00:00:00 GMT', 'retry-after': 'Thu, 01 Jan 2026 01:00:00 GMT' };
  const asks = (error: unknown): boolean =>
    (error instanceof RefusedError || error instanceof UnexpectedAnswerError) && error.retryAfterSeconds === 3600;
  for (const answer of [
    problem(503, 'UNAVAILABLE', {}, headers),
    new Response('<html>', { status: 503, headers }),
    new Response('<html>', { status: 429, headers: { 'retry-after': '3600' } }),
  ]) {
    const { client, sent } = scripted(answer);
    await assert.rejects(client.append(event), asks);
    assert.equal(sent.length, 1);
  }
  const odd = scripted(problem(503, 'UNAVAILABLE', {}, { 'retry-after': 'soon' }), json({}, 201));
  await odd.client.append(event);
});

test('who says how long to wait is answered when that is over', async () => {
  const notThere = (): Response => problem(503, 'NOT_CAUGHT_UP');
  const says = scripted(notThere());
  await assert.rejects(says.client.feed.read({ waitFor: 7, waitSeconds: 0 }), (error) =>
    isRefused(error, 'NOT_CAUGHT_UP'),
  );
  assert.equal(says.sent.length, 1);
  const saysNothing = scripted(notThere(), json({ events: [], position: 7 }));
  assert.equal((await saysNothing.client.feed.read({ waitFor: 7 })).position, 7);
});

test('an option that is undefined is as if it were left out', async () => {
  const retry = { attempts: undefined, firstDelayMs: undefined, mostDelayMs: undefined };
  let sent = 0;
  const client = new StatefoldClient({
    url: 'http://service',
    apiKey: 'k',
    retry: { ...retry, firstDelayMs: 1 },
    fetch: () => Promise.reject(new TypeError(`reset ${++sent}`)),
  });
  await assert.rejects(client.append(event, { signal: AbortSignal.timeout(10_000) }), UnreachableError);
  assert.equal(sent, 6);
  const stored = JSON.stringify({ line: 1, status: 201, eventId: 'e', aggregateId: 'a-1', version: 1, timestamp: 't' });
  const { client: answers } = scripted(
    new Response(`${stored}\n`, { headers: { 'content-type': 'application/x-ndjson' } }),
  );
  const left = { mostPending: undefined, mostLines: undefined, mostBytes: undefined, deliveryTimeoutMs: undefined };
  const producer = answers.producer({ ...left, signal: AbortSignal.timeout(10_000) });
  assert.equal((await producer.append(event)).version, 1);
  for (const nothing of [{ mostPending: 0 }, { mostLines: 0 }, { mostBytes: Number.NaN }])
    assert.throws(() => answers.producer(nothing), /^TypeError: most\w+ must be at least 1/);
});

test('a request of a producer is as large as it may be in bytes, whatever its text is written in', async () => {
  const bodies: string[] = [];
  const client = new StatefoldClient({
    url: 'http://service',
    apiKey: 'k',
    fetch: (_, init) => {
      const body = init?.body as string;
      bodies.push(body);
      const lines = body.trimEnd().split('\n');
      const answers = lines.map(
        (_line, i) => `{"line":${i + 1},"status":201,"eventId":"e","aggregateId":"a-1","version":1,"timestamp":"t"}\n`,
      );
      const headers = { 'content-type': 'application/x-ndjson' };
      return Promise.resolve(new Response(answers.join(''), { headers }));
    },
  });
  const producer = client.producer({ mostBytes: 1000 });
  const data = { text: '航班延误'.repeat(20) };
  await Promise.all(Array.from({ length: 20 }, () => producer.append({ ...event, data })));
  await producer.close();
  const sizes = bodies.map((body) => Buffer.byteLength(body));
  assert.ok(Math.max(...sizes) <= 1000 && Math.max(...sizes) > 500, sizes.join());
});

test('a time-out without an end is none', async () => {
  const client = new StatefoldClient({
    url: 'http://service',
    apiKey: 'k',
    timeoutMs: Infinity,
    retry: { attempts: 1 },
    // Behind a timer of the least time there is.
    fetch: () => new Promise((resolve) => setTimeout(() => resolve(json({ scopes: [] })), 2)),
  });
  assert.deepEqual(await client.request('whoami'), { scopes: [] });
});

test('a URL is one that paths can be put behind', () => {
  const urlOf = (url: string): string => new StatefoldClient({ url }).transport.url;
  assert.equal(urlOf('http://service:8080/events/'), 'http://service:8080/events');
  assert.equal(urlOf('HTTP://service:8080 '), 'http://service:8080');
  for (const url of ['http://service/?a=1', 'http://service/console/#/feed', 'http://service/?', 'http://service/#'])
    assert.throws(() => urlOf(url), /^TypeError: url must end before \? and #/);
  assert.throws(
    () => urlOf('http://ada:secret@service'),
    (error: Error) => error instanceof TypeError && !error.message.includes('secret'),
  );
});

test('a call without its key leaves nothing that waits', async () => {
  const timers = (): number => process.getActiveResourcesInfo().filter((one) => one === 'Timeout').length;
  const { signal } = new AbortController();
  const before = timers();
  await assert.rejects(new StatefoldClient({ url: 'http://service' }).append(event, { signal }), TypeError);
  assert.equal(timers(), before);
  assert.equal(getEventListeners(signal, 'abort').length, 0);
});

test('of a producer, what comes from in front of the service is no refusal, and a part of a line no answer', async () => {
  const lineOf = (line: number, aggregateId: string): string =>
    `${JSON.stringify({ line, status: 201, eventId: 'e', aggregateId, version: 1, timestamp: 't' })}\n`;
  const lines = (text: string): Response => new Response(text, { headers: { 'content-type': 'application/x-ndjson' } });
  const { client, sent } = scripted(
    new Response('<html>', { status: 429 }),
    // It ends as if it were whole, as that of a proxy of HTTP/1.0 does.
    lines(`${lineOf(1, 'a-1')}{"line":2,`),
    lines(lineOf(1, 'a-2')),
  );
  const producer = client.producer({ firstDelayMs: 1 });
  const stored = await Promise.all(['a-1', 'a-2'].map((aggregateId) => producer.append({ ...event, aggregateId })));
  assert.deepEqual(
    stored.map(({ aggregateId }) => aggregateId),
    ['a-1', 'a-2'],
  );
  assert.equal(sent.length, 3);
});

test('each way to fail has a class of its own, and an abort its reason', async () => {
  const other = scripted(new Response('<html>', { status: 404 }));
  await assert.rejects(other.client.request('whoami'), UnexpectedAnswerError);
  const html = scripted(new Response('{', { status: 200, headers: { 'content-type': 'application/json' } }));
  await assert.rejects(html.client.request('whoami'), UnexpectedAnswerError);
  const hangs = new StatefoldClient({
    url: 'http://service',
    apiKey: 'k',
    retry: { attempts: 1 },
    fetch: (_, init) =>
      new Promise((_resolve, reject) => init?.signal?.addEventListener('abort', () => reject(new Error('aborted')))),
  });
  await assert.rejects(hangs.request('whoami', { timeoutMs: 5 }), TimeoutError);
  const reason = new Error('enough');
  await assert.rejects(hangs.request('whoami', { signal: AbortSignal.abort(reason) }), reason);
  const later = new AbortController();
  const asked = hangs.request('whoami', { signal: later.signal });
  later.abort(reason);
  await assert.rejects(asked, reason);
  const waits = scripted(problem(503, 'UNAVAILABLE', {}, { 'retry-after': '50' }));
  const meanwhile = new AbortController();
  const waiting = waits.client.append(event, { signal: meanwhile.signal });
  setImmediate(() => meanwhile.abort(reason));
  await assert.rejects(waiting, reason);
  assert.throws(() => new StatefoldClient({ url: 'localhost:8080' }), TypeError);
  await assert.rejects(new StatefoldClient({ url: 'http://service' }).request('whoami'), TypeError);
});

test('paths and queries are escaped', async () => {
  const { client, sent } = scripted(json({ events: [] }));
  for await (const _ of client.events('a/b ?é', { direction: 'backward', limit: 3 }));
  assert.equal(sent[0]?.url, 'http://service/events/a%2Fb%20%3F%C3%A9?direction=backward&limit=3');
});

test('a webhook is taken from who has the secret alone, at its time', async () => {
  const secret = `whsec_${Buffer.from('a secret of the service itself').toString('base64')}`;
  const at = new Date();
  const body = JSON.stringify({ type: 'projection.state_changed', data: { sequence: 1 } });
  const headers = {
    'webhook-id': 'msg_1',
    'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
    'webhook-signature': `v1,${Buffer.from('another').toString('base64')} ${new Webhook(secret).sign('msg_1', at, body)}`,
  };
  const verified = await verifyWebhook<{ data: { sequence: number } }>(Buffer.from(body), headers, { secret });
  assert.deepEqual([verified.id, verified.payload.data.sequence], ['msg_1', 1]);
  await assert.rejects(
    verifyWebhook(body, headers, {} as { secret: string }),
    /^TypeError: the option secret is missing/,
  );
  await verifyWebhook(body, new Headers(headers), { secret: ['whsec_AAAA', secret] });
  const refused = (what: Promise<unknown>): Promise<void> => assert.rejects(what, WebhookError);
  await refused(verifyWebhook(`${body} `, headers, { secret }));
  await refused(verifyWebhook(body, { ...headers, 'webhook-id': 'msg_2' }, { secret }));
  await refused(verifyWebhook(body, headers, { secret: 'whsec_AAAA' }));
  await refused(verifyWebhook(body, headers, { secret, now: () => at.getTime() + 301_000 }));
  await refused(verifyWebhook(body, { 'webhook-id': 'msg_1' }, { secret }));
  const capitals = Object.entries(headers).map(([name, value]) => [name.replace('webhook-', 'Webhook-'), value]);
  await verifyWebhook(body, Object.fromEntries(capitals) as typeof headers, { secret });
  // A parser of JSON was before.
  for (const parsed of [JSON.parse(body), undefined, {}])
    await assert.rejects(
      verifyWebhook(parsed as string, headers, { secret }),
      /^TypeError: the body must be .* express\.raw/,
    );
  for (const missing of [null, [], [undefined]])
    await assert.rejects(
      verifyWebhook(body, headers, { secret: missing as unknown as string }),
      /^TypeError: the option secret is missing/,
    );
  // A setting that is missing is no secret, whoever has signed with it.
  for (const empty of ['', 'whsec_']) await refused(verifyWebhook(body, headers, { secret: empty }));
});

test('a loop over a subscription again begins behind its cursor: what a handler threw at comes again', async () => {
  let saved: number | undefined;
  const cursor = { load: () => Promise.resolve(saved), save: (place: number) => Promise.resolve(void (saved = place)) };
  const notifications = [1, 2, 3, 4].map((sequence) => ({ sequence }));
  const { client } = scripted(json({ notifications }), json({ notifications: notifications.slice(2) }));
  const subscription = client.subscribe('p', { channels: ['poll'], cursor });
  const handled: number[] = [];
  const handle = async (failsAt: number): Promise<void> => {
    for await (const { sequence } of subscription) {
      if (sequence === failsAt) throw new Error('the handler fails');
      handled.push(sequence);
      await cursor.save(sequence);
      if (sequence === 4) return;
    }
  };
  await assert.rejects(handle(3), /the handler fails/);
  await handle(0);
  assert.deepEqual(handled, [1, 2, 3, 4]);
});

test('a service that is away costs a subscription none of its channels', async () => {
  const stream = new Response('id: 3\nevent: state_changed\ndata: {"sequence":3}\n\n', {
    headers: { 'content-type': 'text/event-stream' },
  });
  const away = (): TypeError => new TypeError('connection refused');
  const { client, sent } = scripted(...Array.from({ length: 30 }, away), json({ notifications: [] }), stream);
  const gaveWay: string[] = [];
  const options = { channels: ['sse', 'poll'] as const, firstDelayMs: 1, mostDelayMs: 1 };
  for await (const { sequence } of client.subscribe('p', { ...options, onChannel: (to) => void gaveWay.push(to) })) {
    assert.equal(sequence, 3);
    break;
  }
  assert.deepEqual(gaveWay, []);
  assert.match(sent.at(-1)?.url ?? '', /\/sse/);
});

test('events of a producer that were answered are stored, whatever becomes of the rest', async () => {
  const lines = (count: number): string =>
    Array.from({ length: count }, (_, i) =>
      JSON.stringify({
        line: i + 1,
        status: 201,
        eventId: `e-${i}`,
        aggregateId: `a-${i}`,
        version: 1,
        timestamp: 't',
      }),
    ).join('\n');
  const ended = new AbortController();
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(`${lines(2)}\n`));
      ended.signal.addEventListener('abort', () => controller.error(ended.signal.reason));
    },
    // Asked for more, it has taken what there was; the next turn has worked it off.
    pull: () => void setImmediate(() => ended.abort(new Error('enough'))),
  });
  const { client } = scripted(new Response(body, { headers: { 'content-type': 'application/x-ndjson' } }));
  const producer = client.producer({ signal: ended.signal });
  const sent = ['a-0', 'a-1', 'a-2'].map((aggregateId) => producer.append({ ...event, aggregateId }));
  const outcomes = await Promise.allSettled(sent);
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'fulfilled', 'rejected'],
  );
});

test('a sender that waits for room goes before one that is called later', async () => {
  const orders: string[] = [];
  const client = new StatefoldClient({
    url: 'http://service',
    apiKey: 'k',
    fetch: (_, init) => {
      const lines = (init?.body as string).trim().split('\n');
      const answers = lines.map((line, i) => {
        const { aggregateId, data } = JSON.parse(line) as { aggregateId: string; data: { n: number } };
        orders.push(String(data.n));
        return JSON.stringify({ line: i + 1, status: 201, eventId: 'e', aggregateId, version: 1, timestamp: 't' });
      });
      return Promise.resolve(
        new Response(`${answers.join('\n')}\n`, { headers: { 'content-type': 'application/x-ndjson' } }),
      );
    },
  });
  for (const mostPending of [1, 2]) {
    const producer = client.producer({ mostPending });
    const send = (n: number): ReturnType<typeof producer.send> => producer.send({ ...event, data: { n } });
    const [first] = await Promise.all(Array.from({ length: mostPending }, (_, i) => send(i + 1)));
    const waits = send(mostPending + 1);
    const later = first?.stored.then(() => send(mostPending + 2));
    await Promise.all([waits, later]);
    await producer.close();
    const all = Array.from({ length: mostPending + 2 }, (_, i) => String(i + 1));
    assert.deepEqual(orders.splice(0), all, `at most ${mostPending}`);
  }
});

test('a stream is opened behind the place up to which all was read, also where there is nothing yet', async () => {
  const stream = (text: string): Response => new Response(text, { headers: { 'content-type': 'text/event-stream' } });
  const feed = scripted(json({ events: [], position: 0 }), stream('id: 7\nevent: event\ndata: {"position":7}\n\n'));
  for await (const { position } of feed.client.feed.subscribe({ channels: ['sse'] })) {
    assert.equal(position, 7);
    break;
  }
  assert.match(feed.sent[1]?.url ?? '', /\/feed\/sse\?after=0$/);
  const changes = scripted(
    json({ notifications: [] }),
    stream('id: 3\nevent: state_changed\ndata: {"sequence":3}\n\n'),
  );
  for await (const { sequence } of changes.client.subscribe('p', { channels: ['sse'] })) {
    assert.equal(sequence, 3);
    break;
  }
  assert.match(changes.sent[1]?.url ?? '', /\/sse\?afterSequence=0$/);
});

/** Collects what nobody holds: a signal that only the platform's fetch was given is forgotten with it. */
const collect = (): void => {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
};

test('an answer whose body goes silent behind its head ends at the time-out, and with the signal, also when memory was collected', async (t) => {
  const server = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.write('{"events":[');
  }).listen(0, '127.0.0.1');
  t.after(() => server.close().closeAllConnections());
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = new StatefoldClient({ url, apiKey: 'k', timeoutMs: 500, retry: { attempts: 1 } });
  const collecting = setInterval(collect, 50);
  t.after(() => clearInterval(collecting));
  await assert.rejects(client.state('a-1'), TimeoutError);
  const ended = new AbortController();
  const slow = new StatefoldClient({ url, apiKey: 'k', retry: { attempts: 1 } });
  setTimeout(() => ended.abort(new Error('enough')), 300);
  await assert.rejects(slow.state('a-1', { signal: ended.signal }), /enough/);
});

test('events backward go on below the page before', async () => {
  const page = (from: number, nextVersion?: number): Response =>
    json({ events: [{ version: from }, { version: from - 1 }], ...(nextVersion && { nextVersion }) });
  const { client, sent } = scripted(page(4, 2), page(2));
  const versions: number[] = [];
  for await (const { version } of client.events('a-1', { direction: 'backward' })) versions.push(version);
  assert.deepEqual(versions, [4, 3, 2, 1]);
  assert.match(sent[1]?.url ?? '', /fromVersion=2/);
  assert.doesNotMatch(sent[1]?.url ?? '', /toVersion/);
});

test('what a lost request deleted is not missed by the next one', async () => {
  const { client } = scripted(
    new TypeError('the connection broke'),
    problem(404, 'NOT_FOUND'),
    problem(404, 'NOT_FOUND'),
  );
  const path = { id: 'e-1' };
  await client.request('deleteWebhookEndpoint', { path });
  await assert.rejects(client.request('deleteWebhookEndpoint', { path }), (error) => isRefused(error, 'NOT_FOUND'));
});

test('an erasure that finds nothing has erased nothing, also where the request before was lost: a second one would find it erased', async () => {
  const { client } = scripted(problem(503, 'UNAVAILABLE'), problem(404, 'NOT_FOUND'));
  await assert.rejects(client.erase('mispelt-1'), (error) => isRefused(error, 'NOT_FOUND'));
});

test('an aggregate’s type is inferred as the service infers it', () => {
  const ids = [
    'account-1',
    'account_77',
    'account:77',
    'a_b-1',
    'a/b',
    '-1',
    'ünder-1',
    'plain',
    '..-1',
    '.-1',
    'a.b-1',
    '…',
    `${'x'.repeat(129)}-1`,
  ];
  for (const id of ids) assert.equal(typeOf(id), inferAggregateType(id), id);
});

test('what no path of a URL can hold is not asked for: another thing would be', async () => {
  const { client, sent } = scripted();
  for (const key of ['.', '..']) {
    await assert.rejects(client.state(key, { aggregateType: 'account' }), TypeError);
    await assert.rejects(client.erase(key), TypeError);
    await assert.rejects(client.request('skipKey', { path: { id: 'p', key }, body: {} }), TypeError);
    await assert.rejects(async () => {
      for await (const event of client.events(key)) assert.fail(event.eventId);
    }, TypeError);
  }
  assert.deepEqual(sent, []);
});
