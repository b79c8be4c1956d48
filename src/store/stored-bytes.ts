import { DAY_MS } from '../core/clock.js';

/** As it lies in the store, in the checkpoint: so it is of the very records that are folded there. */
export interface StoredBytesRow {
  readonly commits: number;
  /** Of states, as they lie in the store. */
  readonly states: number;
  /** Of changes, by the days on which they were made, ascending. */
  readonly changes: readonly (readonly [day: number, bytes: number])[];
}

const dayOf = (timestamp: number): number => Math.floor(timestamp / DAY_MS);

/** What a state takes beside itself and its key, about: the names and numbers of its row. */
const STATE_ROW_BYTES = 100;

/** What the row of a state takes, about; 0: there is none. */
export const stateBytes = (key: string, row: { readonly state: Buffer | null } | undefined): number =>
  row === undefined ? 0 : STATE_ROW_BYTES + key.length + (row.state?.length ?? 0);

/**
 * Of an aggregate, the state by a reducer that was bound before. As a list: the names of fields would be written with each row. Only states
 * without a fault.
 */
export type KeptRow = readonly [
  generation: number,
  version: number,
  state: Buffer | null,
  lastModified: number,
  offset: number,
];

/** The same of those that are kept of an aggregate. */
export const keptBytes = (aggregateId: string, rows: readonly KeptRow[]): number =>
  rows.reduce((sum, [, , state]) => sum + stateBytes(aggregateId, { state }), 0);

/**
 * About how much a partition takes: of the log its commits, for good, and its changes until retention takes them, day by day; of the
 * store the states that its code made of them, which may be much larger than the events.
 */
export class StoredBytes {
  #commits: number;
  #states: number;
  readonly #changes: Map<number, number>;
  #changesTotal = 0;

  constructor(row?: StoredBytesRow) {
    this.#commits = row?.commits ?? 0;
    this.#states = row?.states ?? 0;
    this.#changes = new Map(row?.changes);
    for (const bytes of this.#changes.values()) this.#changesTotal += bytes;
  }

  get row(): StoredBytesRow {
    return { commits: this.#commits, states: this.#states, changes: [...this.#changes].sort(([a], [b]) => a - b) };
  }

  addCommit(bytes: number): void {
    this.#commits += bytes;
  }

  /** A state of so many bytes was stored where there was one of `before`; 0: there is none. */
  changeState(before: number, after: number): void {
    this.#states += after - before;
  }

  addChange(bytes: number, timestamp: number): void {
    const day = dayOf(timestamp);
    this.#changes.set(day, (this.#changes.get(day) ?? 0) + bytes);
    this.#changesTotal += bytes;
  }

  /** Changes of the days that end before `keptSince` count no more. */
  total(keptSince: number): number {
    const oldest = dayOf(keptSince);
    for (const [day, bytes] of this.#changes) {
      if (day >= oldest) continue;
      this.#changes.delete(day);
      this.#changesTotal -= bytes;
    }
    return this.#commits + this.#states + this.#changesTotal;
  }
}
