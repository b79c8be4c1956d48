import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { performance } from 'node:perf_hooks';
import express, { type ErrorRequestHandler, type Express } from 'express';
import { StatefoldError } from '../core/errors.js';
import { answerError, requestIdOf } from './answer.js';
import { appendRoute } from './append-route.js';
import { declaredLength, RequestAbortedError, tooLarge } from './body.js';
import type { EdgeOptions, RouteDependencies } from './edge-options.js';
import { knownError, refuseUpgrade, statusOf } from './problem.js';
import { RateLimiter } from './rate-limit.js';
import { otherMethods, requestIdOfAnswer } from './resource.js';
import { adminRoutes } from './routes/admin.js';
import { aggregateTypeRoutes } from './routes/aggregate-types.js';
import { aggregateRoutes } from './routes/aggregates.js';
import { eventRoutes } from './routes/events.js';
import { projectionRoutes } from './routes/projections.js';
import { reducerRoutes } from './routes/reducers.js';
import { systemRoutes } from './routes/system.js';
import { webhookRoutes } from './routes/webhooks.js';

export interface Edge {
  readonly server: Server;
  /** Resolves with the port when connections are accepted. */
  listen(): Promise<number>;
  /** No new connections; requests under way may end until the deadline of the settings, then they are cut. */
  close(): Promise<void>;
}

/** Paths of the channels of notification, whose routers are mounted: for all but GET they answer here. */
const CHANNELS = ['/projections/:id/notifications', '/projections/:id/stream', '/projections/:id/sse', '/asyncapi.json'];

/** The HTTP server: the hot route before express, everything else in it. */
export function createEdge(options: EdgeOptions): Edge {
  const { settings, authenticator, tenants, logger, observer, extensions = [] } = options;
  const rateLimiter = new RateLimiter({ perSecond: settings.rateLimitPerSecond, burst: settings.rateLimitBurst, now: () => performance.now() });
  const append = appendRoute({
    authenticator,
    rateLimiter,
    tenants,
    limits: { maxBodyBytes: settings.maxBodyBytes, maxDepth: settings.maxJsonDepth, maxEvents: settings.maxBatchEvents },
  });
  const authenticate = (request: IncomingMessage): ReturnType<typeof authenticator.authenticate> => {
    const principal = authenticator.authenticate(request);
    rateLimiter.take(principal.tenantId);
    return principal;
  };
  const app = express();
  let closing = false;

  const fail = (request: IncomingMessage, response: ServerResponse, thrown: unknown, requestId: string): void => {
    if (thrown instanceof RequestAbortedError) return void response.destroy();
    const error = knownError(thrown);
    if (error.code === 'INTERNAL') logger.error({ err: thrown, requestId, method: request.method, url: request.url }, 'a request failed');
    answerError(response, error, requestId);
  };

  const serve = (request: IncomingMessage, response: ServerResponse): void => {
    if (closing) response.shouldKeepAlive = false;
    const batch = request.method === 'POST' ? appendPath(request.url ?? '') : undefined;
    if (batch === undefined) return void app(request, response);
    const requestId = requestIdOf(request);
    const began = observer === undefined ? 0 : performance.now();
    append(request, response, requestId, batch)
      .catch((error: unknown) => fail(request, response, error, requestId))
      .finally(() => observer?.answered(batch ? '/events/batch' : '/events', 'POST', response.statusCode, (performance.now() - began) / 1000));
  };

  mountRoutes(app, options, { ...options, authenticate }, append, fail);

  const server = createServer(
    {
      headersTimeout: settings.headersTimeoutMs,
      requestTimeout: settings.requestTimeoutMs,
      keepAliveTimeout: settings.keepAliveTimeoutMs,
      connectionsCheckingInterval: Math.min(1_000, settings.headersTimeoutMs),
      noDelay: true,
    },
    serve,
  );
  server.maxConnections = settings.maxConnections;
  // A client that asks before it sends is told at once when its body is too large.
  server.on('checkContinue', (request, response) => {
    const limit = Math.max(settings.maxBodyBytes, settings.maxUploadBytes);
    if (declaredLength(request) > 2 * limit) return answerError(response, tooLarge(limit), requestIdOf(request));
    response.writeContinue();
    serve(request, response);
  });
  const upgrades = extensions.find((extension) => extension.onUpgrade !== undefined);
  server.on('upgrade', (request, socket, head) => {
    if (upgrades?.onUpgrade !== undefined) upgrades.onUpgrade(request, socket, head);
    else refuseUpgrade(socket, new StatefoldError('NOT_FOUND', 'Nothing here can be upgraded to.'), requestIdOf(request));
  });

  return {
    server,
    listen: () =>
      new Promise((resolve, reject) => {
        server.once('error', reject);
        server.listen(settings.port, settings.host, () => {
          server.off('error', reject);
          const address = server.address();
          resolve(typeof address === 'object' && address !== null ? address.port : settings.port);
        });
      }),
    close: () => {
      closing = true;
      return new Promise((resolve, reject) => {
        // Connections that become idle after the close began are closed when they are seen so.
        const idle = setInterval(() => server.closeIdleConnections(), 50);
        const deadline = setTimeout(() => server.closeAllConnections(), settings.shutdownDeadlineMs);
        server.close((error) => {
          clearInterval(idle);
          clearTimeout(deadline);
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

function mountRoutes(
  app: Express,
  { observer, extensions = [] }: EdgeOptions,
  dependencies: RouteDependencies,
  append: ReturnType<typeof appendRoute>,
  fail: (request: IncomingMessage, response: ServerResponse, thrown: unknown, requestId: string) => void,
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
        observer.answered(typeof pattern === 'string' ? pattern : 'none', request.method, response.statusCode, (performance.now() - began) / 1000);
      });
    }
    next();
  });
  eventRoutes(router, dependencies, append);
  aggregateRoutes(router, dependencies);
  aggregateTypeRoutes(router, dependencies);
  reducerRoutes(router, dependencies);
  projectionRoutes(router, dependencies);
  webhookRoutes(router, dependencies);
  systemRoutes(router, dependencies);
  adminRoutes(router, dependencies);
  app.use(router);
  for (const extension of extensions) extension.mount?.(app, { authenticate: dependencies.authenticate });
  for (const path of CHANNELS) app.all(path, otherMethods(['get']));
  app.use((request) => {
    throw new StatefoldError('NOT_FOUND', `There is nothing at ${request.path}.`);
  });
  // express knows an error handler by its four parameters.
  const onError: ErrorRequestHandler = (error: unknown, request, response, _next) => {
    fail(request, response, isMalformedPath(error) ? new StatefoldError('INVALID_REQUEST', 'The path has a malformed percent-encoding.') : error, requestIdOfAnswer(response));
  };
  app.use(onError);
}

/** express could not decode a path parameter. */
const isMalformedPath = (error: unknown): boolean => error instanceof URIError && 'status' in error && error.status === statusOf('INVALID_REQUEST');
