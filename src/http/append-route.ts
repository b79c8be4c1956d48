import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isoTimestamp, type AppendCommand, type AppendResult } from '../core/event.js';
import { StatefoldError } from '../core/errors.js';
import { uuidv7 } from '../core/ids.js';
import type { Tenant, Tenants } from '../tasks/tenant.js';
import { answerError, answerJson } from './answer.js';
import { parseAppendBody, type BodyLimits } from './append-body.js';
import type { Authenticator } from './auth.js';
import { readBody, requireJson } from './body.js';
import { eventJson } from './event-json.js';
import { JsonWriter } from './json-writer.js';
import { flagParameter, queryOf } from './query.js';
import type { RateLimiter } from './rate-limit.js';

export interface AppendRouteOptions {
  readonly authenticator: Pick<Authenticator, 'authenticate'>;
  readonly rateLimiter: RateLimiter;
  readonly tenants: Pick<Tenants, 'open' | 'active'>;
  readonly limits: BodyLimits & { readonly maxBodyBytes: number };
}

/** Answers `POST /events` and `POST /events/batch`; a rejection is for the caller to tell. */
export type AppendRoute = (request: IncomingMessage, response: ServerResponse, requestId: string, batch: boolean) => Promise<void>;

const EMPTY = Buffer.alloc(0);
const IDEMPOTENCY_KEY = /^[\x20-\x7e]{1,255}$/;
/** Most events that a conflict lists. */
const MAX_CONFLICTS = 1_000;

/**
 * The hot route, which express's router never sees: no middleware, one scan of the body, one write of the answer.
 */
export function appendRoute(options: AppendRouteOptions): AppendRoute {
  const { authenticator, rateLimiter, tenants, limits } = options;
  return async (request, response, requestId, batch) => {
    const { tenantId } = authenticator.authenticate(request);
    rateLimiter.take(tenantId);
    requireJson(request);
    const url = request.url ?? '';
    const includeConflicts = url.includes('?') && flagParameter(queryOf(url), 'includeConflicts');
    const key = idempotencyKey(request);
    const body = await readBody(request, limits.maxBodyBytes);
    const append = parseAppendBody(body, batch, limits);
    const command: AppendCommand = {
      commandId: key ?? uuidv7(),
      keyed: key !== undefined,
      requestHash: key === undefined ? EMPTY : createHash('sha256').update(batch ? 'POST /events/batch\n' : 'POST /events\n').update(body).digest(),
      aggregateId: append.aggregateId,
      aggregateType: append.aggregateType,
      expectedVersion: append.expectedVersion,
      correlationId: append.correlationId,
      causationId: append.causationId,
      metadata: append.metadata,
      events: append.events,
    };
    const tenant = tenants.active(tenantId) ?? (await tenants.open(tenantId));
    let result: AppendResult;
    try {
      result = await tenant.append(command);
    } catch (error) {
      if (!includeConflicts || !(error instanceof StatefoldError) || error.code !== 'VERSION_CONFLICT') throw error;
      const conflicts = await eventsSince(tenant, command);
      return answerError(response, error, requestId, { conflicts });
    }
    answerJson(response, 201, requestId, withState(batch ? batchHead(result) : singleHead(result), result));
  };
}

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

function idempotencyKey(request: IncomingMessage): string | undefined {
  const given = request.headers['idempotency-key'];
  if (given === undefined) return undefined;
  // Node joins a repeated header, which would make a key of its own of the two.
  const repeated = given.includes(',') && (request.headersDistinct['idempotency-key']?.length ?? 0) > 1;
  if (typeof given !== 'string' || repeated || !IDEMPOTENCY_KEY.test(given)) {
    throw new StatefoldError('INVALID_REQUEST', 'The header Idempotency-Key must be given once, with 1 to 255 printable ASCII characters.');
  }
  return given;
}

/** What was appended since the version that the client expected: the first of it where it is much. */
async function eventsSince(tenant: Tenant, { aggregateId, expectedVersion }: AppendCommand): Promise<Buffer> {
  if (expectedVersion === 'exists' || expectedVersion === 'any') return Buffer.from('[]');
  const after = expectedVersion === 'none' ? 0 : expectedVersion;
  const writer = new JsonWriter().text('[');
  try {
    const page = await tenant.listEvents({ aggregateId, fromVersion: after + 1, toVersion: undefined, limit: MAX_CONFLICTS, direction: 'forward' });
    writer.list(page.events, (event) => eventJson(writer, event));
  } catch (error) {
    // The client expected a version of an aggregate that isn't there.
    if (!(error instanceof StatefoldError) || error.code !== 'NOT_FOUND') throw error;
  }
  return writer.text(']').end();
}
