import type { Head } from '../core/append-rules.js';
import type { StoredCommit } from '../core/event.js';
import type { InputReader } from '../aggregates/commit-reader.js';
import type { BoundReducer } from '../aggregates/reducers.js';
import type { Code, ReducerMarks } from '../store/fault-tables.js';
import type { KeyState, LiveProjection, ReducerState } from '../store/partition-tables.js';

/** What a partition of a tenant holds of its aggregates, for those who fold them again. Nothing is changed by it. */
export interface AggregateSource {
  /** Resolves when all that was acknowledged before the call is here. @throws StatefoldError UNAVAILABLE where another process serves it */
  barrier(): Promise<void>;
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

/** The same of a tenant's projections. */
export interface ProjectionSource {
  /** The tenant's one order. */
  readonly reader: InputReader;
  /** The rows of live projections are what the inputs below this place make, now and until the next turn. */
  position(): number;
  live(projectionId: string): LiveProjection | undefined;
  row(projectionId: string, revision: number, key: string, classIndex: number): KeyState | undefined;
  /** Rows after the key of the cursor, ascending. */
  rows(
    projectionId: string,
    revision: number,
    after?: readonly [key: string, classIndex: number],
  ): Iterable<readonly [key: string, classIndex: number, row: KeyState]>;
}

/** What a tenant holds, all of its partitions. */
export interface TenantInspection {
  readonly tenantId: string;
  /** By partition. */
  aggregates(): Promise<readonly AggregateSource[]>;
  readonly projections: ProjectionSource;
}

/** The tenants of this process, to those who fold again what they hold. */
export interface Inspectable {
  inspection(tenantId: string): Promise<TenantInspection>;
  /** What holds the aggregate, where this process serves it. */
  aggregateSource(tenantId: string, aggregateId: string): Promise<AggregateSource>;
}
