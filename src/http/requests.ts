import type { IncomingMessage, ServerResponse } from 'node:http';
import { performance } from 'node:perf_hooks';
import { tracing, type Span, type Tracer } from '../core/tracing.js';
import type { StatefoldError } from '../core/errors.js';
import { requestIdOf } from './answer.js';
import { declaredLength, tooLarge } from './body.js';
import type { Dues } from './dues.js';
import type { EdgeOptions } from './edge-options.js';
import type { Household } from './front-door.js';
import { isForwarded } from './gateway/headers.js';
import type { Origins } from './origins.js';
import { pathOf } from './parameters.js';
import type { Refusals } from './refusals.js';
import { Call } from './route.js';
import { finderOf } from './router.js';
import type { RouteDependencies } from './routes/dependencies.js';
import { ROUTES } from './table.js';

/** What a process without clients answers to those who watch it. */
const PROBES = new Set(ROUTES.filter(({ probe }) => probe).map(({ path }) => path));
/** Where assistants ask. */
const MCP = '/mcp';
/** Answered before the router, which is not cheap enough for them. */
const HOT = new Map(ROUTES.filter(({ servedBy }) => servedBy === 'appended').map((route) => [route.path, route]));
/** Their bodies may be of any length: they are read line by line. */
const findStreamed = finderOf(ROUTES.filter(({ body }) => body?.contentType === 'application/x-ndjson'));

function isStreamed(path: string): boolean {
  try {
    return findStreamed(path) !== undefined;
  } catch {
    return false; // the router tells what is wrong with it
  }
}

export interface RequestsOptions extends Pick<EdgeOptions, 'console' | 'observer'> {
  readonly settings: EdgeOptions['settings'];
  /** What handlers of routes are given. */
  readonly dependencies: RouteDependencies;
  /** All routes but the hot ones. */
  readonly router: (request: IncomingMessage, response: ServerResponse) => void;
  /** Undefined: nothing is at `/mcp`. */
  readonly assistants: ((request: IncomingMessage, response: ServerResponse) => Promise<void>) | undefined;
  readonly dues: Pick<Dues, 'turn'>;
  readonly origins: Pick<Origins, 'allow'>;
  readonly refusals: Refusals;
  /** Why the process takes no such request at all. */
  readonly refusal: (request: IncomingMessage, isProbe: boolean) => StatefoldError | undefined;
  readonly isAdmin: (request: IncomingMessage) => boolean;
}

/** Each request, from the port to who answers it: an append at once, the console, assistants, else the router. */
export class Requests implements Pick<Household, 'request' | 'checkContinue'> {
  readonly #options: RequestsOptions;

  constructor(options: RequestsOptions) {
    this.#options = options;
  }

  readonly request = (request: IncomingMessage, response: ServerResponse): void => {
    const { tracer } = tracing;
    // Who watches the process asks every few seconds.
    if (tracer === undefined || PROBES.has(pathOf(request.url ?? ''))) return this.#allow(request, response);
    const span = requestSpan(tracer, request, response);
    tracer.within(span, () => this.#allow(request, response));
  };

  /** A client that asks before it sends is told at once when its body is too large. */
  readonly checkContinue = (request: IncomingMessage, response: ServerResponse): void => {
    const { settings, refusals } = this.#options;
    const limit = Math.max(settings.maxBodyBytes, settings.maxUploadBytes);
    const isStream = isStreamed(pathOf(request.url ?? ''));
    if (declaredLength(request) > 2 * limit && !isStream)
      return void refusals.answer(request, response, tooLarge(limit), requestIdOf(request));
    response.writeContinue();
    this.request(request, response);
  };

  /** What another process sends on has its headers from there. */
  #allow(request: IncomingMessage, response: ServerResponse): void {
    if (isForwarded(request)) this.#serve(request, response);
    else this.#options.origins.allow(request, response, () => this.#serve(request, response));
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const { dependencies, dues, refusals, refusal, isAdmin, assistants, router } = this.#options;
    if (dependencies.draining()) response.shouldKeepAlive = false;
    const path = pathOf(request.url ?? '');
    const isProbe = PROBES.has(path);
    const refused = refusal(request, isProbe);
    if (refused !== undefined) return void refusals.answer(request, response, refused, requestIdOf(request));
    if (request.method === 'POST') {
      const route = HOT.get(path);
      if (route !== undefined)
        return this.#answered(request, response, path, (requestId) => {
          const call = new Call(route, request, response, {
            parameters: {},
            requestId,
            settings: this.#options.settings,
          });
          return route.serve(dependencies, call);
        });
    }
    if (path === MCP && assistants !== undefined)
      return this.#answered(request, response, path, () => assistants(request, response));
    const serve = this.#options.console?.isAsked(request, path)
      ? (): void => this.#showConsole(request, response, path)
      : (): void => router(request, response);
    // Before the router: to find the route of a request takes as long as many a request does. What is answered without a key too.
    const turn = dues.turn(request, isProbe ? 'watcher' : isAdmin(request) ? 'admin' : 'stranger');
    if (turn === undefined) serve();
    else
      void turn.then(() => {
        if (!request.socket.destroyed) serve();
      });
  }

  /** What is answered past the router, observed as what goes through it is. */
  #answered(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    serve: (requestId: string) => unknown,
  ): void {
    const { observer, refusals } = this.#options;
    const requestId = requestIdOf(request);
    tracing.tracer?.current?.set({ 'statefold.request_id': requestId });
    const began = observer === undefined ? 0 : performance.now();
    Promise.resolve(serve(requestId))
      .catch((error: unknown) => refusals.answer(request, response, error, requestId))
      .finally(() =>
        observer?.answered(path, request.method ?? '', response.statusCode, (performance.now() - began) / 1000),
      );
  }

  #showConsole(request: IncomingMessage, response: ServerResponse, path: string): void {
    const { console, observer, refusals } = this.#options;
    const requestId = requestIdOf(request);
    const began = performance.now();
    response.once('close', () => {
      const method = request.method ?? '';
      observer?.answered('/console', method, response.statusCode, (performance.now() - began) / 1000);
    });
    try {
      console?.answer(request, response, path);
    } catch (error) {
      void refusals.answer(request, response, error, requestId);
    }
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
