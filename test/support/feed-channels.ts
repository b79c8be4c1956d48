// The feed of all events of a tenant, by each of its channels.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { TestContext } from 'node:test';
import { WebSocket } from 'ws';
import type { Api } from './api.js';
import { until } from './service.js';
import { sseBlock } from './sse.js';

export interface FeedEvent {
  /** It tells of an erasure: of the other members it has the place and whose it was. */
  readonly type?: 'erased';
  readonly position: number;
  readonly eventId: string;
  readonly aggregateId: string;
  readonly aggregateType: string;
  readonly eventType: string;
  readonly data: unknown;
  readonly version: number;
  readonly timestamp: string;
  readonly correlationId?: string;
  readonly causationId?: string;
  readonly metadata?: unknown;
}
export interface FeedPage {
  readonly events: readonly FeedEvent[];
  readonly position: number;
}

/** What one channel has received so far. */
export class FeedChannel {
  readonly events: FeedEvent[] = [];
  /** Where the channel said that it was, in turn. */
  readonly positions: number[] = [];

  constructor(
    readonly close: () => void,
    /** Resolves when it has ended; of a WebSocket with the code. */
    readonly ended: Promise<number>,
  ) {}

  async received(count: number): Promise<readonly FeedEvent[]> {
    await until(() => this.events.length >= count);
    assert.equal(this.events.length, count);
    return this.events;
  }
}

/** All pages after a position. */
export async function pages(api: Api, query = '', after = 0): Promise<FeedEvent[]> {
  const events: FeedEvent[] = [];
  for (let from = after; ;) {
    const page = await api.read<FeedPage>(`/feed?after=${from}${query}`);
    events.push(...page.events);
    if (page.events.length === 0 && page.position === from) return events;
    assert.ok(page.position > from);
    from = page.position;
  }
}

export async function feedSocket(t: Pick<TestContext, 'after'>, api: Api, query = ''): Promise<FeedChannel> {
  const socket = new WebSocket(`${api.service.url.replace('http', 'ws')}/feed/stream${query}`, {
    headers: { 'x-api-key': api.key ?? '' },
  });
  const ended = new Promise<number>((resolve) => socket.once('close', resolve));
  const channel = new FeedChannel(() => socket.close(), ended);
  socket.on('message', (data: Buffer) => {
    const { type, ...rest } = JSON.parse(data.toString()) as { type: string };
    if (type === 'ping') return socket.send('{"type":"pong"}');
    if (type === 'position') return void channel.positions.push((rest as { position: number }).position);
    assert.ok(type === 'event' || type === 'erased', type);
    channel.events.push({ ...(rest as FeedEvent), ...(type === 'erased' && { type }) });
  });
  t.after(() => socket.terminate());
  await once(socket, 'open');
  return channel;
}

async function* textOf(body: ReadableStream<Uint8Array> | null): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  for await (const chunk of body ?? []) yield decoder.decode(chunk, { stream: true });
}

async function opened(
  t: Pick<TestContext, 'after'>,
  api: Api,
  path: string,
  headers: Record<string, string>,
  media: string,
  read: (channel: FeedChannel, part: string) => void,
  separator: string,
): Promise<FeedChannel> {
  const abort = new AbortController();
  t.after(() => abort.abort());
  const response = await fetch(api.service.url + path, {
    headers: { 'x-api-key': api.key ?? '', ...headers },
    signal: abort.signal,
  });
  assert.equal(response.status, 200, response.status === 200 ? '' : await response.text());
  assert.ok(response.headers.get('content-type')?.startsWith(media), response.headers.get('content-type') ?? '');
  let end: (code: number) => void = () => undefined;
  let fail: (error: unknown) => void = () => undefined;
  const ended = new Promise<number>((resolve, reject) => ([end, fail] = [resolve, reject]));
  const channel = new FeedChannel(() => abort.abort(), ended);
  void reading(response.body, separator, (part) => read(channel, part)).then(end, fail);
  return channel;
}

/** Resolves with 0 when the answer ended by itself, with 1 when it was torn: by an abort, or a service that is killed. */
async function reading(
  body: ReadableStream<Uint8Array> | null,
  separator: string,
  read: (part: string) => void,
): Promise<number> {
  let text = '';
  try {
    for await (const part of textOf(body)) {
      const parts = (text + part).split(separator);
      text = parts.pop() ?? '';
      for (const one of parts) read(one);
    }
  } catch (error) {
    if (error instanceof assert.AssertionError || error instanceof SyntaxError) throw error;
    return 1;
  }
  assert.equal(text, '');
  return 0;
}

export const feedEvents = (
  t: Pick<TestContext, 'after'>,
  api: Api,
  query = '',
  headers: Record<string, string> = {},
): Promise<FeedChannel> =>
  opened(
    t,
    api,
    `/feed/sse${query}`,
    headers,
    'text/event-stream',
    (channel, block) => {
      const field = sseBlock(block);
      const data = field('data').join('\n');
      if (data === '') return void channel.positions.push(...field('id').map(Number));
      const event = JSON.parse(data) as FeedEvent;
      assert.deepEqual(field('event'), [event.type ?? 'event']);
      assert.deepEqual(field('id'), [String(event.position)]);
      channel.events.push(event);
    },
    '\n\n',
  );

/** Lines of JSON; with `follow=true` in the query they go on. */
export const feedLines = (t: Pick<TestContext, 'after'>, api: Api, query = ''): Promise<FeedChannel> =>
  opened(
    t,
    api,
    `/feed${query}`,
    { accept: 'application/x-ndjson' },
    'application/x-ndjson',
    (channel, line) => {
      const record = JSON.parse(line) as FeedEvent | { readonly type: 'position'; readonly position: number };
      if (record.type !== 'position') channel.events.push(record);
      else {
        assert.deepEqual(Object.keys(record), ['type', 'position']);
        channel.positions.push(record.position);
      }
    },
    '\n',
  );

/** The position that a 201 tells. */
export function positionOf({ headers }: { readonly headers: Headers }): number {
  const position = Number(headers.get('statefold-position') ?? NaN);
  assert.ok(Number.isSafeInteger(position) && position > 0, String(headers.get('statefold-position')));
  return position;
}
