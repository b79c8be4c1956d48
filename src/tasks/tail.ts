/** The last records of a topic in memory, ascending by offset, bounded by bytes. Not dense: void records are left out. */
export class Tail<T> {
  readonly #offsetOf: (item: T) => number;
  readonly #sizeOf: (item: T) => number;
  readonly #maxBytes: number;
  #items: T[] = [];
  #first = 0;
  #bytes = 0;
  /** All records from here on that were pushed are in memory. */
  #start: number;
  #pinned = Number.MAX_SAFE_INTEGER;

  constructor(options: { offsetOf: (item: T) => number; sizeOf: (item: T) => number; maxBytes: number; start: number }) {
    this.#offsetOf = options.offsetOf;
    this.#sizeOf = options.sizeOf;
    this.#maxBytes = options.maxBytes;
    this.#start = options.start;
  }

  /** The lowest offset from which on nothing is missing. */
  get start(): number {
    return this.#start;
  }

  /** Records from `offset` on are kept whatever their size. */
  pin(offset: number): void {
    this.#pinned = offset;
  }

  push(item: T): void {
    this.#items.push(item);
    this.#bytes += this.#sizeOf(item);
    while (this.#bytes > this.#maxBytes) {
      const oldest = this.#items[this.#first];
      if (oldest === undefined || oldest === item || this.#offsetOf(oldest) >= this.#pinned) break;
      this.#bytes -= this.#sizeOf(oldest);
      this.#start = this.#offsetOf(oldest) + 1;
      this.#first++;
    }
    if (this.#first > 1024 && this.#first * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#first);
      this.#first = 0;
    }
  }

  /** Items with an offset of at least `from`, up to `limit`; undefined where some are missing. */
  from(from: number, limit: number): T[] | undefined {
    if (from < this.#start) return undefined;
    let low = this.#first;
    for (let high = this.#items.length; low < high; ) {
      const middle = (low + high) >>> 1;
      if (this.#offsetOf(this.#items[middle] as T) < from) low = middle + 1;
      else high = middle;
    }
    return this.#items.slice(low, low + limit);
  }
}
