import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { performance } from 'node:perf_hooks';
import type { Duplex } from 'node:stream';
import express, { type ErrorRequestHandler, type Express } from 'express';
import { StatefoldError } from '../core/errors.js';
import { adminCheck } from './admin-auth.js';
import type { Principal } from './auth.js';
import { answerError, requestIdOf } from './answer.js';
import { appendRoute } from './append-route.js';
import { declaredLength, RequestAbortedError, tooLarge } from './body.js';
import { Deadlines, timely } from './deadlines.js';
import type { EdgeOptions, RouteDependencies } from './edge-options.js';
import { FrontDoor } from './front-door.js';
import { Gateway } from './gateway/gateway.js';
import { isForwarded } from './gateway/headers.js';
import { guarded } from './gateway/guard.js';
import { Tunnels } from './gateway/tunnels.js';
import { knownError, refuseUpgrade, statusOf } from './problem.js';
import { otherMethods, requestIdOfAnswer } from './resource.js';
import { adminRoutes } from './routes/admin.js';
import { aggregateTypeRoutes } from './routes/aggregate-types.js';
import { aggregateRoutes } from './routes/aggregates.js';
import { eventRoutes } from './routes/events.js';
import { faultRoutes } from './routes/faults.js';
import { inspectionRoutes } from './routes/inspections.js';
import { projectionRoutes } from './routes/projections.js';
import { reducerRoutes } from './routes/reducers.js';
import { revivalRoutes } from './routes/revivals.js';
import { revisionRoutes } from './routes/revisions.js';
import { uploadCheckRoutes } from './routes/upload-checks.js';
import { systemRoutes } from './routes/system.js';
import { webhookRoutes } from './routes/webhooks.js';
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

/** Paths of the channels of notification, whose routers are mounted: for all but GET they answer here. */
const CHANNELS = [
  '/projections/:id/notifications',
  '/projections/:id/stream',
  '/projections/:id/sse',
  '/asyncapi.json',
];

/** What a process without clients answers to those who watch it. */
const PROBES = /^\/(?:health|health\/ready|metrics)(?:\?|$)/;
const notForClients = (): StatefoldError =>
  new StatefoldError(
    'UNAVAILABLE',
    'this process takes no requests of clients (its ROLES have no gateway); send the request to one that does',
  );

/** The HTTP server: the hot route before express, everything else in it. */
export function createEdge(options: EdgeOptions): Edge {
  const { settings, admission, ownership, logger, observer, extensions = [] } = options;
  const { authenticator, rateLimiter } = admission;
  const tenants = timely(options.tenants, new Deadlines(settings.answerDeadlineMs));
  const gateway = new Gateway({ ownership, deadlineMs: settings.forwardDeadlineMs, observer });
  const append = appendRoute({
    authenticator,
    rateLimiter,
    tenants,
    gateway,
    memory: admission.memory,
    limits: {
      maxBodyBytes: settings.maxBodyBytes,
      maxDepth: settings.maxJsonDepth,
      maxEvents: settings.maxBatchEvents,
    },
  });
  const authenticate = (request: IncomingMessage): Principal => admission.admit(request);
  const app = express();
  let draining = false;
  const refuses = (request: IncomingMessage): boolean => !settings.roles.includes('gateway') && !isForwarded(request);

  const fail = (request: IncomingMessage, response: ServerResponse, thrown: unknown, requestId: string): void => {
    if (thrown instanceof RequestAbortedError) return void response.destroy();
    const error = knownError(thrown);
    if (error.code === 'INTERNAL')
      logger.error({ err: thrown, requestId, method: request.method, url: request.url }, 'a request failed');
    answerError(response, error, requestId);
  };

  const serve = (request: IncomingMessage, response: ServerResponse): void => {
    if (draining) response.shouldKeepAlive = false;
    if (refuses(request) && !PROBES.test(request.url ?? ''))
      return answerError(response, notForClients(), requestIdOf(request));
    const batch = request.method === 'POST' ? appendPath(request.url ?? '') : undefined;
    if (batch === undefined) return void app(request, response);
    const requestId = requestIdOf(request);
    const began = observer === undefined ? 0 : performance.now();
    append(request, response, requestId, batch)
      .catch((error: unknown) => fail(request, response, error, requestId))
      .finally(() =>
        observer?.answered(
          batch ? '/events/batch' : '/events',
          'POST',
          response.statusCode,
          (performance.now() - began) / 1000,
        ),
      );
  };

  const waits = new Waits(admission.connections);
  mountRoutes(
    app,
    options,
    { ...options, tenants, authenticate, draining: () => draining, waits },
    { append, gateway, fail },
  );

  const door = options.door ?? new FrontDoor(settings);
  const { server } = door;
  // A client that asks before it sends is told at once when its body is too large.
  const checkContinue = (request: IncomingMessage, response: ServerResponse): void => {
    const limit = Math.max(settings.maxBodyBytes, settings.maxUploadBytes);
    if (declaredLength(request) > 2 * limit) return answerError(response, tooLarge(limit), requestIdOf(request));
    response.writeContinue();
    serve(request, response);
  };
  const upgrades = extensions.find((extension) => extension.onUpgrade !== undefined);
  const tunnels = new Tunnels(gateway, observer?.tunnels?.bind(observer));
  const upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    if (upgrades?.onUpgrade !== undefined) upgrades.onUpgrade(request, socket, head);
    else
      refuseUpgrade(socket, new StatefoldError('NOT_FOUND', 'Nothing here can be upgraded to.'), requestIdOf(request));
  };
  const takeUpgrade = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    if (refuses(request)) return refuseUpgrade(socket, notForClients(), requestIdOf(request));
    const known = authenticator.find(request);
    if (known !== undefined && gateway.serves(known.tenantId, 'notifier')) return upgrade(request, socket, head);
    const ignore = (): void => undefined;
    socket.on('error', ignore);
    authenticator
      .admit(request)
      .then(({ tenantId }) => tunnels.connect(request, socket, head, tenantId, requestIdOf(request)))
      // Whoever takes upgrades tells what is wrong with the key, where there is anything to take.
      .catch((error: unknown) => {
        const told = knownError(error).code !== 'UNAUTHENTICATED';
        if (told) refuseUpgrade(socket, error, requestIdOf(request));
        return told;
      })
      .then(
        (answered) => {
          socket.off('error', ignore);
          if (answered || socket.destroyed) return;
          upgrade(request, socket, head);
        },
        () => socket.destroy(),
      );
  };

  return {
    server,
    listen: () => {
      door.open({ request: serve, checkContinue, upgrade: takeUpgrade });
      return door.listen();
    },
    drain: () => void (draining = true),
    close: () => {
      draining = true;
      gateway.endLasting();
      waits.close();
      tunnels.close();
      return new Promise((resolve, reject) => {
        // Connections that become idle after the close began are closed when they are seen so.
        const idle = setInterval(() => server.closeIdleConnections(), 50);
        const deadline = setTimeout(() => server.closeAllConnections(), settings.shutdownDeadlineMs);
        server.close((error) => {
          clearInterval(idle);
          clearTimeout(deadline);
          void gateway.close();
          if (error === undefined || ('code' in error && error.code === 'ERR_SERVER_NOT_RUNNING')) resolve();
          else reject(error);
        });
      });
    },
  };
}

/** True for a batch, false for a single append, undefined for any other path. */
function appendPath(url: string): boolean | undefined {
  if (!url.startsWith('/events')) return undefined;
  if (url.length === 7 || url.charCodeAt(7) === QUESTION_MARK) return false;
  if (url.startsWith('/batch', 7) && (url.length === 13 || url.charCodeAt(13) === QUESTION_MARK)) return true;
  return undefined;
}

const QUESTION_MARK = 0x3f;

interface Inside {
  readonly append: ReturnType<typeof appendRoute>;
  readonly gateway: Gateway;
  readonly fail: (request: IncomingMessage, response: ServerResponse, thrown: unknown, requestId: string) => void;
}

function mountRoutes(
  app: Express,
  { observer, extensions = [] }: EdgeOptions,
  dependencies: RouteDependencies,
  { append, gateway, fail }: Inside,
): void {
  const router = express.Router({ strict: true, caseSensitive: true });
  app.disable('x-powered-by').disable('etag').enable('strict routing').enable('case sensitive routing');
  app.set('query parser', false);
  app.use((request, response, next) => {
    response.setHeader('X-Request-Id', requestIdOf(request));
    if (observer !== undefined) {
      const began = performance.now();
      response.once('close', () => {
        const pattern = (request.route as { readonly path?: unknown } | undefined)?.path;
        observer.answered(
          typeof pattern === 'string' ? pattern : 'none',
          request.method,
          response.statusCode,
          (performance.now() - began) / 1000,
        );
      });
    }
    next();
  });
  eventRoutes(router, dependencies, append);
  inspectionRoutes(router, dependencies);
  uploadCheckRoutes(router, dependencies);
  aggregateRoutes(router, dependencies);
  aggregateTypeRoutes(router, dependencies);
  reducerRoutes(router, dependencies);
  revivalRoutes(router, dependencies);
  projectionRoutes(router, dependencies);
  revisionRoutes(router, dependencies);
  faultRoutes(router, dependencies);
  webhookRoutes(router, dependencies);
  systemRoutes(router, dependencies);
  adminRoutes(router, dependencies);
  for (const extension of extensions) extension.mount?.(router);
  for (const path of CHANNELS) router.all(path, otherMethods(['get']));
  const { admission, catalog, adminKey, settings } = dependencies;
  app.use(
    guarded(router, {
      gateway,
      authenticator: admission.authenticator,
      catalog,
      tenants: dependencies.tenants,
      requireAdmin: adminCheck(adminKey),
      limits: settings,
    }),
  );
  app.use((request) => {
    throw new StatefoldError('NOT_FOUND', `There is nothing at ${request.path}.`);
  });
  // express knows an error handler by its four parameters.
  const onError: ErrorRequestHandler = (error: unknown, request, response, _next) => {
    fail(
      request,
      response,
      isMalformedPath(error)
        ? new StatefoldError('INVALID_REQUEST', 'The path has a malformed percent-encoding.')
        : error,
      requestIdOfAnswer(response),
    );
  };
  app.use(onError);
}

/** express could not decode a path parameter. */
const isMalformedPath = (error: unknown): boolean =>
  error instanceof URIError && 'status' in error && error.status === statusOf('INVALID_REQUEST');
