import { NotOwnerError } from '../core/errors.js';
import { partitionOf } from '../core/murmur2.js';
import { partitionKey } from '../core/slots.js';
import type { AggregatePartition, Places } from '../aggregates/partition.js';
import type { AggregateSource } from '../aggregates/aggregate-source.js';
import type { Inspectable, TenantInspection } from './inspection.js';
import type { PartitionTask } from './partition-task.js';
import type { BoundReducer } from '../aggregates/bindings.js';
import type { PartitionSource } from './task-options.js';
import { TaskRegistry, type TaskRegistryOptions } from './task-registry.js';
import type { AggregateHome } from '../aggregates/aggregates.js';
import type { AggregateHomes, Tenant, Tenants } from './tenant.js';
import type { TenantTask } from './tenant-task.js';

export interface TenantRegistryOptions extends Omit<TaskRegistryOptions<TenantTask>, 'create' | 'onEnded'> {
  /** A new task of the tenant; undefined when the catalog has none. */
  readonly create: (
    tenantId: string,
    onStopped: (error: Error) => void,
    partitions: PartitionSource | undefined,
  ) => TenantTask | undefined;
  /** What the tenant, or a partition of it, is stored as; undefined when the catalog has none. */
  readonly sectionOf?: (key: string) => string | undefined;
  /** Of how many partitions the tenant's events are; 1 unless given. */
  readonly partitionsOf?: (tenantId: string) => number;
  /** Of partitions past the first, of the tenants that have any. */
  readonly partitions?: Pick<TaskRegistryOptions<PartitionTask>, 'onOpened' | 'onClosed'> & {
    readonly create: (of: {
      readonly tenantId: string;
      readonly partition: number;
      readonly slotKey: string;
      readonly partitionCount: number;
      readonly onStopped: (error: Error) => void;
      /** The places of the tenant's records, while its own task is in this process. */
      readonly placesHere: () => Places | undefined;
    }) => PartitionTask | undefined;
    /** It is active in another process, as far as is known: then the tenant's own task is kept, which follows it. */
    readonly activeElsewhere?: (key: string) => boolean;
  };
}

/** Tasks by their slot keys, of tenants and of partitions: what an assignment of slots brings in line. */
export interface SlotTasks {
  readonly activeKeys: readonly string[];
  readonly standbyKeys: readonly string[];
  open(key: string): Promise<unknown>;
  standBy(key: string): Promise<void>;
  passivate(key: string): Promise<void>;
  /** Called when a task or a standby ended by itself; `deposed`: another process has claimed it. */
  onStopped(listener: (key: string, deposed: boolean) => void): void;
}

export interface FaultCounts {
  readonly aggregates: number;
  /** Of projections. */
  readonly keys: number;
}

const NO_FAULTS: FaultCounts = { aggregates: 0, keys: 0 };
const sumOf = (one: FaultCounts, other: FaultCounts): FaultCounts => ({
  aggregates: one.aggregates + other.aggregates,
  keys: one.keys + other.keys,
});

/** The tenants of this process: opened on first use, closed when idle or when they are another's; and standbys of others'. */
export class TenantRegistry implements Tenants, AggregateHomes, Inspectable {
  readonly #options: TenantRegistryOptions;
  readonly #tenants: TaskRegistry<TenantTask>;
  readonly #partitions: TaskRegistry<PartitionTask>;
  readonly #stopListeners: ((key: string, deposed: boolean) => void)[] = [];

  constructor(options: TenantRegistryOptions) {
    this.#options = options;
    const { sectionOf, prepare, refuses, logger, idleMs, ownership, partitions } = options;
    const onEnded = (key: string, deposed: boolean): void => {
      for (const listener of this.#stopListeners) listener(key, deposed);
    };
    this.#tenants = new TaskRegistry({
      ...options,
      onEnded,
      create: (tenantId, stopped) => options.create(tenantId, stopped, this.#source(tenantId)),
      keeps: (tenantId) => this.#isFed(tenantId),
    });
    this.#partitions = new TaskRegistry<PartitionTask>({
      sectionOf,
      prepare,
      refuses,
      logger,
      idleMs,
      ownership,
      onEnded,
      onOpened: partitions?.onOpened,
      onClosed: partitions?.onClosed,
      create: (slotKey, stopped) => {
        const [tenantId = '', partition] = slotKey.split('/');
        return partitions?.create({
          tenantId,
          partition: Number(partition),
          slotKey,
          partitionCount: this.partitionsOf(tenantId),
          onStopped: stopped,
          placesHere: () => (this.#tenants.active(tenantId) ?? this.#tenants.standby(tenantId))?.places,
        });
      },
    });
  }

  active(tenantId: string): TenantTask | undefined {
    return this.#tenants.active(tenantId);
  }

  /** The standby of another process's tenant, while it follows. */
  standby(tenantId: string): TenantTask | undefined {
    return this.#tenants.standby(tenantId);
  }

  get size(): number {
    return this.#tenants.size;
  }

  /** Faulted aggregates and keys, of what this process owns. */
  get faulted(): FaultCounts {
    return [...this.faultedByTenant().values()].reduce(sumOf, NO_FAULTS);
  }

  /** As `faulted`, of each tenant that has any. */
  faultedByTenant(): ReadonlyMap<string, FaultCounts> {
    const found = new Map<string, FaultCounts>();
    const add = (tenantId: string, counts: FaultCounts): void => {
      if (counts.aggregates + counts.keys > 0) found.set(tenantId, sumOf(found.get(tenantId) ?? NO_FAULTS, counts));
    };
    for (const { tenantId, faulted } of this.#tenants.tasks) add(tenantId, faulted);
    for (const { tenantId, faulted } of this.#partitions.tasks) add(tenantId, { aggregates: faulted, keys: 0 });
    return found;
  }

  /** Log offsets that the projections of the active tenants have yet to fold. */
  get projectionLag(): number {
    return this.#tenants.tasks.reduce((lag, task) => lag + task.projectionLag, 0);
  }

  open(tenantId: string): Promise<TenantTask> {
    return this.#tenants.open(tenantId);
  }

  partitionsOf(tenantId: string): number {
    return this.#options.partitionsOf?.(tenantId) ?? 1;
  }

  home(tenantId: string, aggregateId: string): AggregateHome | Promise<AggregateHome> {
    const tenant = this.#tenants.active(tenantId);
    const partition = partitionOf(aggregateId, this.partitionsOf(tenantId));
    if (partition === 0) return tenant?.first ?? this.open(tenantId).then(({ first }) => first);
    // What is appended is for its projections too, which are the tenant's own task's.
    if (tenant === undefined && this.#options.ownership.owns(tenantId)) this.open(tenantId).catch(() => undefined);
    const key = partitionKey(tenantId, partition);
    return this.#partitions.active(key)?.aggregates ?? this.#partitions.open(key).then(({ aggregates }) => aggregates);
  }

  async inspection(tenantId: string): Promise<TenantInspection> {
    return (await this.open(tenantId)).inspection;
  }

  aggregateSource(tenantId: string, aggregateId: string): Promise<AggregateSource> {
    return this.#partition(tenantId, partitionOf(aggregateId, this.partitionsOf(tenantId)));
  }

  /** The partition, of which this process is the owner by what the log has now. @throws NotOwnerError | StatefoldError */
  async ownedPartition(tenantId: string, partition: number): Promise<AggregatePartition> {
    const of = await this.#partition(tenantId, partition);
    if (of.owned) await of.caughtUpAsOwner();
    if (!of.owned) throw new NotOwnerError();
    return of;
  }

  async #partition(tenantId: string, partition: number): Promise<AggregatePartition> {
    return partition === 0
      ? (await this.open(tenantId)).first
      : (await this.#partitions.open(partitionKey(tenantId, partition))).aggregates;
  }

  /** Tells all that run code of the tenant here, or are about to: what is being opened may be past this binding already. */
  bind(tenantId: string, reducer: BoundReducer): void {
    this.#tenants.made(tenantId)?.bind(reducer);
    for (let partition = 1; partition < this.partitionsOf(tenantId); partition++)
      this.#partitions.made(partitionKey(tenantId, partition))?.bind(reducer);
  }

  /** Keeps a standby of another process's tenant, ready to take over. */
  standBy(tenantId: string): Promise<void> {
    return this.#tenants.standBy(tenantId);
  }

  onActivated(listener: (tenant: Tenant) => void): void {
    this.#tenants.onActivated(listener);
  }

  /** Called for each standby when it follows. */
  onFollowed(listener: (standby: TenantTask) => void): void {
    this.#tenants.onFollowed(listener);
  }

  /** Closes a tenant that is used no more, or another's. */
  passivate(tenantId: string): Promise<void> {
    return this.#tenants.passivate(tenantId);
  }

  /** Opens what of the tenant is this process's, without waiting for its next use. */
  async resume(tenantId: string): Promise<void> {
    const { ownership } = this.#options;
    if (ownership.owns(tenantId)) await this.open(tenantId);
    for (let partition = 1; partition < this.partitionsOf(tenantId); partition++) {
      const key = partitionKey(tenantId, partition);
      if (ownership.owns(key)) await this.#partitions.open(key);
    }
  }

  /** Takes out all that is here of a tenant that is being deleted, or is suspended: nothing of it answers from the call on. Resolves when it is closed. */
  async remove(tenantId: string, partitionCount: number): Promise<void> {
    const removals = [this.#tenants.remove(tenantId)];
    for (let partition = 1; partition < partitionCount; partition++)
      removals.push(this.#partitions.remove(partitionKey(tenantId, partition)));
    await Promise.all(removals);
  }

  /** What is here by slots. */
  get slots(): SlotTasks {
    const [tenants, partitions] = [this.#tenants, this.#partitions];
    const of = (key: string): TaskRegistry<TenantTask> | TaskRegistry<PartitionTask> =>
      key.includes('/') ? partitions : tenants;
    return {
      get activeKeys() {
        return [...tenants.activeKeys, ...partitions.activeKeys];
      },
      get standbyKeys() {
        return [...tenants.standbyKeys, ...partitions.standbyKeys];
      },
      onStopped: (listener) => void this.#stopListeners.push(listener),
      open: (key) => of(key).open(key),
      standBy: (key) => of(key).standBy(key),
      // A standby that the tenant's own task reads stays.
      passivate: (key) => (partitions.standby(key)?.held === true ? Promise.resolve() : of(key).passivate(key)),
    };
  }

  async close(): Promise<void> {
    await this.#tenants.close();
    await this.#partitions.close();
  }

  #source(tenantId: string): PartitionSource | undefined {
    const count = this.partitionsOf(tenantId);
    return count === 1
      ? undefined
      : { count, acquire: (partition) => this.#acquire(partitionKey(tenantId, partition)) };
  }

  async #acquire(key: string): Promise<PartitionTask> {
    const partitions = this.#partitions;
    if (this.#options.ownership.owns(key)) {
      try {
        return await partitions.open(key);
      } catch (error) {
        if (!(error instanceof NotOwnerError)) throw error;
      }
    }
    await partitions.standBy(key);
    const task = partitions.active(key) ?? partitions.standby(key);
    if (task === undefined) throw new NotOwnerError();
    return task;
  }

  /** Another process appends to a partition of the tenant. */
  #isFed(tenantId: string): boolean {
    const elsewhere = this.#options.partitions?.activeElsewhere;
    if (elsewhere === undefined) return false;
    for (let partition = 1; partition < this.partitionsOf(tenantId); partition++) {
      const key = partitionKey(tenantId, partition);
      if (!this.#partitions.activeKeys.includes(key) && elsewhere(key)) return true;
    }
    return false;
  }
}
