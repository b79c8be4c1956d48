import { changeBytes, type Change } from '../core/change.js';
import type { PartitionTables } from './partition-tables.js';
import type { RecordedRows } from './recorded-rows.js';

interface Held {
  readonly changes: Map<string, Change>;
  bytes: number;
}

/** What is kept in memory; the rest is in the store. */
const HELD_BYTES = 8 * 1024 * 1024;
const NOTHING: readonly (readonly [name: string, change: Change])[] = [];
/** Inputs are come to in their order, so what the store has is read by the page. */
const PAGE_ROWS = 512;

/** All that the store had of the inputs from `from` up to `end`, exclusive, when it was read; what was recorded later is held, until the next spill. */
interface Page {
  readonly from: number;
  readonly end: number;
  readonly changes: ReadonlyMap<number, ReadonlyMap<string, Change>>;
}
const NO_PAGE: Page = { from: 0, end: 0, changes: new Map() };

/**
 * Accepted changes of inputs that the projections have not passed, by input: after a restart, or a takeover, they come to those
 * inputs again. The last ones are held in memory, and put in the store before each checkpoint; past a bound all go there.
 */
export class RecordedChanges {
  readonly #rows: RecordedRows;
  readonly #heldBytes: number;
  readonly #held = new Map<number, Held>();
  #bytes = 0;
  /** Highest input that was recorded; -1: none. */
  #last: number;
  /** Changes of inputs before it may be in the store alone. */
  #spilledEnd: number;
  #unsaved: (readonly [input: number, name: string])[] = [];
  readonly #saved = new Set<number>();
  #page: Page = NO_PAGE;
  /** Inputs whose changes come in parts: whether the last one is there. */
  readonly #parted: Map<number, boolean>;

  constructor({ recorded: rows }: Pick<PartitionTables, 'recorded'>, heldBytes = HELD_BYTES) {
    this.#rows = rows;
    this.#heldBytes = heldBytes;
    this.#last = rows.last() ?? -1;
    this.#spilledEnd = this.#last + 1;
    this.#parted = new Map(rows.parted());
  }

  get last(): number {
    return this.#last;
  }

  /** Inputs from `from` up to `end`, exclusive, that have recorded changes; ascending. */
  between(from: number, end: number): number[] {
    if (this.#last < from) return [];
    const inputs = new Set<number>();
    for (const input of this.#held.keys()) if (input >= from && input < end) inputs.add(input);
    const stop = Math.min(end, this.#spilledEnd);
    // By the page: each look into the store goes over all that it has not yet written.
    for (let at: number | undefined = from; at !== undefined && at < stop;) {
      const page = this.#rows.inputs(at, stop, PAGE_ROWS);
      for (const input of page.inputs) inputs.add(input);
      at = page.next;
    }
    return [...inputs].sort((a, b) => a - b);
  }

  /** Of an input whose changes come in parts, some of which are recorded: whether the last one is. Undefined: of no such input. */
  parts(input: number): { readonly whole: boolean } | undefined {
    const whole = this.#parted.get(input);
    return whole === undefined ? undefined : { whole };
  }

  /** Some input from there on has changes that come in parts, and was not passed. */
  hasParts(from: number): boolean {
    for (const input of this.#parted.keys()) if (input >= from) return true;
    return false;
  }

  add(input: number, name: string, change: Change): void {
    const { last } = change;
    const whole = this.#parted.get(input);
    if (last !== undefined && (whole === undefined || (last && !whole))) this.#setParted(input, last);
    let held = this.#held.get(input);
    if (held === undefined) this.#held.set(input, (held = { changes: new Map(), bytes: 0 }));
    held.changes.set(name, change);
    held.bytes += changeBytes(change);
    this.#bytes += changeBytes(change);
    this.#unsaved.push([input, name]);
    if (input > this.#last) this.#last = input;
    if (this.#bytes > this.#heldBytes) this.#spill();
  }

  get(input: number, name: string): Change | undefined {
    return (
      this.#held.get(input)?.changes.get(name) ?? (input < this.#spilledEnd ? this.#rows.get(input, name) : undefined)
    );
  }

  /** In no order. */
  *of(input: number): Iterable<Change> {
    for (const [, change] of this.named(input)) yield change;
  }

  /** As `of`, with the names by which `get` finds them. */
  named(input: number): Iterable<readonly [name: string, change: Change]> {
    if (input < this.#spilledEnd) return this.#both(input);
    return this.#held.get(input)?.changes ?? NOTHING;
  }

  *#both(input: number): Generator<readonly [name: string, change: Change]> {
    const held = this.#held.get(input)?.changes;
    for (const entry of this.#stored(input)) if (held?.has(entry[0]) !== true) yield entry;
    if (held !== undefined) yield* held;
  }

  /** What the store has of an input, of a large one as it is read. */
  #stored(input: number): Iterable<readonly [name: string, change: Change]> {
    if (input < this.#page.from || input >= this.#page.end) this.#turnTo(input);
    if (input >= this.#page.end) return this.#rows.of(input);
    return this.#page.changes.get(input) ?? NOTHING;
  }

  #turnTo(input: number): void {
    const changes = new Map<number, Map<string, Change>>();
    let rows = 0;
    let last = input;
    for (const [at, name, change] of this.#rows.from(input, PAGE_ROWS)) {
      const of = changes.get(at);
      if (of === undefined) changes.set(at, new Map([[name, change]]));
      else of.set(name, change);
      rows++;
      last = at;
    }
    // A full page may have cut its last input off.
    this.#page = { from: input, end: rows === PAGE_ROWS ? last : this.#spilledEnd, changes };
  }

  /** Those behind the name, by name: as many as are wanted are read. */
  past(input: number, name: string): Iterable<readonly [name: string, change: Change]> {
    this.save();
    return this.#rows.of(input, name);
  }

  /** The states of the input's changes are in the store, and so will be the position past it. Of an input that has many they go by and by. */
  passed(input: number): void {
    const held = this.#held.get(input);
    if (held !== undefined) {
      this.#held.delete(input);
      this.#bytes -= held.bytes;
    }
    if (this.#parted.has(input)) this.#setParted(input, undefined);
    const saved = this.#saved.delete(input);
    if (saved && held !== undefined && held.changes.size > PAGE_ROWS) return this.#rows.dropAll(input);
    if (saved) for (const name of held?.changes.keys() ?? []) this.#rows.delete(input, name);
    if (input >= this.#spilledEnd) return;
    const names: string[] = [];
    for (const [name] of this.#stored(input)) if (names.push(name) > PAGE_ROWS) return this.#rows.dropAll(input);
    for (const name of names) this.#rows.delete(input, name);
  }

  #setParted(input: number, whole: boolean | undefined): void {
    if (whole === undefined) this.#parted.delete(input);
    else this.#parted.set(input, whole);
    this.#rows.setParted(input, whole);
  }

  /** Puts what is held in the store too, before each checkpoint. */
  save(): void {
    for (const [input, name] of this.#unsaved) {
      const change = this.#held.get(input)?.changes.get(name);
      if (change === undefined) continue;
      this.#rows.set(input, name, change);
      this.#saved.add(input);
    }
    this.#unsaved = [];
  }

  #spill(): void {
    this.save();
    this.#held.clear();
    this.#saved.clear();
    this.#bytes = 0;
    this.#spilledEnd = this.#last + 1;
    this.#page = NO_PAGE;
  }
}
