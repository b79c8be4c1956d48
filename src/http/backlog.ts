import type { Hold } from '../core/budget.js';

export interface BacklogLimits {
  /** Bytes waiting to be written past which nothing more is pushed until they have drained. */
  readonly maxBufferedBytes: number;
  /** How long a full buffer may take to drain. */
  readonly drainDeadlineMs: number;
}

export const BACKLOG_LIMITS: BacklogLimits = { maxBufferedBytes: 1024 * 1024, drainDeadlineMs: 30_000 };

/** What was pushed to one client that has not taken it yet: it is held of the memory of streams, is bounded, and has a deadline once it is full. */
export class Backlog {
  readonly #limits: BacklogLimits;
  readonly #hold: Hold;
  readonly #now: () => number;
  readonly #uncounted: number;
  #fullSince: number | undefined;

  /** `uncounted`: so few bytes are held of nothing. */
  constructor(limits: BacklogLimits, hold: Hold, now: () => number, uncounted = 0) {
    this.#limits = limits;
    this.#hold = hold;
    this.#now = now;
    this.#uncounted = uncounted;
  }

  /** Nothing more may be pushed until it has drained. */
  get full(): boolean {
    return this.#fullSince !== undefined;
  }

  /** It has shrunk to so many bytes. */
  shrank(bytes: number): void {
    if (this.#hold.bytes > 0) this.#hold.set(bytes);
  }

  /** It has come to so many bytes. False, and full from now on: they are too many for one client, or for the memory of its tenant. */
  admits(bytes: number): boolean {
    const counted = bytes > this.#uncounted;
    if (counted || this.#hold.bytes > 0) this.#hold.set(bytes);
    if (bytes <= this.#limits.maxBufferedBytes) {
      if (!counted || this.#hold.full === undefined) return true;
      this.#hold.countRefusal();
    }
    this.fill();
    return false;
  }

  /** Begins its deadline, unless it runs already. */
  fill(): void {
    this.#fullSince ??= this.#now();
  }

  /** It has drained: more may be pushed. */
  drained(): void {
    this.#fullSince = undefined;
  }

  /** It has been full for longer than it may be. */
  overdue(now: number): boolean {
    return this.#fullSince !== undefined && now - this.#fullSince >= this.#limits.drainDeadlineMs;
  }
}
