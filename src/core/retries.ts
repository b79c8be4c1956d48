import { backOff, type BackOff } from './back-off.js';
import type { Logger } from './logger.js';

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
