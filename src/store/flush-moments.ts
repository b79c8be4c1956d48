/** So many sections are written at one moment: each takes some 40 µs of the event loop, and all of a moment are one hold of it. */
const SECTIONS_PER_MOMENT = 64;
/** No section waits for more moments than that while others are written: what is not written takes memory, and is folded again after a crash. */
const MOMENTS_AHEAD = 16;

/**
 * When sections of the store are written: at the same moments, so that those of many tenants share a transaction and its fsync, and few at
 * each. A section that changes all the time is written the less often the more of them there are.
 */
export class FlushMoments {
  readonly #everyMs: number;
  /** The one that was given out last, in units of `everyMs`. */
  #moment = 0;
  /** How many have it. */
  #taken = 0;

  constructor(everyMs: number) {
    this.#everyMs = everyMs;
  }

  /** Takes a moment for one section; gives how long it is until then, milliseconds. */
  take(now = Math.floor(performance.now())): number {
    const next = Math.floor(now / this.#everyMs) + 1;
    if (this.#moment < next) this.#begin(next);
    // All ahead are taken: the first ones have a second round.
    else if (this.#taken >= SECTIONS_PER_MOMENT)
      this.#begin(this.#moment < next + MOMENTS_AHEAD - 1 ? this.#moment + 1 : next);
    this.#taken++;
    return this.#moment * this.#everyMs - now;
  }

  #begin(moment: number): void {
    this.#moment = moment;
    this.#taken = 0;
  }
}
