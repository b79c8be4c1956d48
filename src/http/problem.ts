import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { StatefoldError, type ErrorCode, type FieldError } from '../core/errors.js';
import { JsonError } from '../core/json-scanner.js';

/** Status and title of each code: the only place where a status is chosen. */
const PROBLEMS: Readonly<Record<ErrorCode, readonly [status: number, title: string]>> = {
  ALREADY_EXISTS: [409, 'Already exists'],
  AGGREGATE_TYPE_MISMATCH: [409, 'The aggregate has another type'],
  ARTEFACT_FAULTED: [409, 'The code is not run any more'],
  BUILD_UNDER_WAY: [409, 'A build is under way'],
  CROSS_PARTITION: [422, 'The aggregates lie in several partitions'],
  CURSOR_EXPIRED: [410, 'The cursor has expired'],
  FAULT_MISMATCH: [409, 'Another fault stopped it'],
  FAULT_WITHOUT_KEY: [422, 'The fault has no key'],
  FORBIDDEN: [403, 'Not allowed'],
  GONE: [410, 'Gone'],
  IDEMPOTENCY_KEY_REUSED: [409, 'The idempotency key was used for another request'],
  INSPECTION_DEADLINE: [503, 'The history could not be folded in time'],
  INTERNAL: [500, 'Internal error'],
  INVALID_ARCHIVE: [400, 'The archive is refused'],
  INVALID_REQUEST: [400, 'The request is invalid'],
  METHOD_NOT_ALLOWED: [405, 'Method not allowed'],
  NO_BUILD: [409, 'No build can be called off'],
  NO_EARLIER_REVISION: [409, 'There is no earlier revision'],
  NO_REBUILD: [409, 'No rebuild is under way'],
  NO_REDUCER_BOUND: [404, 'No reducer is bound'],
  NOT_CAUGHT_UP: [503, 'Not caught up yet'],
  NOT_FAULTED: [409, 'No fault stops it'],
  NOT_FOUND: [404, 'Not found'],
  PAYLOAD_TOO_LARGE: [413, 'The body is too large'],
  PROJECTION_NOT_LIVE: [409, 'No revision is live yet'],
  QUOTA_EXCEEDED: [507, 'The quota is used up'],
  RATE_LIMITED: [429, 'Too many requests'],
  READ_STORE_DISABLED: [501, 'The service keeps no read store'],
  REBUILD_NOT_CANCELLABLE: [409, 'The rebuild can not be cancelled'],
  REDUCER_BOUND: [409, 'The reducer is bound'],
  REDUCER_CLASS_AMBIGUOUS: [422, 'Several reducer classes match'],
  REDUCER_CLASS_NOT_FOUND: [422, 'No reducer class matches'],
  REDUCER_NOT_COMPILED: [422, 'The reducer is not compiled'],
  REVISION_NOT_COMPILED: [422, 'The revision is not compiled'],
  SCHEMA_VIOLATION: [422, 'The event does not fit the schema of its type'],
  SQL_NOT_ISOLATED: [501, 'SQL of tenants can not be held apart here'],
  SQL_REFUSED: [400, 'ClickHouse refuses the statement'],
  SSE_DISABLED: [404, 'Server-sent events are off'],
  TENANT_NOT_EMPTY: [409, 'The tenant is not empty'],
  TENANT_SUSPENDED: [403, 'The tenant is suspended'],
  UNAUTHENTICATED: [401, 'Not authenticated'],
  UNAVAILABLE: [503, 'Temporarily unavailable'],
  UNSUPPORTED_MEDIA_TYPE: [415, 'Unsupported media type'],
  VERSION_CONFLICT: [409, 'The aggregate is at another version'],
  WEBHOOK_NOT_CONFIGURED: [400, 'The projection has no webhook'],
  WEBHOOK_SECRET_SHARED: [400, 'The projection uses the shared webhook secret'],
  WEBHOOK_URL_REFUSED: [400, 'The webhook URL is refused'],
};

/** An answer that tells an error: `application/problem+json` (RFC 9457). */
export interface Problem {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

export const PROBLEM_TYPE = 'application/problem+json';

export const statusOf = (code: ErrorCode): number => PROBLEMS[code][0];

/** Anything thrown, as an error that may be told: what isn't known keeps its detail to itself. */
export function knownError(thrown: unknown): StatefoldError {
  if (thrown instanceof StatefoldError) return thrown;
  if (thrown instanceof JsonError) {
    return new StatefoldError('INVALID_REQUEST', `The body is not valid JSON: ${thrown.message}.`, { cause: thrown });
  }
  return new StatefoldError(
    'INTERNAL',
    'The service failed to handle the request; its log has the details under the requestId.',
    { cause: thrown },
  );
}

/** So many places are told, and so many characters of each. */
export const MAX_ERRORS = 20;
const MAX_ERROR_CHARACTERS = 1_000;

export const shortened = (text: string): string =>
  text.length <= MAX_ERROR_CHARACTERS ? text : `${text.slice(0, MAX_ERROR_CHARACTERS)}…`;

/** The first of them, and how many more there are. `count`: of all; unless given there are no others. */
export function toldErrors(errors: readonly FieldError[], count = errors.length): readonly FieldError[] {
  const told = errors
    .slice(0, MAX_ERRORS)
    .map(({ pointer, message }) => ({ pointer: shortened(pointer), message: shortened(message) }));
  const more = count - told.length;
  // Who looks for them may have stopped before the end.
  return more === 0
    ? told
    : [...told, { pointer: '', message: `has at least ${more} more faults, which are not told` }];
}

/** `raw`: further members whose values are JSON text already. */
export function problemOf(error: StatefoldError, requestId: string, raw?: Readonly<Record<string, Buffer>>): Problem {
  const [status, title] = PROBLEMS[error.code];
  const document = JSON.stringify({
    type: `/problems/${error.code.toLowerCase().replaceAll('_', '-')}`,
    title,
    status,
    detail: error.message,
    code: error.code,
    requestId,
    ...(error.retryable ? { retryable: true } : {}),
    ...(error.errors === undefined ? {} : { errors: toldErrors(error.errors) }),
    ...error.details,
  });
  let body = Buffer.from(document);
  for (const [name, value] of Object.entries(raw ?? {})) {
    body = Buffer.concat([body.subarray(0, -1), Buffer.from(`,${JSON.stringify(name)}:`), value, Buffer.from('}')]);
  }
  const headers: Record<string, string> = {
    'Content-Type': PROBLEM_TYPE,
    'X-Request-Id': requestId,
    ...error.headers,
  };
  if (error.code === 'UNAUTHENTICATED') headers['WWW-Authenticate'] = 'ApiKey realm="statefold"';
  const retryAfter = error.retryAfterSeconds ?? (error.retryable ? 1 : undefined);
  if (retryAfter !== undefined) headers['Retry-After'] = String(Math.max(1, Math.ceil(retryAfter)));
  return { status, headers, body };
}

/** Answers an upgrade request with an error, as HTTP, and ends the connection. */
export function refuseUpgrade(
  socket: Duplex,
  thrown: unknown,
  requestId: string,
  further: Readonly<Record<string, string>> = {},
): void {
  const { status, headers, body } = problemOf(knownError(thrown), requestId);
  const lines = Object.entries({
    ...headers,
    ...further,
    'Content-Length': String(body.length),
    Connection: 'close',
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.on('error', () => socket.destroy());
  // A client that never ends its side would keep the socket.
  socket.once('finish', () => socket.destroy());
  socket.end(
    Buffer.concat([Buffer.from(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines.join('')}\r\n`), body]),
  );
}
