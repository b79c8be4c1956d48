import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Scope } from '../core/scopes.js';
import {
  isoTimestamp,
  type AppendCommand,
  type AppendResult,
  type TransactedAppend,
  type TransactionResult,
} from '../core/event.js';
import { eventLoop } from '../core/event-loop.js';
import { NotOwnerError, StatefoldError } from '../core/errors.js';
import { uuidv7 } from '../core/ids.js';
import { tracing } from '../core/tracing.js';
import type { Hold } from '../core/budget.js';
import { costOfBytes, type Turns } from '../core/turns.js';
import { partitionOf } from '../core/murmur2.js';
import { partitionKey } from '../core/slots.js';
import type { AggregateHome } from '../aggregates/aggregates.js';
import type { AggregateHomes } from '../tenancy/tenant.js';
import { answerError, answerJson } from './answer.js';
import {
  isIdempotencyKey,
  parseAppendBody,
  parseTransactionBody,
  type AppendBody,
  type BodyLimits,
  type TransactionBody,
} from './append-body.js';
import type { Authenticator } from './auth.js';
import { declaredLength, readBody, requireJson } from './body.js';
import type { Dues } from './dues.js';
import { eventJson } from './event-json.js';
import type { ForwardedRequest, Gateway } from './gateway/gateway.js';
import { forwardedCommandId, isForwarded, NOT_OWNER } from './gateway/headers.js';
import { JsonWriter } from './json-writer.js';
import { flag, onlyParameters, queryOf, readQuery } from './parameters.js';
import type { Pace } from './pace.js';
import { COUNTED_BYTES, RequestMemory, UNBOUNDED_REQUESTS, type MemoryOfRequests } from './request-memory.js';

export interface AppendRouteOptions {
  readonly authenticator: Pick<Authenticator, 'find' | 'isSuspended' | 'permit' | 'admit'>;
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

/** Whose body it is: that of `POST /events`, of `POST /events/batch` or of `POST /events/transaction`. */
export type AppendForm = 'single' | 'batch' | 'transaction';

/** Answers them; a rejection is for the caller to tell. */
export type AppendRoute = (
  request: IncomingMessage,
  response: ServerResponse,
  requestId: string,
  form: AppendForm,
) => Promise<void>;

const PATHS: Readonly<Record<AppendForm, string>> = {
  single: 'POST /events\n',
  batch: 'POST /events/batch\n',
  transaction: 'POST /events/transaction\n',
};

const FORWARDED = { repeatable: true, whole: true, lasting: false } as const;
/** What a key must allow who appends. */
export const APPENDING = 'append' satisfies Scope;
/** And what besides, to be told what others appended. */
const READING = 'read' satisfies Scope;
const EMPTY = Buffer.alloc(0);
/** Most events that a conflict lists. */
const MAX_CONFLICTS = 1_000;

/**
 * The hot route, which express's router never sees: no middleware, one scan of the body, one write of the answer.
 *
 * Where another process owns the tenant the append goes there, with an id under which its answer is remembered: the client's
 * key, else one of ours. So it can be sent to one owner after the other until one answers, and is stored once.
 */
export function appendRoute(options: AppendRouteOptions): AppendRoute {
  const { authenticator, requests, events, turns, dues, tenants, gateway, limits } = options;
  const { memory = UNBOUNDED_REQUESTS } = options;
  /**
   * The body, on the turn on which it may be parsed: what many bodies cost that arrive together is known when they are there, and not
   * when their heads were. One that is long, or may be, is held of the tenant's budget until then, and so is each that waits; then
   * the writer holds what it says.
   */
  const readHeld = async (request: IncomingMessage, tenantId: string): Promise<Buffer> => {
    const length = declaredLength(request);
    if (length > limits.maxBodyBytes) return readBody(request, limits.maxBodyBytes);
    let hold: Hold | undefined;
    const held = (bytes: number): void => {
      hold ??= memory.budget.tenant(tenantId).hold('appends');
      if (hold.bytes === 0) hold.take(bytes);
      else hold.set(bytes);
    };
    try {
      if (!(length <= COUNTED_BYTES)) held(Number.isNaN(length) ? limits.maxBodyBytes : length);
      const body = await readBody(request, limits.maxBodyBytes);
      const turn = turns?.enter(tenantId, 1 + costOfBytes(body.length));
      if (turn === undefined) return body;
      held(body.length);
      await turn;
      return body;
    } finally {
      hold?.close();
    }
  };
  /** Until the turn of a short body that is there. */
  const onTurn = async (turn: Promise<void>, bytes: number, tenantId: string): Promise<void> => {
    const hold = memory.budget.tenant(tenantId).hold('appends');
    try {
      hold.take(bytes);
      await turn;
    } finally {
      hold.close();
    }
  };
  const parse = (body: Buffer, form: AppendForm): AppendBody | TransactionBody =>
    form === 'transaction' ? parseTransactionBody(body, limits) : parseAppendBody(body, form === 'batch', limits);
  const parsed = (body: Buffer, form: AppendForm): AppendBody | TransactionBody =>
    body.length > COUNTED_BYTES ? eventLoop.slice('bodies', () => parse(body, form)) : parse(body, form);
  const readAppend = async (
    request: IncomingMessage,
    form: AppendForm,
    tenantId: string,
  ): Promise<{ readonly body: Buffer; readonly append: AppendBody | TransactionBody }> => {
    requireJson(request);
    const body = await readHeld(request, tenantId);
    try {
      return { body, append: parsed(body, form) };
    } catch (error) {
      dues?.turned(request);
      throw error;
    }
  };
  return async (request, response, requestId, form) => {
    const known = authenticator.find(request);
    const here = known !== undefined && !authenticator.isSuspended(known.tenantId);
    const principal = here ? known : await authenticator.admit(request, APPENDING);
    if (here) authenticator.permit(known, APPENDING);
    const { tenantId } = principal;
    tracing.tracer?.current?.set({ 'statefold.tenant': tenantId });
    const key = request.headers['idempotency-key'] === undefined ? undefined : idempotencyKey(request);
    const partitions = tenants.partitionsOf(tenantId);
    // Where the aggregate alone tells the owner, the body is read before one is looked for.
    const read = partitions === 1 ? undefined : await readAppend(request, form, tenantId);
    const slotKey =
      read === undefined ? tenantId : partitionKey(tenantId, partitionOf(aggregateOf(read.append), partitions));
    let asked: ForwardedRequest | undefined;
    if (!gateway.serves(slotKey)) {
      // What is parsed here has had its turn.
      if (read === undefined) await turns?.enter(tenantId, costOf(request));
      asked = {
        ...FORWARDED,
        slotKey,
        requestId,
        bodyLimit: limits.maxBodyBytes,
        body: read?.body,
        commandId: key === undefined ? uuidv7() : undefined,
      };
      if (await gateway.forward(request, response, asked)) return;
    }
    requireJson(request);
    const url = request.url ?? '';
    const includeConflicts = url.includes('?') && readIncludeConflicts(queryOf(url), form);
    // A conflict lists events with their data: who may append only is not told them.
    if (includeConflicts) authenticator.permit(principal, READING);
    // An append that was on its way to another process may have been stored there.
    const remembered = key ?? asked?.commandId ?? forwardedCommandId(request);
    requests.take(tenantId);
    let body: Buffer | undefined = read?.body ?? asked?.body;
    let append: AppendBody | TransactionBody;
    try {
      if (body === undefined && declaredLength(request) <= COUNTED_BYTES) {
        // As with nearly all appends: nothing is held, and no frame made, where its turn has come.
        body = await readBody(request, limits.maxBodyBytes);
        const turn = turns?.enter(tenantId, 1 + costOfBytes(body.length));
        if (turn !== undefined) await onTurn(turn, body.length, tenantId);
      }
      body ??= await readHeld(request, tenantId);
      append = read?.append ?? parsed(body, form);
      if (partitions > 1 && 'appends' in append) requireOnePartition(append, partitions);
      events.take(tenantId, eventsOf(append));
    } catch (error) {
      dues?.counted(request);
      if (body !== undefined) dues?.turned(request);
      throw error;
    }
    const command: Named = {
      commandId: remembered ?? uuidv7(),
      keyed: remembered !== undefined,
      requestHash: remembered === undefined ? EMPTY : createHash('sha256').update(PATHS[form]).update(body).digest(),
    };
    let tenant: AggregateHome | undefined;
    let result: AppendResult | TransactionResult;
    try {
      const home = tenants.home(tenantId, aggregateOf(append));
      tenant = home instanceof Promise ? await home : home;
      result = await ('appends' in append
        ? tenant.transact({ ...command, ...append })
        : tenant.append(commandOf(command, append, form)));
    } catch (error) {
      dues?.counted(request);
      dues?.turned(request);
      // Not stored here, or known by its id wherever it is sent again.
      const definite = tenant === undefined || error instanceof NotOwnerError;
      if (isForwarded(request)) {
        if (error instanceof NotOwnerError) response.setHeader(NOT_OWNER, '1');
      } else if ((definite || command.keyed) && (await gateway.movedAway(slotKey, error))) {
        if (
          await gateway.forward(request, response, {
            ...FORWARDED,
            slotKey,
            requestId,
            bodyLimit: undefined,
            body,
            commandId: key === undefined ? command.commandId : undefined,
          })
        )
          return;
      }
      if (
        tenant === undefined ||
        !includeConflicts ||
        'appends' in append ||
        !(error instanceof StatefoldError) ||
        error.code !== 'VERSION_CONFLICT'
      )
        throw error;
      const held = RequestMemory.begin(request, tenantId, memory);
      await held.pageOf(response);
      const conflicts = await eventsSince(tenant, append);
      held.answer(response, conflicts.length);
      return answerError(response, error, requestId, { conflicts });
    }
    if ('appends' in result) {
      let answer = transactionAnswer(result);
      // As of a single state: the transaction is stored, and must be answered so.
      if (answer.length > COUNTED_BYTES && !RequestMemory.begin(request, tenantId, memory).takes(answer.length))
        answer = transactionAnswer({ ...result, appends: result.appends.map(withoutState) });
      return answerJson(response, 201, requestId, answer, positionHeader(result));
    }
    const head = form === 'batch' ? batchHead(result) : singleHead(result);
    const length = head.length + (result.state?.length ?? 0);
    if (length > COUNTED_BYTES) {
      const held = RequestMemory.begin(request, tenantId, memory);
      // A state for which there is no room now is left out: the append is stored, and must be answered so.
      if (result.state !== undefined && !held.takes(length)) {
        const { state: _, ...stored } = result;
        result = { ...stored, stateStatus: 'unavailable' };
      }
    }
    answerJson(response, 201, requestId, withState(head, result), positionHeader(result));
  };
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
const aggregateOf = (append: AppendBody | TransactionBody): string =>
  'appends' in append ? (append.appends[0]?.aggregateId ?? '') : append.aggregateId;

const eventsOf = (append: AppendBody | TransactionBody): number =>
  'appends' in append ? append.appends.reduce((sum, { events }) => sum + events.length, 0) : append.events.length;

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

/** The header of a 201 that tells where in the feed its last event is. */
const POSITION = 'Statefold-Position';
const positionHeader = ({ position }: Pick<AppendResult, 'position'>): readonly string[] | undefined =>
  position === undefined ? undefined : [POSITION, String(position)];

const singleHead = (result: AppendResult): string =>
  `{"eventId":"${result.eventIds[0] ?? ''}","aggregateId":${JSON.stringify(result.aggregateId)},"aggregateType":"${result.aggregateType}",` +
  `"version":${result.endVersion},"timestamp":"${isoTimestamp(result.timestamp)}"`;

const batchHead = (result: AppendResult): string =>
  `{"aggregateId":${JSON.stringify(result.aggregateId)},"aggregateType":"${result.aggregateType}","startVersion":${result.startVersion},` +
  `"endVersion":${result.endVersion},"eventIds":["${result.eventIds.join('","')}"],"timestamp":"${isoTimestamp(result.timestamp)}"`;

/** The answer in one piece: the state's bytes go in as they are. */
function withState(head: string, { state, stateStatus }: AppendResult): Buffer | string {
  if (stateStatus !== undefined) return `${head},"stateStatus":"${stateStatus}"}`;
  if (state === undefined) return `${head}}`;
  const start = `${head},"state":`;
  const length = Buffer.byteLength(start);
  const answer = Buffer.allocUnsafe(length + state.length + 1);
  answer.write(start);
  state.copy(answer, length);
  answer[length + state.length] = 0x7d;
  return answer;
}

const withoutState = ({ state, ...stored }: TransactedAppend): TransactedAppend =>
  state === undefined ? stored : { ...stored, stateStatus: 'unavailable' };

function transactionAnswer({ position, timestamp, appends }: TransactionResult): Buffer {
  const writer = new JsonWriter()
    .text('{')
    .text(position === undefined ? '' : `"position":${position},`)
    .text(`"timestamp":"${isoTimestamp(timestamp)}","appends":[`);
  writer.list(appends, ({ aggregateId, aggregateType, startVersion, endVersion, eventIds, state, stateStatus }) => {
    writer.text(
      `{"aggregateId":${JSON.stringify(aggregateId)},"aggregateType":"${aggregateType}","startVersion":${startVersion},` +
        `"endVersion":${endVersion},"eventIds":["${eventIds.join('","')}"]`,
    );
    if (stateStatus !== undefined) writer.member('stateStatus', stateStatus);
    else if (state !== undefined) writer.raw('state', state);
    writer.text('}');
  });
  return writer.text(']}').end();
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

/** What was appended since the version that the client expected: the first of it where it is much. */
async function eventsSince(tenant: AggregateHome, { aggregateId, expectedVersion }: AppendBody): Promise<Buffer> {
  if (expectedVersion === 'exists' || expectedVersion === 'any') return Buffer.from('[]');
  const after = expectedVersion === 'none' ? 0 : expectedVersion;
  const writer = new JsonWriter().text('[');
  try {
    const page = await tenant.events({
      aggregateId,
      fromVersion: after + 1,
      toVersion: undefined,
      limit: MAX_CONFLICTS,
      direction: 'forward',
    });
    writer.list(page.events, (event) => eventJson(writer, event));
  } catch (error) {
    // The client expected a version of an aggregate that isn't there.
    if (!(error instanceof StatefoldError) || error.code !== 'NOT_FOUND') throw error;
  }
  return writer.text(']').end();
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
