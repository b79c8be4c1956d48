import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { performance } from 'node:perf_hooks';
import type { Duplex } from 'node:stream';
import { tracing, type Span, type Tracer } from '../core/tracing.js';
import { StatefoldError } from '../core/errors.js';
import { adminCheck } from './admin-auth.js';
import { requestIdOf } from './answer.js';
import { assistantsDoor } from './assistants.js';
import { appendRoute } from './append-route.js';
import { Auditing } from './audited.js';
import { BulkRoute } from './bulk/bulk-route.js';
import { declaredLength, tooLarge } from './body.js';
import { ConcurrencyQuota } from './concurrency-quota.js';
import { Deadlines, timely } from './deadlines.js';
import type { EdgeOptions } from './edge-options.js';
import { FrontDoor } from './front-door.js';
import { Gateway } from './gateway/gateway.js';
import { isForwarded } from './gateway/headers.js';
import { Guard, serverOf } from './gateway/guard.js';
import { Tunnels } from './gateway/tunnels.js';
import { openapiDocument } from './openapi/document.js';
import { ImportRoute } from './import/import-route.js';
import { Origins } from './origins.js';
import { knownError } from './problem.js';
import { Refusals } from './refusals.js';
import { Call } from './route.js';
import { createRouter, finderOf, upgradesOf, type FoundUpgrade } from './router.js';
import type { RouteDependencies, TicketedStream } from './routes/dependencies.js';
import { CHECKS_PER_TENANT } from './routes/upload-checks.js';
import { ROOMS, ROUTES } from './table.js';
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

/** What a process without clients answers to those who watch it. */
const PROBES = new Set(ROUTES.filter(({ probe }) => probe).map(({ path }) => path));
/** Where assistants ask. */
const MCP = '/mcp';
/** Of a turn: what a socket that is upgraded costs, about. */
const UPGRADE_COST = 4;
/** Answered before the router, which is not cheap enough for them. */
const HOT = new Map(ROUTES.filter(({ servedBy }) => servedBy === 'appended').map((route) => [route.path, route]));
/** Their bodies may be of any length: they are read line by line. */
const findStreamed = finderOf(ROUTES.filter(({ body }) => body?.contentType === 'application/x-ndjson'));
const findTicketed = finderOf(ROUTES.filter(({ tickets }) => tickets));
const ticketed = (path: string): TicketedStream | undefined => {
  const found = findTicketed(path);
  return found && { projectionId: found.parameters['id'] };
};
const pathOf = (url: string): string => {
  const query = url.indexOf('?');
  return query < 0 ? url : url.slice(0, query);
};

function isStreamed(path: string): boolean {
  try {
    return findStreamed(path) !== undefined;
  } catch {
    return false; // the router tells what is wrong with it
  }
}

/** From the arrival of a request until its answer is sent, a part of what its `traceparent` says; its name has the route, never an id. */
function requestSpan(tracer: Tracer, request: IncomingMessage, response: ServerResponse): Span {
  const { method = '', headers } = request;
  const span = tracer.begin(method, { kind: 'server', parent: headers, attributes: { 'http.request.method': method } });
  if (!span.recorded) return span;
  response.once('close', () => {
    const path = pathOf(request.url ?? '');
    const { route } = request as { readonly route?: { readonly path?: unknown } };
    const found = HOT.has(path) || path === MCP ? path : typeof route?.path === 'string' ? route.path : undefined;
    if (found !== undefined) span.rename(`${method} ${found}`);
    const { statusCode, writableFinished } = response;
    const requestId = response.getHeader('x-request-id');
    span.set({
      'http.route': found,
      'http.response.status_code': statusCode,
      // The hot routes have told theirs.
      'statefold.request_id': typeof requestId === 'string' ? requestId : undefined,
    });
    if (statusCode >= 500) span.fail(statusCode);
    else if (!writableFinished) span.fail('the client went away');
    span.end();
  });
  return span;
}

const notForClients = (): StatefoldError =>
  new StatefoldError(
    'UNAVAILABLE',
    'this process takes no requests of clients (its ROLES have no gateway); send the request to one that does',
  );

/** The HTTP server over the table of routes: the appends before express, all else in it. */
export function createEdge(options: EdgeOptions): Edge {
  const { settings, admission, catalog, ownership, peers, logger, observer, channels } = options;
  const { authenticator, requests, events, turns, dues } = admission;
  const tenants = timely(options.tenants, new Deadlines(settings.answerDeadlineMs));
  const gateway = new Gateway({
    ownership,
    peers,
    deadlineMs: settings.forwardDeadlineMs,
    observer,
    memory: admission.memory,
  });
  const refusals = new Refusals(logger, dues);
  const requireAdmin = adminCheck(options.adminKey);
  const waits = new Waits(admission.connections);
  const append = appendRoute({
    authenticator,
    requests,
    events,
    turns,
    dues,
    tenants,
    gateway,
    memory: admission.memory,
    limits: {
      maxBodyBytes: settings.maxBodyBytes,
      maxDepth: settings.maxJsonDepth,
      maxEvents: settings.maxBatchEvents,
    },
  });
  const door = options.door ?? new FrontDoor(settings);
  const bulk = new BulkRoute({
    admission,
    tenants,
    catalog,
    gateway,
    limits: {
      maxBodyBytes: settings.maxBodyBytes,
      maxDepth: settings.maxJsonDepth,
      maxEvents: settings.maxBatchEvents,
    },
    idleMs: settings.bulkIdleMs,
    untimed: door.untimed,
  });
  const imports = new ImportRoute({
    catalog,
    tenants,
    gateway,
    admission,
    remove: options.removeTenantData,
    seenIds: options.seenIds,
    limits: { maxBodyBytes: settings.maxBodyBytes, maxDepth: settings.maxJsonDepth },
    idleMs: settings.bulkIdleMs,
    untimed: door.untimed,
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
    turns,
    requireAdmin,
    settings,
    refusals,
    auditing: new Auditing(options.audit, catalog, () => performance.now()),
    guard: new Guard({ gateway, authenticator, requireAdmin, catalog, tenants, settings }),
    onAnswered: observer?.answered.bind(observer),
  });
  const origins = new Origins(settings.corsOrigins ?? []);
  const assistants = options.assistants && assistantsDoor(admission, options.assistants);
  const isForClients = settings.roles.includes('gateway');
  /** Why the request is not taken at all. */
  const refusal = (request: IncomingMessage, isProbe: boolean): StatefoldError | undefined =>
    isForwarded(request) ? peers.refusal(request) : isForClients || isProbe ? undefined : notForClients();

  const serve = (request: IncomingMessage, response: ServerResponse): void => {
    const { tracer } = tracing;
    // Who watches the process asks every few seconds.
    if (tracer === undefined || PROBES.has(pathOf(request.url ?? ''))) return serveUntraced(request, response);
    const span = requestSpan(tracer, request, response);
    tracer.within(span, () => serveUntraced(request, response));
  };

  const serveUntraced = (request: IncomingMessage, response: ServerResponse): void => {
    // What another process sends on has its headers from there.
    if (isForwarded(request)) serveAllowed(request, response);
    else origins.allow(request, response, () => serveAllowed(request, response));
  };

  const serveAllowed = (request: IncomingMessage, response: ServerResponse): void => {
    if (draining) response.shouldKeepAlive = false;
    const path = pathOf(request.url ?? '');
    const refused = refusal(request, PROBES.has(path));
    if (refused !== undefined) return void refusals.answer(request, response, refused, requestIdOf(request));
    const hot = request.method === 'POST' ? HOT.get(path) : undefined;
    if (hot === undefined && options.console?.isAsked(request, path)) return showConsole(request, response, path);
    if (hot === undefined && (path !== MCP || assistants === undefined)) return void router(request, response);
    const requestId = requestIdOf(request);
    tracing.tracer?.current?.set({ 'statefold.request_id': requestId });
    const began = observer === undefined ? 0 : performance.now();
    const served =
      hot === undefined
        ? assistants?.(request, response)
        : hot.serve(dependencies, new Call(hot, request, response, { parameters: {}, requestId, settings }));
    Promise.resolve(served)
      .catch((error: unknown) => refusals.answer(request, response, error, requestId))
      .finally(() =>
        observer?.answered(path, request.method ?? '', response.statusCode, (performance.now() - began) / 1000),
      );
  };

  const showConsole = (request: IncomingMessage, response: ServerResponse, path: string): void => {
    const requestId = requestIdOf(request);
    const began = performance.now();
    response.once('close', () => {
      const method = request.method ?? '';
      observer?.answered('/console', method, response.statusCode, (performance.now() - began) / 1000);
    });
    try {
      options.console?.answer(request, response, path);
    } catch (error) {
      void refusals.answer(request, response, error, requestId);
    }
  };

  const { server } = door;
  // A client that asks before it sends is told at once when its body is too large.
  const checkContinue = (request: IncomingMessage, response: ServerResponse): void => {
    const limit = Math.max(settings.maxBodyBytes, settings.maxUploadBytes);
    const isStream = isStreamed(pathOf(request.url ?? ''));
    if (declaredLength(request) > 2 * limit && !isStream)
      return void refusals.answer(request, response, tooLarge(limit), requestIdOf(request));
    response.writeContinue();
    serve(request, response);
  };
  const tunnels = new Tunnels(gateway, refusals, observer?.tunnels?.bind(observer));
  const findUpgrade = upgradesOf(ROUTES, dependencies);
  const takeUpgrade = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    const requestId = requestIdOf(request);
    let found: FoundUpgrade;
    try {
      const refused = refusal(request, false) ?? (isForwarded(request) ? undefined : origins.refusal(request));
      if (refused !== undefined) throw refused;
      found = findUpgrade(request);
    } catch (error) {
      return refusals.upgrade(request, socket, error, requestId);
    }
    const by = serverOf(found, request);
    const known = authenticator.find(request);
    const ignore = (): void => undefined;
    socket.on('error', ignore);
    const take = (): void => {
      socket.off('error', ignore);
      if (!socket.destroyed) void found.take(request, socket, head, requestId);
    };
    if (known !== undefined && !authenticator.isSuspended(known.tenantId) && gateway.serves(known.tenantId, by)) {
      const turn = turns.enter(known.tenantId, UPGRADE_COST);
      dues.turned(request);
      return void (turn === undefined ? take() : turn.then(take));
    }
    authenticator
      .admit(request, found.scope)
      .then(({ tenantId }) => tunnels.connect(request, socket, head, { tenantId, by, requestId }))
      // Whoever takes the upgrade tells what is wrong with the key.
      .catch((error: unknown) => {
        const told = knownError(error).code !== 'UNAUTHENTICATED';
        if (told) refusals.upgrade(request, socket, error, requestId);
        return told;
      })
      .then(
        (answered) => {
          if (answered) socket.off('error', ignore);
          else take();
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
