import type { Timers } from '../feed/timers.js';
import { Tally } from '../core/tally.js';

export interface PermitLimits {
  /** Held at once, of all owners and of one. */
  readonly total: number;
  readonly perOwner: number;
  /**
   * A permit that is held for `afterMs`, while somebody waits, counts among so many others instead, if there is room: it is in nobody's
   * way any more. Of the rest `kept` are for owners who hold none for so long: there may be no room among the others.
   */
  readonly long?: {
    readonly afterMs: number;
    readonly total: number;
    readonly perOwner: number;
    readonly kept: number;
  };
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
  readonly #held = new Tally();

  constructor(private readonly limits: { readonly total: number; readonly perOwner: number }) {}

  get taken(): number {
    return this.#taken;
  }

  /** How many more there may be. */
  get left(): number {
    return this.limits.total - this.#taken;
  }

  heldBy(owner: string): number {
    return this.#held.of(owner);
  }

  hasRoomFor(owner: string): boolean {
    return this.left > 0 && this.heldBy(owner) < this.limits.perOwner;
  }

  take(owner: string): void {
    this.#taken++;
    this.#held.add(owner, 1);
  }

  giveBack(owner: string): void {
    this.#taken--;
    this.#held.add(owner, -1);
  }
}

/**
 * A limit on what goes on at once, shared fairly: who holds the fewest is next, and who waits for its turn the longest of those, whatever
 * number each has waiting; lanes take turns within an owner's, and none holds more than its share. What takes long makes room for what
 * doesn't, and can't take all.
 */
export class FairPermits {
  readonly #limits: PermitLimits;
  readonly #timers: Timers;
  readonly #short: Account;
  readonly #long: Account;
  /** Of the short ones, for owners who hold none for long. */
  readonly #kept: number;
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
    this.#kept = limits.long?.kept ?? 0;
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
      while (this.#short.left > 0) {
        const next = this.#next();
        if (next === undefined) break;
        next();
      }
    while (this.#queues.size > 0 && this.#makeRoom());
    this.#lookAgain();
  }

  #next(): (() => void) | undefined {
    const owner = this.#nextOwner();
    const lanes = owner === undefined ? undefined : this.#queues.get(owner);
    if (owner === undefined || lanes === undefined) return undefined;
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

  /** Whose requests take long holds what it has for long: by turns alone it would soon have nearly all. */
  #nextOwner(): string | undefined {
    const slow = this.#short.left > this.#kept ? undefined : this.#slowOwners();
    let next: string | undefined;
    let fewest = Infinity;
    for (const owner of this.#queues.keys()) {
      const long = this.#long.heldBy(owner);
      if (!this.#short.hasRoomFor(owner) || (slow !== undefined && (long > 0 || slow.has(owner)))) continue;
      const held = this.#short.heldBy(owner) + long;
      if (held >= fewest) continue;
      [next, fewest] = [owner, held];
      if (held === 0) break;
    }
    return next;
  }

  /** Who holds one of the short ones for long: there was no room among the others. */
  #slowOwners(): ReadonlySet<string> {
    const until = this.#longSince;
    const owners = new Set<string>();
    for (const { owner, since } of this.#young) {
      if (since > until) break;
      owners.add(owner);
    }
    return owners;
  }

  /** What was taken then, or before, is held for long. */
  get #longSince(): number {
    return this.#timers.now() - (this.#limits.long?.afterMs ?? Infinity);
  }

  /** False: nothing has changed. */
  #makeRoom(): boolean {
    let moved = false;
    const until = this.#longSince;
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
