import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Catalog, CatalogChange } from '../../catalog/catalog.js';
import { StatefoldError } from '../../core/errors.js';
import type { ConcurrencyQuota } from '../concurrency-quota.js';
import type { Subscription, Subscriber } from '../../feed/subscription.js';
import type { FeedHub } from '../../feed/hub.js';
import { Pulse, type Beating } from '../../feed/pulse.js';
import { systemTimers, type Timers } from '../../feed/timers.js';
import type { TenantFeeds } from '../../feed/tenant-feeds.js';
import { keyUntil, type Authenticator } from '../auth.js';
import type { Followed, FollowQuery } from '../followed.js';
import { integerText } from '../parameters.js';
import type { Call } from '../route.js';
import { STREAM_LIMITS, type StreamLimits, type StreamMemory, type StreamsMemory } from '../stream-memory.js';

export interface EventStreamsOptions {
  readonly hub: FeedHub;
  readonly tenants: TenantFeeds;
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
  /** What the client is told to wait before it reconnects. */
  readonly retryMs: number;
}

const DEFAULT_LIMITS: EventStreamsLimits = { ...STREAM_LIMITS, keepAliveMs: 20_000, retryMs: 3_000 };
const BEAT_MS = 1_000;
export const EVENT_STREAM = 'text/event-stream';

/** A stream as it is ended from outside, whatever its items are. */
type OpenStream = Pick<EventStream<unknown>, 'keyId' | 'end' | 'endedBy'>;

/** Server-sent events: the same records and the same cursor as every channel. */
export class EventStreams {
  readonly #options: EventStreamsOptions;
  readonly #limits: EventStreamsLimits;
  readonly #pulse: Pulse;
  readonly #streams = new Set<OpenStream>();

  constructor(options: EventStreamsOptions) {
    this.#options = options;
    this.#limits = { ...DEFAULT_LIMITS, ...options.limits };
    this.#pulse = new Pulse(options.timers ?? systemTimers, BEAT_MS);
    // Whoever followed such a stream reconnects, and is then answered why: 401, or what the guard says.
    options.authenticator.onRevoked((keyId) => this.#endAll((stream) => stream.keyId === keyId));
    options.catalog.onChange((change) => this.#endAll((stream) => stream.endedBy(change)));
  }

  /** `Last-Event-ID` wins over the query's cursor. */
  async answer<T>(
    { request, response, tenantId, scope }: Pick<Call, 'request' | 'response' | 'tenantId' | 'scope'>,
    query: () => FollowQuery<T>,
  ): Promise<void> {
    const { hub, tenants, quota, authenticator } = this.#options;
    const limits = this.#limits;
    const resumed = lastEventId(request);
    const { followed, after } = query();
    const { source, wanted } = followed;
    followed.guard(tenantId);
    if (response.destroyed) return;
    const release = quota.take(tenantId);
    response.once('close', release);
    const feed = source.of(await tenants.open(tenantId));
    const last = resumed ?? after;
    const from = last === undefined ? undefined : last + 1;
    // What was answered before the stream began is not in it.
    if (from === undefined) await feed.caughtUp();
    else await feed.read(from, { items: 1 });
    // The key or what is followed may have gone meanwhile.
    const { keyId, expiresAt } = authenticator.authenticate(request, scope);
    followed.guard(tenantId);
    if (response.destroyed) return;
    response.writeHead(200, {
      'Content-Type': `${EVENT_STREAM}; charset=utf-8`,
      'Cache-Control': 'no-store',
      'X-Accel-Buffering': 'no',
    });
    if (request.method === 'HEAD') {
      response.end();
      return;
    }
    response.write(`retry: ${limits.retryMs}\n\n`);
    const memory = this.#options.memory.open(tenantId, () => stream.subscription?.resume());
    const until = keyUntil(expiresAt, this.#pulse.now);
    const now = (): number => this.#pulse.now;
    const stream: EventStream<T> = new EventStream(response, keyId, until, followed, limits, now, memory);
    this.#streams.add(stream);
    this.#pulse.add(stream);
    response.once('close', () => {
      stream.subscription?.close();
      memory.close();
      this.#streams.delete(stream);
      this.#pulse.delete(stream);
    });
    try {
      stream.subscription = hub.subscribe({ tenantId, source, from, wanted }, stream);
      stream.subscription.start();
    } catch {
      stream.end();
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

/** One open stream of whatever items. */
class EventStream<T> implements Subscriber<T>, Beating {
  readonly rereads = true;
  subscription: Subscription | undefined;
  #nextKeepAlive: number;
  #ended = false;

  constructor(
    private readonly response: ServerResponse,
    readonly keyId: string,
    /** When the key expires, by `now`. */
    private readonly keyUntil: number,
    private readonly followed: Followed<T>,
    private readonly limits: EventStreamsLimits,
    private readonly now: () => number,
    private readonly memory: StreamMemory,
  ) {
    this.#nextKeepAlive = now() + limits.keepAliveMs;
    response.on('drain', () => {
      memory.settle(response.writableLength);
      if (!memory.full || this.#ended) return;
      memory.drained();
      this.subscription?.resume();
    });
  }

  endedBy(change: CatalogChange): boolean {
    return this.followed.endedBy?.(change) === true;
  }

  push(item: T): boolean | 'later' {
    const { serverSentEvent } = this.followed.encode(item);
    if (!this.memory.tryPush(serverSentEvent, this.response.writableLength, this.now())) return 'later';
    if (this.response.write(serverSentEvent) || this.response.writableLength <= this.limits.maxBufferedBytes)
      return true;
    this.memory.fill(this.now());
    return false;
  }

  ended(): void {
    this.end();
  }

  beat(now: number): void {
    this.memory.settle(this.response.writableLength);
    this.memory.beat();
    if (this.memory.isStalled(now, this.limits.drainDeadlineMs)) return void this.response.destroy();
    // Also of one that reads too slowly to be sent anything more.
    if (now >= this.keyUntil) return this.end();
    if (this.memory.full) return;
    if (now < this.#nextKeepAlive) return;
    this.#nextKeepAlive = now + this.limits.keepAliveMs;
    this.response.write(': keep-alive\n\n');
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.subscription?.close();
    this.response.end();
    // What a reader that stopped hasn't taken keeps the socket open: the deadline of a full buffer then ends it.
    this.memory.fill(this.now());
  }
}
