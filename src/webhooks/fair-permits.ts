import type { Timers } from '../feed/timers.js';

export interface PermitLimits {
  /** Held at once, of all owners and of one. */
  readonly total: number;
  readonly perOwner: number;
  /** A permit that is held for `afterMs`, while somebody waits, counts among so many others instead, if there is room: it is in nobody's way any more. */
  readonly long?: { readonly afterMs: number; readonly total: number; readonly perOwner: number };
}

/** To be given back once. */
export interface Permit {
  readonly owner: string;
}

interface HeldPermit extends Permit {
  readonly since: number;
}

type Run = (permit: Permit) => void;

/** How many are held, of all and of each owner. */
class Account {
  #taken = 0;
  readonly #held = new Map<string, number>();

  constructor(private readonly limits: { readonly total: number; readonly perOwner: number }) {}

  get taken(): number {
    return this.#taken;
  }

  get hasRoom(): boolean {
    return this.#taken < this.limits.total;
  }

  hasRoomFor(owner: string): boolean {
    return this.hasRoom && (this.#held.get(owner) ?? 0) < this.limits.perOwner;
  }

  take(owner: string): void {
    this.#taken++;
    this.#held.set(owner, (this.#held.get(owner) ?? 0) + 1);
  }

  giveBack(owner: string): void {
    this.#taken--;
    const held = (this.#held.get(owner) ?? 1) - 1;
    if (held === 0) this.#held.delete(owner);
    else this.#held.set(owner, held);
  }
}

/**
 * A limit on what goes on at once, shared fairly: owners that wait take turns, and the lanes of each within its turns, whatever number
 * each has waiting; none holds more than its share. What takes long makes room for what doesn't.
 */
export class FairPermits {
  readonly #limits: PermitLimits;
  readonly #timers: Timers;
  readonly #short: Account;
  readonly #long: Account;
  /** Of the short ones, the oldest first. */
  readonly #young = new Set<HeldPermit>();
  /** Who waits, by owner and lane; the order of each map is that of turns. */
  readonly #queues = new Map<string, Map<string, Run[]>>();
  #cancelTimer: (() => void) | undefined;

  constructor(limits: PermitLimits, timers: Timers) {
    this.#limits = limits;
    this.#timers = timers;
    this.#short = new Account(limits);
    this.#long = new Account(limits.long ?? { total: 0, perOwner: 0 });
  }

  get taken(): number {
    return this.#short.taken + this.#long.taken;
  }

  /** Calls `run` when there is a permit, possibly at once; `release` must follow each. The result withdraws one that still waits. */
  acquire(owner: string, lane: string, run: Run): () => void {
    let lanes = this.#queues.get(owner);
    if (lanes === undefined) this.#queues.set(owner, (lanes = new Map<string, Run[]>()));
    const queue = lanes.get(lane);
    if (queue === undefined) lanes.set(lane, [run]);
    else queue.push(run);
    this.#grant();
    return () => {
      const waiting = this.#queues.get(owner)?.get(lane);
      const at = waiting?.indexOf(run) ?? -1;
      if (waiting === undefined || at < 0) return;
      waiting.splice(at, 1);
      if (waiting.length === 0) this.#leave(owner, lane);
    };
  }

  release(permit: Permit): void {
    (this.#young.delete(permit as HeldPermit) ? this.#short : this.#long).giveBack(permit.owner);
    this.#grant();
  }

  #leave(owner: string, lane: string): void {
    const lanes = this.#queues.get(owner);
    lanes?.delete(lane);
    if (lanes?.size === 0) this.#queues.delete(owner);
  }

  #grant(): void {
    do
      while (this.#short.hasRoom) {
        const next = this.#next();
        if (next === undefined) break;
        next();
      }
    while (this.#queues.size > 0 && this.#makeRoom());
    this.#lookAgain();
  }

  #next(): (() => void) | undefined {
    for (const [owner, lanes] of this.#queues) {
      if (!this.#short.hasRoomFor(owner)) continue;
      const [[lane, queue]] = lanes as Iterable<[string, Run[]]> as [[string, Run[]]];
      const run = queue.shift() as Run;
      // Owner and lane go to the end of their rounds.
      this.#queues.delete(owner);
      lanes.delete(lane);
      if (queue.length > 0) lanes.set(lane, queue);
      if (lanes.size > 0) this.#queues.set(owner, lanes);
      this.#short.take(owner);
      const permit = { owner, since: this.#timers.now() };
      this.#young.add(permit);
      return () => run(permit);
    }
    return undefined;
  }

  /** False: nothing has changed. */
  #makeRoom(): boolean {
    let moved = false;
    const until = this.#timers.now() - (this.#limits.long?.afterMs ?? Infinity);
    for (const permit of this.#young) {
      if (permit.since > until) break;
      const { owner } = permit;
      if (!this.#long.hasRoomFor(owner)) continue;
      this.#young.delete(permit);
      this.#short.giveBack(owner);
      this.#long.take(owner);
      moved = true;
    }
    return moved;
  }

  /** Somebody waits: when the next that is held will have been so for long. */
  #lookAgain(): void {
    const { long } = this.#limits;
    if (this.#queues.size === 0) {
      this.#cancelTimer?.();
      this.#cancelTimer = undefined;
      return;
    }
    if (long === undefined || this.#cancelTimer !== undefined) return;
    const now = this.#timers.now();
    for (const { since } of this.#young) {
      const wait = since + long.afterMs - now;
      if (wait <= 0) continue;
      this.#cancelTimer = this.#timers.after(wait, () => {
        this.#cancelTimer = undefined;
        this.#grant();
      });
      return;
    }
  }
}
