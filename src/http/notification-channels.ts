import type { Request } from 'express';
import type { IncomingMessage } from 'node:http';
import type { Catalog } from '../catalog/catalog.js';
import { StatefoldError } from '../core/errors.js';
import type { Logger } from '../core/logger.js';
import { ConnectionQuota } from '../notifier/connection-quota.js';
import type { ChangeHub } from '../notifier/hub.js';
import type { Timers } from '../notifier/timers.js';
import type { Tenants } from '../tasks/tenant.js';
import type { Authenticator, Principal } from './auth.js';
import type { EdgeExtensions } from './edge-options.js';
import { notificationRoutes } from './routes/notifications.js';
import { serverSentEvents } from './sse/stream-routes.js';
import { StreamServer } from './websocket/stream-server.js';

export interface NotificationChannelsOptions {
  readonly hub: ChangeHub;
  readonly tenants: Tenants;
  readonly catalog: Pick<Catalog, 'get' | 'onChange'>;
  readonly authenticator: Authenticator;
  readonly logger: Logger;
  /** Open WebSockets, SSE streams and waiting long polls of one tenant. */
  readonly maxWaitingPerTenant: number;
  readonly timers?: Timers;
  /** Called with the number of open WebSockets when it changes. */
  readonly onConnections?: (open: number) => void;
}

export interface NotificationChannels {
  readonly extension: EdgeExtensions;
  /** Ends long polls, SSE streams and WebSockets (1001). Before the edge is closed, which waits for them. */
  close(): Promise<void>;
}

/** Polling, WebSocket and SSE as an extension of the edge. */
export function notificationChannels(options: NotificationChannelsOptions): NotificationChannels {
  let rated: ((request: IncomingMessage) => Principal) | undefined;
  const authenticate = (request: IncomingMessage): Principal => {
    if (rated === undefined) throw new StatefoldError('UNAVAILABLE', 'the service is starting');
    return rated(request);
  };
  const shared = { ...options, authenticate, quota: new ConnectionQuota(options.maxWaitingPerTenant) };
  const polling = notificationRoutes(shared);
  const sse = serverSentEvents(shared);
  const streams = new StreamServer(shared);
  return {
    extension: {
      mount(app, helpers) {
        rated = (request) => helpers.authenticate(request as Request);
        app.use(polling.router, sse.router);
      },
      onUpgrade: (request, socket, head) => void streams.handleUpgrade(request, socket, head),
    },
    async close() {
      polling.close();
      sse.close();
      await streams.close();
    },
  };
}
