import { firstIndex } from '../../core/first-index.js';

/** Offsets that lie in one part. */
const PART = 1024;
const partOf = (offset: number): number => Math.floor(offset / PART);
const ascending = (a: number, b: number): number => a - b;

/**
 * Values by their offsets, of which there may be millions, that are gone through in their order from any of them on. They lie in parts, and
 * only what is gone through is put in order: not all of them after each that is added.
 */
export class ByOffset<T> {
  readonly #parts = new Map<number, Map<number, T>>();
  /** Numbers of the parts, ascending; undefined: some came since. */
  #order: readonly number[] | undefined;

  get isEmpty(): boolean {
    return this.#parts.size === 0;
  }

  get(offset: number): T | undefined {
    return this.#parts.get(partOf(offset))?.get(offset);
  }

  set(offset: number, value: T): void {
    const number = partOf(offset);
    let part = this.#parts.get(number);
    if (part === undefined) {
      this.#parts.set(number, (part = new Map<number, T>()));
      this.#order = undefined;
    }
    part.set(offset, value);
  }

  /** Ascending, both ends inclusive. */
  *within(first: number, last: number): Generator<readonly [offset: number, value: T]> {
    const order = (this.#order ??= [...this.#parts.keys()].sort(ascending));
    const from = partOf(first);
    for (let at = firstIndex(order.length, (i) => (order[i] as number) >= from); at < order.length; at++) {
      const part = this.#parts.get(order[at] as number) as Map<number, T>;
      for (const offset of [...part.keys()].sort(ascending)) {
        if (offset > last) return;
        if (offset >= first) yield [offset, part.get(offset) as T];
      }
    }
  }
}
