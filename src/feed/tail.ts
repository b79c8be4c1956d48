import type { ItemKind } from './feed.js';

/** The last records of a topic in memory, ascending by offset, bounded by bytes. Not dense: void records are left out. */
export class Tail<T> {
  readonly #kind: Pick<ItemKind<unknown, T>, 'positionOf' | 'bytesOf'>;
  readonly #maxBytes: number;
  /** Those before `#first` were let go. */
  #items: (T | undefined)[] = [];
  #first = 0;
  #bytes = 0;
  #pushedBytes = 0;
  /** All records from here on that were pushed are in memory. */
  #start: number;

  constructor(kind: Pick<ItemKind<unknown, T>, 'positionOf' | 'bytesOf'>, maxBytes: number, start: number) {
    this.#kind = kind;
    this.#maxBytes = maxBytes;
    this.#start = start;
  }

  /** The lowest offset from which on nothing is missing. */
  get start(): number {
    return this.#start;
  }

  /** Of all that was ever pushed, about. */
  get pushedBytes(): number {
    return this.#pushedBytes;
  }

  /** Nothing before `start` was there to be pushed. */
  restart(start: number): void {
    this.#start = Math.max(this.#start, start);
  }

  /** It comes before all that will be pushed, and is not kept; nothing was pushed yet. */
  pass(item: T): void {
    this.#pushedBytes += this.#kind.bytesOf(item);
    this.#start = this.#kind.positionOf(item) + 1;
  }

  push(item: T): void {
    this.#items.push(item);
    const bytes = this.#kind.bytesOf(item);
    this.#bytes += bytes;
    this.#pushedBytes += bytes;
    while (this.#bytes > this.#maxBytes) {
      const oldest = this.#items[this.#first];
      if (oldest === undefined || oldest === item) break;
      this.#bytes -= this.#kind.bytesOf(oldest);
      this.#start = this.#kind.positionOf(oldest) + 1;
      // At once: items of a MiB each would be held until there are many of them.
      this.#items[this.#first++] = undefined;
    }
    if (this.#first > 1024 && this.#first * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#first);
      this.#first = 0;
    }
  }

  /** Items with an offset of at least `from`, up to `limit`; undefined where some are missing. */
  from(from: number, limit: number): T[] | undefined {
    const first = this.#seek(from);
    return first === undefined ? undefined : (this.#items.slice(first, first + limit) as T[]);
  }

  /** The first `limit` items from `from` on that `wanted` picks; undefined where some are missing. */
  filter(from: number, limit: number, wanted: (item: T) => boolean): T[] | undefined {
    const first = this.#seek(from);
    if (first === undefined) return undefined;
    const picked: T[] = [];
    for (let i = first; i < this.#items.length && picked.length < limit; i++) {
      const item = this.#items[i] as T;
      if (wanted(item)) picked.push(item);
    }
    return picked;
  }

  #seek(from: number): number | undefined {
    if (from < this.#start) return undefined;
    let low = this.#first;
    for (let high = this.#items.length; low < high;) {
      const middle = (low + high) >>> 1;
      if (this.#kind.positionOf(this.#items[middle] as T) < from) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
