import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { performance } from 'node:perf_hooks';
import express, { type ErrorRequestHandler, type Express, type RequestHandler, type Router } from 'express';
import { match } from 'path-to-regexp';
import type { RequiredScope } from '../core/scopes.js';
import { StatefoldError } from '../core/errors.js';
import { requestIdOf } from './answer.js';
import type { Auditing } from './audited.js';
import type { Principal } from './auth.js';
import type { BodySettings } from './bodies.js';
import type { Guard } from './gateway/guard.js';
import { pathOf } from './parameters.js';
import { malformedPath, type Refusals } from './refusals.js';
import { Call, PATH_PARAMETER, Upgrade, type RoomOf, type RouteOf, type ServedBy } from './route.js';

export interface RouterOptions<D> {
  readonly rooms: readonly RoomOf<D>[];
  /** For the handlers. */
  readonly dependencies: D;
  /** Takes a request off its tenant's rate too. @throws StatefoldError UNAUTHENTICATED, TENANT_SUSPENDED, FORBIDDEN, RATE_LIMITED */
  readonly authenticate: (request: IncomingMessage, scope: RequiredScope) => Principal;
  /** @throws StatefoldError UNAUTHENTICATED */
  readonly requireAdmin: (request: IncomingMessage) => void;
  readonly settings: BodySettings;
  readonly refusals: Refusals;
  /** Records what changes something; without one nothing is. */
  readonly auditing?: Auditing;
  /** Asks which process is to serve; without one, this one serves all. */
  readonly guard?: Guard;
  /** `route` is the path of the route as express writes it, never an id; `none` where no route matched, or another process answered. */
  readonly onAnswered?: ((route: string, method: string, status: number, seconds: number) => void) | undefined;
}

/** `/events/{aggregateId}` as express and its matcher write it: `/events/:aggregateId`. */
export const expressPath = (path: string): string => path.replace(PATH_PARAMETER, ':$1');

/** The table of routes as an express application: each entry under its path, 405 with `Allow` for other methods of it, 404 for the rest. */
export function createRouter<D>(options: RouterOptions<D>): Express {
  const { rooms, refusals, onAnswered } = options;
  const app = express();
  app.disable('x-powered-by').disable('etag').enable('strict routing').enable('case sensitive routing');
  app.set('query parser', false);
  const elsewhere = new WeakSet<ServerResponse>();
  app.use((request, response, next) => {
    response.setHeader('X-Request-Id', requestIdOf(request));
    if (onAnswered !== undefined) {
      const began = performance.now();
      response.once('close', () => {
        const path = (request.route as { readonly path?: unknown } | undefined)?.path;
        const known = typeof path === 'string' && !elsewhere.has(response);
        onAnswered(known ? path : 'none', request.method, response.statusCode, (performance.now() - began) / 1000);
      });
    }
    next();
  });
  const routers = new Map<string, Router>();
  for (const [path, routes] of byPath(rooms.flatMap(({ routes }) => routes))) {
    const segment = firstOf(path);
    let router = routers.get(segment);
    if (router === undefined) routers.set(segment, (router = express.Router({ strict: true, caseSensitive: true })));
    const mounted = router.route(expressPath(path));
    for (const route of routes)
      mounted[route.method.toLowerCase() as 'get'](handlerOf(route, options, (response) => elsewhere.add(response)));
    mounted.all(otherMethods(routes));
  }
  // express asks each route of a router in turn whether it is meant: by their first segment there are ninety no more, but a few.
  app.use((request, response, next) => {
    const router = routers.get(firstOf(request.path));
    if (router === undefined) next();
    else router(request, response, next);
  });
  const foreign = ({ path }: { readonly path: string }): RoomOf<D>['under'] =>
    rooms.find(({ under }) => under !== undefined && (path === under.path || path.startsWith(`${under.path}/`)))?.under;
  app.use((request) => {
    throw foreign(request)?.missing() ?? new StatefoldError('NOT_FOUND', `There is nothing at ${request.path}.`);
  });
  // express knows an error handler by its four parameters.
  const onError: ErrorRequestHandler = (error: unknown, request, response, _next) => {
    // express could not decode a path parameter.
    const thrown = error instanceof URIError && 'status' in error ? malformedPath() : error;
    void refusals.answer(request, response, thrown, requestIdOfAnswer(response), foreign(request)?.dialect);
  };
  app.use(onError);
  return app;
}

/** `projections` of `/projections/{id}/status`. */
const firstOf = (path: string): string => {
  const end = path.indexOf('/', 1);
  return end < 0 ? path.slice(1) : path.slice(1, end);
};

/** Entries by their path, so that literal parts of a path win over parameters. */
function byPath<D>(routes: readonly RouteOf<D>[]): [path: string, routes: RouteOf<D>[]][] {
  const paths = new Map<string, RouteOf<D>[]>();
  for (const route of routes) {
    const same = paths.get(route.path);
    if (same === undefined) paths.set(route.path, [route]);
    else same.push(route);
  }
  // A brace comes after all that a literal part may begin with.
  return [...paths].sort(([a], [b]) => (a < b ? -1 : 1));
}

function handlerOf<D>(
  route: RouteOf<D>,
  { dependencies, guard, authenticate, requireAdmin, settings, auditing }: RouterOptions<D>,
  onElsewhere: (response: ServerResponse) => void,
): RequestHandler {
  if (route.credentials === 'tenant' && route.scope === undefined)
    throw new Error(`${route.method} ${route.path} does not say which scope it asks of a key`);
  const audited = route.method === 'GET' ? undefined : auditing;
  const serve = async (call: Call, parameters: Readonly<Record<string, string>>): Promise<void> => {
    if (route.credentials === 'tenant') {
      call.admit(authenticate(call.request, call.scope));
    } else if (route.credentials === 'admin') requireAdmin(call.request);
    if (audited === undefined) await route.serve(dependencies, call);
    else await audited.serve(route, call, parameters, () => route.serve(dependencies, call));
  };
  return async (request, response) => {
    const parameters = { ...(request.params as Record<string, string>), ...route.parameters };
    const call = new Call(route, request, response, { parameters, requestId: requestIdOfAnswer(response), settings });
    // An append finds its own owner, and asks for the key before that.
    if (route.servedBy === 'appended') return void (await route.serve(dependencies, call));
    const serveHere = (one: Call): Promise<void> => serve(one, parameters);
    if (guard === undefined) return serveHere(call);
    if ((await guard.serve(route, call, parameters, serveHere)) === 'elsewhere') onElsewhere(response);
  };
}

/** Ends a path: other methods are answered 405 with `Allow`, OPTIONS 204. */
function otherMethods<D>(routes: readonly RouteOf<D>[]): RequestHandler {
  const allow = [...routes.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method])), 'OPTIONS'].join(
    ', ',
  );
  return (request, response) => {
    response.setHeader('Allow', allow);
    if (request.method === 'OPTIONS') {
      // A preflight of an origin that is allowed.
      if (response.hasHeader('Access-Control-Allow-Origin')) response.setHeader('Access-Control-Allow-Methods', allow);
      return void response.status(204).end();
    }
    throw new StatefoldError('METHOD_NOT_ALLOWED', `${request.method} is not allowed here: ${allow}.`);
  };
}

const requestIdOfAnswer = (response: ServerResponse): string => String(response.getHeader('X-Request-Id') ?? '');

/** An entry that can be upgraded to, as a request asks for it. */
export interface FoundUpgrade {
  readonly servedBy: ServedBy;
  readonly ownerWith: string | undefined;
  readonly scope: RequiredScope;
  /** Takes the socket, or refuses it. Never rejects. */
  take(request: IncomingMessage, socket: Duplex, head: Buffer, requestId: string): Promise<void>;
}

/** Finds the entry that an upgrade request is for. @throws StatefoldError NOT_FOUND where there is none, INVALID_REQUEST */
export function upgradesOf<D>(
  routes: readonly RouteOf<D>[],
  dependencies: D,
): (request: IncomingMessage) => FoundUpgrade {
  const find = finderOf(routes.filter((route) => route.upgrade !== undefined));
  return ({ url = '/' }) => {
    const found = find(pathOf(url));
    if (found === undefined) throw new StatefoldError('NOT_FOUND', 'no WebSocket is served at this path');
    const { route, parameters } = found;
    return {
      servedBy: route.servedBy,
      ownerWith: route.ownerWith,
      scope: route.scope ?? 'any',
      take: async (request, socket, head, requestId) =>
        route.upgrade?.(dependencies, new Upgrade(route, request, socket, head, parameters, requestId)),
    };
  };
}

/** Finds the entry of a path among these, with the path's parameters. @throws StatefoldError INVALID_REQUEST */
export function finderOf<R extends { readonly path: string }>(
  routes: readonly R[],
): (path: string) => { readonly route: R; readonly parameters: Readonly<Record<string, string>> } | undefined {
  const entries = routes.map((route) => ({
    route,
    matches: match<Record<string, string>>(expressPath(route.path), { trailing: false, sensitive: true }),
  }));
  return (path) => {
    for (const { route, matches } of entries) {
      const found = matched(matches, path);
      if (found !== false) return { route, parameters: found.params };
    }
    return undefined;
  };
}

function matched(matches: ReturnType<typeof match<Record<string, string>>>, path: string): ReturnType<typeof matches> {
  try {
    return matches(path);
  } catch (error) {
    if (error instanceof URIError) throw malformedPath();
    throw error;
  }
}
