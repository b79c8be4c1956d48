import { BytePace } from '../core/byte-pace.js';
import { StatefoldError } from '../core/errors.js';
import { Gathered } from '../core/gathered.js';
import type { Logger } from '../core/logger.js';
import { firstOf, READ_BYTES } from '../core/reads.js';
import { overWaitingSlices } from '../core/slices.js';
import { systemTimers, type Timers } from '../feed/timers.js';
import { readBelow, recordsAt } from '../log/journal/known-end.js';
import { Retries } from '../core/retries.js';
import {
  appendBytes,
  appendsOf,
  AppendTooLargeError,
  type Log,
  type NewRecord,
  type PartitionRef,
} from '../log/log.js';

export interface LatestRecordsOptions {
  readonly log: Log;
  readonly topic: string;
  /** Writes of so long go into one append: what is kept here is worth no fsync of its own. */
  readonly gatherMs: number;
  /** Of what may be written late: so much of it at once, and then none until it was so many bytes a second. */
  readonly pace?: { readonly keys: number; readonly bytesPerSecond: number };
  /**
   * Of those who share it: what is written of one of them is paid for by him alone. Who has written so much at once is passed over until it
   * was so many bytes a second, but for what is to be written at once.
   */
  readonly paceOf?: {
    readonly owner: (key: string) => string;
    readonly bytesAtOnce: number;
    readonly bytesPerSecond: number;
  };
  /** What it keeps, for the log: `webhook cursors`. */
  readonly what: string;
  readonly logger: Logger;
  readonly timers?: Timers;
}

/** What is kept in the records of a topic. */
export interface LatestOf {
  /** A record was read; not of keys that wait to be written here. Null: deleted. */
  restored(key: string, value: Buffer | null, offset: number): void;
  /** What is to be written of the key; null deletes it. */
  valueOf(key: string): Buffer | null | Promise<Buffer | null>;
  /** It is in the log. */
  written?(key: string, value: Buffer | null, offset: number): void;
  /** It is too large for the log, and is not tried again before it is another. */
  refused?(key: string): void;
}

/**
 * The last record of each key of a topic with one partition. Writes are gathered, and tried again until they are made or it is closed;
 * one that is too large for the log is told of, and keeps none of the others from being written.
 */
export class LatestRecords {
  readonly #options: LatestRecordsOptions;
  readonly #kept: LatestOf;
  readonly #partition: PartitionRef;
  readonly #timers: Timers;
  readonly #retries: Retries;
  readonly #dirty = new Set<string>();
  /** Where the last of ours lies that was not read yet, of keys that have one; infinite while it is under way. */
  readonly #own = new Map<string, number>();
  /** Where the one before lies, of keys of which one is under way and the one before was not read yet. */
  readonly #ownBefore = new Map<string, number>();
  /** The last that was read of a key while one of ours was under way. */
  readonly #met = new Map<string, { readonly value: Buffer | null; readonly offset: number }>();
  /** Too large when they were written last. */
  readonly #tooLarge = new Set<string>();
  #writing: Promise<ReadonlySet<string>> | undefined;
  readonly #reading = new Gathered(() => this.#readToEnd());
  #position = 0;
  #cancel: (() => void) | undefined;
  /** The next write begins then, where one is to come. */
  #due = Infinity;
  readonly #pace: BytePace | undefined;
  /** By its owner, where each pays for his own: of those who have not paid for all yet. */
  readonly #paceOf = new Map<string, BytePace>();
  #closed = false;

  private constructor(options: LatestRecordsOptions, kept: LatestOf) {
    this.#options = options;
    this.#kept = kept;
    this.#partition = { topic: options.topic, partition: 0 };
    this.#timers = options.timers ?? systemTimers;
    this.#pace = options.pace && new BytePace(0, options.pace.bytesPerSecond, () => this.#timers.now());
    this.#retries = new Retries(options.logger, { partition: this.#partition });
  }

  /** Creates the topic where it is missing and reads all of it. */
  static async open(options: LatestRecordsOptions, kept: LatestOf): Promise<LatestRecords> {
    const { log, topic } = options;
    const records = new LatestRecords(options, kept);
    await log.ensureTopics([{ topic, partitions: 1, cleanup: { policy: 'latest' } }]);
    records.#position = await log.startOffset(records.#partition);
    await records.caughtUp();
    return records;
  }

  /** Reads what was written before the call. Calls that come while a reading is under way wait for one that begins after them. */
  caughtUp(): Promise<void> {
    return this.#reading.asked();
  }

  /** The value of a record that was read or written at the offset; undefined: a later one of its key took its place. */
  async at(offset: number): Promise<Buffer | undefined> {
    const [record] = await recordsAt(this.#options.log, this.#partition, [offset]);
    return record?.value ?? undefined;
  }

  /** What is kept of the key is another now. */
  touch(key: string): void {
    this.#dirty.add(key);
    if (this.#writing !== undefined || this.#closed) return;
    this.#writeIn(Math.max(this.#options.gatherMs, this.#pace?.waitMs ?? 0, this.#waitOf(key)));
  }

  /** Or sooner, where that was said before. */
  #writeIn(ms: number): void {
    const due = this.#timers.now() + ms;
    if (this.#cancel !== undefined && this.#due <= due) return;
    this.#cancel?.();
    this.#due = due;
    this.#cancel = this.#timers.after(ms, () => void this.#flush());
  }

  /** What is kept of the key is not in the log yet, and not on its way there. */
  isTouched(key: string): boolean {
    return this.#dirty.has(key);
  }

  /** Writes what is to be written at once. @throws StatefoldError UNAVAILABLE where what is kept of the key could not be; it is tried again */
  async flush(key: string): Promise<void> {
    while (this.#writing !== undefined) await this.#writing;
    this.#cancel?.();
    // What changes while it is written is left to the next write.
    const failed = await this.#flush(key);
    if (failed.has(key) || this.#tooLarge.has(key))
      throw new StatefoldError('UNAVAILABLE', `${this.#options.what} could not be saved; send the request again`);
  }

  /** Writes what is to be written; how many keys could not be. */
  async close(): Promise<number> {
    this.#closed = true;
    this.#cancel?.();
    await this.#writing;
    this.#paceOf.clear();
    while (this.#dirty.size > 0 && (await this.#write()).size === 0) this.#paceOf.clear();
    return this.#dirty.size;
  }

  async #readToEnd(): Promise<void> {
    const { log } = this.#options;
    const end = await log.endOffset(this.#partition);
    while (this.#position < end) {
      const { records, next } = await readBelow(log, this.#partition, this.#position, end, READ_BYTES);
      for (const { key, value, offset } of records) {
        const name = key.toString('utf8');
        const own = this.#own.get(name);
        if (own !== undefined && offset >= own) this.#own.delete(name);
        // Ours is newer: one that waits, and one that lies further on. One under way shows only then where it lies.
        if (own === Number.POSITIVE_INFINITY) this.#met.set(name, { value, offset });
        else if (!this.#dirty.has(name) && offset > (own ?? -1)) this.#kept.restored(name, value, offset);
      }
      this.#position = next;
    }
  }

  #wrote(key: string, value: Buffer | null, offset: number): void {
    this.#own.set(key, offset);
    this.#ownBefore.delete(key);
    this.#tooLarge.delete(key);
    this.#kept.written?.(key, value, offset);
    const met = this.#takeMet(key);
    if (met === undefined || met.offset < offset) return;
    this.#own.delete(key);
    // Another process wrote after ours.
    if (met.offset > offset && !this.#dirty.has(key)) this.#kept.restored(key, met.value, met.offset);
  }

  #takeMet(key: string): { readonly value: Buffer | null; readonly offset: number } | undefined {
    const met = this.#met.get(key);
    this.#met.delete(key);
    return met;
  }

  #readOwn(part: readonly NewRecord[], baseOffset: number): void {
    this.#position = baseOffset + part.length;
    for (const { key } of part) this.#own.delete(key.toString('utf8'));
  }

  /** How long the next write waits for more, milliseconds. */
  get #pause(): number {
    return Math.max(this.#options.gatherMs, this.#pace?.waitMs ?? 0, this.#leastWait);
  }

  /** Until the first of those who have something to write may, milliseconds. */
  get #leastWait(): number {
    if (this.#paceOf.size === 0) return 0;
    let least = Infinity;
    for (const key of this.#dirty) {
      least = Math.min(least, this.#waitOf(key));
      if (least === 0) return 0;
    }
    return least === Infinity ? 0 : least;
  }

  /** Until the key may be written, milliseconds. */
  #waitOf(key: string): number {
    const { paceOf } = this.#options;
    return (paceOf && this.#paceOf.get(paceOf.owner(key))?.waitMs) ?? 0;
  }

  #payFor(records: readonly NewRecord[]): void {
    this.#pace?.msAfter(appendBytes(records));
    const { paceOf } = this.#options;
    if (paceOf === undefined) return;
    for (const [owner, pace] of this.#paceOf) if (pace.isPaid) this.#paceOf.delete(owner);
    for (const record of records) {
      const owner = paceOf.owner(record.key.toString('utf8'));
      let pace = this.#paceOf.get(owner);
      if (pace === undefined) {
        pace = new BytePace(paceOf.bytesAtOnce, paceOf.bytesPerSecond, () => this.#timers.now());
        this.#paceOf.set(owner, pace);
      }
      pace.msAfter(appendBytes([record]));
    }
  }

  /** `atOnce`: this one, whoever has paid. */
  #flush(atOnce?: string): Promise<ReadonlySet<string>> {
    this.#cancel = undefined;
    return (this.#writing = this.#write(atOnce).then((failed) => {
      this.#writing = undefined;
      if (this.#dirty.size > 0 && !this.#closed)
        this.#writeIn(failed.size === 0 ? this.#pause : Math.max(this.#pause, this.#retries.delay));
      return failed;
    }));
  }

  /** Appends all that changed; gives the keys of which it could not, which are tried again. Never rejects. */
  async #write(atOnce?: string): Promise<ReadonlySet<string>> {
    const failures = new Set<string>();
    if (this.#dirty.size === 0) return failures;
    const { log, what, pace } = this.#options;
    // Whoever waits longest comes first.
    const keys = [...firstOf(this.#payable(atOnce), pace?.keys ?? Infinity)];
    for (const key of keys) {
      const own = this.#own.get(key) ?? Number.POSITIVE_INFINITY;
      if (own < Number.POSITIVE_INFINITY) this.#ownBefore.set(key, own);
      this.#own.set(key, Number.POSITIVE_INFINITY);
      this.#dirty.delete(key);
    }
    let failure: unknown;
    const records: NewRecord[] = [];
    const put = (key: string, value: Buffer | null): unknown => records.push({ key: Buffer.from(key), value });
    const failed = (key: string, error: unknown): void => {
      failure = error;
      failures.add(key);
      this.#dirty.add(key);
    };
    // One takes a tenth of a millisecond and more, and there may be hundreds.
    await overWaitingSlices('notifications', keys, (key) => {
      try {
        const value = this.#kept.valueOf(key);
        if (!(value instanceof Promise)) return void put(key, value);
        return value.then(
          (given) => void put(key, given),
          (error: unknown) => failed(key, error),
        );
      } catch (error) {
        return void failed(key, error);
      }
    });
    for (const part of appendsOf(records, log.maxAppendBytes)) await this.#append(part, failed);
    this.#payFor(records);
    if (failure !== undefined) this.#retries.failed(failure, `${what} could not be saved; trying again`);
    else if (records.length > 0) this.#retries.worked(`${what} are saved again`);
    return failures;
  }

  *#payable(atOnce: string | undefined): Generator<string> {
    for (const key of this.#dirty) if (key === atOnce || this.#waitOf(key) === 0) yield key;
  }

  async #append(part: readonly NewRecord[], failed: (key: string, error: unknown) => void): Promise<void> {
    try {
      const { baseOffset } = await this.#options.log.append(this.#partition, part);
      part.forEach(({ key, value }, i) => this.#wrote(key.toString('utf8'), value, baseOffset + i));
      // Nobody else wrote meanwhile: there is nothing to read.
      if (this.#position === baseOffset && !this.#reading.isUnderWay) this.#readOwn(part, baseOffset);
    } catch (error) {
      const [first] = part;
      if (!(error instanceof AppendTooLargeError) || first === undefined)
        return part.forEach(({ key }) => failed(key.toString('utf8'), error));
      if (part.length === 1) return this.#refused(first.key.toString('utf8'), error);
      // A broker may take less than was known of it: which one is too large shows by halves.
      const half = Math.ceil(part.length / 2);
      await this.#append(part.slice(0, half), failed);
      await this.#append(part.slice(half), failed);
    }
  }

  /** What the log has of it stays as it was. */
  #refused(key: string, error: AppendTooLargeError): void {
    const { what, logger } = this.#options;
    if (!this.#tooLarge.has(key))
      logger.error({ partition: this.#partition, key, err: error }, `${what}: one is too large to be saved`);
    this.#tooLarge.add(key);
    this.#kept.refused?.(key);
    // What others write of it counts again, and what was written here before that does not.
    const before = this.#ownBefore.get(key) ?? -1;
    this.#ownBefore.delete(key);
    if (before < this.#position) this.#own.delete(key);
    else this.#own.set(key, before);
    const met = this.#takeMet(key);
    if (met !== undefined && met.offset > before && !this.#dirty.has(key))
      this.#kept.restored(key, met.value, met.offset);
  }
}
