import type { Change } from '../core/change.js';
import type { PartitionTables } from './store/partition-tables.js';

interface Held {
  readonly changes: Map<string, Change>;
  bytes: number;
}

/** What is kept in memory; the rest is in the store. */
const HELD_BYTES = 8 * 1024 * 1024;
const bytesOf = (change: Change): number => 400 + (change.state?.length ?? 0);
const NONE: readonly Change[] = [];

/**
 * Accepted changes of inputs that the projections have not passed, by input: after a restart, or a takeover, they come to those
 * inputs again. The last ones are held in memory, and put in the store before each checkpoint; past a bound all go there.
 */
export class RecordedChanges {
  readonly #tables: PartitionTables;
  readonly #heldBytes: number;
  readonly #held = new Map<number, Held>();
  #bytes = 0;
  /** Highest input that was recorded; -1: none. */
  #last: number;
  /** Changes of inputs up to here may be in the store alone. */
  #spilledThrough: number;
  #unsaved: (readonly [input: number, name: string])[] = [];
  readonly #saved = new Set<number>();

  constructor(tables: PartitionTables, heldBytes = HELD_BYTES) {
    this.#tables = tables;
    this.#heldBytes = heldBytes;
    this.#last = this.#spilledThrough = tables.lastRecordedInput() ?? -1;
  }

  get last(): number {
    return this.#last;
  }

  add(input: number, name: string, change: Change): void {
    let held = this.#held.get(input);
    if (held === undefined) this.#held.set(input, (held = { changes: new Map(), bytes: 0 }));
    held.changes.set(name, change);
    held.bytes += bytesOf(change);
    this.#bytes += bytesOf(change);
    this.#unsaved.push([input, name]);
    if (input > this.#last) this.#last = input;
    if (this.#bytes > this.#heldBytes) this.#spill();
  }

  get(input: number, name: string): Change | undefined {
    return this.#held.get(input)?.changes.get(name) ?? (input <= this.#spilledThrough ? this.#tables.recordedChange(input, name) : undefined);
  }

  /** In no order. */
  of(input: number): Iterable<Change> {
    if (input <= this.#spilledThrough) return this.#both(input);
    return this.#held.get(input)?.changes.values() ?? NONE;
  }

  *#both(input: number): Generator<Change> {
    const held = this.#held.get(input)?.changes;
    for (const [name, change] of this.#tables.recordedChanges(input)) if (held?.has(name) !== true) yield change;
    if (held !== undefined) yield* held.values();
  }

  /** The states of the input's changes are in the store, and so will be the position past it. */
  passed(input: number): void {
    const held = this.#held.get(input);
    if (held !== undefined) {
      this.#held.delete(input);
      this.#bytes -= held.bytes;
    }
    if (this.#saved.delete(input) || input <= this.#spilledThrough) this.#tables.dropRecordedChanges(input);
  }

  /** Puts what is held in the store too, before each checkpoint. */
  save(): void {
    for (const [input, name] of this.#unsaved) {
      const change = this.#held.get(input)?.changes.get(name);
      if (change === undefined) continue;
      this.#tables.setRecordedChange(input, name, change);
      this.#saved.add(input);
    }
    this.#unsaved = [];
  }

  #spill(): void {
    this.save();
    this.#held.clear();
    this.#saved.clear();
    this.#bytes = 0;
    this.#spilledThrough = this.#last;
  }
}
