import { firstIndex } from '../core/first-index.js';

/** Entries of one block: to insert into one moves so many references at most. */
const BLOCK = 512;

/**
 * Values by id that are gone through ascending by id from any place on, without sorting them. A change costs a search, and a move within one
 * block, so that a large map is as cheap to change as a small one.
 */
export class OrderedMap<V extends { readonly id: string }> {
  readonly #values = new Map<string, V>();
  /** None is empty; each is ascending, and so are they. */
  readonly #blocks: V[][] = [];

  get size(): number {
    return this.#values.size;
  }

  get(id: string): V | undefined {
    return this.#values.get(id);
  }

  set(value: V): void {
    const { id } = value;
    const at = this.#blockOf(id);
    const block = this.#blocks[at];
    if (block === undefined) this.#blocks.push([value]);
    else if (this.#values.has(id)) block[placeIn(block, id)] = value;
    else this.#insert(at, block, value);
    this.#values.set(id, value);
  }

  delete(id: string): void {
    if (!this.#values.delete(id)) return;
    const at = this.#blockOf(id);
    const block = this.#blocks[at] as V[];
    block.splice(placeIn(block, id), 1);
    if (block.length === 0) this.#blocks.splice(at, 1);
  }

  /** Those with an id greater than `after`; what is changed meanwhile may be among them or not. */
  *past(after: string): Generator<V> {
    for (let at = this.#blockOf(after); at < this.#blocks.length; at++) {
      const block = this.#blocks[at] as V[];
      for (let i = placeIn(block, after); i < block.length; i++) {
        const value = block[i] as V;
        if (value.id !== after) yield value;
      }
    }
  }

  /** All of them, ascending. */
  all(): V[] {
    // A tenth of what `flat` takes.
    return ([] as V[]).concat(...this.#blocks);
  }

  #insert(at: number, block: V[], value: V): void {
    block.splice(placeIn(block, value.id), 0, value);
    if (block.length <= BLOCK) return;
    // What comes in order fills whole blocks.
    this.#blocks.splice(at + 1, 0, block.splice(block.at(-1) === value ? BLOCK : BLOCK / 2));
  }

  /** The block that has the id, or would have it. */
  #blockOf(id: string): number {
    return Math.max(0, firstIndex(this.#blocks.length, (at) => (this.#blocks[at]?.[0] as V).id > id) - 1);
  }
}

/** Where the id is, or would be. */
const placeIn = (block: readonly { readonly id: string }[], id: string): number =>
  firstIndex(block.length, (i) => (block[i] as { readonly id: string }).id >= id);
