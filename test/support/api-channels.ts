import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { WebSocket } from 'ws';
import type { Api, Notification } from './api.js';
import { until } from './service.js';
import { sseBlocks } from './sse.js';

/** What one channel has received so far: the records, and their bytes. */
export interface Channel {
  readonly records: readonly Notification[];
  /** Each record as its JSON text. */
  readonly texts: readonly string[];
  /** Waits until as many records are there. */
  received(count: number): Promise<readonly Notification[]>;
  close(): void;
}

class Records implements Channel {
  readonly texts: string[] = [];
  readonly records: Notification[] = [];
  readonly #close: () => void;

  constructor(close: () => void) {
    this.#close = close;
  }

  add(text: string): void {
    this.texts.push(text);
    this.records.push(JSON.parse(text) as Notification);
  }

  async received(count: number): Promise<readonly Notification[]> {
    await until(() => this.records.length >= count);
    assert.equal(this.records.length, count);
    return this.records;
  }

  close(): void {
    this.#close();
  }
}

const MESSAGE_HEAD = '{"type":"state_changed",';

export interface Socket extends Channel {
  readonly socket: WebSocket;
  /** Resolves with the code when it is closed. */
  readonly closed: Promise<number>;
}

/** Opens the WebSocket of a projection. Rejects when the upgrade is refused: see `refusedUpgrade`. */
export async function openSocket(
  t: Pick<TestContext, 'after'>,
  api: Api,
  projectionId: string,
  query = '',
): Promise<Socket> {
  const socket = new WebSocket(`${api.service.url.replace('http', 'ws')}/projections/${projectionId}/stream${query}`, {
    headers: { 'x-api-key': api.key ?? '' },
  });
  const records = new Records(() => socket.close());
  socket.on('message', (data: Buffer) => {
    const text = data.toString();
    if ((JSON.parse(text) as { type: string }).type === 'ping') return socket.send('{"type":"pong"}');
    assert.ok(text.startsWith(MESSAGE_HEAD), text);
    records.add(`{${text.slice(MESSAGE_HEAD.length)}`);
  });
  const closed = new Promise<number>((resolve) => socket.once('close', resolve));
  t.after(() => socket.terminate());
  await once(socket, 'open');
  return Object.assign(records, { socket, closed });
}

/** Status and body of an upgrade that must be refused in HTTP. */
export async function refusedUpgrade(
  url: string,
  headers: Record<string, string>,
): Promise<{ status: number; problem: Record<string, unknown> }> {
  const socket = new WebSocket(url.replace('http', 'ws'), { headers });
  return new Promise((resolve, reject) => {
    socket.once('open', () => reject(new Error('the upgrade was accepted')));
    socket.once('error', reject);
    socket.once('unexpected-response', (_request, response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          problem: JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>,
        }),
      );
    });
  });
}

/** Follows the server-sent events of a projection. */
export async function openEvents(
  t: Pick<TestContext, 'after'>,
  api: Api,
  projectionId: string,
  query = '',
  headers: Record<string, string> = {},
): Promise<Channel & { readonly ended: Promise<void> }> {
  const abort = new AbortController();
  t.after(() => abort.abort());
  const response = await fetch(`${api.service.url}/projections/${projectionId}/sse${query}`, {
    headers: { 'x-api-key': api.key ?? '', ...headers },
    signal: abort.signal,
  });
  assert.equal(response.status, 200, await (response.status === 200 ? '' : response.text()));
  assert.match(response.headers.get('content-type') ?? '', /^text\/event-stream/);
  const records = new Records(() => abort.abort());
  const read = async (): Promise<void> => {
    for await (const field of sseBlocks(response)) {
      const data = field('data').join('\n');
      if (data === '') continue;
      assert.deepEqual(field('event'), ['state_changed']);
      records.add(data);
      assert.deepEqual(field('id'), [String(records.records.at(-1)?.sequence)]);
    }
  };
  // An abort, or a service that is killed, ends the reading.
  return Object.assign(records, {
    ended: read().catch((error: unknown) =>
      assert.ok(error instanceof Error && !(error instanceof assert.AssertionError), String(error)),
    ),
  });
}

export interface Delivery {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly record: Notification;
}

export interface AnsweredDelivery {
  readonly status: number;
  readonly headers?: Record<string, string>;
  readonly text?: string;
  /** It is answered then. */
  readonly after?: Promise<void>;
}

/** Endpoints of webhooks on the loopback, one a path. */
export class Receiver {
  readonly deliveries: Delivery[] = [];
  /** What a path answers; 200 unless set. */
  readonly statuses = new Map<string, number>();
  /** The same, decided by the delivery. */
  readonly answers = new Map<string, (delivery: Delivery) => AnsweredDelivery>();
  url = '';

  static async open(t: Pick<TestContext, 'after'>): Promise<Receiver> {
    const receiver = new Receiver();
    const server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const body = Buffer.concat(chunks).toString();
        const { data } = JSON.parse(body) as { data: Notification };
        const path = request.url ?? '';
        const delivery = { path, headers: single(request.headers), body, record: data };
        receiver.deliveries.push(delivery);
        const given = receiver.answers.get(path)?.(delivery);
        const { status, headers = {}, text = '', after } = given ?? { status: receiver.statuses.get(path) ?? 200 };
        const answer = (): void => void response.writeHead(status, headers).end(text);
        if (after === undefined) answer();
        else void after.then(answer);
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => {
      server.close();
      server.closeAllConnections();
    });
    receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return receiver;
  }

  of(path: string): Delivery[] {
    return this.deliveries.filter((delivery) => delivery.path === path);
  }
}

const single = (headers: IncomingHttpHeaders): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
