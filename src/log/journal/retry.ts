import { backOff, type BackOff } from '../../core/back-off.js';
import { InvariantError, StatefoldError } from '../../core/errors.js';
import type { Logger } from '../../core/logger.js';

/** Of what the log did not take, or did not answer. */
export const LOG_BACK_OFF_MS: BackOff = { first: 10, last: 1000 };

/** Failures of something that is tried again until it works: the first one is logged, and that it works again. */
export class Retries {
  readonly #logger: Logger;
  readonly #about: object;
  #failures = 0;

  /** `about`: what the lines of the log are about. */
  constructor(logger: Logger, about: object) {
    this.#logger = logger;
    this.#about = about;
  }

  get failures(): number {
    return this.#failures;
  }

  /** Milliseconds to wait before the next try; 0 when the last one worked. */
  get delay(): number {
    return this.#failures === 0 ? 0 : backOff(this.#failures - 1, LOG_BACK_OFF_MS);
  }

  failed(error: unknown, message: string): void {
    if (this.#failures++ === 0) this.#logger.warn({ ...this.#about, err: error }, message);
  }

  worked(message: string): void {
    if (this.#failures > 0) this.#logger.info({ ...this.#about, failures: this.#failures }, message);
    this.#failures = 0;
  }
}

/** Not a fault of the connection: trying again changes nothing. */
export const isFinal = (error: unknown): boolean => error instanceof InvariantError || error instanceof StatefoldError;

/** A question to the log had no answer: nothing was written, and what was read is folded. */
export class Unreachable extends StatefoldError {
  constructor(cause: unknown) {
    super('UNAVAILABLE', 'the log can not be reached now; send the request again', { cause });
  }
}

/** No claim was acknowledged in the attempts that it is worth. */
export class Unclaimed extends StatefoldError {
  constructor() {
    super('UNAVAILABLE', 'the log takes no writes now (is its disk full, or is it away?); send the request again', {
      retryAfterSeconds: 5,
    });
  }
}

/** @throws Unreachable for a fault of the connection */
export async function reached<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw isFinal(error) ? error : new Unreachable(error);
  }
}
