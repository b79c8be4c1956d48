import type { AggregatePartition } from '../aggregates/partition.js';
import { NotOwnerError } from '../core/errors.js';
import { partitionOf } from '../core/murmur2.js';
import { storedAs } from '../core/slots.js';
import type { InputFeed } from '../feed/inputs.js';
import { backOff, pause } from '../log/journal/retry.js';
import { orderTopic } from '../log/topics.js';
import type { OrderCheckpoint, PartitionTables } from '../store/partition-tables.js';
import { MergedFeed, type PartitionsHere } from './merged-feed.js';
import type { HeldPartition, PartitionReader, PartitionSource, TenantTaskOptions } from './task-options.js';
import { TenantOrder, type OrderedPartitions, type OrderListener } from './tenant-order.js';

/** A tenant's events as its own task has them: in one order, whatever partitions they lie in. */
export interface TenantInput {
  readonly inputs: InputFeed;
  /** The partition that goes with the tenant itself. */
  readonly first: AggregatePartition;
  /** There is no other: its offsets are the order. */
  readonly sole: boolean;
  /** Past the last place. */
  readonly end: number;
  /** Resolves when all that was acknowledged before the call, and has a place, is folded here. */
  caughtUp(): Promise<void>;
  /** Log offsets that are folded, and have no place yet. */
  readonly unplaced: number;
  /** Of the order, where it is not that of the one partition. */
  readonly checkpoint: OrderCheckpoint | undefined;
  /** Reads on from the checkpoint, and follows what others write. */
  open(): Promise<void>;
  /** This process serves the tenant from now on. */
  lead(): Promise<void>;
  /** The aggregates by the partitions that they lie in. */
  spread(aggregateIds: readonly string[]): Promise<readonly (readonly [AggregatePartition, readonly string[]])[]>;
  /** All partitions, as soon as they are here. @throws StatefoldError UNAVAILABLE when this is closed before */
  all(): Promise<readonly AggregatePartition[]>;
  /** Those that are here. */
  readonly here: readonly AggregatePartition[];
  /** The partition has folded a record that counts. */
  folded(partition: number): void;
  close(): void;
}

export interface InputListener {
  /** There may be inputs. */
  advanced(): void;
  /** The order of the inputs is broken: nothing more is read. */
  stopped(error: Error): void;
}

/** One partition: its offsets are the order. */
export class SoleInput implements TenantInput {
  readonly sole = true;
  readonly unplaced = 0;
  readonly checkpoint = undefined;
  readonly first: AggregatePartition;
  readonly here: readonly AggregatePartition[];
  readonly #listener: InputListener;

  constructor(first: AggregatePartition, listener: InputListener) {
    this.first = first;
    this.here = [first];
    this.#listener = listener;
  }

  get inputs(): InputFeed {
    return this.first.inputs;
  }

  get end(): number {
    return this.first.position;
  }

  caughtUp(): Promise<void> {
    return this.first.caughtUp();
  }

  open(): Promise<void> {
    return Promise.resolve();
  }

  lead(): Promise<void> {
    return Promise.resolve();
  }

  spread(aggregateIds: readonly string[]): Promise<readonly (readonly [AggregatePartition, readonly string[]])[]> {
    return Promise.resolve([[this.first, aggregateIds]]);
  }

  all(): Promise<readonly AggregatePartition[]> {
    return Promise.resolve(this.here);
  }

  folded(): void {
    this.#listener.advanced();
  }

  close(): void {
    return;
  }
}

export interface MergedInputOptions {
  readonly setting: Pick<TenantTaskOptions, 'tenantId' | 'incarnation' | 'log' | 'codecs' | 'owner' | 'logger'>;
  readonly tables: PartitionTables;
  readonly first: AggregatePartition;
  readonly from: OrderCheckpoint | undefined;
  readonly partitions: PartitionSource;
  readonly listener: InputListener;
}

/** Several partitions, of which this process owns some and has standbys of the others, in the order that their tenant's own task gives them. */
export class MergedInput implements TenantInput, PartitionsHere, OrderedPartitions, PartitionReader, OrderListener {
  readonly sole = false;
  readonly inputs: MergedFeed;
  readonly first: AggregatePartition;
  readonly count: number;
  readonly #options: MergedInputOptions;
  readonly #order: TenantOrder;
  /** Those past the first that are here now. */
  readonly #tasks = new Map<number, HeldPartition>();
  readonly #ends: (() => void)[] = [];
  /** Who waits for a partition to be here. */
  readonly #awaited: (() => void)[] = [];
  #closed = false;

  constructor(options: MergedInputOptions) {
    this.#options = options;
    const { setting, tables, first, from, partitions } = options;
    const { log, codecs, owner, logger } = setting;
    this.first = first;
    this.count = partitions.count;
    const ref = { topic: orderTopic(storedAs(setting)), partition: 0 };
    const codec = codecs.order;
    this.#order = new TenantOrder({ log, codec, ref, owner, logger, tables, partitions: this, from, listener: this });
    this.inputs = new MergedFeed(this.#order, this);
  }

  get end(): number {
    return this.#order.end;
  }

  get unplaced(): number {
    let offsets = 0;
    for (let partition = 0; partition < this.count; partition++)
      offsets += Math.max(0, (this.foldedTo(partition) ?? 0) - this.#order.placedTo(partition));
    return offsets;
  }

  async caughtUp(): Promise<void> {
    await Promise.all(this.here.map((partition) => partition.caughtUp()));
    await this.#order.caughtUp();
  }

  /** There may be more to read. */
  advanced(): void {
    this.inputs.advanced();
    this.#options.listener.advanced();
  }

  /** The order is broken. */
  stopped(error: Error): void {
    this.#options.listener.stopped(error);
  }

  get checkpoint(): OrderCheckpoint {
    return this.#order.checkpoint;
  }

  partition(partition: number): AggregatePartition | undefined {
    return partition === 0 ? this.first : this.#tasks.get(partition)?.core;
  }

  foldedTo(partition: number): number | undefined {
    return this.partition(partition)?.position;
  }

  async open(): Promise<void> {
    await this.#order.open();
    for (let partition = 1; partition < this.count; partition++) void this.#keep(partition);
  }

  lead(): Promise<void> {
    return this.#order.lead();
  }

  async spread(
    aggregateIds: readonly string[],
  ): Promise<readonly (readonly [AggregatePartition, readonly string[]])[]> {
    const all = await this.all();
    const spread = new Map<AggregatePartition, string[]>();
    for (const aggregateId of aggregateIds) {
      const partition = all[partitionOf(aggregateId, this.count)] ?? this.first;
      const ids = spread.get(partition);
      if (ids === undefined) spread.set(partition, [aggregateId]);
      else ids.push(aggregateId);
    }
    return [...spread];
  }

  async all(): Promise<readonly AggregatePartition[]> {
    for (;;) {
      const { here } = this;
      if (here.length === this.count) return here;
      if (this.#closed) throw new NotOwnerError();
      await new Promise<void>((resolve) => this.#awaited.push(resolve));
    }
  }

  get here(): readonly AggregatePartition[] {
    return Array.from({ length: this.count }, (_, partition) => this.partition(partition)).filter(
      (partition) => partition !== undefined,
    );
  }

  folded(partition: number): void {
    this.#order.advance();
    // It was placed before it came here: now it can be read. Mostly it is the other way round, and its place tells.
    if ((this.foldedTo(partition) ?? 0) <= this.#order.placedTo(partition)) this.advanced();
  }

  close(): void {
    this.#closed = true;
    this.#order.close();
    for (const end of this.#ends.splice(0)) end();
    for (const resolve of this.#awaited.splice(0)) resolve();
  }

  /** Has the partition here as long as this is open: the next task of it when one has stopped. */
  async #keep(partition: number): Promise<void> {
    for (let failures = 0; !this.#closed;) {
      try {
        const task = await this.#options.partitions.acquire(partition);
        if (this.#isClosed()) return;
        failures = 0;
        const release = task.hold(this);
        this.#ends.push(release);
        this.#tasks.set(partition, task);
        for (const resolve of this.#awaited.splice(0)) resolve();
        this.#order.advance();
        this.advanced();
        await task.ended;
        this.#tasks.delete(partition);
        this.#ends.splice(this.#ends.indexOf(release), 1);
        release();
      } catch (error) {
        if (failures === 0)
          this.#options.setting.logger.warn(
            { err: error, tenantId: this.#options.setting.tenantId, partition },
            'a partition of a tenant can not be had now; trying again',
          );
      }
      if (!this.#isClosed()) await pause(backOff(failures++));
    }
  }

  #isClosed(): boolean {
    return this.#closed;
  }
}
