import type { IncomingMessage } from 'node:http';
import { Router, type Request, type Response } from 'express';
import type { Catalog } from '../../catalog/catalog.js';
import { UNBOUNDED, type Hold, type MemoryBudget } from '../../core/budget.js';
import type { Change } from '../../core/change.js';
import { StatefoldError } from '../../core/errors.js';
import type { ConnectionQuota } from '../connection-quota.js';
import type { Subscription, Subscriber } from '../../feed/subscription.js';
import type { ChangeHub } from '../../feed/hub.js';
import { notificationBytes } from '../../feed/notification-record.js';
import { Pulse, type Beating } from '../../feed/pulse.js';
import { systemTimers, type Timers } from '../../feed/timers.js';
import type { TenantFeeds } from '../../feed/changes.js';
import type { Authenticator, Principal } from '../auth.js';
import { cursorParameter, integerText, keyParameter, queryOf, requireProjection } from '../notification-query.js';

export interface ServerSentEventsOptions {
  readonly hub: ChangeHub;
  readonly tenants: TenantFeeds;
  readonly catalog: Pick<Catalog, 'get' | 'onChange'>;
  readonly quota: ConnectionQuota;
  /** As the edge authenticates a request; it may refuse one for its rate too. */
  readonly authenticate: (request: IncomingMessage) => Principal;
  readonly authenticator: Pick<Authenticator, 'authenticate' | 'onRevoked'>;
  readonly limits?: Partial<ServerSentEventsLimits>;
  readonly timers?: Timers;
  /** What is pushed and not read yet is held of it; without it nothing is bounded but by connection. */
  readonly budget?: MemoryBudget;
}

export interface ServerSentEventsLimits {
  /** Between two keep-alive comments. */
  readonly keepAliveMs: number;
  /** Bytes waiting to be written past which nothing more is pushed until they have drained. */
  readonly maxBufferedBytes: number;
  /** How long a full buffer may take to drain. */
  readonly drainDeadlineMs: number;
  /** What the client is told to wait before it reconnects. */
  readonly retryMs: number;
}

export interface ServerSentEvents {
  readonly router: Router;
  /** Ends every stream; clients reconnect with the last id that they have. */
  close(): void;
}

const DEFAULT_LIMITS: ServerSentEventsLimits = {
  keepAliveMs: 20_000,
  maxBufferedBytes: 1024 * 1024,
  drainDeadlineMs: 30_000,
  retryMs: 3_000,
};
const BEAT_MS = 1_000;

/** `GET /projections/{id}/sse`: the same records and the same cursor as every channel. */
export function serverSentEvents(options: ServerSentEventsOptions): ServerSentEvents {
  const { hub, tenants, catalog, quota, authenticator } = options;
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const pulse = new Pulse(options.timers ?? systemTimers, BEAT_MS);
  const streams = new Set<EventStream>();
  const router = Router({ strict: true, caseSensitive: true });

  // A stream that is ended so reconnects, and is then answered 401, 404 SSE_DISABLED or 404 NOT_FOUND.
  const endAll = (which: (stream: EventStream) => boolean): void => {
    for (const stream of [...streams]) if (which(stream)) stream.end();
  };
  authenticator.onRevoked((keyId) => endAll((stream) => stream.keyId === keyId));
  catalog.onChange((change) => {
    if (change.kind === 'projection' && change.value !== undefined && 'sse' in change.value && !change.value.sse) {
      endAll((stream) => stream.projectionId === change.id);
    }
  });

  router.get('/projections/:id/sse', async (request: Request<{ id: string }>, response: Response) => {
    const { tenantId } = options.authenticate(request);
    const projectionId = request.params.id;
    const query = queryOf(request.url);
    const after = lastEventId(request) ?? cursorParameter(query);
    const key = keyParameter(query);
    requireEnabled(tenantId, projectionId);
    if (response.destroyed) return;
    const release = quota.take(tenantId);
    response.once('close', release);
    const { changes } = await tenants.open(tenantId);
    // What was answered before the stream began is not in it.
    if (after === undefined) await changes.refresh();
    else await changes.of(projectionId).read(after + 1, { items: 1 });
    // The key or the projection may have gone meanwhile.
    const { keyId } = authenticator.authenticate(request);
    requireEnabled(tenantId, projectionId);
    if (response.destroyed) return;
    response.writeHead(200, {
      'Content-Type': 'text/event-stream; charset=utf-8',
      'Cache-Control': 'no-store',
      'X-Accel-Buffering': 'no',
    });
    if (request.method === 'HEAD') {
      response.end();
      return;
    }
    response.write(`retry: ${limits.retryMs}\n\n`);
    const hold = (options.budget ?? UNBOUNDED).tenant(tenantId).hold('streams');
    const stream = new EventStream(response, keyId, projectionId, limits, () => pulse.now, hold);
    streams.add(stream);
    pulse.add(stream);
    response.once('close', () => {
      stream.subscription?.close();
      hold.close();
      streams.delete(stream);
      pulse.delete(stream);
    });
    try {
      stream.subscription = hub.subscribe({ tenantId, projectionId, after, key }, stream);
    } catch {
      stream.end();
    }
  });

  function requireEnabled(tenantId: string, projectionId: string): void {
    if (!requireProjection(catalog, tenantId, projectionId).sse) {
      throw new StatefoldError(
        'SSE_DISABLED',
        'this projection was uploaded without "sse": true in its notification configuration',
      );
    }
  }

  return { router, close: () => endAll(() => true) };
}

/** What a browser sends when it reconnects; it wins over the query, which stays that of the first connect. */
function lastEventId(request: IncomingMessage): number | undefined {
  const values = request.headersDistinct['last-event-id'];
  if (values === undefined || (values.length === 1 && values[0] === '')) return undefined;
  if (values.length > 1) throw new StatefoldError('INVALID_REQUEST', `Last-Event-ID is given ${values.length} times`);
  return integerText(values[0] as string, 'Last-Event-ID', 0, Number.MAX_SAFE_INTEGER);
}

class EventStream implements Subscriber, Beating {
  subscription: Subscription | undefined;
  #nextKeepAlive: number;
  #fullSince: number | undefined;
  #ended = false;

  constructor(
    private readonly response: Response,
    readonly keyId: string,
    readonly projectionId: string,
    private readonly limits: ServerSentEventsLimits,
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

  push(change: Change): boolean {
    if (this.response.write(notificationBytes(change).serverSentEvent)) return true;
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
