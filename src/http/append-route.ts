import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Scope } from '../core/scopes.js';
import { isoTimestamp, type AppendCommand, type AppendResult } from '../core/event.js';
import { eventLoop } from '../core/event-loop.js';
import { NotOwnerError, StatefoldError } from '../core/errors.js';
import { uuidv7 } from '../core/ids.js';
import type { Hold } from '../core/budget.js';
import { costOfBytes, type Turns } from '../core/turns.js';
import { partitionOf } from '../core/murmur2.js';
import { partitionKey } from '../core/slots.js';
import type { AggregateHome } from '../aggregates/aggregates.js';
import type { AggregateHomes } from '../tenancy/tenant.js';
import { answerError, answerJson } from './answer.js';
import { isIdempotencyKey, parseAppendBody, type AppendBody, type BodyLimits } from './append-body.js';
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

/** Answers `POST /events` and `POST /events/batch`; a rejection is for the caller to tell. */
export type AppendRoute = (
  request: IncomingMessage,
  response: ServerResponse,
  requestId: string,
  batch: boolean,
) => Promise<void>;

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
  const parsed = (body: Buffer, batch: boolean): AppendBody =>
    body.length > COUNTED_BYTES
      ? eventLoop.slice('bodies', () => parseAppendBody(body, batch, limits))
      : parseAppendBody(body, batch, limits);
  const readAppend = async (
    request: IncomingMessage,
    batch: boolean,
    tenantId: string,
  ): Promise<{ readonly body: Buffer; readonly append: AppendBody }> => {
    requireJson(request);
    const body = await readHeld(request, tenantId);
    try {
      return { body, append: parsed(body, batch) };
    } catch (error) {
      dues?.turned(request);
      throw error;
    }
  };
  return async (request, response, requestId, batch) => {
    const known = authenticator.find(request);
    const here = known !== undefined && !authenticator.isSuspended(known.tenantId);
    const principal = here ? known : await authenticator.admit(request, APPENDING);
    if (here) authenticator.permit(known, APPENDING);
    const { tenantId } = principal;
    const key = request.headers['idempotency-key'] === undefined ? undefined : idempotencyKey(request);
    const partitions = tenants.partitionsOf(tenantId);
    // Where the aggregate alone tells the owner, the body is read before one is looked for.
    const read = partitions === 1 ? undefined : await readAppend(request, batch, tenantId);
    const slotKey =
      read === undefined ? tenantId : partitionKey(tenantId, partitionOf(read.append.aggregateId, partitions));
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
    const includeConflicts = url.includes('?') && readIncludeConflicts(queryOf(url));
    // A conflict lists events with their data: who may append only is not told them.
    if (includeConflicts) authenticator.permit(principal, READING);
    // An append that was on its way to another process may have been stored there.
    const remembered = key ?? asked?.commandId ?? forwardedCommandId(request);
    requests.take(tenantId);
    let body: Buffer | undefined = read?.body ?? asked?.body;
    let append: AppendBody;
    try {
      body ??= await readHeld(request, tenantId);
      append = read?.append ?? parsed(body, batch);
      events.take(tenantId, append.events.length);
    } catch (error) {
      dues?.counted(request);
      if (body !== undefined) dues?.turned(request);
      throw error;
    }
    const command: AppendCommand = {
      commandId: remembered ?? uuidv7(),
      keyed: remembered !== undefined,
      requestHash:
        remembered === undefined
          ? EMPTY
          : createHash('sha256')
              .update(batch ? 'POST /events/batch\n' : 'POST /events\n')
              .update(body)
              .digest(),
      aggregateId: append.aggregateId,
      aggregateType: append.aggregateType,
      expectedVersion: append.expectedVersion,
      correlationId: append.correlationId,
      causationId: append.causationId,
      metadata: append.metadata,
      events: append.events,
    };
    let tenant: AggregateHome | undefined;
    let result: AppendResult;
    try {
      const home = tenants.home(tenantId, append.aggregateId);
      tenant = home instanceof Promise ? await home : home;
      result = await tenant.append(command);
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
        !(error instanceof StatefoldError) ||
        error.code !== 'VERSION_CONFLICT'
      )
        throw error;
      const held = RequestMemory.begin(request, tenantId, memory);
      await held.pageOf(response);
      const conflicts = await eventsSince(tenant, command);
      held.answer(response, conflicts.length);
      return answerError(response, error, requestId, { conflicts });
    }
    const head = batch ? batchHead(result) : singleHead(result);
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

/** Of a turn: what an append costs that goes to another process, as far as its head tells. */
function costOf(request: IncomingMessage): number {
  const length = declaredLength(request);
  return 1 + (Number.isNaN(length) ? 1 : costOfBytes(length));
}

/** The header of a 201 that tells where in the feed its last event is. */
const POSITION = 'Statefold-Position';
const positionHeader = ({ position }: AppendResult): readonly string[] | undefined =>
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
async function eventsSince(tenant: AggregateHome, { aggregateId, expectedVersion }: AppendCommand): Promise<Buffer> {
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

function readIncludeConflicts(query: URLSearchParams): boolean {
  onlyParameters(query, Object.keys(APPEND_QUERY));
  return readQuery(query, APPEND_QUERY).includeConflicts;
}
