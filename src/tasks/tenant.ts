import type { Change, SwapCause } from '../core/change.js';
import type { AppendCommand, AppendResult, Fault, StoredEvent } from '../core/event.js';

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
  /** Keys of all classes of a projection, ascending by (key, className). */
  projectionStates(query: ProjectionStatesQuery): Promise<ProjectionStatesPage>;
  projectionState(projectionId: string, key: string): Promise<readonly ProjectionState[]>;
  projectionFaults(projectionId: string): Promise<readonly (Fault & { readonly key: string })[]>;
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
  readonly building: { readonly revision: number; readonly artefactId: string; readonly cause: SwapCause; readonly final: boolean } | undefined;
  /** Former ones that could be live again without a build from the start. */
  readonly kept: readonly { readonly revision: number; readonly artefactId: string }[];
  /** Those that were live, the last of them now, oldest first; `changed`: the keys that were other than before. */
  readonly past: readonly { readonly revision: number; readonly artefactId: string; readonly changed: number }[];
}

/** What serves an aggregate: the tenant, or of one with several partitions that which it is in. */
export type AggregateHome = Pick<Tenant, 'append' | 'listEvents' | 'aggregateState'>;

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
}
export interface AggregatesQuery {
  readonly aggregateType: string | undefined;
  readonly limit: number;
  /** Opaque, from the page before. */
  readonly cursor: string | undefined;
}
export interface AggregatesPage {
  readonly aggregates: readonly { readonly aggregateId: string; readonly aggregateType: string; readonly version: number; readonly lastModified: number }[];
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
  readonly lastModified: number;
  readonly fault: Fault | undefined;
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
