import type { SharedCache } from '../core/shared-cache.js';
import type { ItemKind } from './feed.js';

/**
 * The cache is told of what is kept when that has changed by so much, or is twice what it was told: not at each push, and never of less than
 * half. Thousands of small tails that it does not know of would grow, each on its own, past what all may keep.
 */
const TOLD_BYTES = 64 * 1024;

/** The last records of a topic in memory, ascending by offset, bounded by bytes. Not dense: void records are left out. */
export class Tail<T> {
  readonly #kind: Pick<ItemKind<unknown, T>, 'positionOf' | 'bytesOf'>;
  readonly #maxBytes: number;
  readonly #shared: SharedCache | undefined;
  #toldBytes = 0;
  #closed = false;
  /** Those before `#first` were let go. */
  #items: (T | undefined)[] = [];
  #first = 0;
  #bytes = 0;
  #pushedBytes = 0;
  /** All records from here on that were pushed are in memory. */
  #start: number;

  /** `shared`: what the tails of all tenants may keep together. */
  constructor(
    kind: Pick<ItemKind<unknown, T>, 'positionOf' | 'bytesOf'>,
    maxBytes: number,
    start: number,
    shared?: SharedCache,
  ) {
    this.#shared = shared;
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
    if (Math.abs(this.#bytes - this.#toldBytes) >= Math.min(TOLD_BYTES, this.#toldBytes)) this.#tell();
  }

  /** Nothing is kept any more; what is pushed still is let go with it. */
  close(): void {
    this.#closed = true;
    this.#forget();
    this.#tell();
  }

  #tell(): void {
    this.#toldBytes = this.#bytes;
    if (this.#closed) this.#shared?.set(this.#forget, 0);
    else this.#shared?.set(this.#forget, this.#bytes);
  }

  /** All items: whoever wants them reads the log. */
  readonly #forget = (): void => {
    const last = this.#items.at(-1);
    if (last !== undefined) this.#start = this.#kind.positionOf(last) + 1;
    this.#items = [];
    this.#first = 0;
    this.#bytes = 0;
    this.#toldBytes = 0;
  };

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
