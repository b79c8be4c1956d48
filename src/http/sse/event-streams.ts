import type { InTime } from '../deadlines.js';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Catalog, CatalogChange } from '../../catalog/catalog.js';
import { StatefoldError } from '../../core/errors.js';
import type { ConcurrencyQuota } from '../concurrency-quota.js';
import type { PrefacedSubscriber } from '../../feed/prefaced-subscription.js';
import type { Subscription, Subscriber } from '../../feed/subscription.js';
import type { FeedHub } from '../../feed/hub.js';
import { Pulse, type Beating } from '../../feed/pulse.js';
import { systemTimers, type Timers } from '../../feed/timers.js';
import type { TenantFeeds } from '../../feed/tenant-feeds.js';
import { keyUntil, type Authenticator } from '../auth.js';
import { LineBuffer } from '../../feed/line-buffer.js';
import type { RecordBytes } from '../../feed/record-bytes.js';
import { beginningOf, subscribe, type Before, type Followed, type FollowQuery } from '../followed.js';
import { integerText } from '../parameters.js';
import type { Call } from '../route.js';
import {
  POSITION_MS,
  STREAM_LIMITS,
  type StreamLimits,
  type StreamMemory,
  type StreamsMemory,
} from '../stream-memory.js';

export interface EventStreamsOptions {
  readonly hub: FeedHub;
  readonly notified: TenantFeeds;
  readonly inTime: InTime;
  readonly catalog: Pick<Catalog, 'onChange'>;
  readonly quota: ConcurrencyQuota;
  readonly authenticator: Pick<Authenticator, 'authenticate' | 'onRevoked'>;
  readonly limits?: Partial<EventStreamsLimits>;
  readonly timers?: Timers;
  /** What is pushed and not read yet, of all streams. */
  readonly memory: StreamsMemory;
}

export interface EventStreamsLimits extends StreamLimits {
  /** Between two keep-alive comments. */
  readonly keepAliveMs: number;
  /** Between two words on how far the stream is, where the feed tells that. */
  readonly positionIntervalMs: number;
  /** What the client is told to wait before it reconnects. */
  readonly retryMs: number;
}

const DEFAULT_LIMITS: EventStreamsLimits = {
  ...STREAM_LIMITS,
  keepAliveMs: 20_000,
  positionIntervalMs: POSITION_MS,
  retryMs: 3_000,
};
const BEAT_MS = 1_000;
export const EVENT_STREAM = 'text/event-stream';
export const NDJSON = 'application/x-ndjson';
export const CLOUD_EVENTS = 'application/cloudevents+x-ndjson';

/** How a stream is written. */
interface Format {
  readonly contentType: string;
  readonly head: (retryMs: number) => string;
  readonly bytes: (record: RecordBytes) => Buffer;
  /** Items may be written by `Followed.writeLine`. */
  readonly isLines?: true;
  /** Keeps an idle stream alive; `position`: how far it is, where that is told. */
  readonly mark: (position: number | undefined) => string;
  /** What ends it in good order. */
  readonly last: (position: number) => string;
}

const SERVER_SENT_EVENTS: Format = {
  contentType: `${EVENT_STREAM}; charset=utf-8`,
  head: (retryMs) => `retry: ${retryMs}\n\n`,
  bytes: ({ serverSentEvent }) => serverSentEvent,
  // An event without data is none: the client goes on from its id when it connects again.
  mark: (position) => (position === undefined ? ': keep-alive\n\n' : `id: ${position}\n\n`),
  last: () => '',
};
const positionLine = (position: number): string => `{"type":"position","position":${position}}\n`;
/** So many bytes of records go out at once. */
const WRITE_BYTES = 64 * 1024;

const LINES: Format = {
  contentType: NDJSON,
  head: () => '',
  bytes: ({ line }) => line,
  isLines: true,
  mark: (position) => (position === undefined ? '' : positionLine(position)),
  last: positionLine,
};

/** Each line is an event, and there is nothing else: an empty line keeps an idle stream alive. */
const CLOUD_EVENT_LINES: Format = { ...LINES, contentType: CLOUD_EVENTS, mark: () => '\n', last: () => '' };

/** What of a call a stream needs. */
type StreamedCall = Pick<Call, 'request' | 'response' | 'tenantId' | 'scope'>;

/** A stream as it is ended from outside, whatever its items are. */
type OpenStream = Pick<EventStream<unknown>, 'keyId' | 'end' | 'endedBy'>;

/** Answers without end, as server-sent events and as lines of JSON: the same records and the same cursor as every channel. */
export class EventStreams {
  readonly #options: EventStreamsOptions;
  readonly #limits: EventStreamsLimits;
  readonly #pulse: Pulse;
  readonly #streams = new Set<OpenStream>();
  readonly #gathering = new Gathering();

  constructor(options: EventStreamsOptions) {
    this.#options = options;
    this.#limits = { ...DEFAULT_LIMITS, ...options.limits };
    this.#pulse = new Pulse(options.timers ?? systemTimers, BEAT_MS);
    // Whoever followed such a stream reconnects, and is then answered why: 401, or what the guard says.
    options.authenticator.onRevoked((keyId) => this.#endAll((stream) => stream.keyId === keyId));
    options.catalog.onChange((change) => this.#endAll((stream) => stream.endedBy(change)));
  }

  /** Server-sent events. `Last-Event-ID` wins over the query's cursor. */
  async answer<T>(call: StreamedCall, query: () => FollowQuery<T>): Promise<void> {
    const resumed = lastEventId(call.request);
    const asked = query();
    // Whoever goes on has had what comes before.
    const begun = resumed === undefined ? asked : { followed: asked.followed, after: resumed };
    await this.#stream(call, begun, SERVER_SENT_EVENTS, true);
  }

  /** Lines of JSON, from the oldest that is kept unless the query has a cursor. `follows`: they go on; else they end with what is there now. */
  lines<T>(call: StreamedCall, query: FollowQuery<T>, follows: boolean): Promise<void> {
    return this.#stream(call, { ...query, after: query.after ?? 0 }, LINES, follows);
  }

  /** The same as CloudEvents. */
  cloudEvents<T>(call: StreamedCall, query: FollowQuery<T>, follows: boolean): Promise<void> {
    return this.#stream(call, { ...query, after: query.after ?? 0 }, CLOUD_EVENT_LINES, follows);
  }

  async #stream<T>(
    { request, response, tenantId, scope }: StreamedCall,
    asked: FollowQuery<T>,
    format: Format,
    follows: boolean,
  ): Promise<void> {
    const { hub, notified, quota, authenticator, inTime } = this.#options;
    const limits = this.#limits;
    const { followed, before } = asked;
    followed.guard(tenantId);
    if (response.destroyed) return;
    const release = quota.take(tenantId);
    response.once('close', release);
    const feed = followed.source.of(await notified.open(tenantId));
    const beginning = await beginningOf(tenantId, feed, asked, inTime);
    // What was answered before is in it.
    if (!follows) await inTime(feed.caughtUp());
    const until = follows ? undefined : await feed.latest();
    // The key or what is followed may have gone meanwhile.
    const { keyId, expiresAt } = authenticator.authenticate(request, scope);
    followed.guard(tenantId);
    if (response.destroyed) return;
    response.writeHead(200, {
      'Content-Type': format.contentType,
      'Cache-Control': 'no-store',
      'X-Accel-Buffering': 'no',
    });
    if (request.method === 'HEAD') {
      response.end();
      return;
    }
    // Clients wait for the head of an answer that has nothing to say yet.
    const head = format.head(limits.retryMs);
    if (head === '') response.flushHeaders();
    else response.write(head);
    const memory = this.#options.memory.open(tenantId, () => stream.subscription?.resume());
    const stream: EventStream<T> = new EventStream({
      response,
      keyId,
      keyUntil: keyUntil(expiresAt, this.#pulse.now),
      followed,
      before,
      format,
      until,
      limits,
      now: () => this.#pulse.now,
      memory,
      gathering: this.#gathering,
    });
    this.#streams.add(stream);
    this.#pulse.add(stream);
    response.once('close', () => {
      stream.subscription?.close();
      memory.close();
      this.#streams.delete(stream);
      this.#pulse.delete(stream);
    });
    try {
      stream.subscription = subscribe(hub, tenantId, followed, beginning, stream);
      stream.subscription.start();
    } catch {
      stream.ended();
    }
  }

  /** Ends every stream; clients reconnect with the last id that they have. */
  close(): void {
    this.#endAll(() => true);
  }

  #endAll(which: (stream: OpenStream) => boolean): void {
    for (const stream of [...this.#streams]) if (which(stream)) stream.end();
  }
}

/** What a browser sends when it reconnects; it wins over the query, which stays that of the first connect. */
function lastEventId(request: IncomingMessage): number | undefined {
  const values = request.headersDistinct['last-event-id'];
  if (values === undefined || (values.length === 1 && values[0] === '')) return undefined;
  if (values.length > 1) throw new StatefoldError('INVALID_REQUEST', `Last-Event-ID is given ${values.length} times`);
  return integerText(values[0] as string, 'Last-Event-ID', 0, Number.MAX_SAFE_INTEGER);
}

interface EventStreamOptions<T> {
  readonly response: ServerResponse;
  readonly keyId: string;
  /** When the key expires, by `now`. */
  readonly keyUntil: number;
  readonly followed: Followed<T>;
  readonly before: Before<T> | undefined;
  readonly format: Format;
  /** The stream ends behind this position; undefined: it goes on. */
  readonly until: number | undefined;
  readonly limits: EventStreamsLimits;
  readonly now: () => number;
  readonly memory: StreamMemory;
  readonly gathering: Gathering;
}

/** The one buffer in which streams gather their lines: it is of one stream at a time, which gives it up to the next. */
class Gathering {
  readonly lines = new LineBuffer();
  #owner: { giveUp(lines: Buffer): void } | undefined;

  /** For whoever takes it. */
  for(owner: { giveUp(lines: Buffer): void }): LineBuffer {
    if (this.#owner !== owner) this.release(this.#owner);
    this.#owner = owner;
    return this.lines;
  }

  /** What the owner has gathered is given to it. */
  release(owner: { giveUp(lines: Buffer): void } | undefined): void {
    if (owner === undefined || this.#owner !== owner) return;
    this.#owner = undefined;
    if (this.lines.length > 0) owner.giveUp(this.lines.take());
  }
}

/** One open stream of whatever items. */
class EventStream<T> implements Subscriber<T>, PrefacedSubscriber<T>, Beating {
  readonly keeps = (): boolean => false;
  subscription: Subscription | undefined;
  readonly #options: EventStreamOptions<T>;
  /** Of this turn: each write is a chunk of its own, which costs more than a short record does. */
  #unwritten: Buffer[] = [];
  #unwrittenBytes = 0;
  #nextMark: number;
  /** What comes before the feed is being told. */
  #isBefore: boolean;
  #ended = false;

  constructor(options: EventStreamOptions<T>) {
    this.#options = options;
    const { response, memory, now, before } = options;
    this.#isBefore = before !== undefined;
    this.#nextMark = now() + this.#markEveryMs;
    response.on('drain', () => {
      memory.keepLast(response.writableLength);
      if (!memory.full || this.#ended) return;
      memory.drained();
      this.subscription?.resume();
    });
  }

  get keyId(): string {
    return this.#options.keyId;
  }

  endedBy(change: CatalogChange): boolean {
    return this.#options.followed.endedBy?.(change) === true;
  }

  push(item: T): boolean | 'later' {
    const { until = Infinity } = this.#options;
    const { reached } = this;
    if (reached > until) {
      this.#finish();
      return false;
    }
    const taken = this.#give(item);
    if (taken === 'later' || reached !== until) return taken;
    this.#finish();
    return false;
  }

  #give(item: T): boolean | 'later' {
    const { followed, format, memory, now } = this.#options;
    const taken = format.isLines === undefined ? undefined : this.#gather(item);
    if (taken !== undefined) return taken;
    const bytes = format.bytes(followed.encode(item));
    return memory.tryPush(bytes, this.#buffered, now()) ? this.#write(bytes) : 'later';
  }

  /** Writes it as a line beside others; undefined: it is to be encoded. */
  #gather(item: T): boolean | 'later' | undefined {
    const { followed, memory, now, gathering } = this.#options;
    if (followed.writeLine === undefined) return undefined;
    const buffered = this.#buffered;
    const lines = gathering.for(this);
    const { length } = lines;
    if (!followed.writeLine(item, lines)) return undefined;
    const bytes = lines.length - length;
    if (memory.tryPush(bytes, buffered, now())) return this.#wrote(bytes);
    lines.cutTo(length);
    return 'later';
  }

  pushBefore(item: T): boolean | 'later' {
    const { before, format, memory, now } = this.#options;
    if (before === undefined) throw new Error('nothing comes before the feed');
    const bytes = format.bytes(before.encode(item));
    return memory.tryPush(bytes, this.#buffered, now()) ? this.#write(bytes) : 'later';
  }

  prefaced(upTo: number): void {
    const { response, before, format } = this.#options;
    this.#isBefore = false;
    this.#flush();
    if (before !== undefined) response.write(format.bytes(before.end(upTo)));
  }

  /** False: the buffer is full with it. */
  #write(bytes: Buffer): boolean {
    this.#options.gathering.release(this);
    this.#unwritten.push(bytes);
    return this.#wrote(bytes.length);
  }

  giveUp(lines: Buffer): void {
    this.#unwritten.push(lines);
  }

  #wrote(bytes: number): boolean {
    const { response, limits, memory, now } = this.#options;
    if (this.#unwrittenBytes === 0) queueMicrotask(() => this.#flush());
    this.#unwrittenBytes += bytes;
    if (this.#unwrittenBytes < WRITE_BYTES && this.#buffered <= limits.maxBufferedBytes) return true;
    if (this.#flush() || response.writableLength <= limits.maxBufferedBytes) return true;
    memory.fill(now());
    return false;
  }

  /** What the client has not taken, also what is on its way to the socket. */
  get #buffered(): number {
    return this.#options.response.writableLength + this.#unwrittenBytes;
  }

  #flush(): boolean {
    this.#options.gathering.release(this);
    const unwritten = this.#unwritten;
    const [first] = unwritten;
    if (first === undefined) return true;
    const bytes = unwritten.length === 1 ? first : Buffer.concat(unwritten, this.#unwrittenBytes);
    this.#unwritten = [];
    this.#unwrittenBytes = 0;
    return this.#options.response.write(bytes);
  }

  caughtUp(): void {
    if (this.#options.until !== undefined) this.#finish();
  }

  /** What an answer that is to end left out must not be taken for nothing: it breaks off. */
  ended(): void {
    if (this.#options.until === undefined) this.end();
    else this.#options.response.destroy();
  }

  beat(now: number): void {
    const { response, memory, limits, followed, format, keyUntil } = this.#options;
    memory.keepLast(response.writableLength);
    memory.beat();
    if (memory.isStalled(now, limits.drainDeadlineMs)) return void response.destroy();
    // Also of one that reads too slowly to be sent anything more.
    if (now >= keyUntil) return this.ended();
    if (memory.full) return;
    if (now < this.#nextMark) return;
    this.#nextMark = now + this.#markEveryMs;
    this.#flush();
    // A client that goes on from a position would lack the rest of what comes before.
    response.write(format.mark(followed.tellsPosition && !this.#isBefore ? this.reached : undefined));
  }

  /** From outside: the client goes on elsewhere, or not at all. */
  end(): void {
    if (this.#ended) return;
    if (this.#options.until !== undefined) return void this.#options.response.destroy();
    this.#finish();
  }

  get reached(): number {
    return this.subscription?.reached ?? 0;
  }

  get #markEveryMs(): number {
    const { followed, limits } = this.#options;
    return followed.tellsPosition ? limits.positionIntervalMs : limits.keepAliveMs;
  }

  #finish(): void {
    if (this.#ended) return;
    this.#ended = true;
    const { response, format, until = Infinity, memory, now } = this.#options;
    this.subscription?.close();
    this.#flush();
    response.end(format.last(Math.min(this.reached, until)));
    // What a reader that stopped hasn't taken keeps the socket open: the deadline of a full buffer then ends it.
    memory.fill(now());
  }
}
