// Answers of which a part comes, or none, or one that is lost: what the client makes of them.
import assert from 'node:assert/strict';
import { getEventListeners, once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { WebSocket, WebSocketServer } from 'ws';
import { isRefused, StatefoldClient, TimeoutError } from '../../packages/client/src/index.js';
import type { TransportOptions } from '../../packages/client/src/transport.js';

setFlagsFromString('--expose_gc');
const collect = runInNewContext('gc') as () => void;
/** What a `fetch` of Node.js holds weakly is gone after it. */
async function collected(): Promise<void> {
  for (let n = 0; n < 5; n++) {
    collect();
    await turn();
  }
}

/** A service of one's own, a client of it, and what tells that the head of the n-th answer has come there. */
async function service(
  t: TestContext,
  answer: (request: IncomingMessage, response: ServerResponse, body: string) => void,
  options: Partial<TransportOptions> = {},
): Promise<{
  readonly client: StatefoldClient;
  readonly server: Server;
  readonly heads: (n: number) => Promise<void>;
}> {
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8');
    request.on('data', (piece: string) => (body += piece));
    request.on('end', () => answer(request, response, body));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  let come = 0;
  const told = new EventTarget();
  const client = new StatefoldClient({
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    apiKey: 'k',
    retry: { attempts: 1 },
    fetch: async (...asked) => {
      const response = await fetch(...asked);
      come++;
      told.dispatchEvent(new Event('head'));
      return response;
    },
    ...options,
  });
  const heads = async (n: number): Promise<void> => {
    while (come < n) await once(told, 'head');
  };
  return { client, server, heads };
}
/** The head, and the beginning of a body that never ends. */
const begins = (response: ServerResponse, type: string, text: string): void => {
  response.writeHead(200, { 'content-type': type });
  response.write(text);
};
const sendJson = (response: ServerResponse, body: object, status = 200): void =>
  void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
const notFound = { type: '/problems/not-found', title: 'x', status: 404, detail: 'none', code: 'NOT_FOUND' };
const inTime = { timeout: 20_000 };

test(
  'a body that stands still ends with its time-out or signal, also after a garbage collection',
  inTime,
  async (t) => {
    const { client, heads } = await service(t, (_, response) => begins(response, 'application/json', '{'));
    const late = assert.rejects(client.request('whoami', { timeoutMs: 500 }), TimeoutError);
    await heads(1);
    await collected();
    await late;
    const stop = new AbortController();
    const reason = new Error('enough');
    const aborted = assert.rejects(client.request('whoami', { signal: stop.signal }), reason);
    await heads(2);
    await collected();
    stop.abort(reason);
    await aborted;
  },
);

for (const [channel, type] of [
  ['sse', 'text/event-stream'],
  ['ndjson', 'application/x-ndjson'],
] as const)
  test(`a subscription by ${channel} ends when it is closed, also after a garbage collection`, inTime, async (t) => {
    const stop = new AbortController();
    const { client, heads } = await service(t, ({ url = '' }, response) => {
      if (url.includes('limit=')) sendJson(response, { events: [], position: 5 });
      else begins(response, type, '\n\n');
    });
    for (const [n, end] of [
      [2, 'close'],
      [4, 'signal'],
    ] as const) {
      const subscription = client.feed.subscribe({ channels: [channel], signal: stop.signal });
      const loop = (async () => {
        for await (const event of subscription) assert.fail(JSON.stringify(event));
      })();
      await heads(n);
      await collected();
      if (end === 'close') subscription.close();
      else stop.abort();
      await loop;
      assert.equal(getEventListeners(stop.signal, 'abort').length, 0);
    }
  });

test('a refusal of a stream that stands still ends too, and so does a ticket that does not come', inTime, async (t) => {
  const { client, heads } = await service(t, ({ url = '' }, response) => {
    if (url.includes('limit=')) return sendJson(response, { events: [], position: 5 });
    response.writeHead(503, { 'content-type': 'application/problem+json' });
    response.write('{');
  });
  const refused = client.feed.subscribe({ channels: ['sse'] });
  const loop = (async () => {
    for await (const event of refused) assert.fail(JSON.stringify(event));
  })();
  await heads(2);
  await collected();
  refused.close();
  await loop;
  let asks: () => void;
  const asked = new Promise<void>((resolve) => (asks = resolve));
  const waits = client.feed.subscribe({
    channels: ['sse'],
    ticket: () => {
      asks();
      return new Promise<string>(() => undefined);
    },
  });
  const ticketLoop = (async () => {
    for await (const event of waits) assert.fail(JSON.stringify(event));
  })();
  await asked;
  waits.close();
  await ticketLoop;
});

test('calls leave no listener at the signal of their caller', async (t) => {
  const { client } = await service(t, (_, response) => sendJson(response, { scopes: [] }));
  const { signal } = new AbortController();
  for (let n = 0; n < 3; n++) await client.request('whoami', { signal });
  assert.equal(getEventListeners(signal, 'abort').length, 0);
  const closed = client.feed.subscribe({ signal });
  closed.close();
  for await (const event of closed) assert.fail(JSON.stringify(event));
  await client.producer({ signal }).close();
  assert.equal(getEventListeners(signal, 'abort').length, 0);
});

test('events are read backward page by page, each once, down to the last that is wanted', async (t) => {
  const STORED = 2_500;
  const { client } = await service(t, ({ url = '' }, response) => {
    const { searchParams: asked } = new URL(url, 'http://service');
    const from = Math.min(Number(asked.get('fromVersion') ?? STORED), STORED);
    const down = Number(asked.get('toVersion') ?? 1);
    const to = Math.max(down, from - Number(asked.get('limit')) + 1);
    const events = Array.from({ length: Math.max(0, from - to + 1) }, (_, i) => ({ version: from - i }));
    sendJson(response, { events, ...(to > down && { nextVersion: to - 1 }) });
  });
  const read = async (query: object): Promise<readonly number[]> => {
    const versions: number[] = [];
    for await (const { version } of client.events('a-1', { direction: 'backward', ...query })) {
      versions.push(version);
      assert.ok(versions.length <= STORED, 'it never ends');
    }
    return versions;
  };
  const downFrom = (from: number, to: number): readonly number[] =>
    Array.from({ length: from - to + 1 }, (_, i) => from - i);
  assert.deepEqual(await read({}), downFrom(2_500, 1));
  assert.deepEqual(await read({ fromVersion: 2_300, toVersion: 200 }), downFrom(2_300, 200));
  assert.deepEqual(await read({ limit: 1_200 }), downFrom(2_500, 1_301));
});

test('a DELETE whose answer is lost has succeeded when its repeat finds nothing', async (t) => {
  const retry = { attempts: 3, firstDelayMs: 1 };
  let answers: readonly ('lost' | 'proxy' | 429 | 404)[] = [];
  const { client } = await service(
    t,
    (request, response) => {
      const [next, ...rest] = answers;
      answers = rest;
      if (next === 'lost') request.socket.destroy();
      else if (next === 'proxy') response.writeHead(429).end('slow down');
      else if (next === 429) sendJson(response, { ...notFound, status: 429, code: 'RATE_LIMITED' }, 429);
      else sendJson(response, notFound, 404);
    },
    { retry },
  );
  const missing = (error: unknown): boolean => isRefused(error, 'NOT_FOUND');
  answers = ['lost', 404];
  await client.endpoints.delete('e');
  answers = ['lost', 429, 404];
  await client.endpoints.delete('e');
  answers = [404];
  await assert.rejects(client.endpoints.delete('e'), missing);
  // What was refused was not done.
  for (const pace of [429, 'proxy'] as const) {
    answers = [pace, 404];
    await assert.rejects(client.endpoints.delete('e'), missing);
  }
  answers = ['lost', 404];
  await assert.rejects(client.endpoints.get('e'), missing);
});

const lineOf = (line: number, { aggregateId }: { readonly aggregateId: string }): string =>
  `${JSON.stringify({ line, status: 201, eventId: `e-${aggregateId}`, aggregateId, version: 1, timestamp: '' })}\n`;
const linesOf = (body: string): readonly { readonly aggregateId: string }[] =>
  body
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as { readonly aggregateId: string });

test('a producer waits for a stream that goes steadily, however long it takes in all', inTime, async (t) => {
  const requests: number[] = [];
  const { client } = await service(
    t,
    (_, response, body) => {
      const lines = linesOf(body);
      requests.push(lines.length);
      begins(response, 'application/x-ndjson', '');
      response.flushHeaders();
      let n = 0;
      // A tenant's pace: in all three times as long as the time-out.
      const pace = setInterval(() => {
        const line = lines[n++];
        if (line !== undefined) response.write(lineOf(n, line));
        else {
          clearInterval(pace);
          response.end();
        }
      }, 100);
    },
    { timeoutMs: 1_000, retry: { attempts: 6, firstDelayMs: 1 } },
  );
  const producer = client.producer();
  const stored = await Promise.all(
    Array.from({ length: 30 }, (_, i) => producer.append({ aggregateId: `a-${i}`, eventType: 'T', data: {} })),
  );
  assert.deepEqual(
    stored.map(({ aggregateId }) => aggregateId),
    Array.from({ length: 30 }, (_, i) => `a-${i}`),
  );
  assert.deepEqual(requests, [30]);
});

test(
  'of a stream that stands still or breaks off a producer sends what had no answer again, and that alone',
  inTime,
  async (t) => {
    const requests: string[][] = [];
    const { client } = await service(
      t,
      (request, response, body) => {
        const lines = linesOf(body);
        requests.push(lines.map(({ aggregateId }) => aggregateId));
        const [first] = lines;
        assert.ok(first);
        begins(response, 'application/x-ndjson', lineOf(1, first));
        if (requests.length === 1) return;
        if (lines.length === 1) {
          response.end();
          return;
        }
        // A part of the next answer is none.
        response.write('{"line":2,', () => request.socket.destroy());
      },
      { timeoutMs: 300 },
    );
    // Cuts of no time left: each has brought an answer.
    const producer = client.producer({ deliveryTimeoutMs: 1, firstDelayMs: 1, mostDelayMs: 1 });
    const ids = Array.from({ length: 5 }, (_, i) => `a-${i}`);
    const stored = await Promise.all(
      ids.map((aggregateId) => producer.append({ aggregateId, eventType: 'T', data: {} })),
    );
    assert.deepEqual(
      stored.map(({ eventId }) => eventId),
      ids.map((id) => `e-${id}`),
    );
    assert.deepEqual(
      requests,
      ids.map((_, i) => ids.slice(i)),
    );
  },
);

for (const [channel, STATES] of [
  ['websocket', 2_500],
  // More than the buffers of a socket hold.
  ['sse', 8_000],
] as const)
  test(
    `states by ${channel} come to their end however slow the loop is, and over one connection`,
    inTime,
    async (t) => {
      const states = Array.from({ length: STATES }, (_, i) => ({
        ...{ sequence: i + 1, key: `k-${i}`, cause: 'snapshot', state: 'x'.repeat(2_000) },
      }));
      let connections = 0;
      let isRead = (): void => undefined;
      const allRead = new Promise<void>((resolve) => (isRead = resolve));
      const sockets = new WebSocketServer({ noServer: true });
      const { client, server } = await service(t, (_, response) => {
        connections++;
        begins(response, 'text/event-stream', ': here\n\n');
        for (const state of states) response.write(`event: state_changed\ndata: ${JSON.stringify(state)}\n\n`);
        response.write(`id: ${STATES}\nevent: snapshot_end\ndata: {"sequence":${STATES}}\n\n`, () => isRead());
      });
      server.on('upgrade', (request, socket, head) =>
        sockets.handleUpgrade(request, socket, head, (one) => {
          connections++;
          one.on('close', () => isRead());
          for (const state of states) one.send(JSON.stringify({ type: 'state_changed', ...state }));
          one.send(JSON.stringify({ type: 'snapshot_end', sequence: STATES }));
          one.on('pong', () => isRead());
          one.ping();
        }),
      );
      const subscription = client.subscribe('p', {
        from: 'snapshot',
        channels: [channel],
        webSocket: (url, headers) => new WebSocket(url, { headers }),
        onSnapshot: (place) => place === 'end' && subscription.close(),
      });
      t.after(() => subscription.close());
      const told: string[] = [];
      for await (const { key } of subscription) {
        told.push(key);
        // The first takes longer than all others take to come.
        await allRead;
        if (connections > 1) break;
      }
      assert.equal(connections, 1);
      assert.deepEqual(
        told,
        states.map(({ key }) => key),
      );
    },
  );
