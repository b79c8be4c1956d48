import type { BulkLine, Problem } from './wire.js';

/** Codes of refusals: `docs/reference/errors.md` of the service has each. */
export type ErrorCode = Problem['code'];

/** What every error of this package has. `retryable`: the same call may succeed later, unchanged. */
abstract class ClientFailure extends Error {
  abstract readonly kind: string;
  readonly retryable: boolean;

  constructor(message: string, { retryable, cause }: { readonly retryable: boolean; readonly cause?: unknown }) {
    super(message, cause === undefined ? undefined : { cause });
    this.retryable = retryable;
  }
}

/** The service refused the request: nothing of it was done, unless `problem.code` is `UNAVAILABLE` or `INTERNAL`, where it may have been. */
export class RefusedError extends ClientFailure {
  override readonly name = 'RefusedError';
  readonly kind = 'refused';
  readonly status: number;
  readonly code: ErrorCode;
  readonly problem: Problem;
  /** Seconds that the service asks to wait; undefined: it didn't say. */
  readonly retryAfterSeconds: number | undefined;

  constructor(problem: Problem, retryAfterSeconds?: number) {
    super(problem.detail, { retryable: problem.retryable === true });
    this.status = problem.status;
    this.code = problem.code;
    this.problem = problem;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** No answer came: nobody listens there, or the connection broke. Whether the request was done is not known. */
export class UnreachableError extends ClientFailure {
  override readonly name = 'UnreachableError';
  readonly kind = 'unreachable';
  constructor(url: string, cause: unknown) {
    super(`${url} cannot be reached: ${reasonOf(cause)}`, { retryable: true, cause });
  }
}

/** The answer took longer than it may. Whether the request was done is not known. */
export class TimeoutError extends ClientFailure {
  override readonly name = 'TimeoutError';
  readonly kind = 'timeout';
  /** `goesOn`: the time is between two pieces of the answer. */
  constructor(url: string, milliseconds: number, { goesOn = false }: { readonly goesOn?: boolean } = {}) {
    super(`${url} ${goesOn ? 'sent nothing of its answer for' : 'did not answer within'} ${milliseconds} ms`, {
      retryable: true,
    });
  }
}

/** What answered does not speak as the service does: most likely another one, or something between. */
export class UnexpectedAnswerError extends ClientFailure {
  override readonly name = 'UnexpectedAnswerError';
  readonly kind = 'unexpected';
  readonly status: number;
  /** Seconds that it asks to wait; undefined: it didn't say. */
  readonly retryAfterSeconds: number | undefined;
  constructor(url: string, status: number, what: string, retryAfterSeconds?: number) {
    super(`${url} answered ${status} with ${what}: is it a Statefold service?`, {
      retryable: status >= 500 || status === 429,
    });
    this.status = status;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** The producer was closed before the event was stored. */
export class ClosedError extends ClientFailure {
  override readonly name = 'ClosedError';
  readonly kind = 'closed';
  constructor(message: string) {
    super(message, { retryable: false });
  }
}

/** An event of a producer that is not known to be stored, with the idempotency key that it was sent with: sent again with it, it is stored once. */
export interface NotStored {
  readonly event: BulkLine;
  /** A `ClientError`, or the reason of the producer's signal. */
  readonly error: unknown;
}

/** Events of a producer are not known to be stored: refused, given up after an outage, or called off. */
export class NotStoredError extends ClientFailure {
  override readonly name = 'NotStoredError';
  readonly kind = 'not-stored';
  /** In the order in which they failed; of more than 1,000 the first. */
  readonly failures: readonly NotStored[];
  /** Of all. */
  readonly count: number;
  constructor(failures: readonly NotStored[], count: number) {
    const [first] = failures;
    super(
      `${count} ${count === 1 ? 'event is' : 'events are'} not known to be stored; the first: ${reasonOf(first?.error)}`,
      {
        retryable: false,
        cause: first?.error,
      },
    );
    this.failures = failures;
    this.count = count;
  }
}

/** A webhook that was not signed with the secret, or not now. */
export class WebhookError extends ClientFailure {
  override readonly name = 'WebhookError';
  readonly kind = 'webhook';
  constructor(message: string) {
    super(message, { retryable: false });
  }
}

/** Every error of this package, told apart by `kind`. An aborted call rejects with the reason of its signal. */
export type ClientError =
  RefusedError | UnreachableError | TimeoutError | UnexpectedAnswerError | ClosedError | NotStoredError | WebhookError;

export const isClientError = (error: unknown): error is ClientError => error instanceof ClientFailure;

/** Seconds that whoever answered asks to wait; undefined: it didn't say. */
export const retryAfterOf = (error: unknown): number | undefined =>
  error instanceof RefusedError || error instanceof UnexpectedAnswerError ? error.retryAfterSeconds : undefined;

/** The service refused with one of these codes. */
export const isRefused = <C extends ErrorCode>(
  error: unknown,
  ...codes: readonly C[]
): error is RefusedError & { readonly code: C } =>
  error instanceof RefusedError && (codes as readonly string[]).includes(error.code);

function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  if (!(cause instanceof Error)) return String(cause);
  const { code } = cause as { readonly code?: unknown };
  return cause.message !== '' ? cause.message : typeof code === 'string' ? code : cause.name;
}
