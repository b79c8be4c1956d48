import type { OrderedState } from '../core/event.js';
import type { AggregatePartition, Places } from '../aggregates/partition.js';
import { NotOwnerError } from '../core/errors.js';
import { partitionOf } from '../core/murmur2.js';
import { pause } from '../core/pause.js';
import { storedAs } from '../core/slots.js';
import type { InputFeed } from '../feed/inputs.js';
import { Signal, type Advanced } from '../feed/signal.js';
import { LOG_BACK_OFF_MS, Retries } from '../core/retries.js';
import { orderTopic } from '../log/topics.js';
import type { OrderCheckpoint, PartitionTables } from '../store/partition-tables.js';
import { MergedFeed, type PartitionsHere } from './merged-feed.js';
import type { HeldPartition, PartitionSource, TenantTaskOptions } from './task-options.js';
import { TenantOrder, type OrderedPartitions, type OrderListener } from './tenant-order.js';

/** A tenant's events as its own task has them: in one order, whatever partitions they lie in. */
export interface TenantInput {
  readonly inputs: InputFeed;
  /** The partition that goes with the tenant itself. */
  readonly first: AggregatePartition;
  /** Past the last place. */
  readonly end: number;
  /** Where commits stand that are on their way to this offset of the first partition; undefined: nobody knows yet. */
  placeUnderWay(offset: number): number | undefined;
  /** Resolves when all that was acknowledged before the call, and has a place, is folded here. */
  caughtUp(): Promise<void>;
  /** Where what is appended comes to stand; undefined: at its offset. */
  readonly places: Places | undefined;
  /** Log offsets that are folded, and have no place yet. */
  readonly unplaced: number;
  /** Of the order, where it is not that of the one partition. */
  readonly checkpoint: OrderCheckpoint | undefined;
  /** Reads on from the checkpoint, and follows what others write. */
  open(): Promise<void>;
  /** This process serves the tenant from now on. */
  lead(): Promise<void>;
  /** States of those of the aggregates whose type is bound, folded to at least `end`, a place. `lastOnly`: without those that have a commit past it too, as far as that is known. */
  aggregateStates(aggregateIds: readonly string[], end: number, lastOnly?: boolean): Promise<readonly OrderedState[]>;
  /** Below this place no catch-up has states to fold; Infinity: none is under way. */
  readonly statesEnd: number;
  /** Where the commits end that this process can tell from those to come; 0: it can not. */
  readonly commitsEnd: number;
  /** Calls `advanced`, at most once a turn, when states have changed without a new commit, until the result is called. */
  subscribeToStates(advanced: Advanced): () => void;
  /** All partitions, as soon as they are here. @throws StatefoldError UNAVAILABLE when this is closed before */
  all(): Promise<readonly AggregatePartition[]>;
  /** Those that are here. */
  readonly here: readonly AggregatePartition[];
  close(): void;
}

export interface InputListener {
  /** The order of the inputs is broken: nothing more is read. */
  stopped(error: Error): void;
}

/** One partition: its offsets are the order. */
export class SoleInput implements TenantInput {
  readonly places = undefined;
  readonly unplaced = 0;
  readonly checkpoint = undefined;
  readonly first: AggregatePartition;
  readonly here: readonly AggregatePartition[];

  constructor(first: AggregatePartition) {
    this.first = first;
    this.here = [first];
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

  placeUnderWay(offset: number): number {
    return offset;
  }

  aggregateStates(aggregateIds: readonly string[], end: number, lastOnly?: boolean): Promise<readonly OrderedState[]> {
    return this.first.reads.aggregateStates(aggregateIds, end, lastOnly);
  }

  get statesEnd(): number {
    return this.first.statesEnd;
  }

  get commitsEnd(): number {
    return this.first.position;
  }

  subscribeToStates(advanced: Advanced): () => void {
    return this.first.states.subscribe(advanced);
  }

  all(): Promise<readonly AggregatePartition[]> {
    return Promise.resolve(this.here);
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
export class MergedInput implements TenantInput, PartitionsHere, OrderedPartitions, OrderListener {
  readonly inputs: MergedFeed;
  readonly first: AggregatePartition;
  readonly count: number;
  readonly #options: MergedInputOptions;
  readonly #order: TenantOrder;
  /** Those past the first that are here now. */
  readonly #tasks = new Map<number, HeldPartition>();
  /** How far the inputs of each partition were when they told of it last. */
  readonly #seen: number[] = [];
  readonly #states = new Signal();
  readonly #ends = new Set<() => void>();
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
    this.#ends.add(this.#read(0, first));
  }

  get end(): number {
    return this.#order.end;
  }

  get places(): Places {
    return this.#order;
  }

  get unplaced(): number {
    let offsets = 0;
    for (let partition = 0; partition < this.count; partition++)
      offsets += Math.max(0, (this.foldedTo(partition) ?? 0) - this.#order.placedTo(partition));
    return offsets;
  }

  async caughtUp(): Promise<void> {
    const partitions = Array.from({ length: this.count }, (_, partition) => partition);
    await Promise.all(partitions.map((partition) => this.#caughtUp(partition)));
    await this.#order.caughtUp();
    // What was acknowledged since then may be placed before it: nothing behind can be read without that.
    const behind = partitions.filter((partition) => (this.foldedTo(partition) ?? 0) < this.#order.placedTo(partition));
    await Promise.all(behind.map((partition) => this.#caughtUp(partition)));
  }

  /** As `caughtUp`, of one partition: where another process has claimed it, of the standby that is made of it here. */
  async #caughtUp(partition: number): Promise<void> {
    if (partition === 0) return this.first.caughtUp();
    for (;;) {
      const task = this.#tasks.get(partition);
      if (task === undefined) {
        await this.#nextHere();
        continue;
      }
      try {
        return await task.aggregates.caughtUp();
      } catch (error) {
        if (!(error instanceof NotOwnerError) || this.#closed) throw error;
        await this.#ended(task);
      }
    }
  }

  /** There may be more to read. */
  advanced(): void {
    this.inputs.advanced();
  }

  /** It is not known before the order is written. */
  placeUnderWay(): undefined {
    return undefined;
  }

  /** A place is no offset of a partition: the aggregates of each are folded as far as there is anything. */
  async aggregateStates(
    aggregateIds: readonly string[],
    _end: number,
    lastOnly?: boolean,
  ): Promise<readonly OrderedState[]> {
    const spread = await this.#spread(aggregateIds);
    const states = spread.map(([{ reads }, ids]) => reads.aggregateStates(ids, Infinity, lastOnly));
    return (await Promise.all(states)).flat();
  }

  get statesEnd(): number {
    return this.here.every(({ statesEnd }) => statesEnd === Infinity) ? Infinity : 0;
  }

  get commitsEnd(): number {
    return 0;
  }

  subscribeToStates(advanced: Advanced): () => void {
    return this.#states.subscribe(advanced);
  }

  /** The order is broken. */
  stopped(error: Error): void {
    this.#options.listener.stopped(error);
  }

  get checkpoint(): OrderCheckpoint {
    return this.#order.checkpoint;
  }

  partition(partition: number): AggregatePartition | undefined {
    return partition === 0 ? this.first : this.#tasks.get(partition)?.aggregates;
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

  /** The aggregates by the partitions that they lie in. */
  async #spread(
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
      await this.#nextHere();
    }
  }

  /** Resolves when one more partition is here, or this is closed. @throws NotOwnerError where it is closed already */
  async #nextHere(): Promise<void> {
    if (this.#closed) throw new NotOwnerError();
    await new Promise<void>((resolve) => this.#awaited.push(resolve));
  }

  get here(): readonly AggregatePartition[] {
    return Array.from({ length: this.count }, (_, partition) => this.partition(partition)).filter(
      (partition) => partition !== undefined,
    );
  }

  /** Follows what the partition folds, until the result is called. */
  #read(partition: number, { inputs, states }: Pick<AggregatePartition, 'inputs' | 'states'>): () => void {
    this.#seen[partition] = inputs.head;
    const ends = [inputs.subscribe(() => this.#folded(partition)), states.subscribe(() => this.#states.raise())];
    return () => ends.forEach((end) => end());
  }

  #folded(partition: number): void {
    this.#order.advance();
    // Some of it was placed before it came here: now that can be read. Mostly it is the other way round, and its place tells.
    if ((this.#seen[partition] ?? 0) < this.#order.placedTo(partition)) this.advanced();
    this.#seen[partition] = this.foldedTo(partition) ?? 0;
  }

  close(): void {
    this.#closed = true;
    this.#order.close();
    for (const end of this.#ends) end();
    this.#ends.clear();
    for (const resolve of this.#awaited.splice(0)) resolve();
  }

  /** Has the partition here as long as this is open: the next task of it when one has stopped. */
  async #keep(partition: number): Promise<void> {
    const { logger, tenantId } = this.#options.setting;
    const retries = new Retries(logger, { tenantId, partition });
    while (!this.#closed) {
      try {
        const task = await this.#options.partitions.acquire(partition);
        if (this.#isClosed()) return;
        const unhold = await task.hold();
        if (this.#isClosed()) return unhold();
        const held = [unhold, this.#read(partition, task.aggregates)];
        const release = (): void => held.splice(0).forEach((end) => end());
        this.#ends.add(release);
        this.#tasks.set(partition, task);
        retries.worked('a partition of a tenant is here again');
        for (const resolve of this.#awaited.splice(0)) resolve();
        this.#order.advance();
        this.advanced();
        await this.#ended(task);
        this.#tasks.delete(partition);
        this.#ends.delete(release);
        release();
      } catch (error) {
        retries.failed(error, 'a partition of a tenant can not be had now; trying again');
      }
      if (!this.#isClosed()) await pause(Math.max(LOG_BACK_OFF_MS.first, retries.delay));
    }
  }

  /** Resolves when the partition has stopped, or this is closed: a partition that lives on holds nothing of this then. */
  #ended(task: HeldPartition): Promise<void> {
    return new Promise((resolve) => {
      const unlisten = task.onEnded(() => end());
      const end = (): void => {
        unlisten();
        this.#ends.delete(end);
        resolve();
      };
      this.#ends.add(end);
    });
  }

  #isClosed(): boolean {
    return this.#closed;
  }
}
