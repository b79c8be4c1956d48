import type { Change } from '../core/change.js';
import { StatefoldError } from '../core/errors.js';
import type { ChangesBody } from '../core/records.js';
import type { Budget, Feed, Page } from '../feed/feed.js';
import type { LogFeed } from '../feed/log-feed.js';
import type { PartitionTables } from '../store/partition-tables.js';

/** All changes of a tenant that were accepted. */
export interface AcceptedChanges {
  readonly all: LogFeed<ChangesBody, Change>;
  /** The highest sequence; 0 before the first. */
  head(): number;
  /** The highest sequence of the projection that retention has taken. */
  oldest(projectionId: string): Promise<number>;
  /** @throws StatefoldError UNAVAILABLE when nothing more is folded */
  mustRun(): void;
}

const CHANGES_PER_READ = 1000;

/** The changes of one projection, faults left out, by sequence: from memory, and from the log by the index of the local store. */
export class ProjectionChanges implements Feed<Change> {
  readonly #changes: AcceptedChanges;
  readonly #tables: PartitionTables;
  readonly #projectionId: string;

  constructor(changes: AcceptedChanges, tables: PartitionTables, projectionId: string) {
    this.#changes = changes;
    this.#tables = tables;
    this.#projectionId = projectionId;
  }

  get head(): number {
    return this.#changes.head() + 1;
  }

  recent(from: number, { items: most = CHANGES_PER_READ }: Budget): Page<Change> | undefined {
    const items = this.#changes.all.picked(
      from,
      most,
      (change) => change.projectionId === this.#projectionId && change.fault === undefined,
    );
    return items && { items, end: endOf(items, most, Math.max(from, this.head)) };
  }

  /** @throws StatefoldError CURSOR_EXPIRED with `details.oldestSequence`; UNAVAILABLE when the tenant is not served any more */
  async read(from: number, budget: Budget): Promise<Page<Change>> {
    this.#changes.mustRun();
    const recent = this.recent(from, budget);
    if (recent !== undefined) return recent;
    // What comes while this is read is left to the next read.
    const { head } = this;
    const { items: most = CHANGES_PER_READ } = budget;
    const trimmed = await this.#changes.oldest(this.#projectionId);
    if (from <= trimmed) throw this.#expired(trimmed);
    const items: Change[] = [];
    for (let after = from - 1; items.length < most;) {
      const sequences = this.#tables.changes.after(this.#projectionId, after, most - items.length);
      if (sequences.length === 0) break;
      for (const change of await this.#changes.all.at(sequences)) if (change.fault === undefined) items.push(change);
      after = sequences.at(-1) ?? after;
    }
    return { items, end: endOf(items, most, Math.max(from, head)) };
  }

  #expired(trimmed: number): StatefoldError {
    const [oldest] = this.#tables.changes.after(this.#projectionId, trimmed, 1);
    return new StatefoldError(
      'CURSOR_EXPIRED',
      `changes up to sequence ${trimmed} have expired; read the states and go on from sequence ${trimmed}`,
      { details: { oldestSequence: oldest ?? this.head } },
    );
  }
}

/** A page that is not full has all there was. */
function endOf(items: readonly Change[], most: number, head: number): number {
  const behind = (items.at(-1)?.sequence ?? 0) + 1;
  return items.length >= most ? behind : Math.max(behind, head);
}
