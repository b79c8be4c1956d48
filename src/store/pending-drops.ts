import type { StoreSection } from './local-store.js';

/** Where the removal ends (exclusive), and the key at which it goes on. */
type DropRow = readonly [to: string, at: string];

/**
 * Ranges of keys of a section that nobody reads any more. A row says of each that it is to be removed and how far that is, so that
 * what gives them up takes one moment however many they are, and the removal goes on in slices: after a restart from where it was,
 * and on another machine, which has the row with the snapshot. Nothing new may be written into such a range.
 */
export class PendingDrops {
  readonly #section: StoreSection;
  #listener: (() => void) | undefined;

  constructor(section: StoreSection) {
    this.#section = section;
  }

  /** Called when there is something to remove. */
  onAdded(listener: () => void): void {
    this.#listener = listener;
  }

  /** The keys from `from` up to `to` (exclusive) are given up; a range that begins at the same key is made longer. False: there are none. */
  add(from: string, to: string): boolean {
    const known = this.#section.get(`d${from}`) as DropRow | undefined;
    if (known !== undefined && known[0] >= to) return true;
    if (known === undefined && this.#section.keys(from, to, 1).length === 0) return false;
    this.#section.set(`d${from}`, [to, known?.[1] ?? from] satisfies DropRow);
    this.#listener?.();
    return true;
  }

  /** Removes the next keys, at most so many; false: nothing is left to remove. */
  removeSome(most: number): boolean {
    for (const [row, value] of this.#section.range('d', 'e', { limit: 1 })) {
      const [to, at] = value as DropRow;
      const keys = this.#section.keys(at, to, most);
      for (const key of keys) this.#section.delete(key);
      const last = keys.at(-1);
      this.#section.set(row, last === undefined || keys.length < most ? undefined : ([to, last] satisfies DropRow));
      return true;
    }
    return false;
  }
}
