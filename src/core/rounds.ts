/** Of a round of the event loop, so much is for those who go on in it, and the slice of the last one, milliseconds. */
const ROUND_MS = 10;

/**
 * Work in slices that gave way to others, and goes on in a later round of the event loop: in the order in which it came, as much of
 * it in one round as there is time for. If each had its slice in every round, a round would last as long as all slices together,
 * and what is not sliced would wait for that.
 */
export class Rounds {
  readonly #now: () => number;
  readonly #roundMs: number;
  #waiting: (() => void)[] = [];
  /** Of those that waited when the round began, how many are left to it. */
  #left = 0;
  #until = 0;
  #scheduled = false;

  constructor(now: () => number = () => performance.now(), roundMs = ROUND_MS) {
    this.#now = now;
    this.#roundMs = roundMs;
  }

  /** Resolves in a later round. */
  next(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#scheduled || this.#waiting.length === 0) return;
    this.#scheduled = true;
    setImmediate(this.#begin);
  }

  readonly #begin = (): void => {
    this.#left = this.#waiting.length;
    this.#until = this.#now() + this.#roundMs;
    this.#one();
  };

  #one(): void {
    this.#left--;
    this.#waiting.shift()?.();
    // What goes on does so in microtasks, down to where it gives way again: a tick that is asked for in one comes behind all of them.
    queueMicrotask(() => process.nextTick(this.#behind));
  }

  readonly #behind = (): void => {
    if (this.#left > 0 && this.#now() < this.#until) return this.#one();
    this.#scheduled = false;
    this.#schedule();
  };
}

/** Of this process, which has one event loop. */
export const rounds = new Rounds();
