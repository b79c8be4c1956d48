import { changeBytes, type Change } from '../core/change.js';
import { StatefoldError } from '../core/errors.js';
import type { ChangesBody } from '../core/records.js';
import type { Budget, FollowedFeed, Page } from '../feed/feed.js';
import type { LogFeed } from '../feed/log-feed.js';
import { Signal, type Advanced } from '../feed/signal.js';
import type { PartitionTables } from '../store/partition-tables.js';

/** All changes of a tenant that were accepted. */
export interface AcceptedChanges {
  readonly all: LogFeed<ChangesBody, Change>;
  /** Of those that are told, with their states: the highest; 0 before the first. What is folded behind it is not told yet. */
  lastSequence(): number;
  /** Retention has taken the projection's changes below this sequence, as far as is known here. */
  trimmedTo(projectionId: string): number;
  /** Finds out what retention has taken from the log, and forgets where it was. */
  trim(projectionId: string): Promise<void>;
  /** Resolves when all that was acknowledged before the call has come here. */
  caughtUp(): Promise<void>;
  /** The feed is to be told of its changes, until the result is called. */
  follow(projectionId: string, feed: ProjectionChanges): () => void;
  /** @throws StatefoldError UNAVAILABLE when nothing more is folded */
  mustRun(): void;
}

const CHANGES_PER_READ = 1000;
const READ_BYTES = 4 * 1024 * 1024;
/** More where they turn out to be small. */
const FIRST_READ = 64;

/** The changes of one projection, faults left out, by sequence: from memory, and from the log by the index of the local store. */
export class ProjectionChanges implements FollowedFeed<Change> {
  readonly #changes: AcceptedChanges;
  readonly #tables: PartitionTables;
  readonly #projectionId: string;
  readonly #signal = new Signal();
  #unfollow: (() => void) | undefined;
  /** What all are given who ask for the same while they are told of changes. */
  #shared: { readonly from: number; readonly most: number; readonly page: Page<Change> | undefined } | undefined;
  #telling = false;

  constructor(changes: AcceptedChanges, tables: PartitionTables, projectionId: string) {
    this.#changes = changes;
    this.#tables = tables;
    this.#projectionId = projectionId;
  }

  get head(): number {
    return this.#changes.lastSequence() + 1;
  }

  positionOf({ sequence }: Change): number {
    return sequence;
  }

  start(): Promise<number> {
    return this.#trimmedTo();
  }

  latest(): Promise<number> {
    return Promise.resolve(this.#changes.lastSequence());
  }

  caughtUp(): Promise<void> {
    return this.#changes.caughtUp();
  }

  get subscribers(): number {
    return this.#signal.listeners;
  }

  subscribe(advanced: Advanced): () => void {
    const unsubscribe = this.#signal.subscribe(advanced);
    this.#unfollow ??= this.#changes.follow(this.#projectionId, this);
    return () => {
      unsubscribe();
      if (this.#signal.listeners > 0) return;
      this.#unfollow?.();
      this.#unfollow = undefined;
    };
  }

  /** There are changes from that sequence on, and none since it was told last. */
  tell(first: number): void {
    this.#telling = true;
    try {
      this.#signal.tell(first);
    } finally {
      this.#telling = false;
      this.#shared = undefined;
    }
  }

  recent(from: number, { items: most = CHANGES_PER_READ }: Budget): Page<Change> | undefined {
    if (!this.#telling) return this.#recent(from, most);
    if (this.#shared?.from !== from || this.#shared.most !== most)
      this.#shared = { from, most, page: this.#recent(from, most) };
    return this.#shared.page;
  }

  #recent(from: number, most: number): Page<Change> | undefined {
    const { head } = this;
    const items = this.#changes.all.picked(
      from,
      most,
      ({ projectionId, fault, sequence }) =>
        projectionId === this.#projectionId && fault === undefined && sequence < head,
    );
    return items && { items, end: endOf(items, most, Math.max(from, head)) };
  }

  /** @throws StatefoldError CURSOR_EXPIRED with `details.oldestSequence`; UNAVAILABLE when the tenant is not served any more */
  async read(from: number, budget: Budget): Promise<Page<Change>> {
    this.#changes.mustRun();
    const recent = this.recent(from, budget);
    if (recent !== undefined) return recent;
    // What comes while this is read is left to the next read.
    const { head } = this;
    const { items: most = CHANGES_PER_READ, bytes: mostBytes = READ_BYTES } = budget;
    const trimmedTo = await this.#trimmedTo();
    if (from < trimmedTo) throw this.#expired(trimmedTo - 1);
    const items: Change[] = [];
    let size = FIRST_READ;
    for (let [after, bytes] = [from - 1, 0]; items.length < most;) {
      const sequences = this.#tables.changes
        .after(this.#projectionId, after, Math.min(size, most - items.length))
        .filter((sequence) => sequence < head);
      if (sequences.length === 0) break;
      let read = 0;
      const { items: found, looked } = await this.#changes.all.at(sequences, mostBytes);
      for (const change of found) {
        read += changeBytes(change);
        if (change.fault === undefined) items.push(change);
      }
      after = sequences[looked - 1] ?? after;
      bytes += read;
      if (bytes >= mostBytes && items.length > 0) return { items, end: after + 1 };
      size = read > mostBytes / 4 ? Math.max(1, size >> 2) : size * 2;
    }
    return { items, end: endOf(items, most, Math.max(from, head)) };
  }

  async #trimmedTo(): Promise<number> {
    await this.#changes.trim(this.#projectionId);
    return this.#changes.trimmedTo(this.#projectionId);
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
