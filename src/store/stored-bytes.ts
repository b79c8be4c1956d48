/** As it lies in the store, in the checkpoint: so it is of the very records that are folded there. */
export interface StoredBytesRow {
  readonly commits: number;
  /** Of changes, by the days on which they were made, ascending. */
  readonly changes: readonly (readonly [day: number, bytes: number])[];
}

const DAY_MS = 86_400_000;
const dayOf = (timestamp: number): number => Math.floor(timestamp / DAY_MS);

/** About how much of the log a partition's records take: commits for good, changes until retention takes them, day by day. */
export class StoredBytes {
  #commits: number;
  readonly #changes: Map<number, number>;
  #changesTotal = 0;

  constructor(row?: StoredBytesRow) {
    this.#commits = row?.commits ?? 0;
    this.#changes = new Map(row?.changes);
    for (const bytes of this.#changes.values()) this.#changesTotal += bytes;
  }

  get row(): StoredBytesRow {
    return { commits: this.#commits, changes: [...this.#changes].sort(([a], [b]) => a - b) };
  }

  addCommit(bytes: number): void {
    this.#commits += bytes;
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
    return this.#commits + this.#changesTotal;
  }
}
