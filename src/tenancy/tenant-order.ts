import type { Places } from '../aggregates/partition.js';
import { background } from '../core/background.js';
import { firstIndex } from '../core/first-index.js';
import { InvariantError } from '../core/errors.js';
import type { Logger } from '../core/logger.js';
import { pause } from '../core/pause.js';
import { READ_BYTES } from '../core/reads.js';
import type { OrderBody } from '../core/records.js';
import { nextTurn, overSlices } from '../core/slices.js';
import type { RecordCodec } from '../log/codec/codec.js';
import type { Log, LogRecord, NewRecord, PartitionRef } from '../log/log.js';
import { follow } from '../log/journal/follow.js';
import { readBelow, recordsAt } from '../log/journal/known-end.js';
import { Retries } from '../core/retries.js';
import { isFinal } from '../log/journal/retry.js';
import type { OrderCheckpoint, OrderSpan, PartitionTables } from '../store/partition-tables.js';

/** The partitions that are put in one order. */
export interface OrderedPartitions {
  readonly count: number;
  /** How far this process has folded the partition; undefined while it does not. */
  foldedTo(partition: number): number | undefined;
}

export interface OrderListener {
  /** The order has grown. */
  advanced(): void;
  /** The topic of the order is broken: nothing more is read, or written. */
  stopped(error: Error): void;
}

export interface TenantOrderOptions {
  readonly log: Log;
  readonly codec: RecordCodec<OrderBody>;
  readonly ref: PartitionRef;
  /** Id of this process, new at each start. */
  readonly owner: string;
  readonly tables: PartitionTables;
  readonly partitions: OrderedPartitions;
  readonly from: OrderCheckpoint | undefined;
  readonly listener: OrderListener;
  readonly logger: Logger;
}

/** Spans in memory; older ones are in the store. */
const TAIL_SPANS = 4096;
/** How long an append waits for its place in the order, which only tells its client where in the feed it is. */
const PLACE_WAIT_MS = 1_000;
/** Appends that are told their places in one turn, and so answered, while several tenants ask. */
const TOLD_AT_ONCE = 6;

/** An offset whose place is waited for. */
interface Unplaced {
  readonly partition: number;
  readonly offset: number;
  readonly until: number;
  readonly resolve: (place: number | undefined) => void;
}

/** Tells apart what one process writes in several activations: records must not share a key. */
let opened = 0;

/**
 * The one order of a tenant of several partitions. A record of its topic says that all of a partition up to an offset that was not
 * placed before comes here: so it is a sequence of spans of partitions, and the place of a record is the number of offsets before
 * it. That number is the same for every reader and for ever, whatever of those offsets is void or erased.
 *
 * Nothing fences the topic, and nothing needs to. What a record says is true whoever wrote it, since a partition's prefix never
 * changes; one that comes twice, or late, moves nothing. Readers take the records as they lie, also those of a process that had the tenant before.
 */
export class TenantOrder implements Places {
  readonly #options: TenantOrderOptions;
  readonly #writer: string;
  readonly #ends: number[];
  #position: number;
  #lastRecordId: string;
  #end: number;
  #tail: OrderSpan[] = [];
  /** Of whom the place is known, and who are to be told. */
  readonly #told: (() => void)[] = [];
  #telling = false;
  #unplaced: Unplaced[] = [];
  #giveUp: NodeJS.Timeout | undefined;
  /** Nothing was placed since somebody waited in vain: nobody writes the order now. */
  #stuck = false;
  #attempts = 0;
  #leading = false;
  #following = false;
  #writing = false;
  #closed = false;

  constructor(options: TenantOrderOptions) {
    this.#options = options;
    this.#writer = `${options.owner}.${(opened++).toString(36)}`;
    const { position = 0, lastRecordId = '', ends = [] } = options.from ?? {};
    this.#position = position;
    this.#lastRecordId = lastRecordId;
    this.#ends = Array.from({ length: options.partitions.count }, (_, partition) => ends[partition] ?? 0);
    this.#end = this.#ends.reduce((sum, end) => sum + end, 0);
    const last = options.tables.spanAt(this.#end - 1);
    if (last !== undefined) this.#tail.push(last);
  }

  /** Where the next span comes. */
  get end(): number {
    return this.#end;
  }

  /** Offsets of the partition below are placed. */
  placedTo(partition: number): number {
    return this.#ends[partition] ?? 0;
  }

  get checkpoint(): OrderCheckpoint {
    return { position: this.#position, lastRecordId: this.#lastRecordId, ends: [...this.#ends] };
  }

  get position(): number {
    return this.#position;
  }

  /** Reads all that is there, and goes on reading until `lead`. @throws InvariantError when the log does not join the checkpoint. */
  async open(): Promise<void> {
    const { log, ref, codec } = this.#options;
    const end = await log.endOffset(ref);
    if (this.#position > end) throw this.#lost(`the checkpoint is at ${this.#position}, the log ends at ${end}`);
    if (this.#position > 0) {
      const [last] = await recordsAt(log, ref, [this.#position - 1], () => this.#closed);
      const found = last?.value ? codec.decode(last.value)?.fence.recordId : undefined;
      if (found !== undefined && found !== this.#lastRecordId)
        throw this.#lost(`the record at offset ${this.#position - 1} is ${found}, it was ${this.#lastRecordId}`);
    }
    await this.#readTo(end);
    this.#following = true;
    void this.#follow();
  }

  /** Resolves when all that was placed before the call is read here; where this process writes the order, when all that is folded has a place. */
  async caughtUp(): Promise<void> {
    if (!this.#leading) return this.#readTo(await this.#options.log.endOffset(this.#options.ref));
    await Promise.all(this.#ends.map((_, partition) => this.#allPlaced(partition)));
  }

  /** Resolves when what is folded of the partition has a place, or gets none in time. */
  async #allPlaced(partition: number): Promise<void> {
    const last = (this.#options.partitions.foldedTo(partition) ?? 0) - 1;
    if (last >= this.placedTo(partition)) await this.placeOf(partition, last);
  }

  /** From now on this process writes the order. */
  async lead(): Promise<void> {
    this.#following = false;
    await this.#readTo(await this.#options.log.endOffset(this.#options.ref));
    this.#leading = true;
    this.advance();
  }

  /** A partition may have been folded further. Cheap; call it for each record. */
  advance(): void {
    if (!this.#leading || this.#writing || this.#closed) return;
    this.#writing = true;
    // After the work of this turn: what it folded goes in one produce.
    setImmediate(() => void this.#write());
  }

  close(): void {
    this.#closed = true;
    this.#nobodyWaits();
  }

  placeOf(partition: number, offset: number): number | Promise<number | undefined> {
    if (offset < this.placedTo(partition)) {
      const span = this.#spanOf(partition, offset);
      return span === undefined ? Promise.resolve(undefined) : span.base + offset - span.from;
    }
    if (this.#stuck || this.#closed) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      this.#unplaced.push({ partition, offset, until: performance.now() + PLACE_WAIT_MS, resolve });
      this.#giveUp ??= this.#giveUpAfter(PLACE_WAIT_MS);
    });
  }

  #spanOf(partition: number, offset: number): OrderSpan | undefined {
    for (let i = this.#tail.length - 1; i >= 0; i--) {
      const span = this.#tail[i] as OrderSpan;
      if (span.partition === partition && span.from <= offset) return offset < span.end ? span : undefined;
    }
    return this.#options.tables.spanOf(partition, offset);
  }

  /** Those who wait for what the span holds have their places. */
  #placed({ base, partition, from, end }: OrderSpan): void {
    this.#stuck = false;
    if (this.#unplaced.length === 0) return;
    const left: Unplaced[] = [];
    for (const one of this.#unplaced)
      if (one.partition === partition && one.offset < end) this.#told.push(() => one.resolve(base + one.offset - from));
      else left.push(one);
    this.#unplaced = left;
    if (!this.#telling) void this.#tell();
  }

  /** Appends are answered when they are told, few on a turn while several tenants ask. */
  async #tell(): Promise<void> {
    this.#telling = true;
    for (let count = 1; this.#told.length > 0; count++) {
      this.#told.shift()?.();
      if (count % TOLD_AT_ONCE === 0 && background.isShared) await nextTurn();
    }
    this.#telling = false;
  }

  #giveUpAfter(ms: number): NodeJS.Timeout {
    return setTimeout(() => {
      this.#giveUp = undefined;
      const now = performance.now();
      const oldest = this.#unplaced[0];
      if (oldest === undefined) return;
      // One timer for all: those who came since then wait for the next.
      if (oldest.until > now) this.#giveUp = this.#giveUpAfter(oldest.until - now);
      else {
        this.#stuck = true;
        this.#nobodyWaits();
      }
    }, ms).unref();
  }

  #nobodyWaits(): void {
    clearTimeout(this.#giveUp);
    this.#giveUp = undefined;
    for (const { resolve } of this.#unplaced.splice(0)) resolve(undefined);
  }

  /** The span that holds the place; undefined past the end. */
  spanAt(place: number): OrderSpan | undefined {
    if (place >= this.#end) return undefined;
    const oldest = this.#tail[0];
    if (oldest === undefined || place < oldest.base) return this.#options.tables.spanAt(place);
    return this.#tail[firstIndex(this.#tail.length, (i) => (this.#tail[i] as OrderSpan).base > place) - 1];
  }

  #follow(): Promise<void> {
    const { log, ref, logger, listener } = this.#options;
    return follow({
      ref,
      logger,
      read: async (waitMs) => (await log.read(ref, this.#position, READ_BYTES, waitMs)).records,
      take: (records) => this.#take(records),
      follows: () => this.#following && !this.#closed,
      failed: (error) => {
        if (this.#closed) return;
        this.#following = false;
        listener.stopped(error);
      },
      messages: {
        away: 'the order of a tenant can not be followed now, trying again',
        back: 'the order of a tenant is followed again',
      },
    });
  }

  async #readTo(end: number): Promise<void> {
    const { log, ref } = this.#options;
    while (this.#position < end && !this.#closed) {
      const { records } = await readBelow(log, ref, this.#position, end, READ_BYTES, () => this.#closed);
      if (records.length === 0)
        throw this.#lost(`there is nothing from offset ${this.#position} on, and it ended at ${end}`);
      await this.#take(records);
    }
  }

  /** Takes those of the records that were not taken yet, a slice on a turn: reads may overlap, and each goes on where all of them are. */
  #take(records: readonly LogRecord[]): Promise<void> {
    return overSlices('log_fold', records, ({ offset, value }) => {
      if (offset < this.#position || this.#closed) return;
      const record = value === null ? undefined : this.#options.codec.decode(value);
      if (record?.body.kind === 'Through') this.#fold(record.body.value);
      this.#lastRecordId = record?.fence.recordId ?? '';
      this.#position = offset + 1;
    });
  }

  /** A record says `through`, which is exclusive. */
  #fold({ partition, through: end }: OrderBody['value']): void {
    const { tables, listener } = this.#options;
    const from = this.#ends[partition];
    if (from === undefined)
      throw new InvariantError(
        `${this.#options.ref.topic} places records of partition ${partition}, and there are ${this.#ends.length}`,
      );
    if (end <= from) return;
    const last = this.#tail.at(-1);
    // One partition that is busy alone makes one long span.
    const span = last?.partition === partition ? { ...last, end } : { base: this.#end, partition, from, end };
    if (span.base === last?.base) this.#tail[this.#tail.length - 1] = span;
    else this.#tail.push(span);
    if (this.#tail.length > 2 * TAIL_SPANS) this.#tail = this.#tail.slice(-TAIL_SPANS);
    tables.setSpan(span);
    this.#ends[partition] = end;
    this.#end += end - from;
    this.#placed(span);
    listener.advanced();
  }

  /** Writes where the partitions are until none has moved; what may have been written is written again. */
  async #write(): Promise<void> {
    const { log, ref, logger, listener } = this.#options;
    const retries = new Retries(logger, { partition: ref });
    try {
      while (!this.#closed) {
        try {
          const { records, moves } = this.#gather();
          if (records.length === 0) return;
          const { baseOffset } = await log.append(ref, records);
          if (baseOffset === this.#position)
            moves.forEach(({ recordId, value }, i) => {
              this.#fold(value);
              this.#lastRecordId = recordId;
              this.#position = baseOffset + i + 1;
            });
          else {
            // A read that was under way when this process began to write may have met them before the answer came.
            await this.#readTo(baseOffset + records.length);
            if (moves.some(({ value }) => value.through > this.placedTo(value.partition)))
              throw this.#lost(`a record landed at ${baseOffset}, before ${this.#position}, which was read`);
          }
          retries.worked('the order of a tenant is written again');
        } catch (error) {
          if (this.#closed) return;
          if (isFinal(error)) return listener.stopped(error as Error);
          retries.failed(error, 'the order of a tenant could not be written; trying again');
          await pause(retries.delay);
        }
      }
    } finally {
      this.#writing = false;
    }
  }

  #gather(): {
    readonly records: NewRecord[];
    readonly moves: readonly { readonly recordId: string; readonly value: OrderBody['value'] }[];
  } {
    const { codec, owner, partitions } = this.#options;
    const records: NewRecord[] = [];
    const moves: { readonly recordId: string; readonly value: OrderBody['value'] }[] = [];
    for (const [partition, from] of this.#ends.entries()) {
      const end = partitions.foldedTo(partition) ?? 0;
      if (end <= from) continue;
      const recordId = `${this.#writer}:${(this.#attempts++).toString(36)}`;
      const value = { partition, through: end };
      moves.push({ recordId, value });
      records.push({
        key: Buffer.from(`${partition}@${end}#${recordId}`),
        value: codec.encode(
          { epoch: 0, owner, recordId, expectedOffset: this.#position + records.length, previous: '' },
          { kind: 'Through', value },
        ),
      });
    }
    return { records, moves };
  }

  #lost(what: string): InvariantError {
    return new InvariantError(`${this.#options.ref.topic}-${this.#options.ref.partition}: ${what}: the log lost data`);
  }
}
