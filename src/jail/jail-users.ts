/** How many processes may have a user of their own at once. */
const COUNT = 4096;
/** Ids that a distribution hands out itself are left alone at the end of a small range. */
const RESERVED = 4096;

/** Numbers of users that belong to nobody. Each jailed process takes one, so that the kernel counts its threads by itself and no two may touch each other. */
export class JailUsers {
  readonly first: number;
  readonly #taken = new Set<number>();
  #next: number;

  private constructor(first: number) {
    this.first = first;
    // Two services on one machine begin at different places.
    this.#next = (process.pid * 61) % COUNT;
  }

  /**
   * @param uidMap `/proc/self/uid_map`: in a container there may be only some users, and the range is moved to the end of those.
   * @returns undefined when there are too few
   */
  static open(base: number, uidMap: string): JailUsers | undefined {
    const ranges = uidMap
      .split('\n')
      .map((line) => line.trim().split(/\s+/).map(Number))
      .filter((fields) => fields.length === 3)
      .map(([first = 0, , length = 0]) => ({ first, end: first + length }));
    if (ranges.some(({ first, end }) => first <= base && base + COUNT <= end)) return new JailUsers(base);
    const fits = ranges
      .map(({ first, end }) => ({ first, from: end - RESERVED - COUNT }))
      .find(({ first, from }) => from >= first && from >= 1000);
    return fits && new JailUsers(fits.from);
  }

  /** The least recently used free one. With all taken, the first is shared. */
  take(): number {
    for (let tried = 0; tried < COUNT; tried++) {
      const user = this.first + this.#next;
      this.#next = (this.#next + 1) % COUNT;
      if (this.#taken.has(user)) continue;
      this.#taken.add(user);
      return user;
    }
    return this.first;
  }

  release(user: number): void {
    this.#taken.delete(user);
  }
}
