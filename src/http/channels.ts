import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Router } from 'express';
import type { Catalog } from '../catalog/catalog.js';
import type { Logger } from '../core/logger.js';
import type { TenantFeeds } from '../feed/changes.js';
import type { ChangeHub } from '../feed/hub.js';
import type { Admission } from './admission.js';
import type { EdgeExtension } from './edge-options.js';
import { notificationRoutes, type NotificationRoutes } from './routes/notifications.js';
import { serverSentEvents, type ServerSentEvents } from './sse/stream-routes.js';
import { StreamServer } from './websocket/stream-server.js';

export interface ChannelsOptions {
  readonly hub: ChangeHub;
  readonly tenants: TenantFeeds;
  readonly catalog: Pick<Catalog, 'get' | 'refresh' | 'onChange'>;
  readonly admission: Admission;
  readonly logger: Logger;
  /** Told how many WebSockets are open. */
  readonly onConnections?: (open: number) => void;
  /** How long sockets may take to end at a close, milliseconds. */
  readonly drainMs?: number;
}

/** The channels of notification that clients come to: polling, SSE and WebSocket, which share a tenant's connections. */
export class Channels implements EdgeExtension {
  readonly #polling: NotificationRoutes;
  readonly #sse: ServerSentEvents;
  readonly #sockets: StreamServer;
  readonly #drainMs: number | undefined;

  constructor({ admission, onConnections, drainMs, ...feeds }: ChannelsOptions) {
    const options = {
      ...feeds,
      quota: admission.connections,
      budget: admission.memory.budget,
      authenticator: admission.authenticator,
      authenticate: (request: IncomingMessage) => admission.admit(request),
    };
    this.#polling = notificationRoutes(options);
    this.#sse = serverSentEvents(options);
    this.#sockets = new StreamServer({ ...options, ...(onConnections && { onConnections }) });
    this.#drainMs = drainMs;
  }

  mount(router: Router): void {
    router.use(this.#polling.router, this.#sse.router);
  }

  onUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    void this.#sockets.handleUpgrade(request, socket, head);
  }

  /** Ends what waits or streams; clients go on elsewhere from their cursors. */
  async close(): Promise<void> {
    this.#polling.close();
    this.#sse.close();
    await this.#sockets.close(this.#drainMs);
  }
}
