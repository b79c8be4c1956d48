import type { IncomingMessage, Server } from 'node:http';
import { StatefoldError } from '../core/errors.js';
import { adminCheck, isAdminBy } from './admin-auth.js';
import { assistantsDoor } from './assistants.js';
import { appendRoute } from './append-route.js';
import { Auditing } from './audited.js';
import { BulkRoute } from './bulk/bulk-route.js';
import { ConcurrencyQuota } from './concurrency-quota.js';
import { Deadlines, timely } from './deadlines.js';
import type { EdgeOptions } from './edge-options.js';
import { FrontDoor } from './front-door.js';
import { Gateway } from './gateway/gateway.js';
import { isForwarded } from './gateway/headers.js';
import { Guard } from './gateway/guard.js';
import { Tunnels } from './gateway/tunnels.js';
import { openapiDocument } from './openapi/document.js';
import { ImportRoute } from './import/import-route.js';
import { Origins } from './origins.js';
import { Refusals } from './refusals.js';
import { Requests } from './requests.js';
import { createRouter, finderOf, upgradesOf } from './router.js';
import type { RouteDependencies, TicketedStream } from './routes/dependencies.js';
import { CHECKS_PER_TENANT } from './routes/upload-checks.js';
import { ROOMS, ROUTES } from './table.js';
import { Upgrades } from './upgrades.js';
import { Waits } from './waits.js';

export interface Edge {
  readonly server: Server;
  /** Serves from now on; resolves with the port when connections are accepted. @throws StartupError */
  listen(): Promise<number>;
  /** Not ready any more, for whoever routes clients here; those that are here are served, and connect anew for their next request. */
  drain(): void;
  /** No new connections; requests under way may end until the deadline of the settings, then they are cut. */
  close(): Promise<void>;
}

const findTicketed = finderOf(ROUTES.filter(({ tickets }) => tickets));
const ticketed = (path: string): TicketedStream | undefined => {
  const found = findTicketed(path);
  return found && { projectionId: found.parameters['id'] };
};

const notForClients = (): StatefoldError =>
  new StatefoldError(
    'UNAVAILABLE',
    'this process takes no requests of clients (its ROLES have no gateway); send the request to one that does',
  );

/** The HTTP server over the table of routes: the appends before express, all else in it. */
export function createEdge(options: EdgeOptions): Edge {
  const { settings, admission, catalog, peers, logger, observer, channels } = options;
  const { authenticator, dues, memory } = admission;
  const { maxBodyBytes, maxJsonDepth: maxDepth, maxBatchEvents: maxEvents, bulkIdleMs: idleMs } = settings;
  const tenants = timely(options.tenants, new Deadlines(settings.answerDeadlineMs));
  const gateway = new Gateway({
    ownership: options.ownership,
    peers,
    deadlineMs: settings.forwardDeadlineMs,
    observer,
    memory,
  });
  const door = options.door ?? new FrontDoor(settings);
  const { untimed } = door;
  const refusals = new Refusals(logger, dues);
  const requireAdmin = adminCheck(options.adminKey);
  const waits = new Waits(admission.connections);
  const limits = { maxBodyBytes, maxDepth, maxEvents };
  const append = appendRoute({ ...admission, tenants, gateway, limits });
  const bulk = new BulkRoute({ admission, tenants, catalog, gateway, limits, idleMs, untimed });
  const imports = new ImportRoute({
    catalog,
    tenants,
    gateway,
    admission,
    remove: options.removeTenantData,
    seenIds: options.seenIds,
    limits: { maxBodyBytes, maxDepth },
    idleMs,
    untimed,
    logger,
  });
  let draining = false;
  let openapi: Buffer | undefined;
  const dependencies: RouteDependencies = {
    ...options,
    tenants,
    admission,
    append,
    bulk,
    imports,
    ticketed,
    requireAdmin,
    draining: () => draining,
    waits,
    checks: new ConcurrencyQuota(CHECKS_PER_TENANT, 'checks under way'),
    openapi: () => (openapi ??= Buffer.from(JSON.stringify(openapiDocument()))),
  };
  const router = createRouter({
    rooms: ROOMS,
    dependencies,
    authenticate: (request, scope) => admission.admit(request, scope),
    requireAdmin,
    settings,
    refusals,
    auditing: new Auditing(options.audit, catalog, () => performance.now()),
    guard: new Guard({ gateway, authenticator, requireAdmin, catalog, tenants, settings }),
    onAnswered: observer?.answered.bind(observer),
  });
  const origins = new Origins(settings.corsOrigins ?? []);
  const isForClients = settings.roles.includes('gateway');
  const refusal = (request: IncomingMessage, isProbe: boolean): StatefoldError | undefined =>
    isForwarded(request) ? peers.refusal(request) : isForClients || isProbe ? undefined : notForClients();
  const assistants = options.assistants && assistantsDoor(admission, settings, options.assistants);
  const isAdmin = isAdminBy(options.adminKey);
  const requests = new Requests({
    ...options,
    ...{ dues, dependencies, router, assistants, origins, refusals, refusal, isAdmin },
  });
  const tunnels = new Tunnels(gateway, refusals, observer?.tunnels?.bind(observer));
  const find = upgradesOf(ROUTES, dependencies);
  const upgrades = new Upgrades({ admission, gateway, tunnels, origins, refusals, refusal, find });

  return {
    server: door.server,
    listen: () => {
      door.open({ request: requests.request, checkContinue: requests.checkContinue, upgrade: upgrades.take });
      return door.listen();
    },
    drain: () => void (draining = true),
    close: () => {
      draining = true;
      gateway.endLasting();
      waits.close();
      bulk.close();
      imports.close();
      tunnels.close();
      const channelsClosed = channels.close();
      return Promise.all(door.servers.map((one) => closed(one, settings.shutdownDeadlineMs))).then(async () => {
        void gateway.close();
        await channelsClosed;
      });
    },
  };
}

/** Resolves when nobody is there any more; who stays longer than the deadline is cut off. */
function closed(server: Server, deadlineMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    // Connections that become idle after the close began are closed when they are seen so.
    const idle = setInterval(() => server.closeIdleConnections(), 50);
    const deadline = setTimeout(() => server.closeAllConnections(), deadlineMs);
    server.close((error) => {
      clearInterval(idle);
      clearTimeout(deadline);
      if (error === undefined || ('code' in error && error.code === 'ERR_SERVER_NOT_RUNNING')) resolve();
      else reject(error);
    });
  });
}
