import type { OrderedState } from '../core/event.js';
import type { Change } from '../core/change.js';
import type { Feed, FollowedFeed } from '../feed/feed.js';
import type { Input } from '../feed/inputs.js';

/** The state that a key of a projection has now. */
export interface SinkProjectionState {
  readonly projectionId: string;
  readonly className: string;
  readonly key: string;
  readonly state: Buffer | null;
  /** Of the change that made it. */
  readonly sequence: number;
  /** Milliseconds since the epoch. */
  readonly lastModified: number;
}

export interface SinkProjectionStates {
  readonly states: readonly SinkProjectionState[];
  /** Where to go on; undefined: these were the last. */
  readonly next: string | undefined;
}

/** What the sink of one tenant reads: what was accepted, from memory where the tail reaches back, and states. */
export interface SinkSource {
  readonly tenantId: string;
  /** Where a tenant of that id was deleted before: rows that are there without a watermark of this one are that tenant's. */
  readonly incarnation?: string | undefined;
  /** All inputs in the tenant's one order. */
  readonly inputs: Pick<Feed<Input>, 'read'>;
  /** The changes of all projections, faults too. */
  readonly changes: Pick<FollowedFeed<Change>, 'head' | 'read' | 'recent' | 'start'>;
  /** Of all live projections, ascending, about `bytes` of them: what changes that retention has dropped came to. */
  projectionStates(from: string | undefined, bytes: number): Promise<SinkProjectionStates>;
  /** Changes of others are left out: they are deleted. */
  projectionExists(projectionId: string): boolean;
  /**
   * Current states of those of the aggregates whose type is bound, folded to at least `end` (an exclusive offset): so that
   * rows of all commits below it are covered. `logOffset` orders rows of one aggregate (binding generation and commit offset).
   * `lastOnly`: without those that have a commit past it too, with whose page they come.
   */
  aggregateStates(aggregateIds: readonly string[], end: number, lastOnly?: boolean): Promise<readonly OrderedState[]>;
  /** Exclusive. While reducers fold history: below this their states are there without folding aggregates one by one; Infinity: everywhere. */
  statesEnd(): number;
  /**
   * Grows whenever a reducer is bound to a type (0 to 8,191): the states of aggregates that have no new events changed too, so the
   * sink reads all commits again for them. `onAdvance` listeners are called when it does.
   */
  statesRevision(): number;
  /** Where the commits end now. 0: what is read again is read as what is new. */
  commitsEnd(): number;
  /** Called on the turn on which a topic has grown, or states have come further, until the result is called. */
  onAdvance(listener: () => void): () => void;
}
