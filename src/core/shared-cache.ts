/**
 * What many keep in memory only to be quick, in bytes, all together. Past the limit those forget who had something new the longest
 * ago: the idle take nothing from the busy.
 */
export class SharedCache {
  #bytes = 0;
  /** Those who remember, by how they forget; the map's order is that of their last news. */
  readonly #holders = new Map<() => void, number>();

  constructor(private readonly limit: number) {}

  /** So much is remembered from now on by whoever forgets it so. */
  set(forget: () => void, bytes: number): void {
    this.#drop(forget);
    if (bytes === 0) return;
    this.#holders.set(forget, bytes);
    this.#bytes += bytes;
    for (const oldest of this.#holders.keys()) {
      if (this.#bytes <= this.limit) return;
      this.#drop(oldest);
      oldest();
    }
  }

  /** All that is remembered. */
  get bytes(): number {
    return this.#bytes;
  }

  #drop(forget: () => void): void {
    this.#bytes -= this.#holders.get(forget) ?? 0;
    this.#holders.delete(forget);
  }
}
