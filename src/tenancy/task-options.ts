import type { AggregateObserver, AggregatePartition, PartitionSetting } from '../aggregates/partition.js';
import type { BoundReducer } from '../aggregates/bindings.js';
import type { CodeHost } from '../code-host/code-host.js';
import type { CodeSource } from '../code-host/tenant-code.js';
import type { ReleaseMode } from '../core/records.js';
import type { Codecs } from '../log/codec/codec.js';
import type {
  ProjectionDefinitions,
  ProjectionObserver,
  ProjectionSetting,
} from '../projections/tenant-projections.js';
import type { LocalStore } from '../store/local-store.js';

/** What the catalog says of a tenant's code. */
export interface TenantDefinitions extends CodeSource, ProjectionDefinitions {
  /** Gives `bind` each binding of the tenant, as it stands when its turn comes, over as many turns of the event loop as they take. */
  bindAll(bind: (reducer: BoundReducer) => void): Promise<void>;
  /** Resolves when these are as of the call, also where another process wrote them. */
  caughtUp?(): Promise<void>;
}

export interface TaskObserver extends Omit<AggregateObserver, SharedNames>, Omit<ProjectionObserver, SharedNames> {
  produced?(topic: 'events' | 'changes', records: number, seconds: number): void;
  voided?(): void;
  /** Tenant code stopped a key or an aggregate. */
  faulted?(kind: 'reducer' | 'projection'): void;
  released?(kind: 'reducer' | 'projection', mode: ReleaseMode, outcome: string): void;
}
type SharedNames = 'produced' | 'voided' | 'faulted' | 'released';

export interface TenantTaskOptions
  extends
    Omit<PartitionSetting, 'codecs' | 'observer'>,
    Omit<ProjectionSetting, 'codecs' | 'observer' | 'definitions'> {
  readonly codecs: Codecs;
  /** Of the rows in the read store, which may be of a tenant's own incarnation and of a log that was restored. */
  readonly rowsIncarnation?: string | undefined;
  readonly store: Pick<LocalStore, 'section'>;
  readonly codeHost: CodeHost;
  readonly definitions: TenantDefinitions;
  readonly changesRetentionMs: number;
  /** The other partitions of its events; undefined where it has one. */
  readonly partitions?: PartitionSource;
  readonly onStopped: (error: Error) => void;
  readonly observer?: TaskObserver;
}

/** A partition past the first as its tenant's own task has it. */
export interface HeldPartition {
  readonly aggregates: AggregatePartition;
  /** This process is its owner, as far as it knows. */
  readonly owned: boolean;
  /** Called once when it has stopped, by itself or since it was closed; soon when it has. The result ends that. */
  onEnded(listener: () => void): () => void;
  /** The tenant's task may answer from it once this resolves, whoever owns it. Ended by the function that it gives, which is called once. */
  hold(): Promise<() => void>;
}

/** Where a tenant's task has the partitions of its tenant past the first. */
export interface PartitionSource {
  /** With the first. */
  readonly count: number;
  /** The partition's task in this process: the owner's where it is ours, else one that follows. Rejects where there can be none now. */
  acquire(partition: number): Promise<HeldPartition>;
}
