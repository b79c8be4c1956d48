import type { CodeHost } from '../code-host/code-host.js';
import type { SwapCause } from '../core/change.js';
import type { Clock } from '../core/clock.js';
import type { Logger } from '../core/logger.js';
import type { ReleaseMode } from '../core/records.js';
import type { Codecs } from '../log/codec/codec.js';
import type { Log } from '../log/log.js';
import type { BuildTarget } from '../projections/projection-builds.js';
import type { BoundReducer } from '../aggregates/reducers.js';
import type { PartitionTask } from './partition-task.js';
import type { LocalStore } from '../store/local-store.js';

/** What the catalog says of a tenant's code. */
export interface TenantDefinitions {
  /** Bindings of the tenant, as of now. */
  bindings(): readonly BoundReducer[];
  /** The newest compiled revision of each projection. */
  projections(): readonly BuildTarget[];
  projectionExists(projectionId: string): boolean;
  /** Of a reducer's artefact, or of `<projectionId>@<revision>`: it has too many strikes, its code is not to be run. */
  halted?(unitId: string): boolean;
  /** Resolves when these are as of the call, also where another process wrote them. */
  refresh?(): Promise<void>;
  assembly(artefactId: string): Promise<Buffer>;
}

export interface TenantTaskOptions {
  readonly tenantId: string;
  readonly log: Log;
  readonly codecs: Codecs;
  readonly store: Pick<LocalStore, 'section'>;
  readonly codeHost: CodeHost;
  readonly definitions: TenantDefinitions;
  readonly owner: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly idempotencyWindow: number;
  readonly changesRetentionMs: number;
  readonly foldDeadlineMs: number;
  /** Of each projection, and of each aggregate's reducers, so many former revisions keep their states; 1 unless given. */
  readonly keptRevisions?: number;
  readonly tailBytes?: number;
  /** Of a swap, or a release: so many changes go in one produce. */
  readonly changesAProduce?: number;
  /** Refusals and reads are answered past a write of the owner's own, not past a question to the leader of its partition. */
  readonly strictReads?: boolean;
  /** The other partitions of its events; undefined where it has one. */
  readonly partitions?: PartitionSource;
  readonly onStopped: (error: Error) => void;
  readonly observer?: TaskObserver;
}

/** Where a tenant's task has the partitions of its tenant past the first. */
export interface PartitionSource {
  /** With the first. */
  readonly count: number;
  /** The partition's task in this process: the owner's where it is ours, else one that follows. Rejects where there can be none now. */
  acquire(partition: number): Promise<PartitionTask>;
}

export interface TaskObserver {
  appended?(events: number): void;
  produced?(topic: 'events' | 'changes', records: number, seconds: number): void;
  folded?(events: number, seconds: number): void;
  projected?(events: number, changes: number, seconds: number): void;
  voided?(): void;
  /** A revision of a projection has become the live one. */
  swapped?(cause: SwapCause): void;
  /** Tenant code stopped a key or an aggregate. */
  faulted?(kind: 'reducer' | 'projection'): void;
  released?(kind: 'reducer' | 'projection', mode: ReleaseMode, outcome: string): void;
}
