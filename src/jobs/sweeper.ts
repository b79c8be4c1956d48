import type { Logger } from '../core/logger.js';
import { SLICE, StorePace, type PacedSection } from './sliced-job.js';
import { Steps, type SteppedWork } from './steps.js';

/** What is given up and not removed yet. */
export interface Sweepable {
  onAdded(listener: () => void): void;
  /** Removes the next rows, at most so many; false: nothing is left to remove. */
  removeSome(most: number): boolean;
}

export interface SweeperOptions {
  readonly drops: Sweepable;
  /** Its `room` rejects when it can't be written now. */
  readonly section: PacedSection;
  readonly rowsPerSlice?: number | undefined;
  readonly logger: Logger;
}

/** Removes what was given up in slices, beside all else, from wherever an earlier process left it. */
export class Sweeper implements SteppedWork {
  readonly #options: SweeperOptions;
  readonly #steps = new Steps(this);
  readonly #pace: StorePace;
  /** The store could not be written: what is removed would be held in memory, and waits until it can be. */
  #isFull = false;

  constructor(options: SweeperOptions) {
    this.#options = options;
    this.#pace = new StorePace(options.section);
    options.drops.onAdded(() => this.#steps.signal());
  }

  start(): void {
    this.#steps.start();
  }

  /** No further slice begins. */
  close(): void {
    this.#steps.close();
  }

  failed(error: unknown, again: boolean): void {
    this.#isFull = true;
    if (!again) this.#options.logger.warn({ err: error }, 'what was dropped could not be removed; trying again');
  }

  async step(): Promise<boolean> {
    if (this.#isFull) await this.#pace.next();
    this.#isFull = false;
    if (this.#steps.closed || !this.#options.drops.removeSome(this.#options.rowsPerSlice ?? SLICE.rows)) return false;
    await this.#pace.next();
    return true;
  }
}
