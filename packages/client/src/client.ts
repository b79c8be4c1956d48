import { WebhookEndpoints } from './endpoints.js';
import { EventTypes } from './event-types.js';
import { isRefused } from './errors.js';
import { EventFeed } from './feed.js';
import { newKey } from './new-key.js';
import { Producer, type ProducerOptions } from './producer.js';
import { queryOf } from './query.js';
import { SqlAccounts } from './sql-accounts.js';
import { Subscription, type SubscribeOptions } from './subscription.js';
import { Transport, type Received, type TransportOptions } from './transport.js';
import type { Asked, CallOptions, Requests } from './requests.js';
import { OPERATIONS, type Event, type OperationId, type Operations } from './wire.js';

export type AppendBody = Operations['appendEvent']['body'];
export type BatchBody = Operations['appendBatch']['body'];
export type NewEvent = BatchBody['events'][number];
/** Of the last event that was appended, for `waitFor`. Of a tenant of several partitions it is left out where it was not known in time. */
interface AtPosition {
  readonly position?: number;
}
export type Appended = Operations['appendEvent']['answer'] & AtPosition;
export type BatchAppended = Operations['appendBatch']['answer'] & AtPosition;
export type TransactionBody = Operations['appendTransaction']['body'];
export type TransactionAppended = Operations['appendTransaction']['answer'];

/** What a decision is made on. */
export interface Loaded<S> {
  /** 0: the aggregate isn't there yet. */
  readonly version: number;
  /** What the bound reducer made of the events; null where there are none, or it gave none. Undefined with `load: 'events'`. */
  readonly state: S | null | undefined;
  /** All of them, with `load: 'events'`. */
  readonly events: readonly Event[];
}

export interface DecideOptions extends CallOptions {
  /** `state`: of the bound reducer; `events`: all events, without a reducer. */
  readonly load?: 'state' | 'events' | undefined;
  /** The text before the first `-` of the id unless given. */
  readonly aggregateType?: string | undefined;
  /** How often it is decided in all, when others append meanwhile. */
  readonly attempts?: number | undefined;
  /** Of all events of the decision. */
  readonly correlationId?: string | undefined;
  readonly causationId?: string | undefined;
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
}

export interface SqlOptions extends Omit<CallOptions, 'idempotencyKey'> {
  /** Values of the placeholders `{name:Type}` of the statement. */
  readonly parameters?: Readonly<Record<string, string | number | boolean>> | undefined;
  /** The position of an append: the rows of its events are there. */
  readonly waitFor?: number | undefined;
  /** How long to wait for that, 5 unless it is given. */
  readonly waitSeconds?: number | undefined;
}

const DECISIONS = 10;
const APPENDS: ReadonlySet<OperationId> = new Set<OperationId>(['appendEvent', 'appendBatch', 'appendTransaction']);
const SAFE = new Set(['GET', 'HEAD', 'PUT', 'DELETE']);
/** Changes that leave the same behind when they are done twice. */
const DONE_TWICE: ReadonlySet<OperationId> = new Set<OperationId>([
  'pauseWebhookEndpoint',
  'resumeWebhookEndpoint',
  'querySql',
]);
/**
 * Of what a DELETE of these does not find there never was any: an aggregate that is erased already is erased again, and a rebuild that was
 * called off is a conflict.
 */
const NEVER_GONE: ReadonlySet<OperationId> = new Set<OperationId>(['eraseAggregate', 'cancelReadStoreRebuild']);

/** What an operation is asked with, of whatever operation. */
type AnyAsked = CallOptions & {
  readonly path?: Readonly<Record<string, string>> | undefined;
  readonly query?: Readonly<Record<string, unknown>> | undefined;
  readonly body?: unknown;
};

/** One tenant of a Statefold service. Every method rejects with a `ClientError`, or the reason of its signal. */
export class StatefoldClient implements Requests {
  readonly transport: Transport;
  /** All events of the tenant, in its one order. */
  readonly feed: EventFeed;
  /** Webhook endpoints. */
  readonly endpoints: WebhookEndpoints;
  /** Types of events, and their schemas. */
  readonly eventTypes: EventTypes;
  /** Accounts with which tools connect to the ClickHouse server. */
  readonly sqlAccounts: SqlAccounts;

  constructor(options: TransportOptions) {
    this.transport = new Transport(options);
    this.feed = new EventFeed(this);
    this.endpoints = new WebhookEndpoints(this);
    this.eventTypes = new EventTypes(this);
    this.sqlAccounts = new SqlAccounts(this);
  }

  /**
   * Any operation of the interface, by its name there, with the types of the service's own table. Reads, `PUT`, `DELETE` and appends are sent
   * again where no answer came, or one that says so; other changes are not.
   */
  async request<O extends OperationId>(
    operation: O,
    ...[asked]: Record<never, never> extends Asked<O> ? [asked?: Asked<O>] : [asked: Asked<O>]
  ): Promise<Operations[O]['answer']> {
    return this.#answerOf(await this.#send(operation, (asked ?? {}) as AnyAsked));
  }

  #send(
    operation: OperationId,
    { path: parameters, query, body, signal, timeoutMs, idempotencyKey }: AnyAsked,
  ): Promise<Received> {
    const { method, path, key } = OPERATIONS[operation];
    const isAppend = APPENDS.has(operation);
    return this.transport.send({
      method,
      path: pathOf(path, parameters) + queryOf(query),
      key,
      body: body === undefined || typeof body === 'string' || body instanceof FormData ? body : JSON.stringify(body),
      headers: isAppend ? { 'Idempotency-Key': idempotencyKey ?? newKey() } : undefined,
      repeatable: isAppend || SAFE.has(method) || DONE_TWICE.has(operation),
      waits: query?.['waitSeconds'] !== undefined,
      goneIsDone: method === 'DELETE' && !NEVER_GONE.has(operation),
      signal,
      timeoutMs,
    });
  }

  #answerOf<O extends OperationId>({ status, text, headers }: Received): Operations[O]['answer'] {
    if (text === '') return undefined;
    if (!/[/+]json/.test(headers.get('content-type') ?? '')) return text;
    return this.transport.answer(text, status) as Operations[O]['answer'];
  }

  async #append<O extends 'appendEvent' | 'appendBatch'>(
    operation: O,
    body: Operations[O]['body'],
    options: CallOptions,
  ): Promise<Operations[O]['answer'] & AtPosition> {
    const received = await this.#send(operation, { ...options, body });
    const position = received.headers.get('statefold-position');
    const answer = this.#answerOf<O>(received);
    return position === null ? answer : { ...answer, position: Number(position) };
  }

  /** Appends one event. It is stored once, however often it had to be sent. */
  append(event: AppendBody, options: CallOptions = {}): Promise<Appended> {
    return this.#append('appendEvent', event, options);
  }

  /** Appends several events to one aggregate, all or none. They are stored once, however often they had to be sent. */
  appendBatch(batch: BatchBody, options: CallOptions = {}): Promise<BatchAppended> {
    return this.#append('appendBatch', batch, options);
  }

  /**
   * Appends events to several aggregates, all or none: a transfer, for one. They are stored once, however often they had to be sent.
   * @throws RefusedError VERSION_CONFLICT, whose `problem.mismatches` names each aggregate that was elsewhere
   */
  appendTransaction(transaction: TransactionBody, options: CallOptions = {}): Promise<TransactionAppended> {
    return this.request('appendTransaction', { ...options, body: transaction });
  }

  /**
   * Rows of one statement of ClickHouse's SQL over the tenant's own events and states. 64-bit integers are numbers, rounded past 2^53 unless
   * `parseJson` keeps them. All rows are in memory; `sqlText` gives the text of any format.
   * @throws RefusedError SQL_REFUSED with ClickHouse's message, whose `problem.clickhouseCode` is its code
   * @throws TypeError where the statement ends with a FORMAT of its own
   */
  async sql<Row = Readonly<Record<string, unknown>>>(query: string, options: SqlOptions = {}): Promise<Row[]> {
    const { text, format } = await this.sqlText(query, 'JSONEachRow', options);
    if (format !== 'JSONEachRow')
      throw new TypeError(
        `the statement ends with FORMAT ${format}, and rows are wanted: leave that out, or use sqlText`,
      );
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => this.transport.answer(line, 200) as Row);
  }

  /**
   * The answer to one statement as ClickHouse writes it, in `format` unless the statement ends with a FORMAT of its own: the one that it
   * came in is told. All of it is in memory, as text: a format of bytes, as Parquet is, comes out damaged.
   * @throws RefusedError SQL_REFUSED, as `sql` does
   */
  async sqlText(
    query: string,
    format: string,
    { parameters, waitFor, waitSeconds, ...options }: SqlOptions = {},
  ): Promise<{ readonly text: string; readonly format: string }> {
    const { text, headers } = await this.#send('querySql', {
      ...options,
      query: { waitFor, waitSeconds },
      body: { query, format, ...(parameters === undefined ? {} : { parameters }) },
    });
    return { text, format: headers.get('x-clickhouse-format') ?? format };
  }

  /** Events of an aggregate, page by page as they are asked for; none where it isn't there. */
  async *events(
    aggregateId: string,
    query: Operations['listEvents']['query'] = {},
    options: Omit<CallOptions, 'idempotencyKey'> = {},
  ): AsyncGenerator<Event, void, undefined> {
    let left = query?.limit ?? Infinity;
    let asked = { ...query };
    for (;;) {
      let page: Operations['listEvents']['answer'];
      try {
        const limit = Math.min(left, EVENTS_PAGE);
        page = await this.request('listEvents', { ...options, path: { aggregateId }, query: { ...asked, limit } });
      } catch (error) {
        if (isRefused(error, 'NOT_FOUND')) return;
        throw error;
      }
      yield* page.events;
      left -= page.events.length;
      if (page.nextVersion === undefined || left <= 0) return;
      // Of a backward read too it is the next to begin with.
      asked = { ...asked, fromVersion: page.nextVersion };
    }
  }

  /**
   * Erases the aggregate for good: its events and its state are gone for whoever asks, and its id is not used again. `reason` stays.
   * @throws ClientError `NOT_FOUND` where there is none
   */
  erase(
    aggregateId: string,
    { reason, ...options }: Omit<CallOptions, 'idempotencyKey'> & { readonly reason?: string | undefined } = {},
  ): Promise<Operations['eraseAggregate']['answer']> {
    return this.request('eraseAggregate', {
      ...options,
      path: { aggregateId },
      body: reason === undefined ? {} : { reason },
    });
  }

  /** The state that the bound reducer made of the aggregate; version 0 and null where it isn't there. @throws RefusedError NO_REDUCER_BOUND */
  async state<S = unknown>(
    aggregateId: string,
    {
      aggregateType = typeOf(aggregateId),
      ...options
    }: CallOptions & { readonly aggregateType?: string | undefined } = {},
  ): Promise<{ readonly version: number; readonly state: S | null }> {
    try {
      const { version, state } = await this.request('getAggregateState', {
        ...options,
        path: { type: aggregateType, id: aggregateId },
      });
      return { version, state: state as S | null };
    } catch (error) {
      if (isRefused(error, 'NOT_FOUND')) return { version: 0, state: null };
      throw error;
    }
  }

  /**
   * Loads an aggregate, has it decided what happens, and appends that at exactly the version that was loaded. When another one has
   * appended meanwhile it is loaded and decided anew: so `decide` is called once or more, and should do nothing else. Gives the answer of the
   * append, or undefined where nothing was decided.
   * @throws what `decide` throws; RefusedError VERSION_CONFLICT when others were first each time
   */
  async decide<S = unknown>(
    aggregateId: string,
    decide: (loaded: Loaded<S>) => readonly NewEvent[] | undefined | Promise<readonly NewEvent[] | undefined>,
    options: DecideOptions = {},
  ): Promise<BatchAppended | undefined> {
    const {
      load = 'state',
      attempts = DECISIONS,
      aggregateType,
      correlationId,
      causationId,
      metadata,
      ...call
    } = options;
    for (let attempt = 1; ; attempt++) {
      const loaded = await this.#load<S>(aggregateId, load, aggregateType, call);
      const events = await decide(loaded);
      if (events === undefined || events.length === 0) return undefined;
      try {
        return await this.appendBatch(
          {
            aggregateId,
            events,
            expectedVersion: loaded.version,
            ...(aggregateType === undefined ? {} : { aggregateType }),
            ...(correlationId === undefined ? {} : { correlationId }),
            ...(causationId === undefined ? {} : { causationId }),
            ...(metadata === undefined ? {} : { metadata }),
          },
          call,
        );
      } catch (error) {
        if (attempt >= attempts || !isRefused(error, 'VERSION_CONFLICT')) throw error;
      }
    }
  }

  async #load<S>(
    aggregateId: string,
    load: 'state' | 'events',
    aggregateType: string | undefined,
    { signal, timeoutMs }: CallOptions,
  ): Promise<Loaded<S>> {
    const options = { signal, timeoutMs };
    if (load === 'state') {
      const type = aggregateType === undefined ? {} : { aggregateType };
      return { ...(await this.state<S>(aggregateId, { ...options, ...type })), events: [] };
    }
    const events: Event[] = [];
    for await (const event of this.events(aggregateId, {}, options)) events.push(event);
    return { version: events.at(-1)?.version ?? 0, state: undefined, events };
  }

  /** A producer of many events: see there. */
  producer(options: ProducerOptions = {}): Producer {
    return new Producer(this.transport, options);
  }

  /** The changes of a projection, for ever: see there. */
  subscribe<S = unknown>(projectionId: string, options: SubscribeOptions = {}): Subscription<S> {
    return new Subscription<S>(this.transport, projectionId, options);
  }
}

const EVENTS_PAGE = 1_000;

/** The aggregate type that the service infers from an id: the text before the first `-`, `_`, `:` or `/` where that is a name, else `default`. */
export function typeOf(aggregateId: string): string {
  const end = aggregateId.search(/[-_:/]/);
  const prefix = end > 0 ? aggregateId.slice(0, end) : '';
  return /^(?!\.{1,2}$)[A-Za-z0-9_.-]{1,128}$/.test(prefix) ? prefix : 'default';
}

function pathOf(path: string, parameters: Readonly<Record<string, string>> = {}): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = parameters[name];
    if (value === undefined || value === '') throw new TypeError(`the path ${path} needs ${name}`);
    return encodeURIComponent(value);
  });
}
