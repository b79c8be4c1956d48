/** How fast many bytes are moved that nobody waits for: so many at once, and then so many a second, however much there is. */
export class BytePace {
  readonly #atOnce: number;
  readonly #perSecond: number;
  readonly #now: () => number;
  /** What was moved, as far as time has not paid for it. */
  #owed = 0;
  #at: number;

  /** `now`: a monotonic clock in milliseconds. */
  constructor(atOnce: number, perSecond: number, now: () => number = () => performance.now()) {
    this.#atOnce = atOnce;
    this.#perSecond = perSecond;
    this.#now = now;
    this.#at = now();
  }

  /** So many were moved: milliseconds to wait before there may be more. */
  msAfter(bytes: number): number {
    const now = this.#now();
    this.#owed = Math.max(0, this.#owed - ((now - this.#at) * this.#perSecond) / 1000) + bytes;
    this.#at = now;
    return Math.max(0, ((this.#owed - this.#atOnce) * 1000) / this.#perSecond);
  }

  /** Milliseconds to wait now. */
  get waitMs(): number {
    return this.msAfter(0);
  }

  /** Time has paid for all that was moved: it is as a new one. */
  get isPaid(): boolean {
    this.msAfter(0);
    return this.#owed === 0;
  }
}
