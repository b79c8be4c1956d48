import type { Logger } from '../core/logger.js';
import { within } from '../core/within.js';

interface Part {
  readonly name: string;
  readonly close: () => unknown;
}

/** What a service is made of, ended in the reverse order of its start. */
export class Shutdown {
  readonly #logger: Logger;
  readonly #deadlineMs: number;
  #parts: Part[] = [];
  #closing: Promise<void> | undefined;

  /** `deadlineMs`: for each part. */
  constructor(logger: Logger, deadlineMs: number) {
    this.#logger = logger;
    this.#deadlineMs = deadlineMs;
  }

  add(name: string, close: () => unknown): void {
    this.#parts.push({ name, close });
  }

  /**
   * Resolves when all parts have ended, or when one has not in its time: what rests on it is then left as a kill would leave
   * it, which loses nothing that was acknowledged. Never rejects.
   */
  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  async #close(): Promise<void> {
    for (const { name, close } of this.#parts.splice(0).reverse()) {
      try {
        if (
          (await within(
            Promise.resolve(close()).then(() => true),
            this.#deadlineMs,
          )) === true
        )
          continue;
        this.#logger.error(
          { part: name, deadlineMs: this.#deadlineMs },
          'a part did not end in time: the rest is left as a kill would leave it, and nothing that was acknowledged is lost',
        );
        return;
      } catch (error) {
        this.#logger.error({ err: error, part: name }, 'a part did not close cleanly');
      }
    }
  }
}
