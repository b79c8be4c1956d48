import type { AppendCommand, AppendResult, Fault, StateStatus, StoredEvent } from '../core/event.js';
import type { Progress } from '../core/progress.js';
import type { ReleaseMode } from '../core/records.js';

/** What serves one aggregate: the tenant's owner, or that of the partition which the aggregate is in. */
export interface AggregateHome {
  append(command: AppendCommand): Promise<AppendResult>;
  events(query: EventsQuery): Promise<EventsPage>;
  /** `NOT_FOUND` without the aggregate (or with another type), `NO_REDUCER_BOUND` without a binding. */
  state(aggregateType: string, aggregateId: string): Promise<AggregateState>;
  /** Takes on a faulted aggregate. @throws StatefoldError NO_REDUCER_BOUND, NOT_FOUND, NOT_FAULTED, FAULT_MISMATCH, ARTEFACT_FAULTED */
  release(query: AggregateReleaseQuery): Promise<AggregateRelease>;
}

/**
 * The aggregates of one tenant together, whatever partitions they lie in; a single one is asked for where it lies. Reads see every append answered before they were asked.
 * All calls reject with a `StatefoldError`: `UNAVAILABLE` while the tenant is restored, or where another process serves it.
 */
export interface Aggregates {
  list(query: AggregatesQuery): Promise<AggregatesPage>;
  types(): Promise<readonly AggregateTypeSummary[]>;
  /** Of the type's aggregates with the reducer that is bound now; undefined where none is. */
  catchUp(aggregateType: string): Progress | undefined;
  /** Former bindings of a type whose states are still there. */
  keptGenerations(aggregateType: string): readonly number[];
}

/** Which fault the client means; undefined: whichever it is. */
export interface ExpectedFault {
  readonly eventId: string | undefined;
  readonly version: number | undefined;
}

export interface AggregateReleaseQuery extends ExpectedFault {
  readonly aggregateType: string;
  readonly aggregateId: string;
  readonly mode: ReleaseMode;
}

export interface AggregateRelease {
  readonly aggregateId: string;
  readonly aggregateType: string;
  /** `pending`: it is in the log, and the fold is not through yet. `faulted`: at the same event again, or at a later one. */
  readonly outcome: 'released' | 'faulted' | 'pending';
  /** Of the state now. */
  readonly version: number;
  /** By which the state came further, those that were passed over too. */
  readonly events: number;
  readonly fault: Fault | undefined;
}

export interface EventsQuery {
  readonly aggregateId: string;
  readonly fromVersion: number | undefined;
  readonly toVersion: number | undefined;
  readonly limit: number;
  readonly direction: 'forward' | 'backward';
}

export interface EventsPage {
  readonly events: readonly StoredEvent[];
  readonly nextVersion: number | undefined;
  /** At which the aggregate stands, as far as it was folded. */
  readonly fault?: Fault | undefined;
}

export interface AggregatesQuery {
  readonly aggregateType: string | undefined;
  readonly limit: number;
  /** Opaque, from the page before. */
  readonly cursor: string | undefined;
}

export interface AggregatesPage {
  readonly aggregates: readonly {
    readonly aggregateId: string;
    readonly aggregateType: string;
    readonly version: number;
    readonly lastModified: number;
  }[];
  readonly nextCursor: string | undefined;
}

export interface AggregateTypeSummary {
  readonly aggregateType: string;
  readonly aggregates: number;
}

export interface AggregateState {
  readonly aggregateId: string;
  readonly aggregateType: string;
  readonly version: number;
  readonly state: Buffer | null;
  /** Undefined at version 0: it reflects no event. */
  readonly lastModified: number | undefined;
  readonly fault: Fault | undefined;
  /** `faulted`: the reducer's artefact is, and the state is behind the aggregate's version. */
  readonly stateStatus?: StateStatus;
}
