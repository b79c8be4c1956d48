/** Every code that an answer of the service can carry. `docs/reference/errors.md` documents each; a test compares the two. */
export const ERROR_CODES = [
  'ALREADY_EXISTS',
  'AGGREGATE_TYPE_MISMATCH',
  'ARTEFACT_FAULTED',
  'BUILD_UNDER_WAY',
  'CROSS_PARTITION',
  'CURSOR_EXPIRED',
  'FAULT_MISMATCH',
  'FAULT_WITHOUT_KEY',
  'FORBIDDEN',
  'GONE',
  'IDEMPOTENCY_KEY_REUSED',
  'INSPECTION_DEADLINE',
  'INTERNAL',
  'INVALID_ARCHIVE',
  'INVALID_REQUEST',
  'METHOD_NOT_ALLOWED',
  'NO_BUILD',
  'NO_EARLIER_REVISION',
  'NO_REBUILD',
  'NO_REDUCER_BOUND',
  'NOT_CAUGHT_UP',
  'NOT_FAULTED',
  'NOT_FOUND',
  'PAYLOAD_TOO_LARGE',
  'PROJECTION_NOT_LIVE',
  'QUOTA_EXCEEDED',
  'RATE_LIMITED',
  'READ_STORE_DISABLED',
  'REBUILD_NOT_CANCELLABLE',
  'REDUCER_BOUND',
  'REDUCER_CLASS_AMBIGUOUS',
  'REDUCER_CLASS_NOT_FOUND',
  'REDUCER_NOT_COMPILED',
  'REVISION_NOT_COMPILED',
  'SCHEMA_VIOLATION',
  'SQL_NOT_ISOLATED',
  'SQL_REFUSED',
  'SSE_DISABLED',
  'TENANT_NOT_EMPTY',
  'TENANT_SUSPENDED',
  'UNAUTHENTICATED',
  'UNAVAILABLE',
  'UNSUPPORTED_MEDIA_TYPE',
  'VERSION_CONFLICT',
  'WEBHOOK_NOT_CONFIGURED',
  'WEBHOOK_SECRET_SHARED',
  'WEBHOOK_URL_REFUSED',
] as const;

export type ErrorCode = (typeof ERROR_CODES)[number];

/** The same request may succeed a second later, unchanged, wherever one of these is answered. */
const RETRYABLE: ReadonlySet<ErrorCode> = new Set(['UNAVAILABLE', 'RATE_LIMITED', 'NOT_CAUGHT_UP']);

/** A fault in one place of a request body: `pointer` is an RFC 6901 JSON pointer. */
export interface FieldError {
  readonly pointer: string;
  readonly message: string;
}

export interface StatefoldErrorOptions {
  readonly cause?: unknown;
  readonly errors?: readonly FieldError[];
  /** Further members of the problem document, e.g. `currentVersion`. */
  readonly details?: Readonly<Record<string, unknown>>;
  readonly retryAfterSeconds?: number;
  /** Further headers of the answer. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** The one error base. The HTTP status is chosen at the edge (`src/http/problem.ts`), from the code alone. */
export class StatefoldError extends Error {
  readonly code: ErrorCode;
  /** The same request may succeed later, unchanged. */
  readonly retryable: boolean;
  readonly errors: readonly FieldError[] | undefined;
  readonly details: Readonly<Record<string, unknown>> | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly headers: Readonly<Record<string, string>> | undefined;

  constructor(code: ErrorCode, message: string, options: StatefoldErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'StatefoldError';
    this.code = code;
    this.retryable = RETRYABLE.has(code);
    this.errors = options.errors;
    this.details = options.details;
    this.retryAfterSeconds = options.retryAfterSeconds;
    this.headers = options.headers;
  }
}

/** It is an error of the service with one of the codes. */
export const hasCode = (error: unknown, ...codes: readonly ErrorCode[]): error is StatefoldError =>
  error instanceof StatefoldError && codes.includes(error.code);

/** It is of one event of what was asked for, whatever its code says: others may be stored without it. */
export class OfOneEventError extends StatefoldError {}

/**
 * This process does not own what was asked for, or does not any more: nothing of the request was stored, nor will be. It is
 * another process that answers it now.
 */
export class NotOwnerError extends StatefoldError {
  constructor(
    message = 'another process owns the tenant now; send the request again',
    options: StatefoldErrorOptions = {},
  ) {
    super('UNAVAILABLE', message, options);
  }
}

/** The owner of the service has suspended the tenant: nothing of it is served, folded or sent until that is taken back. */
export class TenantSuspendedError extends StatefoldError {
  constructor(importing = false) {
    super(
      'TENANT_SUSPENDED',
      importing
        ? 'Events are being imported into the tenant: it is served when that has ended. Where an import was broken off, repeat it.'
        : 'The tenant is suspended: nothing of it is served, folded or sent until the owner of the service takes that back.',
    );
  }
}

/** An invariant of the service itself is broken: the process must not go on with what it believes. */
export class InvariantError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'InvariantError';
  }
}
