/** The last `size` of what was put in; older ones make room. */
export class Ring<T> {
  readonly #kept: (T | undefined)[];
  #put = 0;

  constructor(readonly size: number) {
    this.#kept = Array.from({ length: size });
  }

  /** How many were put in, also those that are gone. */
  get total(): number {
    return this.#put;
  }

  get length(): number {
    return Math.min(this.#put, this.size);
  }

  put(item: T): void {
    this.#kept[this.#put++ % this.size] = item;
  }

  /** 0: the newest. */
  newest(index: number): T | undefined {
    return index < this.length ? this.#kept[(this.#put - 1 - index) % this.size] : undefined;
  }

  /** As it is now, whatever is put in later. */
  copy(): Ring<T> {
    const copy = new Ring<T>(this.size);
    copy.#kept.splice(0, this.size, ...this.#kept);
    copy.#put = this.#put;
    return copy;
  }
}
