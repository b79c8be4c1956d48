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
import type { Turn } from '../core/turns.js';

/** What serves one aggregate: the tenant's owner, or that of the partition which the aggregate is in. */
export interface AggregateHome {
  append(command: AppendCommand): Promise<AppendResult>;
  /**
   * Stores events under the ids and times that they had elsewhere: no schema, quota or key is asked, no state is waited for. Resolves with
   * the feed's position of the last event; undefined: it was not known in time.
   */
  import(command: AppendCommand & { readonly given: GivenEvents }): Promise<number | undefined>;
  /** All aggregates of the transaction are in one partition, which is this home's. */
  transact(command: TransactionCommand): Promise<TransactionResult>;
  /** An aggregate that was erased before may be asked for again. @throws StatefoldError NOT_FOUND */
  erase(aggregateId: string, reason: string | undefined): Promise<Erasure>;
  /** @throws StatefoldError NOT_FOUND, GONE, as all methods that ask for one aggregate */
  events(query: EventsQuery): Promise<EventsPage>;
  /** `NOT_FOUND` without the aggregate (or with another type), `NO_REDUCER_BOUND` without a binding. */
  state(aggregateType: string, aggregateId: string): Promise<AggregateState>;
  /** Takes on a faulted aggregate. @throws StatefoldError NO_REDUCER_BOUND, NOT_FOUND, NOT_FAULTED, FAULT_MISMATCH, ARTEFACT_FAULTED */
  release(query: AggregateReleaseQuery): Promise<AggregateRelease>;
}

/**
 * The aggregates of one tenant together, of all its partitions; a single one is asked for at its `AggregateHome`. Reads see every append
 * answered before they were asked.
 * All calls reject with a `StatefoldError`: `UNAVAILABLE` while the tenant is restored, or where another process serves it.
 */
export interface Aggregates {
  list(query: AggregatesQuery): Promise<AggregatesPage>;
  /** Ascending by name; unless given, all of them. */
  types(query?: TypesQuery): Promise<readonly AggregateTypeSummary[]>;
  /** The types of the tenant's events, ascending by name. */
  eventTypes(query: TypesQuery): Promise<EventTypesPage>;
  /** Undefined: it is not counted, or there is no such event. */
  eventType(eventType: string): Promise<EventTypeSummary | undefined>;
  /** How far the reducer that is bound now has caught up with the type's aggregates; undefined where none is bound. */
  catchUp(aggregateType: string): Progress | undefined;
  /**
   * How many events a second the type's aggregates were given over the last minute, by the times of the events; less where the tenant was
   * opened here since. Undefined: not known, since events of very many types came. Right after `types()` it counts all partitions.
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
  /** `pending`: the release is in the log, and not folded yet. `faulted`: the same event, or a later one, has thrown. */
  readonly outcome: 'released' | 'faulted' | 'pending';
  /** The version of the state now. */
  readonly version: number;
  /** How many events the state came further, with those that were skipped. */
  readonly events: number;
  readonly fault: Fault | undefined;
}

export interface EventsQuery {
  readonly aggregateId: string;
  readonly fromVersion: number | undefined;
  readonly toVersion: number | undefined;
  readonly limit: number;
  readonly direction: 'forward' | 'backward';
  /** Asked for before each part of the commits is read. */
  readonly turn?: Turn;
}

export interface EventsPage {
  readonly events: readonly StoredEvent[];
  readonly nextVersion: number | undefined;
  /** The fault at which the fold of the aggregate stopped, if one is known here. */
  readonly fault?: Fault | undefined;
}

/** The first `limit` of the types behind `after`. */
export interface TypesQuery {
  readonly after: string;
  readonly limit: number;
  /** Asked for before each part of them is read. */
  readonly turn?: Turn;
}

export interface AggregatesQuery {
  readonly aggregateType: string | undefined;
  readonly limit: number;
  /** Asked for before each part of them is read. */
  readonly turn?: Turn;
  /** `nextCursor` of the page before. */
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
  /** Times of the first and the last event of the type, milliseconds since the epoch. */
  readonly firstSeen: number;
  readonly lastSeen: number;
  /** Types of the aggregates that have such events; the first ones, where they are many. */
  readonly aggregateTypes: readonly string[];
}

export interface EventTypesPage {
  /** Ascending by name; where there are very many, the types that came first. */
  readonly eventTypes: readonly EventTypeSummary[];
  /** More may follow behind this name; undefined: these are all. */
  readonly upTo: string | undefined;
  /** How many events are of types that are not listed. */
  readonly others: number;
}

export interface AggregateState {
  readonly aggregateId: string;
  readonly aggregateType: string;
  readonly version: number;
  readonly state: Buffer | null;
  /** Undefined at version 0: the state reflects no event. */
  readonly lastModified: number | undefined;
  readonly fault: Fault | undefined;
  /** `faulted`: the reducer's artefact is halted, and the state is behind the aggregate's version. */
  readonly stateStatus?: StateStatus;
}
