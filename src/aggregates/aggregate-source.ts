import type { Head } from '../core/append-rules.js';
import type { AggregateCommit } from '../core/event.js';
import type { InputFeed } from '../feed/inputs.js';
import type { EventTypeCounts } from '../store/event-type-counts.js';
import type { Code, ReducerMarks } from '../store/fault-tables.js';
import type { ReducerState } from '../store/partition-tables.js';
import type { BoundReducer } from './bindings.js';

/** What a partition of a tenant holds of its aggregates, for those who fold them again. Nothing is changed by it. */
export interface AggregateSource {
  /** Resolves when all that was acknowledged before the call is here. @throws StatefoldError UNAVAILABLE where another process serves it */
  caughtUpAsOwner(): Promise<void>;
  head(aggregateId: string): Head | undefined;
  /** The aggregate was erased: it has no head, and never will have one. */
  isErased(aggregateId: string): boolean;
  /** Commits that hold events of versions in [from, to], ascending, in chunks. */
  history(aggregateId: string, from: number, to: number): AsyncGenerator<readonly AggregateCommit[]>;
  /** The reducer that is bound to the type now. */
  bound(aggregateType: string): BoundReducer | undefined;
  /** The stored state of that reducer; undefined where it has not folded the aggregate yet. */
  stored(aggregateId: string, aggregateType: string): ReducerState | undefined;
  /** What the log says of faults of the aggregate in this code. */
  marks(aggregateId: string, code: Code): ReducerMarks;
  /** Ids after `after`, ascending. */
  aggregatesOfType(aggregateType: string, after: string): Iterable<string>;
  typeCount(aggregateType: string): number;
  /** How many events of each type there are, as of what is folded. */
  eventTypes(): Pick<EventTypeCounts, 'of' | 'others'>;
  /** The partition's records, in their order. */
  readonly inputs: InputFeed;
}
