import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Scope } from '../core/scopes.js';
import { eventCount, type AppendCommand, type AppendResult, type TransactionResult } from '../core/event.js';
import { hasCode, NotOwnerError, StatefoldError } from '../core/errors.js';
import { uuidv7 } from '../core/ids.js';
import { tracing } from '../core/tracing.js';
import { costOfBytes, type Turns } from '../core/turns.js';
import { partitionOf } from '../core/murmur2.js';
import { partitionKey } from '../core/slots.js';
import type { AggregateHome } from '../aggregates/aggregates.js';
import type { AggregateHomes } from '../tenancy/tenant.js';
import { answerError } from './answer.js';
import { answerAppend, answerTransaction, eventsSince } from './append-answer.js';
import { isIdempotencyKey, type AppendBody, type BodyLimits, type TransactionBody } from './append-body.js';
import { AppendReader, requestHashOf, type AppendForm } from './append-reader.js';
import type { Authenticator, Principal } from './auth.js';
import { declaredLength, requireJson } from './body.js';
import type { Dues } from './dues.js';
import type { ForwardedRequest, Gateway } from './gateway/gateway.js';
import { forwardedCommandId, isForwarded, NOT_OWNER } from './gateway/headers.js';
import { flag, onlyParameters, queryOf, readQuery } from './parameters.js';
import type { Pace } from './pace.js';
import { RequestMemory, UNBOUNDED_REQUESTS, type MemoryOfRequests } from './request-memory.js';

export interface AppendRouteOptions {
  readonly authenticator: Pick<Authenticator, 'find' | 'isClosed' | 'permit' | 'admit'>;
  /** The tenant's paces, of requests and of events. */
  readonly requests: Pick<Pace, 'take'>;
  readonly events: Pick<Pace, 'take'>;
  /** Without it each request begins as it comes. */
  readonly turns?: Turns;
  /** Told what an append has paid that is refused; what it hasn't, whoever refuses it takes. */
  readonly dues?: Pick<Dues, 'counted' | 'turned'>;
  readonly tenants: AggregateHomes;
  readonly gateway: Gateway;
  /** Without it nothing is bounded. */
  readonly memory?: MemoryOfRequests;
  readonly limits: BodyLimits & { readonly maxBodyBytes: number };
}

/** Answers them; a rejection is for the caller to tell. */
export type AppendRoute = (
  request: IncomingMessage,
  response: ServerResponse,
  requestId: string,
  form: AppendForm,
) => Promise<void>;

const FORWARDED = { repeatable: true, whole: true, lasting: false } as const;
/** What a key must allow who appends. */
export const APPENDING = 'append' satisfies Scope;
/** And what besides, to be told what others appended. */
const READING = 'read' satisfies Scope;
const EMPTY = Buffer.alloc(0);

type AnyBody = AppendBody | TransactionBody;

/** What all appends are served with. */
interface Parts extends AppendRouteOptions {
  readonly memory: MemoryOfRequests;
  readonly reader: AppendReader;
}

/** The hot route, which express's router never sees: no middleware, one scan of the body, one write of the answer. */
export function appendRoute(options: AppendRouteOptions): AppendRoute {
  const { turns, dues, limits, memory = UNBOUNDED_REQUESTS } = options;
  const parts: Parts = { ...options, memory, reader: new AppendReader({ turns, dues, memory, limits }) };
  return (request, response, requestId, form) => new Append(parts, request, response, requestId, form).serve();
}

/**
 * One request on its way: who asks, where it belongs, what it says, how it was stored, and the answer.
 *
 * Where another process owns the tenant the append goes there, with an id under which its answer is remembered: the client's
 * key, else one of ours. So it can be sent to one owner after the other until one answers, and is stored once.
 */
class Append {
  readonly #parts: Parts;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #requestId: string;
  readonly #form: AppendForm;
  #tenantId = '';
  /** What the client calls it. */
  #key: string | undefined;
  /** Under which it went to another process, where it may have been stored. */
  #sentAs: string | undefined;
  /** What decides who owns it: the tenant, or one of its partitions. */
  #slotKey = '';
  /** From when it had its turn. */
  #body: Buffer | undefined;

  constructor(parts: Parts, request: IncomingMessage, response: ServerResponse, requestId: string, form: AppendForm) {
    this.#parts = parts;
    this.#request = request;
    this.#response = response;
    this.#requestId = requestId;
    this.#form = form;
  }

  async serve(): Promise<void> {
    const { authenticator, requests, gateway, tenants } = this.#parts;
    const request = this.#request;
    const principal = this.#known() ?? (await authenticator.admit(request, APPENDING));
    this.#tenantId = principal.tenantId;
    tracing.tracer?.current?.set({ 'statefold.tenant': this.#tenantId });
    this.#key = request.headers['idempotency-key'] === undefined ? undefined : idempotencyKey(request);
    const partitions = tenants.partitionsOf(this.#tenantId);
    const early = partitions === 1 ? undefined : await this.#readEarly();
    this.#slotKey =
      early === undefined ? this.#tenantId : partitionKey(this.#tenantId, partitionOf(aggregateOf(early), partitions));
    if (!gateway.serves(this.#slotKey) && (await this.#forwarded())) return;
    requireJson(request);
    const includeConflicts = this.#includesConflicts(principal);
    requests.take(this.#tenantId);
    const append = await this.#admitted(early, partitions);
    return this.#stored(append, includeConflicts);
  }

  /** Who asks, where that can be told at once. */
  #known(): Principal | undefined {
    const { authenticator } = this.#parts;
    const known = authenticator.find(this.#request);
    if (known === undefined || authenticator.isClosed(known.tenantId)) return undefined;
    authenticator.permit(known, APPENDING);
    return known;
  }

  /** Of a tenant of several partitions: the aggregate alone tells the owner, so what it says is read before one is looked for. */
  async #readEarly(): Promise<AnyBody> {
    const { reader, dues } = this.#parts;
    requireJson(this.#request);
    this.#body = await reader.read(this.#request, this.#tenantId);
    try {
      return reader.parse(this.#body, this.#form);
    } catch (error) {
      dues?.turned(this.#request);
      throw error;
    }
  }

  /** True: another process has answered it. */
  async #forwarded(): Promise<boolean> {
    const { turns, gateway, limits } = this.#parts;
    // What is parsed here has had its turn.
    if (this.#body === undefined) await turns?.enter(this.#tenantId, costOf(this.#request));
    this.#sentAs = this.#key === undefined ? uuidv7() : undefined;
    const sent: ForwardedRequest = {
      ...FORWARDED,
      slotKey: this.#slotKey,
      requestId: this.#requestId,
      bodyLimit: limits.maxBodyBytes,
      body: this.#body,
      commandId: this.#sentAs,
    };
    if (await gateway.forward(this.#request, this.#response, sent)) return true;
    // Read while an owner was looked for, which is this process by now.
    this.#body ??= sent.body;
    return false;
  }

  /** A conflict lists events with their data: who may append only is not told them. */
  #includesConflicts(principal: Principal): boolean {
    const url = this.#request.url ?? '';
    const includes = url.includes('?') && readIncludeConflicts(queryOf(url), this.#form);
    if (includes) this.#parts.authenticator.permit(principal, READING);
    return includes;
  }

  /** What it says, once it had its turn, and within what the tenant may append. */
  async #admitted(early: AnyBody | undefined, partitions: number): Promise<AnyBody> {
    const { reader, events, dues } = this.#parts;
    try {
      this.#body ??= await reader.read(this.#request, this.#tenantId);
      const append = early ?? reader.parse(this.#body, this.#form);
      if (partitions > 1 && 'appends' in append) requireOnePartition(append, partitions);
      events.take(this.#tenantId, eventsOf(append));
      return append;
    } catch (error) {
      dues?.counted(this.#request);
      if (this.#body !== undefined) dues?.turned(this.#request);
      throw error;
    }
  }

  async #stored(append: AnyBody, includeConflicts: boolean): Promise<void> {
    const { tenants } = this.#parts;
    const named = this.#named();
    let tenant: AggregateHome | undefined;
    let result: AppendResult | TransactionResult;
    try {
      const home = tenants.home(this.#tenantId, aggregateOf(append));
      tenant = home instanceof Promise ? await home : home;
      result = await ('appends' in append
        ? tenant.transact({ ...named, ...append })
        : tenant.append(commandOf(named, append, this.#form)));
    } catch (error) {
      return this.#refused(error, { named, append, tenant, includeConflicts });
    }
    const holds = (): RequestMemory => RequestMemory.begin(this.#request, this.#tenantId, this.#parts.memory);
    if ('appends' in result) answerTransaction(this.#response, this.#requestId, result, holds);
    else answerAppend(this.#response, this.#requestId, result, this.#form === 'batch', holds);
  }

  #named(): Named {
    // An append that was on its way to another process may have been stored there.
    const remembered = this.#key ?? this.#sentAs ?? forwardedCommandId(this.#request);
    return {
      commandId: remembered ?? uuidv7(),
      keyed: remembered !== undefined,
      requestHash: remembered === undefined ? EMPTY : requestHashOf(this.#form, this.#body ?? EMPTY),
    };
  }

  /** It goes to the owner, where that is another process by now; else the client is told, with what it conflicts with. */
  async #refused(error: unknown, { named, append, tenant, includeConflicts }: Attempt): Promise<void> {
    const { dues, gateway } = this.#parts;
    dues?.counted(this.#request);
    dues?.turned(this.#request);
    // Not stored here, or known by its id wherever it is sent again.
    const isSafe = tenant === undefined || error instanceof NotOwnerError || named.keyed;
    if (isForwarded(this.#request)) {
      if (error instanceof NotOwnerError) this.#response.setHeader(NOT_OWNER, '1');
    } else if (isSafe && (await gateway.movedAway(this.#slotKey, error))) {
      const sent = {
        ...FORWARDED,
        slotKey: this.#slotKey,
        requestId: this.#requestId,
        bodyLimit: undefined,
        body: this.#body,
        commandId: this.#key === undefined ? named.commandId : undefined,
      };
      if (await gateway.forward(this.#request, this.#response, sent)) return;
    }
    if (tenant === undefined || !includeConflicts || 'appends' in append || !hasCode(error, 'VERSION_CONFLICT'))
      throw error;
    const held = RequestMemory.begin(this.#request, this.#tenantId, this.#parts.memory);
    await held.pageOf(this.#response);
    const conflicts = await eventsSince(tenant, append);
    held.answer(this.#response, conflicts.length);
    answerError(this.#response, error, this.#requestId, { conflicts });
  }
}

/** An append that was not stored. */
interface Attempt {
  readonly named: Named;
  readonly append: AnyBody;
  /** Undefined: it was not found here. */
  readonly tenant: AggregateHome | undefined;
  readonly includeConflicts: boolean;
}

/** Under which name a command is stored. */
type Named = Pick<AppendCommand, 'commandId' | 'keyed' | 'requestHash'>;

/** Written out: of one shape, since each append has one. */
const commandOf = ({ commandId, keyed, requestHash }: Named, append: AppendBody, form: AppendForm): AppendCommand => ({
  commandId,
  keyed,
  requestHash,
  aggregateId: append.aggregateId,
  aggregateType: append.aggregateType,
  expectedVersion: append.expectedVersion,
  correlationId: append.correlationId,
  causationId: append.causationId,
  metadata: append.metadata,
  events: append.events,
  eventsAt: form === 'batch' ? 'events' : undefined,
});

/** The aggregate whose partition the request is for: of a transaction any, since all lie in one. */
const aggregateOf = (append: AnyBody): string =>
  'appends' in append ? (append.appends[0]?.aggregateId ?? '') : append.aggregateId;

const eventsOf = (append: AnyBody): number => ('appends' in append ? eventCount(append.appends) : append.events.length);

/** @throws StatefoldError CROSS_PARTITION */
function requireOnePartition({ appends }: TransactionBody, partitions: number): void {
  const [first, ...others] = appends.map(({ aggregateId }) => ({
    aggregateId,
    partition: partitionOf(aggregateId, partitions),
  }));
  const other = others.find(({ partition }) => partition !== first?.partition);
  if (first === undefined || other === undefined) return;
  throw new StatefoldError(
    'CROSS_PARTITION',
    `The events of this tenant are spread over ${partitions} partitions, and '${first.aggregateId}' and '${other.aggregateId}' lie in different ones; ` +
      'a transaction is of one partition. Nothing was stored: append to them one after the other, or use a tenant of one partition.',
    { details: { aggregateIds: [first.aggregateId, other.aggregateId] } },
  );
}

/** Of a turn: what an append costs that goes to another process, as far as its head tells. */
function costOf(request: IncomingMessage): number {
  const length = declaredLength(request);
  return 1 + (Number.isNaN(length) ? 1 : costOfBytes(length));
}

function idempotencyKey(request: IncomingMessage): string {
  const given = request.headers['idempotency-key'];
  // Node joins a repeated header, which would make a key of its own of the two.
  const repeated = given?.includes(',') === true && (request.headersDistinct['idempotency-key']?.length ?? 0) > 1;
  if (typeof given !== 'string' || repeated || !isIdempotencyKey(given)) {
    throw new StatefoldError(
      'INVALID_REQUEST',
      'The header Idempotency-Key must be given once, with 1 to 255 printable ASCII characters.',
    );
  }
  return given;
}

/** The query of an append. */
export const APPEND_QUERY = { includeConflicts: flag };

/** A transaction's conflict tells where each aggregate is, and lists no events. */
function readIncludeConflicts(query: URLSearchParams, form: AppendForm): boolean {
  if (form === 'transaction') {
    onlyParameters(query, []);
    return false;
  }
  onlyParameters(query, Object.keys(APPEND_QUERY));
  return readQuery(query, APPEND_QUERY).includeConflicts;
}
