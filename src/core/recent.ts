/** What each took of late: in this window of time and the one before it. */
export class Recent {
  readonly #windowMs: number;
  #windowAt = -Infinity;
  #taken = new Map<string, number>();
  #total = 0;
  /** The sum of the squares of what each took, in both. */
  #squares = 0;
  #takenBefore: ReadonlyMap<string, number> = new Map();
  #totalBefore = 0;

  constructor(windowMs: number) {
    this.#windowMs = windowMs;
  }

  add(whose: string, taken: number): void {
    this.#squares += taken * (2 * this.of(whose) + taken);
    this.#taken.set(whose, (this.#taken.get(whose) ?? 0) + taken);
    this.#total += taken;
  }

  of(whose: string): number {
    return (this.#taken.get(whose) ?? 0) + (this.#takenBefore.get(whose) ?? 0);
  }

  get total(): number {
    return this.#total + this.#totalBefore;
  }

  /** How many have shared it: as many as would have taken it alike. Who took hardly anything makes it hardly more. */
  get sharers(): number {
    return this.#squares > 0 ? this.total ** 2 / this.#squares : 1;
  }

  /** To be called now and then: the next window begins when this one is over. */
  passed(now: number): void {
    const since = now - this.#windowAt;
    if (since < this.#windowMs) return;
    const isJustOver = since < 2 * this.#windowMs;
    this.#takenBefore = isJustOver ? this.#taken : new Map();
    this.#totalBefore = isJustOver ? this.#total : 0;
    this.#taken = new Map();
    this.#total = 0;
    this.#squares = 0;
    for (const taken of this.#takenBefore.values()) this.#squares += taken * taken;
    this.#windowAt = now;
  }
}
