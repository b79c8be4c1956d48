import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { z } from 'zod';
import type { RequiredScope } from '../core/scopes.js';
import { tracing } from '../core/tracing.js';
import type { ErrorCode } from '../core/errors.js';
import { answerJson } from './answer.js';
import type { Principal } from './auth.js';
import type { Body, BodySettings } from './bodies.js';
import { JsonParts } from './json-writer.js';
import { onlyParameters, queryOf, readQuery, type Parameters, type Values } from './parameters.js';
import type { Problem } from './problem.js';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** The names in braces of a path template. */
export type ParameterName<P extends string> = P extends `${string}{${infer Name}}${infer Rest}`
  ? Name | ParameterName<Rest>
  : never;

/**
 * Which process answers. `any`: the one that the request came to. `owner`: the tenant's. `notifier`: the one that sends the
 * tenant's notifications. `{ aggregate }`: the owner of the partition of the aggregate which that path parameter names.
 * `{ tenant }`: the owner of the tenant which that path parameter names. `appended`: that of the aggregate which the body
 * names; the append route finds it, and sends the request there under the id of its command.
 */
export type ServedBy =
  'any' | 'owner' | 'notifier' | 'appended' | { readonly aggregate: string } | { readonly tenant: string };

/** What a caller shows. `own`: the handler asks for it. */
export type Credentials = 'tenant' | 'admin' | 'none' | 'own';

/** A body that isn't described by a schema. */
export interface Media {
  readonly media: string;
  /** What each line of it is, where it is lines of JSON. */
  readonly lines?: z.ZodType;
}
/** By status: the schema of the JSON body, a body of another kind, or null where there is none. */
export type Answers = Readonly<Record<number, z.ZodType | Media | null>>;

/** What a route is, for all who need to know it: express, the guard, the gateway, the upgrades and the OpenAPI document. */
export interface Contract<I extends string, P extends string, Q extends Parameters, T, A extends Answers> {
  readonly method: Method;
  /** As OpenAPI writes it: `/events/{aggregateId}`. Literal parts win over parameters. */
  readonly path: P;
  /** Unique; clients name their methods by it. */
  readonly operationId: I;
  readonly tag: string;
  readonly summary: string;
  /** Of a path that has a literal where another one has a parameter. */
  readonly parameters?: Readonly<Record<string, string>>;
  readonly servedBy: ServedBy;
  /** Of a route of the notifier: with this parameter in its query the tenant's owner answers it, who alone knows. */
  readonly ownerWith?: string;
  readonly credentials: Credentials;
  /** A ticket in the query serves in place of the key: for those who can send no headers. */
  readonly tickets?: true;
  /** What the key of a tenant must allow; every route of a tenant says it. */
  readonly scope?: RequiredScope;
  /** What it answers as missing may be in the catalog by now, from another process: a read looks again before it says 404. */
  readonly ofCatalog?: true;
  /** The answer may be long in coming, or without end: sent on over a connection of its own, and cut short at a shutdown. */
  readonly lasting?: true;
  /** The same for a request with this parameter in its query. */
  readonly lastingWith?: string;
  /** For those who watch the process: answered also where the process takes no requests of clients. */
  readonly probe?: true;
  /** False: not in the OpenAPI document. */
  readonly described?: false;
  readonly query?: Q;
  /** A parameter that isn't known is refused: to drop it would do something else than was asked. */
  readonly strictQuery?: true;
  readonly headers?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  readonly body?: Body<T>;
  readonly answers: A;
  /** Media types of an answer of success that the client may ask for in place of JSON. */
  readonly orAs?: readonly string[];
  /** Headers of an answer of success, by their JSON Schema. */
  readonly answerHeaders?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  /** Codes besides those that any route of its kind answers; the statuses follow from them. */
  readonly errors?: readonly ErrorCode[];
}

/** An entry of the table: what the route is, and what serves it. */
export interface RouteOf<
  D,
  I extends string = string,
  P extends string = string,
  Q extends Parameters = Parameters,
  T = unknown,
  A extends Answers = Answers,
> extends Contract<I, P, Q, T, A> {
  serve(dependencies: D, call: Call<ParameterName<P>, Q, T>): Promise<void> | void;
  /** Takes the socket of an upgrade request, or refuses it. Never rejects. */
  upgrade?(dependencies: D, upgrade: Upgrade<ParameterName<P>, Q>): Promise<void>;
}

/** A refusal in the words of an interface that isn't ours, which that interface's dialect tells. */
export class ForeignError extends Error {}

/** An error in the words of an interface that isn't ours; undefined: as any other. */
export type Dialect = (thrown: unknown, requestId: string) => Problem | undefined;

/** Entries that belong together. */
export interface RoomOf<D> {
  readonly routes: readonly RouteOf<D>[];
  /** All paths below this one speak the dialect, also those that aren't there. */
  readonly under?: { readonly path: string; readonly dialect: Dialect; readonly missing: () => Error };
}

/** What of a route is needed to read what is asked of it. */
interface AskedRoute {
  readonly scope?: RequiredScope;
  readonly query?: Parameters;
  readonly strictQuery?: true;
}

/** What is asked of a path: its parameters, percent-decoded, and its query. */
class Asked<N extends string, Q extends Parameters> {
  readonly #route: AskedRoute;
  readonly #parameters: Readonly<Record<string, string>>;

  constructor(
    route: AskedRoute,
    readonly request: IncomingMessage,
    parameters: Readonly<Record<string, string>>,
    readonly requestId: string,
  ) {
    this.#route = route;
    this.#parameters = parameters;
  }

  /** What the caller's key must allow. */
  get scope(): RequiredScope {
    if (this.#route.scope === undefined) throw new Error('the route asks for no key of a tenant');
    return this.#route.scope;
  }

  parameter(name: N): string {
    return this.#parameters[name] ?? '';
  }

  /** The query as the route declares it. @throws StatefoldError INVALID_REQUEST */
  query(): Values<Q> {
    const query = queryOf(this.request.url ?? '');
    const known = this.#route.query ?? {};
    if (this.#route.strictQuery) onlyParameters(query, Object.keys(known));
    return readQuery(query, known) as Values<Q>;
  }
}

/** A request of a route, and its answer. */
export class Call<N extends string = string, Q extends Parameters = Parameters, T = unknown> extends Asked<N, Q> {
  readonly #body: Body<T> | undefined;
  readonly #settings: BodySettings;
  #principal: Principal | undefined;
  #given: unknown;
  #held: HeldAnswer | undefined;

  constructor(
    route: AskedRoute & { readonly body?: Body<T> },
    request: IncomingMessage,
    readonly response: ServerResponse,
    {
      parameters,
      requestId,
      settings,
    }: {
      readonly parameters: Readonly<Record<string, string>>;
      readonly requestId: string;
      readonly settings: BodySettings;
    },
  ) {
    super(route, request, parameters, requestId);
    this.#body = route.body;
    this.#settings = settings;
  }

  /** Known once the caller's key was checked, which is before a route of a tenant serves. */
  get tenantId(): string {
    if (this.#principal === undefined) throw new Error('the route asks for no key of a tenant');
    return this.#principal.tenantId;
  }

  /** Of the key that the caller has shown; known as `tenantId` is. */
  get keyId(): string {
    if (this.#principal === undefined) throw new Error('the route asks for no key of a tenant');
    return this.#principal.keyId;
  }

  admit(principal: Principal): void {
    this.#principal = principal;
    tracing.tracer?.current?.set({ 'statefold.tenant': principal.tenantId });
  }

  /** It changes nothing, and may be asked again. */
  get safe(): boolean {
    return this.request.method === 'GET' || this.request.method === 'HEAD';
  }

  /** The body as the route declares it, read and checked: once. @throws StatefoldError as the body's kind has it */
  async body(): Promise<T> {
    if (this.#body === undefined) throw new Error('the route has no body');
    const given = await this.#body.read(this.request, this.#settings);
    this.#given = given;
    return given;
  }

  /** The body, once it was read. */
  get given(): unknown {
    return this.#given;
  }

  /** From now on an answer is kept until `release`. */
  hold(): Readonly<HeldAnswer> {
    return (this.#held ??= { status: undefined, body: undefined, send: undefined });
  }

  /** What is kept, or was. */
  get held(): Readonly<HeldAnswer> | undefined {
    return this.#held;
  }

  /** Sends what was kept, if anything. */
  release(): void {
    const send = this.#held?.send;
    if (this.#held !== undefined) this.#held.send = undefined;
    send?.();
  }

  answer(status: number, body: object | Buffer | JsonParts): void {
    this.#send(status, body, () => this.#answer(status, body));
  }

  #send(status: number, body: object | undefined, send: () => void): void {
    if (this.#held === undefined) send();
    else Object.assign(this.#held, { status, body, send });
  }

  #answer(status: number, body: object | Buffer | JsonParts): void {
    const isWritten = Buffer.isBuffer(body) || body instanceof JsonParts;
    answerJson(this.response, status, this.requestId, isWritten ? body : JSON.stringify(body));
  }

  /** Answers without a body. */
  done(status = 204): void {
    this.#send(status, undefined, () => this.response.writeHead(status).end());
  }
}

/** An answer that is ready, and waits. */
export interface HeldAnswer {
  /** Undefined: there is none yet. */
  status: number | undefined;
  body: object | undefined;
  send: (() => void) | undefined;
}

/** A request to go on in another protocol, by the socket that it came on. */
export class Upgrade<N extends string = string, Q extends Parameters = Parameters> extends Asked<N, Q> {
  constructor(
    route: AskedRoute,
    request: IncomingMessage,
    readonly socket: Duplex,
    readonly head: Buffer,
    parameters: Readonly<Record<string, string>>,
    requestId: string,
  ) {
    super(route, request, parameters, requestId);
  }
}

/** Declares entries whose handlers are given `D`; the types of a call follow from the entry's path, query and body. */
export const routesWith =
  <D>() =>
  <
    const I extends string,
    const P extends string,
    A extends Answers,
    Q extends Parameters = Record<never, never>,
    T = undefined,
  >(
    route: RouteOf<D, I, P, Q, T, A>,
  ): RouteOf<D, I, P, Q, T, A> =>
    route;

/** The name of a path parameter, wherever one is. */
export const PATH_PARAMETER = /\{(\w+)\}/g;
