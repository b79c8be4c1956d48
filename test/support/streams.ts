// Streams as a page opens them: by a URL, with whatever shows who asks.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { TestContext } from 'node:test';
import { WebSocket } from 'ws';
import { success, type Api, type Notification } from './api.js';
import { until } from './service.js';
import { sseBlocks } from './sse.js';

/** A message of a projection's stream; of server-sent events the name of the event is the type. */
export type StreamMessage = { readonly type: string; readonly id?: string } & Partial<Notification> & {
    readonly position?: number;
  };

export interface Stream {
  readonly messages: readonly StreamMessage[];
  /** Those that tell a state. */
  readonly changes: readonly (Notification & { readonly id?: string })[];
  /** Resolves with the code of a WebSocket, with 0 of server-sent events. */
  readonly ended: Promise<number>;
  close(): void;
}

export type StreamKind = 'stream' | 'sse';

export interface StreamOptions {
  readonly headers?: Readonly<Record<string, string>>;
  /** Called with each message, before it is kept. */
  readonly onMessage?: (message: StreamMessage) => void;
}

class Messages implements Stream {
  readonly messages: StreamMessage[] = [];
  ended: Promise<number> = Promise.resolve(0);

  constructor(readonly close: () => void) {}

  get changes(): readonly (Notification & { readonly id?: string })[] {
    return this.messages.filter(({ type }) => type === 'state_changed') as Notification[];
  }
}

/** Opens `path` of either kind by its URL. Rejects with the status where it is refused. */
export function openStream(
  t: Pick<TestContext, 'after'>,
  base: string,
  path: string,
  options: StreamOptions = {},
): Promise<Stream> {
  return /\/sse(\?|$)/.test(path) ? openEvents(t, base + path, options) : openSocket(t, base + path, options);
}

/** As a tenant's client, with its key. */
export const openKeyed = (
  t: Pick<TestContext, 'after'>,
  api: Api,
  path: string,
  options: StreamOptions = {},
): Promise<Stream> =>
  openStream(t, api.service.url, path, { ...options, headers: { 'x-api-key': api.key ?? '', ...options.headers } });

async function openSocket(
  t: Pick<TestContext, 'after'>,
  url: string,
  { headers = {}, onMessage }: StreamOptions,
): Promise<Stream> {
  const socket = new WebSocket(url.replace('http', 'ws'), { headers });
  const stream = new Messages(() => socket.close());
  socket.on('message', (data: Buffer) => {
    const message = JSON.parse(data.toString()) as StreamMessage;
    if (message.type === 'ping') return socket.send('{"type":"pong"}');
    onMessage?.(message);
    stream.messages.push(message);
  });
  stream.ended = new Promise((resolve) => socket.once('close', resolve));
  t.after(() => socket.terminate());
  const refused = new Promise<never>((_, reject) =>
    socket.once('unexpected-response', (_request, response) => {
      reject(new Error(String(response.statusCode)));
      response.resume();
      socket.terminate();
    }),
  );
  socket.on('error', () => undefined);
  await Promise.race([once(socket, 'open'), refused]);
  return stream;
}

async function openEvents(
  t: Pick<TestContext, 'after'>,
  url: string,
  { headers = {}, onMessage }: StreamOptions,
): Promise<Stream> {
  const abort = new AbortController();
  t.after(() => abort.abort());
  const response = await fetch(url, { headers, signal: abort.signal });
  if (response.status !== 200) {
    await response.text();
    throw new Error(String(response.status));
  }
  const stream = new Messages(() => abort.abort());
  const read = async (): Promise<number> => {
    for await (const field of sseBlocks(response)) {
      const [[id], [data], [type = 'position']] = [field('id'), field('data'), field('event')];
      if (data === undefined && id === undefined) continue;
      const message = {
        type,
        ...(id !== undefined && { id }),
        ...(data === undefined ? { position: Number(id) } : (JSON.parse(data) as object)),
      };
      onMessage?.(message);
      stream.messages.push(message);
    }
    return 0;
  };
  stream.ended = read().catch((error: unknown) => {
    if (error instanceof assert.AssertionError) throw error;
    return 0;
  });
  return stream;
}

/** The status with which a path is refused. */
export async function refusalOf(
  t: Pick<TestContext, 'after'>,
  base: string,
  path: string,
  options?: StreamOptions,
): Promise<number> {
  return openStream(t, base, path, options).then(
    () => assert.fail(`${path} was not refused`),
    (error: unknown) => Number((error as Error).message),
  );
}

export const ticketFor = async (
  api: Api,
  body: object,
): Promise<{ readonly ticket: string; readonly expiresAt: string }> =>
  success(await api.post('/auth/tickets', body), 201).json();

/** Waits until the stream has told all states that it tells first. */
export async function snapshotOf(
  stream: Stream,
): Promise<{ readonly states: readonly Notification[]; readonly sequence: number }> {
  await until(() => stream.messages.some(({ type }) => type === 'snapshot_end'), 60_000);
  const end = stream.messages.findIndex(({ type }) => type === 'snapshot_end');
  const before = stream.messages.slice(0, end);
  for (const { type, cause, id } of before) {
    assert.equal(type, 'state_changed');
    assert.equal(cause, 'snapshot');
    assert.equal(id, undefined, 'a browser must not go on behind it');
  }
  const states = before as unknown as Notification[];
  assert.ok(
    states.every(({ sequence }, i) => sequence >= (states[i - 1]?.sequence ?? 0)),
    'ascending',
  );
  const { sequence = -1 } = stream.messages[end] as StreamMessage;
  assert.ok(sequence >= (states.at(-1)?.sequence ?? 0));
  return { states, sequence };
}
