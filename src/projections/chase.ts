/** So many batches lie between two looks. */
const BATCHES_PER_LOOK = 16;
/** It comes too near to the pace of the build when it grows by this part of what the build took meanwhile; */
const TOO_FAST = 3 / 4;
/** below this one half the pace would do. */
const SLOW = 1 / 4;
/** By then a batch is about what it is without clients. Builds of one tenant share it: many of them are slow because they are many. */
const MOST_TIMES = 8;

/** How much more than usual a build takes at a time, so that it comes to the end of what grows while it is built. */
export class Chase {
  #times = 1;
  #batches = 0;
  #from: { readonly position: number; readonly end: number } | undefined;

  /** Whole; for one of so many builds of a tenant. */
  timesOf(builds: number): number {
    return Math.max(1, Math.min(this.#times, Math.floor(MOST_TIMES / builds)));
  }

  /** A batch is done; there is more up to the end. */
  took(position: number, end: number): void {
    const from = (this.#from ??= { position, end });
    if (++this.#batches % BATCHES_PER_LOOK !== 0) return;
    const taken = position - from.position;
    const grown = end - from.end;
    if (taken > 0 && grown >= TOO_FAST * taken) this.#times = Math.min(MOST_TIMES, 2 * this.#times);
    else if (grown < SLOW * taken) this.#times = Math.max(1, this.#times / 2);
    this.#from = { position, end };
  }
}
