import { NotOwnerError } from '../core/errors.js';
import { EMPTY_FENCE } from '../core/fence.js';
import type { BoundReducer } from '../aggregates/reducers.js';
import { codeLoader } from '../code-host/runner-code.js';
import type { FoldedSoFar } from '../snapshots/snapshots.js';
import { PartitionTables } from '../store/partition-tables.js';
import type { TenantTaskOptions } from './task-options.js';
import { NEXT, type TaskStatus } from './task-status.js';
import { AggregatePartition } from '../aggregates/partition.js';
import { tenantTopics } from '../log/topics.js';

export interface PartitionTaskOptions extends Omit<TenantTaskOptions, 'partitions'> {
  /** 1 or more: partition 0 belongs to the tenant's own task. */
  readonly partition: number;
  /** How many there are. */
  readonly partitionCount: number;
  /** Its section of the local store. */
  readonly section: string;
}

/**
 * One of several partitions of a tenant, past the first: its owner's, who takes the appends of its aggregates, or a copy that
 * follows. The tenant's own task, where it is in this process, reads it either way, and runs reducers on a copy too.
 */
export class PartitionTask {
  readonly tenantId: string;
  readonly partition: number;
  /** Of the local store; its name is the slot key. */
  readonly section: string;
  /** Resolves when it has stopped, by itself or since it was closed. */
  readonly ended: Promise<void>;
  readonly #options: PartitionTaskOptions;
  readonly #tables: PartitionTables;
  readonly #core: AggregatePartition;
  readonly #readers = new Set<() => void>();
  #end!: () => void;
  #promoting: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  #status: TaskStatus = 'CREATED';

  constructor(options: PartitionTaskOptions) {
    this.#options = options;
    const { tenantId, partition, section, store, codeHost, definitions, log } = options;
    this.tenantId = tenantId;
    this.partition = partition;
    this.section = section;
    this.ended = new Promise((resolve) => (this.#end = resolve));
    const tables = (this.#tables = new PartitionTables(store.section(section)));
    const runner = codeHost.runner(tenantId);
    this.#core = new AggregatePartition({
      task: options,
      partition,
      partitionCount: options.partitionCount,
      tables,
      runner,
      ensureLoaded: codeLoader(runner, (artefactId) => definitions.assembly(artefactId)),
      from: tables.checkpoint()?.events ?? EMPTY_FENCE,
      onFolded: () => this.#folded(),
      onStopped: (error) => this.#stopped(error),
    });
    tables.section.onCheckpoint(() => {
      this.#core.forgetCommands();
      const events = this.#core.fence;
      tables.setCheckpoint({ events, changes: EMPTY_FENCE, projected: 0 });
      if (this.#status === 'RUNNING') log.reportPositions([{ of: this.#core.ref, position: events.position }]);
    });
  }

  get status(): TaskStatus {
    return this.#status;
  }

  /** For the tenant's own task. */
  get core(): AggregatePartition {
    return this.#core;
  }

  /** This process is its owner, as far as it knows. */
  get owned(): boolean {
    return this.#status === 'RUNNING';
  }

  /** What a snapshot would spare the next owner; undefined while this is no owner, who alone writes them. */
  get folded(): FoldedSoFar | undefined {
    return this.owned ? { records: this.#core.position, bytes: this.#core.reader.pushedBytes } : undefined;
  }

  /** Aggregates that stand at a fault, where this process owns them. */
  get faulted(): number {
    return this.owned ? this.#core.faulted : 0;
  }

  /** The tenant's own task reads it. */
  get held(): boolean {
    return this.#readers.size > 0;
  }

  get idle(): boolean {
    return !this.held;
  }

  async open({ standby = false }: { readonly standby?: boolean } = {}): Promise<void> {
    this.#become('RESTORING');
    const { log, tenantId, partitionCount, changesRetentionMs, definitions } = this.#options;
    await log.ensureTopics(tenantTopics(tenantId, changesRetentionMs, partitionCount));
    if (!standby) await definitions.refresh?.();
    await this.#core.open({ claim: !standby });
    if (!standby) this.#serve();
    else this.#become('FOLLOWING');
  }

  /** Takes over what it follows; resolves when it serves. @throws StatefoldError UNAVAILABLE when it stopped, or is being closed */
  promote(): Promise<void> {
    return (this.#promoting ??= this.#promote());
  }

  async #promote(): Promise<void> {
    await this.#options.definitions.refresh?.();
    await this.#core.claim();
    if (this.#status !== 'FOLLOWING') throw new NotOwnerError();
    this.#serve();
  }

  #serve(): void {
    this.#become('RUNNING');
    this.#core.serve();
    this.#bindAll();
  }

  /** The tenant's own task reads it from now on; `onFolded` is called for each record that counts. Ended by the function that it gives. */
  hold(onFolded: () => void): () => void {
    this.#readers.add(onFolded);
    this.#core.readByTenant(true);
    this.#bindAll();
    return () => {
      this.#readers.delete(onFolded);
      this.#core.readByTenant(this.held);
    };
  }

  #bindAll(): void {
    for (const reducer of this.#options.definitions.bindings()) this.bind(reducer);
  }

  /** A mere copy runs no code: who takes it over reads the definitions. */
  bind(reducer: BoundReducer): void {
    if (this.#status === 'RUNNING' || (this.#status === 'FOLLOWING' && this.held)) this.#core.bind(reducer);
  }

  /** Flushes and closes; what waits is answered UNAVAILABLE. */
  close(): Promise<void> {
    return (this.#closing ??= this.#shutDown());
  }

  async #shutDown(): Promise<void> {
    if (this.#status === 'RUNNING' || this.#status === 'FOLLOWING') this.#become('SUSPENDED');
    this.#end();
    await this.#core.close();
    await this.#tables.section.close();
    if (this.#status !== 'CLOSED') this.#become('CLOSED');
  }

  #folded(): void {
    for (const onFolded of this.#readers) onFolded();
  }

  #become(status: TaskStatus): void {
    if (!NEXT[this.#status].includes(status)) throw new Error(`a task does not go from ${this.#status} to ${status}`);
    this.#status = status;
  }

  #stopped(error: Error): void {
    if (this.#status === 'SUSPENDED' || this.#status === 'CLOSED') return;
    this.#status = 'CLOSED';
    this.#end();
    this.#options.onStopped(error);
  }
}
