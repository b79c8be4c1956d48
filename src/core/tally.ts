/** Counts by key. A key whose count is 0 is gone, so that this is as large as what is counted now. */
export class Tally {
  readonly #counts = new Map<string, number>();

  /** 0 where nothing is counted. */
  of(key: string): number {
    return this.#counts.get(key) ?? 0;
  }

  /** Of each key that has any. */
  get counts(): ReadonlyMap<string, number> {
    return this.#counts;
  }

  /** `more` below 0 takes away. */
  add(key: string, more: number): void {
    const count = this.of(key) + more;
    if (count === 0) this.#counts.delete(key);
    else this.#counts.set(key, count);
  }

  /** One more, until the work has ended, however it does. */
  async during<T>(key: string, work: () => Promise<T>): Promise<T> {
    this.add(key, 1);
    try {
      return await work();
    } finally {
      this.add(key, -1);
    }
  }
}
