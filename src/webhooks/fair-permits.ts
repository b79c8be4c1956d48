/**
 * A limit on what goes on at once, shared fairly: owners that wait take turns, whatever number each has waiting, and none holds
 * more than its share.
 */
export class FairPermits {
  #taken = 0;
  readonly #held = new Map<string, number>();
  /** Who waits, a queue an owner; the map's order is the order of turns. */
  readonly #queues = new Map<string, (() => void)[]>();

  constructor(
    private readonly total: number,
    private readonly perOwner: number,
  ) {}

  get taken(): number {
    return this.#taken;
  }

  /** Calls `run` when there is a permit, possibly at once; `release` must follow each. The result withdraws one that still waits. */
  acquire(owner: string, run: () => void): () => void {
    const queue = this.#queues.get(owner);
    if (queue === undefined) this.#queues.set(owner, [run]);
    else queue.push(run);
    this.#grant();
    return () => {
      const waiting = this.#queues.get(owner);
      const at = waiting?.indexOf(run) ?? -1;
      if (waiting === undefined || at < 0) return;
      waiting.splice(at, 1);
      if (waiting.length === 0) this.#queues.delete(owner);
    };
  }

  release(owner: string): void {
    this.#taken--;
    const held = (this.#held.get(owner) ?? 1) - 1;
    if (held === 0) this.#held.delete(owner);
    else this.#held.set(owner, held);
    this.#grant();
  }

  #grant(): void {
    while (this.#taken < this.total) {
      const next = this.#next();
      if (next === undefined) return;
      next();
    }
  }

  #next(): (() => void) | undefined {
    for (const [owner, queue] of this.#queues) {
      const held = this.#held.get(owner) ?? 0;
      if (held >= this.perOwner) continue;
      const run = queue.shift();
      // The owner goes to the end of the round.
      this.#queues.delete(owner);
      if (queue.length > 0) this.#queues.set(owner, queue);
      this.#held.set(owner, held + 1);
      this.#taken++;
      return run;
    }
    return undefined;
  }
}
