import type { InTime } from '../deadlines.js';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer, type WebSocket } from 'ws';
import type { Catalog } from '../../catalog/catalog.js';
import type { RequiredScope } from '../../core/scopes.js';
import { hasCode, StatefoldError } from '../../core/errors.js';
import type { Logger } from '../../core/logger.js';
import type { ConcurrencyQuota } from '../concurrency-quota.js';
import type { FeedHub } from '../../feed/hub.js';
import { Pulse } from '../../feed/pulse.js';
import { systemTimers, type Timers } from '../../feed/timers.js';
import type { TenantFeeds } from '../../feed/tenant-feeds.js';
import { keyUntil, type Authenticator, type Principal } from '../auth.js';
import { beginningOf, subscribe, type Beginning, type Followed, type FollowQuery } from '../followed.js';
import type { Refusals } from '../refusals.js';
import type { Upgrade } from '../route.js';
import { POSITION_MS, STREAM_LIMITS, type StreamsMemory } from '../stream-memory.js';
import { showsTicket } from '../tickets.js';
import { CLOSE, StreamConnection, type ConnectionLimits } from './connection.js';

export interface StreamServerOptions {
  readonly hub: FeedHub;
  readonly notified: TenantFeeds;
  readonly inTime: InTime;
  readonly catalog: Pick<Catalog, 'caughtUp'>;
  readonly quota: ConcurrencyQuota;
  /** As the edge authenticates a request; it may refuse one for its rate too. */
  readonly authenticate: (request: IncomingMessage, scope: RequiredScope) => Principal;
  readonly authenticator: Pick<Authenticator, 'authenticate' | 'onRevoked'>;
  readonly refusals: Refusals;
  readonly logger: Logger;
  readonly limits?: Partial<ConnectionLimits>;
  readonly timers?: Timers;
  /** What is pushed and not read yet, of all streams. */
  readonly memory: StreamsMemory;
  readonly onConnections?: (open: number) => void;
}

const DEFAULT_LIMITS: ConnectionLimits = {
  ...STREAM_LIMITS,
  pingIntervalMs: 20_000,
  positionIntervalMs: POSITION_MS,
};
const BEAT_MS = 1_000;

/** What a socket is opened for. */
interface Opened<T> {
  readonly tenantId: string;
  readonly asked: FollowQuery<T>;
  /** An error: the client is told it by the close code. */
  readonly beginning: Beginning<T> | StatefoldError;
}

/** A connection as it is ended from outside, whatever its items are. */
type OpenConnection = Pick<StreamConnection<unknown>, 'close' | 'shutDown' | 'terminate'>;

/**
 * Feeds over WebSockets: everything that can be refused is refused in HTTP, before the upgrade; but to a page, which is told nothing of such a
 * refusal, an expired cursor by the close code.
 */
export class StreamServer {
  readonly #sockets = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: 4096,
    maxFragments: 16,
    maxBufferedChunks: 256,
  });
  readonly #limits: ConnectionLimits;
  readonly #pulse: Pulse;
  readonly #connections = new Set<OpenConnection>();
  readonly #byKey = new Map<string, Set<OpenConnection>>();
  #closing = false;
  #onEmpty: (() => void) | undefined;

  constructor(private readonly options: StreamServerOptions) {
    this.#limits = { ...DEFAULT_LIMITS, ...options.limits };
    this.#pulse = new Pulse(options.timers ?? systemTimers, BEAT_MS);
    options.authenticator.onRevoked((keyId, why) => {
      for (const connection of [...(this.#byKey.get(keyId) ?? [])])
        if (why === 'revoked') connection.close(CLOSE.unauthenticated, 'the API key was revoked');
        else connection.close(CLOSE.notFound, 'the tenant was deleted');
    });
  }

  get connections(): number {
    return this.#connections.size;
  }

  /** Takes the socket of the upgrade. Never rejects. */
  async take<T>(
    {
      request,
      socket: transport,
      head,
      requestId,
      scope,
    }: Pick<Upgrade, 'request' | 'socket' | 'head' | 'requestId' | 'scope'>,
    query: () => FollowQuery<T>,
  ): Promise<void> {
    const ignore = (): void => undefined;
    transport.on('error', ignore);
    let release: (() => void) | undefined;
    try {
      const asked = query();
      const { tenantId } = this.options.authenticate(request, scope);
      const { followed } = asked;
      await this.#guarded(followed, tenantId);
      release = this.options.quota.take(tenantId);
      const feed = followed.source.of(await this.options.notified.open(tenantId));
      const beginning = await beginningOf(tenantId, feed, asked, this.options.inTime).catch((error: unknown) => {
        if (hasCode(error, 'CURSOR_EXPIRED') && showsTicket(request.url ?? '')) return error;
        throw error;
      });
      // The key or what is followed may have gone meanwhile: from here on all is on one turn.
      const principal = this.options.authenticator.authenticate(request, scope);
      followed.guard(tenantId);
      if (this.#closing) throw new StatefoldError('UNAVAILABLE', 'the service is shutting down');
      if (transport.destroyed) {
        release();
        return;
      }
      const give = release;
      let upgraded = false;
      this.#sockets.handleUpgrade(request, transport, head, (socket) => {
        upgraded = true;
        transport.off('error', ignore);
        this.#start(socket, transport, principal, give, { tenantId, asked, beginning });
      });
      // The library has refused the handshake itself.
      if (!upgraded) release();
    } catch (error) {
      release?.();
      this.options.refusals.upgrade(request, transport, error, requestId);
    }
  }

  /** Closes every socket with 1001, and cuts those that haven't answered after `graceMs`. */
  async close(graceMs = 2_000): Promise<void> {
    this.#closing = true;
    if (this.#connections.size === 0) return;
    const empty = new Promise<void>((resolve) => {
      this.#onEmpty = resolve;
    });
    for (const connection of this.#connections) connection.shutDown();
    const cut = setTimeout(() => {
      for (const connection of this.#connections) connection.terminate();
    }, graceMs);
    await empty;
    clearTimeout(cut);
  }

  async #guarded(followed: Pick<Followed<unknown>, 'guard'>, tenantId: string): Promise<void> {
    try {
      followed.guard(tenantId);
    } catch (error) {
      if (!hasCode(error, 'NOT_FOUND')) throw error;
      // Another process may have made it a moment ago.
      await this.options.catalog.caughtUp();
      followed.guard(tenantId);
    }
  }

  #start<T>(
    socket: WebSocket,
    transport: Duplex,
    { keyId, expiresAt }: Principal,
    release: () => void,
    { tenantId, asked, beginning }: Opened<T>,
  ): void {
    const { followed, before } = asked;
    const memory = this.options.memory.open(tenantId, () => connection.subscription?.resume());
    const connection: StreamConnection<T> = new StreamConnection({
      ...{ socket, transport, followed, before, memory },
      limits: this.#limits,
      now: () => this.#pulse.now,
      keyUntil: keyUntil(expiresAt, this.#pulse.now),
    });
    this.#connections.add(connection);
    this.#pulse.add(connection);
    let ofKey = this.#byKey.get(keyId);
    if (ofKey === undefined) this.#byKey.set(keyId, (ofKey = new Set()));
    ofKey.add(connection);
    this.options.onConnections?.(this.#connections.size);
    socket.on('error', (error) => this.options.logger.debug({ err: error, tenantId }, 'a WebSocket failed'));
    socket.once('close', () => {
      connection.subscription?.close();
      memory.close();
      this.#connections.delete(connection);
      this.#pulse.delete(connection);
      ofKey.delete(connection);
      if (ofKey.size === 0 && this.#byKey.get(keyId) === ofKey) this.#byKey.delete(keyId);
      release();
      this.options.onConnections?.(this.#connections.size);
      if (this.#connections.size === 0) this.#onEmpty?.();
    });
    try {
      if (beginning instanceof StatefoldError) throw beginning;
      connection.subscription = subscribe(this.options.hub, tenantId, followed, beginning, connection);
      connection.subscription.start();
    } catch (error) {
      connection.ended(error);
    }
  }
}
