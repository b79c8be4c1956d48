import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Catalog } from '../../catalog/catalog.js';
import { UNBOUNDED, type Hold, type MemoryBudget } from '../../core/budget.js';
import type { Change } from '../../core/change.js';
import { StatefoldError } from '../../core/errors.js';
import type { ConcurrencyQuota } from '../concurrency-quota.js';
import type { Subscription, Subscriber } from '../../feed/subscription.js';
import type { FeedHub } from '../../feed/hub.js';
import { notificationBytes } from '../../feed/notification-record.js';
import { Pulse, type Beating } from '../../feed/pulse.js';
import { systemTimers, type Timers } from '../../feed/timers.js';
import { changesOf } from '../../feed/sources.js';
import type { TenantFeeds } from '../../feed/tenant-feeds.js';
import type { Authenticator } from '../auth.js';
import { integerText } from '../parameters.js';
import { requireProjection } from '../require-projection.js';
import type { Call } from '../route.js';

export interface EventStreamsOptions {
  readonly hub: FeedHub;
  readonly tenants: TenantFeeds;
  readonly catalog: Pick<Catalog, 'get' | 'onChange'>;
  readonly quota: ConcurrencyQuota;
  readonly authenticator: Pick<Authenticator, 'authenticate' | 'onRevoked'>;
  readonly limits?: Partial<EventStreamsLimits>;
  readonly timers?: Timers;
  /** What is pushed and not read yet is held of it; without it nothing is bounded but by connection. */
  readonly budget?: MemoryBudget;
}

export interface EventStreamsLimits {
  /** Between two keep-alive comments. */
  readonly keepAliveMs: number;
  /** Bytes waiting to be written past which nothing more is pushed until they have drained. */
  readonly maxBufferedBytes: number;
  /** How long a full buffer may take to drain. */
  readonly drainDeadlineMs: number;
  /** What the client is told to wait before it reconnects. */
  readonly retryMs: number;
}

const DEFAULT_LIMITS: EventStreamsLimits = {
  keepAliveMs: 20_000,
  maxBufferedBytes: 1024 * 1024,
  drainDeadlineMs: 30_000,
  retryMs: 3_000,
};
const BEAT_MS = 1_000;
export const EVENT_STREAM = 'text/event-stream';

/** What a stream of events is asked for. */
export interface EventStreamQuery {
  readonly projectionId: string;
  /** The last sequence that the client has; undefined: live only, unless `Last-Event-ID` says it. */
  readonly after: number | undefined;
  readonly key: string | undefined;
}

/** Server-sent events: the same records and the same cursor as every channel. */
export class EventStreams {
  readonly #options: EventStreamsOptions;
  readonly #limits: EventStreamsLimits;
  readonly #pulse: Pulse;
  readonly #streams = new Set<EventStream<Change>>();

  constructor(options: EventStreamsOptions) {
    this.#options = options;
    this.#limits = { ...DEFAULT_LIMITS, ...options.limits };
    this.#pulse = new Pulse(options.timers ?? systemTimers, BEAT_MS);
    // A stream that is ended so reconnects, and is then answered 401, 404 SSE_DISABLED or 404 NOT_FOUND.
    options.authenticator.onRevoked((keyId) => this.#endAll((stream) => stream.keyId === keyId));
    options.catalog.onChange((change) => {
      if (change.kind === 'projection' && change.value?.sse === false)
        this.#endAll((stream) => stream.sourceId === change.id);
    });
  }

  async answer(
    { request, response, tenantId }: Pick<Call, 'request' | 'response' | 'tenantId'>,
    query: () => EventStreamQuery,
  ): Promise<void> {
    const { hub, tenants, quota, authenticator } = this.#options;
    const limits = this.#limits;
    const resumed = lastEventId(request);
    const { projectionId, key, ...asked } = query();
    const after = resumed ?? asked.after;
    this.#requireEnabled(tenantId, projectionId);
    if (response.destroyed) return;
    const release = quota.take(tenantId);
    response.once('close', release);
    const source = changesOf(projectionId);
    const feed = source.of(await tenants.open(tenantId));
    const from = after === undefined ? undefined : after + 1;
    // What was answered before the stream began is not in it.
    if (from === undefined) await feed.caughtUp();
    else await feed.read(from, { items: 1 });
    // The key or the projection may have gone meanwhile.
    const { keyId } = authenticator.authenticate(request);
    this.#requireEnabled(tenantId, projectionId);
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
    const hold = (this.#options.budget ?? UNBOUNDED).tenant(tenantId).hold('streams');
    const stream = new EventStream(response, keyId, source.id, serverSentEvent, limits, () => this.#pulse.now, hold);
    this.#streams.add(stream);
    this.#pulse.add(stream);
    response.once('close', () => {
      stream.subscription?.close();
      hold.close();
      this.#streams.delete(stream);
      this.#pulse.delete(stream);
    });
    try {
      const wanted = key === undefined ? undefined : (change: Change): boolean => change.key === key;
      stream.subscription = hub.subscribe({ tenantId, source, from, wanted }, stream);
    } catch {
      stream.end();
    }
  }

  /** Ends every stream; clients reconnect with the last id that they have. */
  close(): void {
    this.#endAll(() => true);
  }

  #endAll(which: (stream: EventStream<Change>) => boolean): void {
    for (const stream of [...this.#streams]) if (which(stream)) stream.end();
  }

  #requireEnabled(tenantId: string, projectionId: string): void {
    if (!requireProjection(this.#options.catalog, tenantId, projectionId).sse) {
      throw new StatefoldError(
        'SSE_DISABLED',
        'this projection was uploaded without "sse": true in its notification configuration',
      );
    }
  }
}

/** What a browser sends when it reconnects; it wins over the query, which stays that of the first connect. */
function lastEventId(request: IncomingMessage): number | undefined {
  const values = request.headersDistinct['last-event-id'];
  if (values === undefined || (values.length === 1 && values[0] === '')) return undefined;
  if (values.length > 1) throw new StatefoldError('INVALID_REQUEST', `Last-Event-ID is given ${values.length} times`);
  return integerText(values[0] as string, 'Last-Event-ID', 0, Number.MAX_SAFE_INTEGER);
}

const serverSentEvent = (change: Change): Buffer => notificationBytes(change).serverSentEvent;

/** One open stream of whatever items: `encode` makes the whole event of one. */
class EventStream<T> implements Subscriber<T>, Beating {
  subscription: Subscription | undefined;
  #nextKeepAlive: number;
  #fullSince: number | undefined;
  #ended = false;

  constructor(
    private readonly response: ServerResponse,
    readonly keyId: string,
    readonly sourceId: string,
    private readonly encode: (item: T) => Buffer,
    private readonly limits: EventStreamsLimits,
    private readonly now: () => number,
    private readonly hold: Hold,
  ) {
    this.#nextKeepAlive = now() + limits.keepAliveMs;
    response.on('drain', () => {
      hold.set(0);
      if (this.#fullSince === undefined || this.#ended) return;
      this.#fullSince = undefined;
      this.subscription?.resume();
    });
  }

  push(item: T): boolean {
    if (this.response.write(this.encode(item))) return true;
    const { writableLength } = this.response;
    this.hold.set(writableLength);
    if (writableLength <= this.limits.maxBufferedBytes && this.hold.full === undefined) return true;
    if (writableLength <= this.limits.maxBufferedBytes) this.hold.countRefusal();
    this.#fullSince = this.now();
    return false;
  }

  ended(): void {
    this.end();
  }

  beat(now: number): void {
    if (this.#fullSince !== undefined) {
      if (now - this.#fullSince >= this.limits.drainDeadlineMs) this.response.destroy();
      return;
    }
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
    this.#fullSince ??= this.now();
  }
}
