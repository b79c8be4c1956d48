import { pastAll } from './keys.js';
import type { StoreSection } from './store-section.js';
import { TABLES } from './tables.js';

/** Where the removal ends (exclusive), and the key at which it goes on. */
type DropRow = readonly [to: string, at: string];

/** Rows of one table, whose bytes count: who counts them is told. */
export interface CountedRows {
  /** What their keys begin with. */
  readonly from: string;
  readonly bytesOf: (key: string, value: unknown) => number;
  readonly dropped: (bytes: number) => void;
}

/** Of rows that count, the values are read: so much of them in one go. */
const READ_BYTES = 1024 * 1024;

/**
 * Ranges of keys of a section that nobody reads any more. A row says of each that it is to be removed and how far that is, so that
 * what gives them up takes one moment however many they are, and the removal goes on in slices: after a restart from where it was,
 * and on another machine, which has the row with the snapshot. Nothing new may be written into such a range.
 */
export class PendingDrops {
  readonly #section: StoreSection;
  readonly #counted: CountedRows;
  #listener: (() => void) | undefined;

  constructor(section: StoreSection, counted: CountedRows) {
    this.#section = section;
    this.#counted = counted;
  }

  /** Called when there is something to remove. */
  onAdded(listener: () => void): void {
    this.#listener = listener;
  }

  /** The keys from `from` up to `to` (exclusive) are given up; a range that begins at the same key is made longer. False: there are none. */
  add(from: string, to: string): boolean {
    const known = this.#section.get(`${TABLES.pendingDrops}${from}`) as DropRow | undefined;
    if (known !== undefined && known[0] >= to) return true;
    if (known === undefined && this.#section.keys(from, to, 1).length === 0) return false;
    this.#section.set(`${TABLES.pendingDrops}${from}`, [to, known?.[1] ?? from] satisfies DropRow);
    this.#listener?.();
    return true;
  }

  /** Removes the next keys, at most so many; false: nothing is left to remove. */
  removeSome(most: number): boolean {
    for (const [row, value] of this.#section.range(TABLES.pendingDrops, pastAll(TABLES.pendingDrops), { limit: 1 })) {
      const [to, at] = value as DropRow;
      const { keys, ends } = at.startsWith(this.#counted.from)
        ? this.#someCounted(at, to, most)
        : this.#some(at, to, most);
      for (const key of keys) this.#section.delete(key);
      const last = keys.at(-1);
      this.#section.set(row, last === undefined || ends ? undefined : ([to, last] satisfies DropRow));
      return true;
    }
    return false;
  }

  #some(at: string, to: string, most: number): { readonly keys: string[]; readonly ends: boolean } {
    const keys = this.#section.keys(at, to, most);
    return { keys, ends: keys.length < most };
  }

  #someCounted(at: string, to: string, most: number): { readonly keys: string[]; readonly ends: boolean } {
    const keys: string[] = [];
    let bytes = 0;
    for (const [key, value] of this.#section.range(at, to, { limit: most })) {
      keys.push(key);
      bytes += this.#counted.bytesOf(key, value);
      if (bytes >= READ_BYTES) break;
    }
    this.#counted.dropped(bytes);
    return { keys, ends: keys.length < most && bytes < READ_BYTES };
  }
}
