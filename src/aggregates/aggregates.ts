import type {
  AppendCommand,
  AppendResult,
  Fault,
  GivenEvents,
  StateStatus,
  StoredEvent,
  TransactionCommand,
  TransactionResult,
} from '../core/event.js';
import type { Progress } from '../core/progress.js';
import type { ReleaseMode } from '../core/records.js';

/** What serves one aggregate: the tenant's owner, or that of the partition which the aggregate is in. */
export interface AggregateHome {
  append(command: AppendCommand): Promise<AppendResult>;
  /**
   * Stores events under ids and at a time that they had elsewhere: no schema, quota or key is asked, no state is waited for. Resolves with
   * the feed's position of the last of them; undefined: it was not known in time.
   */
  import(command: AppendCommand & { readonly given: GivenEvents }): Promise<number | undefined>;
  /** All of its aggregates lie where the home's one does: in one partition of the tenant. */
  transact(command: TransactionCommand): Promise<TransactionResult>;
  /** Of one that was erased before too. @throws StatefoldError NOT_FOUND */
  erase(aggregateId: string, reason: string | undefined): Promise<Erasure>;
  /** @throws StatefoldError NOT_FOUND, GONE, as all that ask for one aggregate */
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
  /** Of which types its events are. */
  eventTypes(): Promise<EventTypesSummary>;
  /** Of the type's aggregates with the reducer that is bound now; undefined where none is. */
  catchUp(aggregateType: string): Progress | undefined;
  /**
   * How many events a second the type's aggregates were given over the last minute, by the times of the events; less where the tenant was
   * opened here since. Undefined: nobody knows, since events of very many types came. Right behind `types()` it is of all partitions.
   */
  eventsPerSecond(aggregateType: string): number | undefined;
  /** Former bindings of a type whose states are still there. */
  keptGenerations(aggregateType: string): readonly number[];
}

/** How far the erasure of an aggregate is. `erased`: the log has tombstones for all of its records. */
export interface Erasure {
  readonly aggregateId: string;
  readonly status: 'erasing' | 'erased';
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

export interface EventTypeSummary {
  readonly eventType: string;
  readonly events: number;
  /** Of its first and its last event, milliseconds since the epoch. */
  readonly firstSeen: number;
  readonly lastSeen: number;
  /** Of the aggregates that have such events; the first of them, where they are many. */
  readonly aggregateTypes: readonly string[];
}

export interface EventTypesSummary {
  /** Ascending by name; those that came first, where they are very many. */
  readonly eventTypes: readonly EventTypeSummary[];
  /** Events of types that are not among them. */
  readonly others: number;
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
