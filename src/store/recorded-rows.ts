import type { Change } from '../core/change.js';
import { padded, pastAll } from './keys.js';
import type { StoreSection } from './store-section.js';
import type { PendingDrops } from './pending-drops.js';
import { TABLES } from './tables.js';

/** Where the name begins in the key of a recorded change: behind the table and the input. */
const NAME_AT = TABLES.recordedChanges.length + padded(0).length;
const baseOf = (inputOffset: number): string => TABLES.recordedChanges + padded(inputOffset);
const inputOf = (key: string): number => parseInt(key.slice(TABLES.recordedChanges.length, NAME_AT), 36);

/** Accepted changes of inputs to which the projections have not come, by input and name; `RecordedChanges` holds the last ones in memory. */
export class RecordedRows {
  readonly #section: StoreSection;
  readonly #drops: PendingDrops;

  constructor(section: StoreSection, drops: PendingDrops) {
    this.#section = section;
    this.#drops = drops;
  }

  /** Those of an input by name, behind that of `past`. */
  *of(inputOffset: number, past = ''): Generator<readonly [name: string, Change]> {
    const base = baseOf(inputOffset);
    const from = past === '' ? base : `${base}${past}\u0000`;
    for (const [key, value] of this.#section.range(from, baseOf(inputOffset + 1)))
      yield [key.slice(base.length), value as Change];
  }

  /** All of an input are given up. */
  dropAll(inputOffset: number): void {
    this.#drops.add(baseOf(inputOffset), baseOf(inputOffset + 1));
  }

  get(inputOffset: number, name: string): Change | undefined {
    return this.#section.get(baseOf(inputOffset) + name) as Change | undefined;
  }

  /** The first so many of them, of all inputs from this one on. */
  *from(inputOffset: number, limit: number): Generator<readonly [inputOffset: number, name: string, change: Change]> {
    for (const [key, value] of this.#section.range(baseOf(inputOffset), pastAll(TABLES.recordedChanges), { limit }))
      yield [inputOf(key), key.slice(NAME_AT), value as Change];
  }

  /** Inputs from `from` up to `end`, exclusive, that have recorded changes, ascending: those of the first rows; and where to go on, if there may be more. */
  inputs(
    from: number,
    end: number,
    rows: number,
  ): { readonly inputs: readonly number[]; readonly next: number | undefined } {
    const keys = this.#section.keys(baseOf(from), baseOf(end), rows);
    const inputs = [...new Set(keys.map(inputOf))];
    // The rest of the last input's rows, if it has more, is not of interest.
    return { inputs, next: keys.length < rows ? undefined : (inputs.at(-1) ?? end) + 1 };
  }

  /** The last input that has any. */
  last(): number | undefined {
    for (const [key] of this.#section.range(TABLES.recordedChanges, pastAll(TABLES.recordedChanges), {
      limit: 1,
      reverse: true,
    }))
      return inputOf(key);
    return undefined;
  }

  set(inputOffset: number, name: string, change: Change): void {
    this.#section.set(baseOf(inputOffset) + name, change);
  }

  delete(inputOffset: number, name: string): void {
    this.#section.delete(baseOf(inputOffset) + name);
  }

  /** Recorded inputs whose changes come in parts, and whether the last one is there. */
  *parted(): Generator<readonly [inputOffset: number, whole: boolean]> {
    for (const [key, whole] of this.#section.range(TABLES.partedInputs, pastAll(TABLES.partedInputs)))
      yield [parseInt(key.slice(1), 36), whole as boolean];
  }

  setParted(inputOffset: number, whole: boolean | undefined): void {
    this.#section.set(`${TABLES.partedInputs}${padded(inputOffset)}`, whole);
  }
}
