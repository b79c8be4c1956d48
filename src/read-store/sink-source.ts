import type { Change } from '../core/change.js';
import type { StoredCommit } from '../core/event.js';

/** `released`: aggregates whose states are other ones from there on, without a commit. `dropped`: projections that are deleted, of which no changes are given any more. */
export interface CommitsPage {
  readonly commits: readonly StoredCommit[];
  readonly released?: readonly string[];
  readonly dropped?: readonly string[];
  readonly next: number;
}

/**
 * What the sink of one tenant reads: accepted records of the log by position, from memory where the tail reaches back.
 * `next` is the offset to read from next: it moves past void records too, and equals `from` at the end.
 */
export interface SinkSource {
  readonly tenantId: string;
  readCommits(from: number, maxBytes: number): Promise<CommitsPage>;
  readChanges(from: number, maxBytes: number): Promise<{ readonly changes: readonly Change[]; readonly next: number }>;
  /**
   * Current states of those of the aggregates whose type is bound, folded through at least `through` (exclusive offset): so that
   * rows of all commits below it are covered. `logOffset` orders rows of one aggregate (binding generation and commit offset).
   * `lastOnly`: without those that have a commit past it too, with whose page they come.
   */
  aggregateStates(
    aggregateIds: readonly string[],
    through: number,
    lastOnly?: boolean,
  ): Promise<
    readonly {
      readonly aggregateId: string;
      readonly aggregateType: string;
      readonly version: number;
      readonly state: Buffer | null;
      readonly lastModified: number;
      readonly logOffset: number;
    }[]
  >;
  /** While reducers fold history: below this their states are there without folding aggregates one by one; Infinity: everywhere. */
  statesThrough(): number;
  /**
   * Grows whenever a reducer is bound to a type (0 to 8,191): the states of aggregates that have no new events changed too, so the
   * sink reads all commits again for them. `onAdvance` listeners are called when it does.
   */
  statesRevision(): number;
  /** Where the commits end now. 0: what is read again is read as what is new. */
  commitsEnd(): number;
  /** Called, at most once a turn, when a topic has grown. */
  onAdvance(listener: () => void): () => void;
}
