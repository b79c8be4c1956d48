import { open, type Database, type RootDatabase } from 'lmdb';
import { DAY_MS } from '../../core/clock.js';
import { LOG_RESERVE_BYTES, reserveOfRemovals, SpaceCheck } from '../../core/disk-space.js';
import { allWritten, lmdbFailure, watchLoss } from '../../core/lmdb-failure.js';
import { makeFilesPrivate, makePrivateFolder } from '../../core/private-folder.js';
import { READ_BYTES } from '../../core/reads.js';
import { nextTurn } from '../../core/slices.js';
import {
  AppendIndefiniteError,
  appendBytes,
  AppendRefusedError,
  MAX_APPEND_BYTES,
  type Cleanup,
  type Log,
  type LogPage,
  type PickedPage,
  type LogRecord,
  type NewRecord,
  type PartitionRef,
  tooLarge,
  type TopicSpec,
} from '../log.js';
import { decodeBatch, encodeBatch, endOfBatch, firstOffset, pickRecords, timestampOf } from './record-batch.js';

export interface LmdbLogOptions {
  /** Directory of the log's files; made when missing. */
  readonly path: string;
  readonly now?: () => number;
  /** Appends are refused when less than this would be left on the disk. */
  readonly reserveBytes?: number;
  /** Told when tombstoned records of a topic were dropped: the file may hold their bytes still. */
  readonly onDropped?: ((topic: string) => void) | undefined;
  /** Told of each partition that is gone through for what may be dropped of it. */
  readonly onCleaned?: ((partition: PartitionRef) => void) | undefined;
  /** Told once: nothing can be written to it any more, whatever becomes of the disk. */
  readonly onLost?: ((cause: Error) => void) | undefined;
}

interface TopicMeta {
  readonly id: number;
  readonly partitions: number;
  readonly cleanup: Cleanup;
}

interface Waiting {
  readonly records: readonly NewRecord[];
  resolve(value: { baseOffset: number; timestamp: number }): void;
  reject(error: Error): void;
}

/** A partition was gone through, and what may be dropped of it was. It lies in the environment, or each start would go through all there is. */
interface Cleaned {
  /** Exclusive, of what was gone through. */
  readonly end: number;
  /** When tombstones that were too young may go, milliseconds since the epoch; undefined: there were none. */
  readonly again?: number;
}

/** State of one partition in memory; the records are in lmdb. */
interface Lane {
  readonly id: number;
  readonly partition: number;
  end: number;
  lastTimestamp: number;
  writing: boolean;
  readonly waiting: Waiting[];
  /** Readers at the end, called at the next append. */
  readonly readers: Set<() => void>;
  /** Undefined: it was not yet, or has tombstones since. */
  cleaned: Cleaned | undefined;
  /** Appends with tombstones, since it is known here. */
  tombstones: number;
  deleted: boolean;
  /** Resolves when nothing of the partition is on its way to lmdb. */
  written: Promise<void>;
}

/** Before the id of a topic that was deleted and of which something is left; no topic's name has the like. */
const DELETED = 'deleted/';
/** So many batches go in one transaction. */
const REMOVED_AT_ONCE = 250;
/** Of batches that are gone through one after the other, so much is taken at a time. */
const PORTION_BYTES = 256 * 1024;
const KEY_BYTES = 16;
/** How often expired and superseded records are dropped. */
const CLEAN_EVERY_MS = 60_000;
/** Partitions that are looked at in one turn, whether there is something to drop. */
const LOOKED_AT_ONCE = 64;
/** Of the embedded log: its databases beside the one with the batches. */
export const LOG_DATABASES = ['topics', 'cleaned'] as const;

/**
 * The log in one lmdb environment. What waits for a partition is written as one batch, one value; batches of all partitions
 * that wait at the same time share a transaction and its fsync. An append resolves after the fsync.
 */
export class LmdbLog implements Log {
  readonly maxAppendBytes = MAX_APPEND_BYTES;
  readonly #root: RootDatabase<Buffer, Buffer>;
  readonly #topicsDb: Database<TopicMeta, string>;
  readonly #cleanedDb: Database<Cleaned, string>;
  readonly #topics = new Map<string, TopicMeta>();
  readonly #lanes = new Map<string, Lane>();
  readonly #space: SpaceCheck;
  /** For what is written of the log's own accord. */
  readonly #ownSpace: SpaceCheck;
  readonly #now: () => number;
  readonly #onDropped: LmdbLogOptions['onDropped'];
  readonly #onCleaned: LmdbLogOptions['onCleaned'];
  readonly #writeFailed: (failure: Error) => void;
  readonly #cleaner: NodeJS.Timeout;
  #nextTopicId = 1;
  #cleaning: Promise<void> = Promise.resolve();
  /** Of topics; resolves when the last one has ended. */
  #changing: Promise<void> | undefined;
  #closed = false;
  /** The last read gave as much as it was to. */
  #readMuch = false;

  constructor(options: LmdbLogOptions) {
    makePrivateFolder(options.path);
    const { path, reserveBytes = LOG_RESERVE_BYTES } = options;
    this.#space = new SpaceCheck(path, reserveBytes);
    this.#ownSpace = new SpaceCheck(path, reserveOfRemovals(reserveBytes));
    this.#now = options.now ?? Date.now;
    this.#onDropped = options.onDropped;
    this.#onCleaned = options.onCleaned;
    // Without overlappingSync a transaction is on disk when its promise resolves.
    // Without lmdb-js's own batches of a turn a failed commit rejects the promises that we hold, and none that nobody does;
    // what must be in one transaction is a batch. Past the threshold a transaction begins at once.
    const tuning = {
      overlappingSync: false,
      eventTurnBatching: false,
      txnStartThreshold: 1,
      noSubdir: false,
      maxDbs: 4,
    };
    this.#root = open<Buffer, Buffer>({ path: options.path, encoding: 'binary', keyEncoding: 'binary', ...tuning });
    makeFilesPrivate(options.path);
    this.#writeFailed = watchLoss(this.#root, options.onLost);
    const [topics, cleaned] = LOG_DATABASES;
    this.#topicsDb = this.#root.openDB<TopicMeta, string>({ name: topics, encoding: 'json' });
    this.#cleanedDb = this.#root.openDB<Cleaned, string>({ name: cleaned, encoding: 'json' });
    const left: TopicMeta[] = [];
    for (const { key, value } of this.#topicsDb.getRange()) {
      if (key.startsWith(DELETED)) left.push(value);
      else this.#topics.set(key, value);
      this.#nextTopicId = Math.max(this.#nextTopicId, value.id + 1);
    }
    this.#cleaning = this.#inTurn(async () => {
      for (const meta of left) await this.#remove(meta);
    });
    this.#cleaner = setInterval(() => void this.clean(), CLEAN_EVERY_MS).unref();
  }

  async ensureTopics(specs: readonly TopicSpec[]): Promise<void> {
    if (specs.every((spec) => this.#has(spec))) return;
    await this.#change(async () => {
      const made = specs
        .filter((spec) => !this.#has(spec))
        .map(({ topic, partitions, cleanup }) => {
          const id = this.#topics.get(topic)?.id ?? this.#nextTopicId++;
          return { topic, meta: { id, partitions, cleanup } };
        });
      // One that is there is served, also where its cleanup can't be changed now.
      if (made.some(({ topic }) => !this.#topics.has(topic))) this.#requireSpace(0, this.#ownSpace);
      await allWritten(made.map(({ topic, meta }) => this.#topicsDb.put(topic, meta)));
      for (const { topic, meta } of made) this.#topics.set(topic, meta);
    });
  }

  /** @throws Error where the topic is there, and is another one. */
  #has({ topic, partitions, cleanup }: TopicSpec): boolean {
    const known = this.#topics.get(topic);
    if (known === undefined) return false;
    if (known.partitions !== partitions || known.cleanup.policy !== cleanup.policy)
      throw new Error(
        `topic ${topic} has ${known.partitions} partitions and cleanup '${known.cleanup.policy}', not ${partitions} and '${cleanup.policy}'`,
      );
    return JSON.stringify(known.cleanup) === JSON.stringify(cleanup);
  }

  /** One after the other. A topic is known here when it is on disk, and not before: what is appended to it must be found under its id. */
  #change<T>(change: () => Promise<T>): Promise<T> {
    const changed = this.#changing === undefined ? change() : this.#changing.then(change);
    const ended = changed
      .catch(() => undefined)
      .then(() => {
        if (this.#changing === ended) this.#changing = undefined;
      });
    this.#changing = ended;
    return changed;
  }

  async deleteTopic(topic: string): Promise<void> {
    const meta = await this.#change(() => this.#delete(topic));
    if (meta !== undefined && !this.#closed) await this.#remove(meta);
  }

  /** From now on nobody finds the topic. */
  async #delete(topic: string): Promise<TopicMeta | undefined> {
    const meta = this.#topics.get(topic);
    if (meta === undefined) return undefined;
    this.#topics.delete(topic);
    for (let partition = 0; partition < meta.partitions; partition++) {
      const lane = this.#lanes.get(`${topic}/${partition}`);
      if (lane === undefined) continue;
      this.#lanes.delete(`${topic}/${partition}`);
      lane.deleted = true;
      for (const wake of lane.readers) wake();
      await lane.written; // what lands after the removal would be found by a topic that takes the id after a restart
    }
    try {
      this.#requireSpace(0, this.#ownSpace);
      const renamed = this.#topicsDb.batch(() => {
        void this.#topicsDb.remove(topic);
        void this.#topicsDb.put(`${DELETED}${meta.id}`, meta);
      });
      await allWritten([renamed]);
    } catch (error) {
      this.#topicsDb.resetReadTxn();
      if (this.#topicsDb.get(topic) !== undefined) this.#topics.set(topic, meta);
      throw error;
    }
    return meta;
  }

  /** What is left of a topic that was deleted, a part at a time. Cut off, it is gone on with when the log is opened: until nothing is left its id is taken. */
  async #remove({ id, partitions }: TopicMeta): Promise<void> {
    const range = { start: batchKey(id, 0, 0), end: batchKey(id + 1, 0, 0), limit: REMOVED_AT_ONCE };
    for (let keys = [...this.#root.getKeys(range)]; keys.length > 0; keys = [...this.#root.getKeys(range)]) {
      this.#requireSpace(0, this.#ownSpace);
      await allWritten(keys.map((key) => this.#root.remove(key)));
      if (this.#closed) return;
    }
    const cleaned = Array.from({ length: partitions }, (_, partition) =>
      this.#cleanedDb.remove(cleanedKey({ id, partition })),
    );
    await allWritten([...cleaned, this.#topicsDb.remove(`${DELETED}${id}`)]);
  }

  append(to: PartitionRef, records: readonly NewRecord[]): Promise<{ baseOffset: number; timestamp: number }> {
    if (records.length === 0) return Promise.reject(new AppendRefusedError('nothing to append'));
    const bytes = appendBytes(records);
    if (bytes > this.maxAppendBytes) return Promise.reject(tooLarge(records.length, bytes, this.maxAppendBytes));
    return new Promise((resolve, reject) => {
      const lane = this.#lane(to);
      lane.waiting.push({ records, resolve, reject });
      if (!lane.writing) lane.written = this.#write(lane);
    });
  }

  async #write(lane: Lane): Promise<void> {
    lane.writing = true;
    while (lane.waiting.length > 0) {
      const batch = lane.waiting.splice(0);
      const records = batch.length === 1 ? (batch[0]?.records ?? []) : batch.flatMap((waiting) => waiting.records);
      // Never backwards, so that retention by time is a prefix.
      const timestamp = Math.max(this.#now(), lane.lastTimestamp);
      const base = lane.end;
      const key = batchKey(lane.id, lane.partition, base);
      try {
        const gone = this.#whyGone(lane);
        if (gone !== undefined) throw new AppendRefusedError(gone);
        const value = encodeBatch(timestamp, records);
        this.#requireSpace(value.length);
        if (records.some((record) => record.value === null)) this.#tombstoned(lane);
        const written = this.#root.put(key, value);
        this.#beginAtOnce();
        await written;
      } catch (error) {
        const failure = error instanceof AppendRefusedError ? error : this.#failure(key, await lmdbFailure(error));
        // What failed without a definite end may show: later appends go after it, and their expected offsets tell.
        if (failure instanceof AppendIndefiniteError) lane.end = base + records.length;
        for (const waiting of batch) waiting.reject(failure);
        continue;
      }
      lane.end = base + records.length;
      lane.lastTimestamp = timestamp;
      for (const wake of lane.readers) wake();
      let offset = base;
      for (const waiting of batch) {
        waiting.resolve({ baseOffset: offset, timestamp });
        offset += waiting.records.length;
      }
    }
    lane.writing = false;
  }

  /**
   * lmdb-js begins a transaction on the next turn of the event loop, which may be long with what others do on it, or as soon as more writes
   * wait than its threshold: so one goes with each batch that changes nothing.
   */
  #beginAtOnce(): void {
    this.#root.remove(NOTHING).catch(lmdbFailure); // the batch is told
  }

  /** Before the batch is written: in the same transaction, or in one before it, so that no end of the process leaves it unsaid. */
  #tombstoned(lane: Lane): void {
    lane.tombstones++;
    if (lane.cleaned === undefined) return;
    lane.cleaned = undefined;
    this.#cleanedDb.remove(cleanedKey(lane)).catch(lmdbFailure); // whoever appends is told
  }

  #whyGone(lane: Lane): string | undefined {
    if (this.#closed) return 'the log is closed';
    return lane.deleted ? 'the topic was deleted' : undefined;
  }

  #requireSpace(bytes: number, space = this.#space): void {
    try {
      space.require(bytes);
    } catch (error) {
      throw new AppendRefusedError(`the log could not be written: ${(error as Error).message}`, { cause: error });
    }
  }

  #failure(key: Buffer, cause: Error): Error {
    this.#writeFailed(cause);
    let visible = true;
    try {
      this.#root.resetReadTxn();
      visible = this.#root.get(key) !== undefined;
    } catch {
      // It can't be told: indefinite.
    }
    if (visible) return new AppendIndefiniteError(`the log could not be flushed: ${cause.message}`, { cause });
    return new AppendRefusedError(`the log could not be written: ${cause.message}`, { cause });
  }

  // oxlint-disable-next-line typescript/require-await -- a missing partition rejects
  async endOffset(of: PartitionRef): Promise<number> {
    return this.#lane(of).end;
  }

  // oxlint-disable-next-line typescript/require-await -- as above
  async startOffset(of: PartitionRef): Promise<number> {
    const lane = this.#lane(of);
    for (const { key, value } of this.#range(lane, 0)) return firstOffset(offsetOf(key), value) ?? lane.end;
    return lane.end;
  }

  async read(of: PartitionRef, from: number, maxBytes: number, waitMs = 0): Promise<LogPage> {
    const lane = this.#lane(of);
    for (const until = performance.now() + waitMs; from >= lane.end && !this.#closed && !lane.deleted;) {
      const left = until - performance.now();
      if (left <= 0) break;
      await arrival(lane, left);
    }
    if (from >= lane.end) return { records: [], end: lane.end };
    // Who reads much comes again at once: others have their turn between. Nothing is held meanwhile: what waits for a turn outlives the
    // young generation, with all that is put into it later, and the collector goes after that on the event loop.
    if (this.#readMuch) {
      this.#readMuch = false;
      await nextTurn();
      if (this.#closed) throw new Error('the log is closed');
      if (lane.deleted) return { records: [], end: from };
    }
    const out: LogRecord[] = [];
    let bytes = 0;
    const end = lane.end;
    for (const { key, value } of this.#range(lane, this.#baseAtOrBefore(lane, from))) {
      for (const record of decodeBatch(offsetOf(key), value).records)
        if (record.offset >= from && record.offset < end) out.push(record);
      bytes += value.length;
      if (bytes >= maxBytes && out.length > 0) break;
    }
    this.#readMuch ||= bytes >= maxBytes;
    return { records: out, end };
  }

  async readAt(of: PartitionRef, offsets: readonly number[], maxBytes = Infinity): Promise<PickedPage> {
    const lane = this.#lane(of);
    const { end: known } = lane;
    const there = offsets.filter((offset) => offset < known);
    const out: LogRecord[] = [];
    let [bytes, picked] = [0, 0];
    for (let i = 0; i < there.length;) {
      if (i > 0 && picked >= maxBytes) return { records: out, end: known, looked: i };
      const first = there[i] ?? 0;
      const base = this.#baseAtOrBefore(lane, first);
      // Not a copy of its own: it holds until the next look into the database, and what is picked from it is copied.
      const batch = this.#root.getBinaryFast(batchKey(lane.id, lane.partition, base));
      const end = Math.max(first + 1, batch === undefined ? 0 : endOfBatch(base, batch));
      const from = i;
      while ((there[i] ?? end) < end) i++;
      if (batch === undefined) continue;
      for (const record of pickRecords(base, batch, there.slice(from, i))) {
        out.push(record);
        picked += record.value?.length ?? 0;
      }
      // A batch is read whole, however little of it is asked for.
      if ((bytes += batch.length) < READ_BYTES) continue;
      bytes = 0;
      await nextTurn();
      const gone = this.#whyGone(lane);
      if (gone !== undefined) throw new Error(gone);
    }
    return { records: out, end: known };
  }

  /** Drops what the topics' cleanup lets go. Runs by itself; called by tests. */
  clean(): Promise<void> {
    this.#cleaning = this.#inTurn(async () => {
      let looked = 0;
      for (const [topic, { partitions, cleanup }] of this.#topics) {
        for (let partition = 0; partition < partitions && !this.#closed; partition++) {
          if (++looked % LOOKED_AT_ONCE === 0) await nextTurn();
          // It may be deleted by then.
          if (!this.#topics.has(topic)) break;
          const lane = this.#lane({ topic, partition });
          if (cleanup.policy === 'delete') await this.#expire(lane, this.#now() - cleanup.retentionMs);
          else if (this.#isDue(lane, cleanup.policy)) {
            this.#onCleaned?.({ topic, partition });
            if ((await this.#compact(lane, cleanup.policy === 'latest')) && cleanup.policy === 'tombstones')
              this.#onDropped?.(topic);
          }
        }
      }
    });
    return this.#cleaning;
  }

  #isDue({ cleaned, end }: Lane, policy: 'latest' | 'tombstones'): boolean {
    if (cleaned === undefined || this.#now() >= (cleaned.again ?? Infinity)) return true;
    return policy === 'latest' && end !== cleaned.end;
  }

  /** What fails on a full disk is tried again at the next turn, or the next start. */
  #inTurn(work: () => Promise<void>): Promise<void> {
    return this.#cleaning.then(work).catch(() => undefined);
  }

  async #expire(lane: Lane, before: number): Promise<void> {
    // Mostly nothing has: of many partitions only the first batch is looked at.
    for (const { value } of this.#range(lane, 0)) {
      if (timestampOf(value) >= before) return;
      break;
    }
    let last: number | undefined;
    let expired: number[] = [];
    const remove = async (): Promise<void> => {
      if (expired.length > 0) this.#requireSpace(0, this.#ownSpace);
      await allWritten(expired.map((base) => this.#root.remove(batchKey(lane.id, lane.partition, base))));
      expired = [];
    };
    for await (const { base, value } of this.#batches(lane)) {
      if (timestampOf(value) >= before) break;
      // The last batch stays: it tells where the partition ends.
      if (last !== undefined && expired.push(last) === REMOVED_AT_ONCE) await remove();
      last = base;
    }
    if (last !== undefined && this.#baseAtOrBefore(lane, lane.end) !== last) expired.push(last);
    await remove();
  }

  /** All of the lane in their order, a portion at a time: others have their turn between, and what they append may come too. */
  async *#batches(lane: Lane): AsyncGenerator<{ readonly base: number; readonly value: Buffer }, void> {
    for (let from = 0; !this.#closed && !lane.deleted;) {
      const portion: { readonly base: number; readonly value: Buffer }[] = [];
      let bytes = 0;
      for (const { key, value } of this.#range(lane, from)) {
        portion.push({ base: offsetOf(key), value });
        bytes += value.length;
        if (bytes >= PORTION_BYTES) break;
      }
      const last = portion.at(-1);
      if (last === undefined) return;
      yield* portion;
      from = last.base + 1;
      await nextTurn();
    }
  }

  /** @returns whether something was dropped */
  async #compact(lane: Lane, latest: boolean): Promise<boolean> {
    const { end, tombstones } = lane;
    const lastOf = new Map<string, number>();
    let lastTombstone = -1;
    for await (const { base, value } of this.#batches(lane))
      for (const record of decodeBatch(base, value).records) {
        if (record.offset >= end) continue;
        if (latest || record.value === null) lastOf.set(record.key.toString('latin1'), record.offset);
        if (record.value === null) lastTombstone = record.offset;
      }
    const tail = this.#baseAtOrBefore(lane, end);
    const old = this.#now() - DAY_MS;
    // The last batch stays as it is: what is in it is looked at when it is not the last one any more.
    let again = lastTombstone >= tail ? this.#now() + DAY_MS : undefined;
    let changed: { readonly where: Buffer; readonly value?: Buffer }[] = [];
    let bytes = 0;
    let isDropped = false;
    const write = async (): Promise<void> => {
      const [some, room] = [changed, bytes];
      [changed, bytes] = [[], 0];
      // Behind the removal of the topic it would be found by one that takes the id.
      if (some.length === 0 || lane.deleted || this.#closed) return;
      this.#requireSpace(room, this.#ownSpace);
      await allWritten(
        some.map(({ where, value }) => (value === undefined ? this.#root.remove(where) : this.#root.put(where, value))),
      );
      isDropped = true;
    };
    for await (const { base, value } of lastOf.size === 0 ? [] : this.#batches(lane)) {
      if (base >= tail) break;
      const batch = decodeBatch(base, value);
      const kept = batch.records.filter((record) => {
        const last = lastOf.get(record.key.toString('latin1'));
        if (record.value !== null) return last === undefined || last <= record.offset;
        // Tombstones outlive what they erase by a day, so that a slow reader sees them.
        const stays = last === record.offset && batch.timestamp > old;
        if (stays) again ??= batch.timestamp + DAY_MS;
        return stays;
      });
      if (kept.length === batch.records.length) continue;
      const where = batchKey(lane.id, lane.partition, base);
      if (kept.length === 0) changed.push({ where });
      else {
        const places = kept.map((record) => record.offset - base);
        const left = encodeBatch(batch.timestamp, kept, places, batch.end - base);
        changed.push({ where, value: left });
        bytes += left.length;
      }
      if (changed.length === REMOVED_AT_ONCE || bytes >= PORTION_BYTES) await write();
    }
    await write();
    if (lane.tombstones === tombstones && !lane.deleted && !this.#closed) {
      lane.cleaned = { end, ...(again === undefined ? {} : { again }) };
      await allWritten([this.#cleanedDb.put(cleanedKey(lane), lane.cleaned)]);
    }
    return isDropped;
  }

  /** It lies here, and what is answered is all there is. */
  doubt(): void {
    return;
  }

  /** Nobody asks a log in a file for its lag. */
  reportPositions(): void {
    return;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    for (const lane of this.#lanes.values()) for (const wake of lane.readers) wake();
    clearInterval(this.#cleaner);
    await Promise.all([this.#cleaning, this.#changing]);
    await Promise.all([...this.#lanes.values()].map((lane) => lane.written));
    await this.#root.flushed;
    await this.#root.close();
  }

  #lane({ topic, partition }: PartitionRef): Lane {
    const name = `${topic}/${partition}`;
    const known = this.#lanes.get(name);
    if (known !== undefined) return known;
    const meta = this.#topics.get(topic);
    if (meta === undefined || partition < 0 || partition >= meta.partitions)
      throw new AppendRefusedError(`there is no partition ${name}`);
    const lane: Lane = {
      id: meta.id,
      partition,
      end: 0,
      lastTimestamp: 0,
      writing: false,
      waiting: [],
      readers: new Set(),
      cleaned: this.#cleanedDb.get(cleanedKey({ id: meta.id, partition })),
      tombstones: 0,
      deleted: false,
      written: Promise.resolve(),
    };
    const base = this.#baseAtOrBefore(lane, Number.MAX_SAFE_INTEGER);
    const last = this.#root.get(batchKey(meta.id, partition, base));
    if (last !== undefined) ({ end: lane.end, timestamp: lane.lastTimestamp } = decodeBatch(base, last));
    this.#lanes.set(name, lane);
    return lane;
  }

  /** A value of a range is a copy, whose memory is its own: one more would be as much again outside of the heap, which has V8 collect. */
  #range(lane: Lane, from: number): Iterable<{ key: Buffer; value: Buffer }> {
    return this.#root.getRange({
      start: batchKey(lane.id, lane.partition, from),
      end: batchKey(lane.id, lane.partition + 1, 0),
    });
  }

  /** Base of the batch that holds `offset`, or of the one before. */
  #baseAtOrBefore(lane: Lane, offset: number): number {
    for (const key of this.#root.getKeys({ start: batchKey(lane.id, lane.partition, offset), reverse: true, limit: 1 }))
      if (key.readUInt32BE(0) === lane.id && key.readUInt32BE(4) === lane.partition) return offsetOf(key);
    return 0;
  }
}

/** Until the next append, or the time is over. */
function arrival({ readers }: Lane, milliseconds: number): Promise<void> {
  return new Promise((resolve) => {
    const wake = (): void => {
      clearTimeout(timer);
      readers.delete(wake);
      resolve();
    };
    const timer = setTimeout(wake, milliseconds);
    readers.add(wake);
  });
}

const cleanedKey = ({ id, partition }: Pick<Lane, 'id' | 'partition'>): string => `${id}/${partition}`;

function batchKey(topicId: number, partition: number, base: number): Buffer {
  const key = Buffer.allocUnsafe(KEY_BYTES);
  key.writeUInt32BE(topicId, 0);
  key.writeUInt32BE(partition, 4);
  key.writeUInt32BE(Math.floor(base / 0x1_0000_0000), 8);
  key.writeUInt32BE(base >>> 0, 12);
  return key;
}

const offsetOf = (key: Buffer): number => key.readUInt32BE(8) * 0x1_0000_0000 + key.readUInt32BE(12);

/** A key that no batch has: topics' ids begin with 1. */
const NOTHING = batchKey(0, 0, 0);
