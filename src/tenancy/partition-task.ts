import { AggregatePartition, type PartitionListener, type Places } from '../aggregates/partition.js';
import type { BoundReducer } from '../aggregates/bindings.js';
import { TenantCode } from '../code-host/tenant-code.js';
import { EMPTY_FENCE } from '../core/fence.js';
import { partitionKey, storedAs } from '../core/slots.js';
import { orderTopic, tenantTopics } from '../log/topics.js';
import type { FoldedSoFar } from '../snapshots/snapshots.js';
import { PartitionTables, type OrderCheckpoint } from '../store/partition-tables.js';
import { Activation } from './activation.js';
import type { HeldPartition, TenantTaskOptions } from './task-options.js';
import { TenantOrder } from './tenant-order.js';

export interface PartitionTaskOptions extends Omit<TenantTaskOptions, 'partitions'> {
  /** 1 or more: partition 0 belongs to the tenant's own task. */
  readonly partition: number;
  /** How many there are. */
  readonly partitionCount: number;
  readonly slotKey: string;
  /** The places of the tenant's records, while its own task is in this process. */
  readonly placesHere?: () => Places | undefined;
}

/**
 * One of several partitions of a tenant, past the first: its owner's, who takes the appends of its aggregates, or a standby. The
 * tenant's own task, where it is in this process, reads it either way, and runs reducers on a standby too.
 */
export class PartitionTask extends Activation implements PartitionListener, HeldPartition, Places {
  readonly tenantId: string;
  readonly partition: number;
  readonly slotKey: string;
  readonly section: string;
  readonly aggregates: AggregatePartition;
  readonly #options: PartitionTaskOptions;
  readonly #tables: PartitionTables;
  /** Ends the count of what is stored here. */
  readonly #uncount: (() => void) | undefined;
  /** Followed for the places of what is appended here. */
  #order: TenantOrder | undefined;
  readonly #orderFrom: OrderCheckpoint | undefined;
  #holds = 0;

  constructor(options: PartitionTaskOptions) {
    super(options.onStopped);
    this.#options = options;
    const { tenantId, partition, partitionCount, slotKey, store, codeHost, definitions } = options;
    this.tenantId = tenantId;
    this.partition = partition;
    this.slotKey = slotKey;
    this.section = partitionKey(storedAs(options), partition);
    const tables = new PartitionTables(store.section(this.section));
    const code = new TenantCode(codeHost.runner(tenantId), definitions);
    const { events: from = EMPTY_FENCE, order } = tables.checkpoint() ?? {};
    this.#tables = tables;
    this.#orderFrom = order;
    this.aggregates = new AggregatePartition({
      setting: options,
      partition,
      partitionCount,
      tables,
      code,
      from,
      places: this,
      listener: this,
    });
    this.#uncount = options.storage?.add(tables.bytes);
    tables.section.onCheckpoint(() => this.#checkpoint());
  }

  /** What a snapshot would spare the next owner; undefined while this is no owner, who alone writes them. */
  get foldedSoFar(): FoldedSoFar | undefined {
    return this.owned ? { records: this.aggregates.position, bytes: this.aggregates.foldedBytes } : undefined;
  }

  /** Faulted aggregates, where this process owns them. */
  get faulted(): number {
    return this.owned ? this.aggregates.faulted : 0;
  }

  /** The tenant's own task reads it. */
  get held(): boolean {
    return this.#holds > 0;
  }

  get idle(): boolean {
    return !this.held;
  }

  async hold(): Promise<() => void> {
    this.#holds++;
    this.aggregates.readByTenant(true);
    await this.#bindAll();
    return () => {
      this.#holds--;
      this.aggregates.readByTenant(this.held);
    };
  }

  /** A mere standby runs no code: who takes it over reads the definitions. */
  bind(reducer: BoundReducer): void {
    if (this.aggregates.owned || (this.status === 'STANDBY' && this.held)) this.aggregates.bind(reducer);
  }

  placeOf(partition: number, offset: number): number | Promise<number | undefined> {
    const places = this.#options.placesHere?.() ?? this.#followedOrder();
    return places.placeOf(partition, offset);
  }

  /** Where the tenant's own task is in another process, the order that it writes is read here, from the first append on. */
  #followedOrder(): Places {
    if (this.#order !== undefined) return this.#order;
    const { log, codecs, owner, logger, partitionCount: count } = this.#options;
    const order = new TenantOrder({
      log,
      codec: codecs.order,
      ref: { topic: orderTopic(storedAs(this.#options)), partition: 0 },
      owner,
      logger,
      tables: this.#tables,
      partitions: { count, foldedTo: () => undefined },
      from: this.#orderFrom,
      listener: {
        advanced: () => undefined,
        stopped: (err) => {
          logger.error(
            { err, tenantId: this.tenantId },
            'the order of a tenant can not be read: answers have no position',
          );
          order.close();
        },
      },
    });
    this.#order = order;
    order.open().catch((err: unknown) => {
      logger.warn({ err, tenantId: this.tenantId }, 'the order of a tenant can not be read now; trying again');
      order.close();
      if (this.#order === order) this.#order = undefined;
    });
    return order;
  }

  /** Its place among the others is not known before the order is written. */
  underWay(): void {
    return;
  }

  protected override async restore(claim: boolean): Promise<void> {
    const { log, partitionCount, changesRetentionMs, definitions } = this.#options;
    await log.ensureTopics(tenantTopics(storedAs(this.#options), changesRetentionMs, partitionCount));
    this.mustRestore();
    await this.aggregates.open({ claim });
    // After the claim: what a former owner halted is known from here on.
    if (claim) await definitions.caughtUp?.();
  }

  protected override follow(): void {
    return;
  }

  protected override async take(): Promise<void> {
    await this.aggregates.claim();
    await this.#options.definitions.caughtUp?.();
  }

  protected override lead(): Promise<void> {
    this.aggregates.serve();
    return this.#bindAll();
  }

  protected override serve(): void {
    return;
  }

  protected override suspend(): void {
    return;
  }

  protected override async shutDown(): Promise<void> {
    this.#order?.close();
    await this.aggregates.close();
    await this.#tables.section.close();
    this.#uncount?.();
  }

  #bindAll(): Promise<void> {
    return this.#options.definitions.bindAll((reducer) => this.bind(reducer));
  }

  #checkpoint(): void {
    const { aggregates } = this;
    aggregates.forgetCommands();
    const events = aggregates.fence;
    const order = this.#order?.checkpoint ?? this.#orderFrom;
    this.#tables.setCheckpoint({ events, changes: EMPTY_FENCE, projected: 0, ...(order && { order }) });
    if (this.owned) this.#options.log.reportPositions([{ of: aggregates.ref, position: events.position }]);
  }
}
