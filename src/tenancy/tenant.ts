import type { Change, SwapCause } from '../core/change.js';
import type { AppendCommand, AppendResult, Fault, StoredEvent, StateStatus } from '../core/event.js';
import type { ReleaseMode } from '../core/records.js';

/**
 * One tenant's engine as the edge and the notifier see it. Reads see every append answered before they were asked.
 * All calls reject with a `StatefoldError`; `UNAVAILABLE` while the tenant is restored or after its task has stopped.
 */
export interface Tenant {
  readonly tenantId: string;
  append(command: AppendCommand): Promise<AppendResult>;
  listEvents(query: EventsQuery): Promise<EventsPage>;
  listAggregates(query: AggregatesQuery): Promise<AggregatesPage>;
  aggregateTypes(): Promise<readonly AggregateTypeSummary[]>;
  /** `NOT_FOUND` without the aggregate (or with another type), `NO_REDUCER_BOUND` without a binding. */
  aggregateState(aggregateType: string, aggregateId: string): Promise<AggregateState>;
  catchUp(aggregateType: string): CatchUp | undefined;
  /** Former bindings of a type whose states are still there. */
  keptGenerations(aggregateType: string): readonly number[];
  /** Keys of all classes of a projection, ascending by (key, className). */
  projectionStates(query: ProjectionStatesQuery): Promise<ProjectionStatesPage>;
  projectionState(projectionId: string, key: string): Promise<readonly ProjectionState[]>;
  /** Takes on an aggregate that stands at a fault. @throws StatefoldError NO_REDUCER_BOUND, NOT_FOUND, NOT_FAULTED, FAULT_MISMATCH, ARTEFACT_FAULTED */
  releaseAggregate(query: AggregateReleaseQuery): Promise<AggregateRelease>;
  readonly faults: TenantFaults;
  /** Progress of a projection's build over history; undefined when it is live. */
  projectionBuild(projectionId: string): CatchUp | undefined;
  /** Which of a projection's revisions has states here; undefined members: none is live, or under way. */
  projectionLife(projectionId: string): ProjectionLife;
  readonly changes: ChangeFeed;
}

/** A projection's revisions as their tenant's task has them. */
export interface ProjectionLife {
  readonly live: { readonly revision: number; readonly artefactId: string } | undefined;
  /** `final`: its swap may be in the log, it can't be called off. */
  readonly building:
    | { readonly revision: number; readonly artefactId: string; readonly cause: SwapCause; readonly final: boolean }
    | undefined;
  /** Former ones that could be live again without a build from the start. */
  readonly kept: readonly { readonly revision: number; readonly artefactId: string }[];
  /** Those that were live, the last of them now, oldest first; `changed`: the keys that were other than before. */
  readonly past: readonly { readonly revision: number; readonly artefactId: string; readonly changed: number }[];
}

/** What serves an aggregate: the tenant, or of one with several partitions that which it is in. */
export type AggregateHome = Pick<Tenant, 'append' | 'listEvents' | 'aggregateState' | 'releaseAggregate'>;

/** What of a tenant stands at a fault, and how it goes on. */
export interface TenantFaults {
  /** Aggregates of a type, ascending by id. */
  ofType(aggregateType: string, query: FaultsQuery): Promise<AggregateFaultsPage>;
  countOfType(aggregateType: string): Promise<number>;
  /** Keys of a projection, ascending by (key, class). */
  ofProjection(projectionId: string, query: FaultsQuery): Promise<KeyFaultsPage>;
  countOfProjection(projectionId: string): Promise<number>;
  /** Takes on the keys that stand at a fault. @throws StatefoldError NOT_FOUND, NOT_FAULTED, FAULT_MISMATCH, FAULT_WITHOUT_KEY, ARTEFACT_FAULTED */
  releaseKeys(query: KeyReleaseQuery): Promise<readonly KeyRelease[]>;
}
export interface FaultsQuery {
  readonly limit: number;
  readonly cursor: string | undefined;
}
export interface AggregateFaultsPage {
  readonly faults: readonly Fault[];
  readonly nextCursor: string | undefined;
}
export interface KeyFault {
  readonly key: string;
  readonly fault: Fault;
}
export interface KeyFaultsPage {
  readonly faults: readonly KeyFault[];
  readonly nextCursor: string | undefined;
}
/** Which fault the client means; undefined: whichever it is. */
interface ExpectedFault {
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
export interface KeyReleaseQuery extends ExpectedFault {
  readonly projectionId: string;
  /** Undefined: all that stand, up to a bound. */
  readonly key: string | undefined;
  /** Undefined: all classes of the projection in which the key stands. */
  readonly className: string | undefined;
  readonly mode: ReleaseMode;
}
export interface KeyRelease {
  readonly key: string;
  readonly className: string;
  /** As of an aggregate; `superseded`: by the time it came to it, another revision was live, or it stood at another event. */
  readonly outcome: 'released' | 'faulted' | 'superseded' | 'pending';
  /** Changes of the state that were told. */
  readonly changes: number;
  readonly fault: Fault | undefined;
}

/** The accepted changes of one tenant, in order. */
export interface ChangeFeed {
  /** Highest sequence that was acknowledged, as far as it has come here; 0 before the first. */
  head(): number;
  /** Resolves when all that was acknowledged before the call has come here. */
  refresh(): Promise<void>;
  /**
   * Changes of a projection with a sequence past `after`, ascending, at most `limit`, faults left out. From memory where the tail
   * reaches back to the cursor, else from the log. @throws StatefoldError CURSOR_EXPIRED with `details.oldestSequence`.
   */
  read(projectionId: string, after: number, limit: number): Promise<readonly Change[]>;
  /** The cursor of a reader without one: before the oldest change of the projection that is kept. */
  oldest(projectionId: string): Promise<number>;
  /** As `read`, from memory alone, undefined where the tail doesn't reach back to `after`. */
  tail(projectionId: string, after: number, limit: number): readonly Change[] | undefined;
  /** Called in order of sequence after changes were acknowledged, once a batch, on the same turn. Must not throw. */
  subscribe(listener: (changes: readonly Change[]) => void): () => void;
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
export interface CatchUp {
  readonly status: 'running' | 'done' | 'failed';
  readonly processed: number;
  readonly total: number;
  readonly eventsPerSecond: number;
}
export interface ProjectionStatesQuery {
  readonly projectionId: string;
  readonly prefix: string;
  readonly limit: number;
  readonly cursor: string | undefined;
}
export interface ProjectionState {
  readonly key: string;
  readonly className: string;
  readonly state: Buffer | null;
  readonly sequence: number;
  readonly lastModified: number;
  readonly fault: Fault | undefined;
}
export interface ProjectionStatesPage {
  readonly states: readonly ProjectionState[];
  readonly nextCursor: string | undefined;
}

/** A tenant as those see it who want its changes alone. */
export type Feed = Pick<Tenant, 'tenantId' | 'changes'>;

/** The tenants whose changes this process has. */
export interface Feeds {
  /** Follows the tenant when needed. `NOT_FOUND` where the catalog has none, `UNAVAILABLE` where this process does not notify of it. */
  open(tenantId: string): Promise<Feed>;
  /** The tenant if its changes are here already. */
  active(tenantId: string): Feed | undefined;
  /** Called for each tenant when its changes are here, also in place of an earlier feed. */
  onActivated(listener: (feed: Feed) => void): void;
}

/** The tenants whose slots this process owns. A tenant is activated on first use and passivated when idle. */
export interface Tenants {
  /** Activates when needed. `NOT_FOUND` where the catalog has no such tenant. */
  open(tenantId: string): Promise<Tenant>;
  /** The tenant if it is active already. */
  active(tenantId: string): Tenant | undefined;
  /** Called for each tenant when it is activated. */
  onActivated(listener: (tenant: Tenant) => void): void;
}

/** As those see the tenants who address single aggregates. */
export interface AggregateHomes {
  /** Of how many partitions the tenant's events are: its aggregates are spread over them, each with an owner of its own. */
  partitionsOf(tenantId: string): number;
  /** What serves the aggregate; activated when needed, and then a promise. */
  home(tenantId: string, aggregateId: string): AggregateHome | Promise<AggregateHome>;
}
