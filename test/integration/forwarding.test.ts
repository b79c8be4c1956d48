// Two processes' edges over one log. Whatever arrives at the one that doesn't own the tenant is answered by the one that does.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent, request as httpRequest, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { text as textOf } from 'node:stream/consumers';
import { test, type TestContext } from 'node:test';
import { WebSocket } from 'ws';
import { createTenant } from '../../src/catalog/tenants.js';
import { ADMIN_KEY, edgePair, PROJECTION, TENANT, type EdgeNode, type EdgePair } from '../support/edge-pair.js';
import { rawRequest, requestBytes } from '../support/api-raw.js';
import { until } from '../support/service.js';
import { asPeer } from '../support/peers.js';

interface Asked {
  readonly method?: string;
  readonly body?: string | Buffer | FormData;
  readonly headers?: Readonly<Record<string, string>>;
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: Readonly<Record<string, unknown>>;
}

async function ask(
  { apiKey }: EdgePair,
  node: EdgeNode,
  path: string,
  { method = 'GET', body, headers = {} }: Asked = {},
): Promise<Answer> {
  const json: Record<string, string> = typeof body === 'string' ? { 'Content-Type': 'application/json' } : {};
  const response = await fetch(node.url + path, {
    method,
    headers: { 'X-API-Key': apiKey, ...json, ...headers },
    ...(body === undefined ? {} : { body }),
  });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: text.startsWith('{') ? (JSON.parse(text) as Answer['body']) : {},
  };
}

const append = (
  pair: EdgePair,
  node: EdgeNode,
  event: object,
  headers: Readonly<Record<string, string>> = {},
): Promise<Answer> =>
  ask(pair, node, '/events', {
    method: 'POST',
    body: JSON.stringify({ eventType: 'Noted', data: {}, ...event }),
    headers,
  });

/** The data and versions of an aggregate, as its owner has them. */
async function events(
  pair: EdgePair,
  node: EdgeNode,
  aggregateId: string,
): Promise<readonly { readonly data: { readonly n: number }; readonly version: number }[]> {
  const { body } = await ask(pair, node, `/events/${aggregateId}?limit=10000`);
  return body['events'] as readonly { data: { n: number }; version: number }[];
}

test('every kind of request is answered by the owner, whichever process it comes to', async (t) => {
  const pair = await edgePair(t, { env: { MAX_UPLOAD_BYTES: '6000000' } });
  const { a, b } = pair;
  for (const node of [a, b]) {
    const name = node === a ? 'note-a' : 'note-b';
    const first = await append(pair, node, { aggregateId: name, expectedVersion: 0 });
    assert.deepEqual([first.status, first.body['version'], first.body['aggregateId']], [201, 1, name]);
    const batch = await ask(pair, node, '/events/batch', {
      method: 'POST',
      body: JSON.stringify({
        aggregateId: name,
        events: [
          { eventType: 'T', data: { f: 1 } },
          { eventType: 'T', data: {} },
        ],
      }),
    });
    assert.deepEqual([batch.status, batch.body['startVersion'], batch.body['endVersion']], [201, 2, 3]);
    const conflict = await ask(pair, node, '/events?includeConflicts=true', {
      method: 'POST',
      body: JSON.stringify({ aggregateId: name, eventType: 'T', data: {}, expectedVersion: 2 }),
    });
    assert.deepEqual(
      [
        conflict.status,
        conflict.body['code'],
        conflict.body['currentVersion'],
        (conflict.body['conflicts'] as object[]).length,
      ],
      [409, 'VERSION_CONFLICT', 3, 1],
    );
    const listing = await ask(pair, node, `/events/${name}`, { headers: { 'X-Request-Id': 'mine-1' } });
    assert.deepEqual(
      [listing.status, (listing.body['events'] as object[]).length, listing.headers.get('x-request-id')],
      [200, 3, 'mine-1'],
    );
    assert.equal(
      (await ask(pair, node, `/events/${name}`, { method: 'HEAD' })).headers.get('content-length'),
      String(Buffer.byteLength(listing.text)),
    );
    assert.equal((await ask(pair, node, '/aggregates?type=note')).status, 200);
    assert.equal((await ask(pair, node, '/auth/whoami')).body['tenantId'], TENANT);
    assert.equal((await ask(pair, node, '/events/none')).status, 404);
    assert.equal((await ask(pair, node, '/projections/none/status')).body['code'], 'NOT_FOUND');
    assert.equal((await ask(pair, node, '/nowhere')).status, 404);
    for (const mode of ['retry', 'skip'])
      assert.equal(
        (await ask(pair, node, `/aggregate-types/note/${name}/${mode}`, { method: 'POST' })).body['code'],
        'NO_REDUCER_BOUND',
      );
    assert.equal((await ask(pair, node, '/events', { method: 'PUT' })).headers.get('allow'), 'POST, OPTIONS');
    assert.equal((await ask(pair, node, '/webhooks/rotate', { method: 'POST' })).status, 200);
    for (const path of ['/events/a', '/aggregates', '/projections/x/sse'])
      assert.equal((await ask(pair, node, path, { headers: { 'X-API-Key': 'wrong' } })).status, 401, path);
    assert.equal((await append(pair, node, { aggregateId: name }, { 'X-API-Key': 'wrong' })).status, 401);
    assert.equal((await append(pair, node, { aggregateId: name }, { 'Content-Type': 'text/plain' })).status, 415);

    const form = new FormData();
    const source = `// ${'x'.repeat(5_000_000)}`;
    form.append('file', new Blob([source]), 'A.cs');
    const upload = await ask(pair, node, '/reducers/upload', { method: 'POST', body: form });
    assert.equal(upload.status, 202, upload.text);
    const [uploaded, ...others] = b.uploads.at(-1) ?? [];
    assert.deepEqual([uploaded?.path, others], ['A.cs', []]);
    assert.ok([uploaded?.text].flat().join('') === source, 'whole, whether in pieces or not');
    assert.equal((await ask(pair, node, `/reducers/${String(upload.body['reducerId'])}/status`)).status, 200);

    const large = await append(pair, node, { aggregateId: name, data: { x: 'x'.repeat(1_100_000) } });
    assert.deepEqual([large.status, large.body['code']], [413, 'PAYLOAD_TOO_LARGE']);
    const chunked = await rawRequest(
      node.url,
      `POST /events HTTP/1.1\r\nHost: x\r\nX-API-Key: ${pair.apiKey}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n200000\r\n${'x'.repeat(0x200000)}\r\n0\r\n\r\n`,
    );
    assert.equal(chunked.status, 413);
    const huge = new FormData();
    huge.append('file', new Blob([Buffer.alloc(7_000_000, 0x20)]), 'A.cs');
    assert.equal((await ask(pair, node, '/reducers/upload', { method: 'POST', body: huge })).status, 413);
  }
  assert.equal(a.counts.appends, 0);
  assert.equal(a.uploads.length, 0);
  assert.ok(a.forwarded.includes('answered') && b.forwarded.length === 0);
});

test('requests in a pipeline are answered in order through the gateway', async (t) => {
  const pair = await edgePair(t);
  await append(pair, pair.b, { aggregateId: 'pipe-0' });
  const headers = [
    ['X-API-Key', pair.apiKey],
    ['Content-Type', 'application/json'],
  ] as const;
  const posts = [1, 2, 3].map((n) =>
    requestBytes('POST', '/events', headers, JSON.stringify({ aggregateId: `pipe-${n}`, eventType: 'T', data: { n } })),
  );
  const last = requestBytes('GET', '/events/pipe-0', [...headers, ['Connection', 'close']]);
  const { hostname, port } = new URL(pair.a.url);
  const socket = connect(Number(port), hostname);
  socket.write(Buffer.concat([...posts, last]));
  let text = '';
  socket.on('data', (chunk: Buffer) => (text += chunk.toString()));
  await once(socket, 'close');
  assert.deepEqual(
    [...text.matchAll(/HTTP\/1.1 (\d+)/g)].map(([, status]) => status),
    ['201', '201', '201', '200'],
  );
  assert.deepEqual(
    [...text.matchAll(/"aggregateId":"(pipe-\d)"/g)].map(([, id]) => id),
    ['pipe-1', 'pipe-2', 'pipe-3', 'pipe-0'],
  );
});

test('a tenant without an owner is waited for, and then answered 503', async (t) => {
  const pair = await edgePair(t, { env: { FORWARD_DEADLINE_MS: '400' } });
  for (const node of [pair.a, pair.b]) node.ownership.tell(undefined);
  const never = await append(pair, pair.a, { aggregateId: 'late-1' });
  assert.deepEqual([never.status, never.body['code'], never.headers.get('retry-after')], [503, 'UNAVAILABLE', '1']);
  assert.match(String(never.body['detail']), /nothing was done/);
  assert.equal((await ask(pair, pair.a, '/events/late-1')).status, 503);
  const waiting = append(pair, pair.a, { aggregateId: 'late-1' });
  const reading = ask(pair, pair.a, '/auth/whoami');
  assert.equal((await reading).status, 200);
  pair.own(pair.b);
  assert.deepEqual([(await waiting).status, (await events(pair, pair.a, 'late-1')).length], [201, 1]);
  for (const node of [pair.a, pair.b]) node.ownership.tell(undefined);
  const here = append(pair, pair.a, { aggregateId: 'late-1' });
  pair.own(pair.a);
  assert.deepEqual([(await here).status, pair.a.counts.appends], [201, 1]);
});

test('processes that take each other for the owner refuse to send a request on twice', async (t) => {
  const pair = await edgePair(t, { env: { FORWARD_DEADLINE_MS: '500' } });
  const { a, b } = pair;
  a.ownership.tell({ url: b.url });
  b.ownership.tell({ url: a.url });
  const looped = await append(pair, a, { aggregateId: 'loop-1' });
  assert.deepEqual([looped.status, looped.body['code']], [503, 'UNAVAILABLE']);
  assert.match(String(looped.body['detail']), /nothing was done/);
  assert.ok(
    a.retries.length > 1 && a.retries.length < 12 && a.retries.every((why) => why === 'not_owner'),
    a.retries.join(),
  );
  assert.equal(b.retries.length, 0);
  const marked = await append(
    pair,
    a,
    { aggregateId: 'loop-1' },
    asPeer('POST', '/events', { 'X-API-Key': pair.apiKey }),
  );
  assert.deepEqual([marked.status, marked.headers.get('statefold-not-owner')], [503, '1']);
  // Definite: so a change that must not be made twice is sent on too.
  const rotated = ask(pair, a, '/webhooks/rotate', { method: 'POST' });
  await until(() => a.retries.length > 0);
  pair.own(b);
  assert.equal((await rotated).status, 200);
});

test('what a client says that another process sent is refused', async (t) => {
  const pair = await edgePair(t);
  const { a, b } = pair;
  for (const node of [a, b])
    for (const headers of [
      { 'Statefold-Forwarded': '1' },
      asPeer('POST', '/events', { 'X-API-Key': 'another' }),
      asPeer('GET', '/events', { 'X-API-Key': pair.apiKey }),
    ]) {
      const { 'X-API-Key': _, ...forged } = headers;
      const answer = await append(pair, node, { aggregateId: 'forged-1' }, forged);
      assert.deepEqual([answer.status, answer.body['code']], [400, 'INVALID_REQUEST']);
      assert.match(String(answer.body['detail']), /Statefold-Forwarded is for the processes of the service/);
    }
  assert.equal((await ask(pair, a, '/events/forged-1')).status, 404);
});

test("the id of a command is the gateway's alone, and has its shape", async (t) => {
  const pair = await edgePair(t);
  const { b } = pair;
  const id = '01900000-0000-7000-8000-000000000001';
  for (const [n, version] of [
    [1, 1],
    [2, 2],
  ] as const) {
    const plain = await append(pair, b, { aggregateId: 'id-1', data: { n } }, { 'Statefold-Command-Id': id });
    assert.deepEqual([plain.status, plain.body['version']], [201, version]);
  }
  const sent = (commandId: string): Record<string, string> =>
    asPeer('POST', '/events', { 'X-API-Key': pair.apiKey, 'Statefold-Command-Id': commandId });
  const [once_, twice] = [
    await append(pair, b, { aggregateId: 'id-1', data: { n: 3 } }, sent(id)),
    await append(pair, b, { aggregateId: 'id-1', data: { n: 3 } }, sent(id)),
  ];
  assert.deepEqual([once_.status, once_.body['version'], twice.body['eventId']], [201, 3, once_.body['eventId']]);
  assert.equal((await append(pair, b, { aggregateId: 'id-1' }, sent('x'))).status, 400);
});

test('while the owner changes under load no request fails, and each append is stored once', async (t) => {
  const pair = await edgePair(t);
  const { a, b } = pair;
  const clients = 8;
  const each = 50;
  let done = 0;
  const load = Array.from({ length: clients }, async (_, client) => {
    const node = client % 2 === 0 ? a : b;
    for (let n = 0; n < each; n++) {
      const answer = await append(pair, node, {
        aggregateId: `flip-${client}`,
        data: { n },
        ...(client % 4 < 2 ? { expectedVersion: n } : {}),
      });
      assert.equal(answer.status, 201, `${client}/${n}: ${answer.text}`);
      assert.equal(answer.body['version'], n + 1);
      const read = await ask(pair, node === a ? b : a, `/events/flip-${client}?fromVersion=${n + 1}`);
      assert.equal(read.status, 200, read.text);
      assert.equal((read.body['events'] as object[]).length, 1);
      done++;
    }
  });
  const flips = (async () => {
    for (let flip = 0; done < clients * each; flip++) {
      const goal = Math.min(clients * each, done + 40);
      await until(() => done >= goal);
      const [next, former] = flip % 2 === 0 ? [a, b] : [b, a];
      // The new owner hears of it first, then the former one: both believe it for a while.
      next.ownership.tell('self');
      await append(pair, next, { aggregateId: `claimed-${flip}` });
      former.ownership.tell({ url: next.url });
    }
  })();
  await Promise.all([...load, flips]);
  const owner = a.ownership.owns() ? a : b;
  for (let client = 0; client < clients; client++) {
    const stored = await events(pair, owner, `flip-${client}`);
    assert.deepEqual(
      stored.map(({ data, version }) => [data.n, version]),
      Array.from({ length: each }, (_, n) => [n, n + 1]),
    );
  }
});

test('an owner that dies with an append stored and not answered: the next one answers it, and it is there once', async (t) => {
  const pair = await edgePair(t);
  const { a, b } = pair;
  await append(pair, a, { aggregateId: 'torn-1', data: { n: 0 } });
  b.afterAppend = () => {
    b.afterAppend = undefined;
    b.kill();
    // Nobody else takes the tenant before the gateway has seen the connection break.
    return until(() => a.retries.includes('reset')).then(() => pair.own(a));
  };
  const answer = await append(pair, a, { aggregateId: 'torn-1', data: { n: 1 } });
  assert.deepEqual([answer.status, answer.body['version']], [201, 2]);
  assert.deepEqual(
    (await events(pair, a, 'torn-1')).map(({ data }) => data.n),
    [0, 1],
  );
  assert.deepEqual([b.counts.appends, a.counts.appends], [2, 1]);
});

test('an owner that dies with another change under way: a 503 tells that it may have been made', async (t) => {
  const pair = await edgePair(t);
  const { a, b } = pair;
  b.afterAppend = () => b.kill();
  const answer = await ask(pair, a, '/webhooks/rotate', { method: 'POST' });
  assert.deepEqual([answer.status, answer.body['code']], [503, 'UNAVAILABLE']);
  assert.match(String(answer.body['detail']), /may have been done/);
  assert.deepEqual(a.forwarded, ['unknown']);
});

test('an owner that stopped without a word is left when another one has its tenant', async (t) => {
  const pair = await edgePair(t);
  const { a, b } = pair;
  let hang: (() => void) | undefined;
  b.afterAppend = () => new Promise((resolve) => (hang = resolve));
  const answer = append(pair, a, { aggregateId: 'hung-1', data: { n: 1 } });
  await until(() => hang !== undefined);
  pair.own(a);
  assert.deepEqual([(await answer).status, (await answer).body['version']], [201, 1]);
  assert.ok(a.retries.includes('moved'));
  hang?.();
  assert.equal((await events(pair, a, 'hung-1')).length, 1);
});

test('a client that reads slowly gets every byte, and what it has not read is not held by the gateway', async (t) => {
  const pair = await edgePair(t);
  const { a, b } = pair;
  const data = { x: 'x'.repeat(9_000) };
  for (let i = 0; i < 40; i++) {
    const answer = await ask(pair, a, '/events/batch', {
      method: 'POST',
      body: JSON.stringify({
        aggregateId: 'slow-1',
        events: Array.from({ length: 100 }, () => ({ eventType: 'T', data })),
      }),
    });
    assert.equal(answer.status, 201);
  }
  const whole = (await ask(pair, b, '/events/slow-1?limit=10000')).text;
  let answer: { readonly writableLength: number } | undefined;
  a.edge.server.once('request', (_request, response) => (answer = response));
  const atGateway = (): number => answer?.writableLength ?? 0;
  const asked = httpRequest(`${a.url}/events/slow-1?limit=10000`, { headers: { 'X-API-Key': pair.apiKey } });
  asked.end();
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  // The page is a few megabytes: it lies in the sockets on the way, and with the owner. The gateway holds no more than a piece of it.
  let [still, last] = [0, Number.NaN];
  await until(() => {
    still = atGateway() === last && last > 0 ? still + 1 : 0;
    last = atGateway();
    return still === 10;
  });
  assert.ok(whole.length > 4 * 1024 * 1024, `the page has ${whole.length} bytes`);
  assert.ok(atGateway() < 1024 * 1024, `the gateway holds ${atGateway()} bytes`);
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  assert.equal(Buffer.concat(chunks).toString(), whole);
});

interface Stream {
  readonly sequences: number[];
  status: number;
  ended: boolean;
  close(): void;
}

function sse(t: TestContext, { apiKey }: EdgePair, node: EdgeNode): Stream {
  let body = '';
  const stream: Stream = { sequences: [], status: 0, ended: false, close: () => asked.destroy() };
  const asked = httpRequest(
    `${node.url}/projections/${PROJECTION}/sse?afterSequence=0`,
    { headers: { 'X-API-Key': apiKey }, agent: false },
    (response) => {
      stream.status = response.statusCode ?? 0;
      response.on('data', (chunk: Buffer) => {
        body += chunk.toString();
        stream.sequences.splice(
          0,
          Number.POSITIVE_INFINITY,
          ...[...body.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id)),
        );
      });
      response.on('end', () => (stream.ended = true)).on('error', () => undefined);
    },
  );
  asked.on('error', () => undefined).end();
  t.after(() => asked.destroy());
  return stream;
}

function socketOf(t: TestContext, { apiKey }: EdgePair, node: EdgeNode, query = '?afterSequence=0') {
  const socket = new WebSocket(`${node.url.replace('http', 'ws')}/projections/${PROJECTION}/stream${query}`, {
    headers: { 'x-api-key': apiKey },
  });
  t.after(() => socket.terminate());
  const state = { socket, sequences: [] as number[], code: 0, refused: 0 };
  socket.on('message', (text: Buffer) =>
    state.sequences.push((JSON.parse(text.toString()) as { sequence: number }).sequence),
  );
  socket.on('close', (code) => (state.code = code));
  socket.on('unexpected-response', (_asked, response) => (state.refused = response.statusCode ?? 0));
  socket.on('error', () => undefined);
  return state;
}

test('notifications come through the gateway on every channel, and follow the owner', async (t) => {
  const pair = await edgePair(t, { projection: true });
  const { a, b } = pair;
  const poll = async (after: number, wait = 0): Promise<number[]> => {
    const { body } = await ask(
      pair,
      a,
      `/projections/${PROJECTION}/notifications?afterSequence=${after}&waitSeconds=${wait}`,
    );
    return (body['notifications'] as { sequence: number }[]).map(({ sequence }) => sequence);
  };
  for (let n = 0; n < 20; n++) assert.equal((await append(pair, a, { aggregateId: 'tally-1' })).status, 201);
  await until(async () => (await poll(0)).length === 20);
  const expected = await poll(0);
  const [far, near] = [sse(t, pair, a), sse(t, pair, b)];
  const [tunnelled, direct] = [socketOf(t, pair, a), socketOf(t, pair, b)];
  await until(() => [far, near, tunnelled, direct].every(({ sequences }) => sequences.length === 20));
  for (const { sequences } of [far, near, tunnelled, direct]) assert.deepEqual(sequences, expected);
  assert.deepEqual([a.counts.tunnels, a.hub.subscriptions, b.hub.subscriptions], [1, 0, 4]);

  const last = expected.at(-1) ?? 0;
  const waiting = poll(last, 30);
  await until(() => b.hub.subscriptions === 5);
  await append(pair, b, { aggregateId: 'tally-1' });
  const next = await waiting;
  assert.ok(next.length === 1 && (next[0] ?? 0) > last);
  await until(() => [far, tunnelled].every(({ sequences }) => sequences.length === 21));

  // Clients that leave are let go by the owner.
  far.close();
  tunnelled.socket.terminate();
  await until(() => b.hub.subscriptions === 2 && a.counts.tunnels === 0);

  const bad = socketOf(t, { ...pair, apiKey: 'wrong' }, a);
  const missing = new WebSocket(`${a.url.replace('http', 'ws')}/projections/none/stream`, {
    headers: { 'x-api-key': pair.apiKey },
  }).on('error', () => undefined);
  const [, refusal] = (await once(missing, 'unexpected-response')) as [unknown, IncomingMessage];
  assert.equal(refusal.statusCode, 404);
  await until(() => bad.refused === 401);

  // The tenant moves: streams end, and go on at the new owner.
  const [moving, polling] = [socketOf(t, pair, a, `?afterSequence=${last}`), poll(next[0] ?? 0, 30)];
  const stream = sse(t, pair, a);
  await until(() => moving.sequences.length === 1 && stream.sequences.length === 21 && b.hub.subscriptions === 5);
  pair.own(a);
  await until(() => moving.code === 1001 && stream.ended && direct.code === 1001);
  assert.equal((await append(pair, b, { aggregateId: 'tally-1' })).status, 201);
  assert.equal((await polling).length, 1, 'a poll that waits is taken up by the new owner');
  const resumed = socketOf(t, pair, b, `?afterSequence=${next[0]}`);
  await until(() => resumed.sequences.length === 1);
  assert.deepEqual([b.counts.tunnels, a.hub.subscriptions], [1, 1]);

  // The owner dies: the tunnel's client is told to come again.
  a.kill();
  await until(() => resumed.code === 1001);
});

test('a gateway that ends lets go of the streams that go through it, at once', async (t) => {
  const pair = await edgePair(t, { projection: true, env: { SHUTDOWN_DEADLINE_MS: '60000' } });
  const { a, b } = pair;
  await append(pair, a, { aggregateId: 'tally-1' });
  const [stream, socket] = [sse(t, pair, a), socketOf(t, pair, a)];
  await until(() => [stream, socket].every(({ sequences }) => sequences.length === 1));
  const poll = ask(
    pair,
    a,
    `/projections/${PROJECTION}/notifications?afterSequence=${socket.sequences[0]}&waitSeconds=60`,
  );
  await until(() => b.hub.subscriptions === 3);
  const began = performance.now();
  await a.edge.close();
  assert.ok(performance.now() - began < 30_000);
  await until(() => stream.ended && socket.code === 1001);
  assert.equal((await poll).status, 503);
  await until(() => b.hub.subscriptions === 0);
});

test('what another process wrote to the catalog a moment ago is known here', async (t) => {
  const pair = await edgePair(t);
  const { a, b } = pair;
  for (let i = 0; i < 20; i++) {
    const [near, far] = i % 2 === 0 ? [a, b] : [b, a];
    const { apiKey } = await createTenant(near.catalog, { tenantId: `other-${i}` });
    const asked =
      i % 4 < 2
        ? append({ ...pair, apiKey }, far, { aggregateId: 'x-1' })
        : ask({ ...pair, apiKey }, far, '/auth/whoami');
    assert.ok([200, 201].includes((await asked).status), String(i));
    const admin = await ask(pair, near, `/admin/tenants/other-${i}/keys`, {
      method: 'POST',
      headers: { 'X-Admin-Key': ADMIN_KEY },
    });
    assert.equal(admin.status, 201);
    assert.equal(
      (await ask(pair, far, `/admin/tenants/other-${i}`, { headers: { 'X-Admin-Key': ADMIN_KEY } })).status,
      200,
    );
    const artefact = { tenantId: TENANT, createdAt: '2026-01-01T00:00:00.000Z', artefactId: 'a' };
    await a.catalog.put('reducer', `r-${i}`, 0, { ...artefact, reducerId: `r-${i}`, status: 'pending_compilation' });
    assert.equal((await ask(pair, b, `/reducers/r-${i}/status`)).status, 200);
  }
});

test('a flood of keys that nobody made costs one query of the catalog at a time', async (t) => {
  const pair = await edgePair(t);
  const { b } = pair;
  let release = (): void => undefined;
  let arrived = 0;
  b.hold.queries = new Promise((resolve) => (release = resolve));
  b.edge.server.on('request', () => arrived++);
  const before = b.counts.catalogQueries;
  const flood = Promise.all(
    Array.from({ length: 200 }, (_, i) => ask(pair, b, '/auth/whoami', { headers: { 'X-API-Key': `sf_bad_${i}` } })),
  );
  const good = ask(pair, b, '/auth/whoami');
  await until(() => arrived === 201);
  assert.equal((await good).status, 200, 'who has a key does not wait');
  assert.equal(b.counts.catalogQueries - before, 1);
  release();
  assert.ok((await flood).every(({ status }) => status === 401));
  assert.equal(b.counts.catalogQueries - before, 2);
});

test('probes and the description wait for no catalog, while the admin does', async (t) => {
  const pair = await edgePair(t);
  const { a } = pair;
  const headers = { 'X-Admin-Key': ADMIN_KEY };
  const before = a.counts.catalogQueries;
  for (const path of ['/health', '/health/ready', '/metrics', '/openapi.json', '/asyncapi.json'])
    assert.equal((await ask(pair, a, path, { headers })).status, 200, path);
  assert.equal(a.counts.catalogQueries, before);
  assert.equal((await ask(pair, a, '/admin/tenants', { headers })).status, 200);
  assert.equal(a.counts.catalogQueries, before + 1);
});

test('a tenant is deleted by its owner', async (t) => {
  const pair = await edgePair(t);
  const { a, b } = pair;
  await createTenant(a.catalog, { tenantId: 'gone' });
  assert.equal((await ask(pair, a, '/admin/tenants/gone', { method: 'DELETE' })).status, 401);
  assert.equal(
    (await ask(pair, a, '/admin/tenants/gone', { method: 'DELETE', headers: { 'X-Admin-Key': ADMIN_KEY } })).status,
    204,
  );
  assert.deepEqual([a.removed, b.removed], [[], ['gone']]);
  assert.equal((await ask(pair, a, '/admin/tenants/gone', { headers: { 'X-Admin-Key': ADMIN_KEY } })).status, 404);
});

test('an import that is refused before it was sent whole is answered, and nothing is asked for behind it on its connection', async (t) => {
  const pair = await edgePair(t);
  const { a, b } = pair;
  assert.equal((await append(pair, b, { aggregateId: 'note-1' })).status, 201);
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.after(() => agent.destroy());
  const sent = httpRequest(`${a.url}/admin/tenants/${TENANT}/import`, {
    method: 'POST',
    agent,
    headers: { 'X-Admin-Key': ADMIN_KEY, 'Content-Type': 'application/cloudevents+x-ndjson' },
  });
  sent.on('error', () => undefined);
  // Of more than the kernel takes a part stays with this client, or in front of the process that has sent the rest on.
  for (let n = 0; n < 100; n++) sent.write('x'.repeat(100_000));
  sent.end();
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  assert.deepEqual([answer.statusCode, answer.headers.connection], [409, 'close']);
  assert.equal((JSON.parse(await textOf(answer)) as { code: string }).code, 'TENANT_NOT_EMPTY');
  const next = httpRequest(`${a.url}/health`, { agent }).end();
  const [healthy] = (await once(next, 'response')) as [IncomingMessage];
  assert.equal(healthy.statusCode, 200);
});

test('an import whose owner is gone is answered, and the process goes on when its client leaves in the middle', async (t) => {
  const pair = await edgePair(t);
  const { a, b } = pair;
  b.kill();
  const sent = httpRequest(`${a.url}/admin/tenants/${TENANT}/import`, {
    method: 'POST',
    headers: { 'X-Admin-Key': ADMIN_KEY, 'Content-Type': 'application/cloudevents+x-ndjson' },
  });
  sent.on('error', () => undefined);
  for (let n = 0; n < 100; n++) sent.write('x'.repeat(100_000));
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  assert.equal(answer.statusCode, 503);
  answer.resume();
  sent.destroy();
  await once(sent, 'close');
  // What was left of the request is told as an error to whoever still listens, which nobody does.
  for (let turn = 0; turn < 3; turn++) assert.equal((await fetch(`${a.url}/health`)).status, 200);
});

test('a process that drains serves what comes, and asks for no more', async (t) => {
  const pair = await edgePair(t);
  const { b } = pair;
  assert.equal((await ask(pair, b, '/health/ready')).status, 200);
  b.edge.drain();
  assert.equal((await ask(pair, b, '/health/ready')).status, 503);
  assert.equal((await ask(pair, b, '/health')).status, 200);
  const answer = await append(pair, b, { aggregateId: 'drain-1' });
  assert.deepEqual([answer.status, answer.headers.get('connection')], [201, 'close']);
  const through = await append(pair, pair.a, { aggregateId: 'drain-1' });
  assert.deepEqual([through.status, through.headers.get('connection')], [201, 'keep-alive']);
});
