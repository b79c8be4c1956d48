import type { Head } from '../core/append-rules.js';
import type { StoredCommit } from '../core/event.js';
import type { Code, ReducerMarks } from '../store/fault-tables.js';
import type { ReducerState } from '../store/partition-tables.js';
import type { BoundReducer } from './bindings.js';

/** What a partition of a tenant holds of its aggregates, for those who fold them again. Nothing is changed by it. */
export interface AggregateSource {
  /** Resolves when all that was acknowledged before the call is here. @throws StatefoldError UNAVAILABLE where another process serves it */
  caughtUpAsOwner(): Promise<void>;
  head(aggregateId: string): Head | undefined;
  /** Commits that hold events of versions in [from, to], ascending, in chunks. */
  history(aggregateId: string, from: number, to: number): AsyncGenerator<readonly StoredCommit[]>;
  /** The reducer that is bound to the type now. */
  bound(aggregateType: string): BoundReducer | undefined;
  /** As it is stored, by that reducer; undefined where it has not folded the aggregate yet. */
  stored(aggregateId: string, aggregateType: string): ReducerState | undefined;
  /** What the log says of faults of the aggregate in this code. */
  marks(aggregateId: string, code: Code): ReducerMarks;
  /** Ids after `after`, ascending. */
  aggregatesOfType(aggregateType: string, after: string): Iterable<string>;
  typeCount(aggregateType: string): number;
}
