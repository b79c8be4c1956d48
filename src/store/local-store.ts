import { asBinary, open, type RootDatabase } from 'lmdb';
import { UNBOUNDED, type Hold, type MemoryBudget } from '../core/budget.js';
import { eventLoop } from '../core/event-loop.js';
import { LOG_RESERVE_BYTES, requireSpace, STORE_RESERVE_BYTES } from '../core/disk-space.js';
import { lmdbFailure, watchLoss } from '../core/lmdb-failure.js';
import type { Logger } from '../core/logger.js';
import { SharedCache } from '../core/shared-cache.js';
import { makeFilesPrivate, makePrivateFolder } from '../core/private-folder.js';
import { nextTurn } from '../core/slices.js';
import { tenantOfKey } from '../core/slots.js';
import { within } from '../core/within.js';
import { FlushMoments } from './flush-moments.js';
import { OpenRanges } from './open-ranges.js';

export interface LocalStoreOptions {
  readonly path: string;
  readonly logger: Logger;
  /** A section is written when it has this many changed entries, */
  readonly flushEntries?: number;
  /** or at a moment that comes so often: the next one, unless many sections are to be written (`FlushMoments`). */
  readonly flushAfterMs?: number;
  /** Raise it when the meaning of what is stored changes: an older store is dropped and folded again from the log. */
  readonly format?: number;
  /** What is not written yet is held of it; without it nothing is bounded. */
  readonly budget?: MemoryBudget;
  /** Told once: nothing can be written to it any more, whatever becomes of the disk. */
  readonly onLost?: (cause: Error) => void;
}

/** Between the name of a section and its keys; what follows is past all of them. */
export const SECTION = '\u0006';
export const AFTER_SECTION = '\u0007';
/** What writing one entry takes of the disk, about: the page that it is on. */
const ENTRY_BYTES = 4096;
/** Where the log takes appends the store can write them: what waits in memory is bounded by that. */
const MOST_ASKED_BYTES = (LOG_RESERVE_BYTES - STORE_RESERVE_BYTES) / 2;
const FORMAT_KEY = '\u0001format';
export const STORE_FORMAT = 8;
/** A section is written when what changed is about so large, however few entries it is. */
const FLUSH_BYTES = 4 * 1024 * 1024;
/** A row that changes often is written once for many changes. */
const BULK = { entries: 20_000, flushBytes: 16 * 1024 * 1024, flushAfterMs: 5000 };
/** Of what is written in one transaction, so much is encoded in one go. */
const ENCODED_AT_ONCE = { entries: 256, bytes: 256 * 1024 };
/** Whoever fills a section goes on below this, whatever else is held: so each of them comes to an end of what it began. */
const LEAST_BYTES = 256 * 1024;
/** How long it is before one who waits for room looks whether it is still wanted. */
const ROOM_POLL_MS = 500;
/** What others wait for waits so long for room itself. */
const ROOM_WAIT_MS = 10_000;
/** What an entry takes in memory beside its key and value, about: its places in a map, and the objects around them. */
const ENTRY_OVERHEAD = 120;
// As in the log (`log/embedded/lmdb-log.ts`): a failed commit rejects what we hold, and what comes in one turn is one transaction.
export const STORE_TUNING = {
  overlappingSync: false,
  eventTurnBatching: false,
  txnStartThreshold: 50_000,
  noSubdir: false,
};
const LOADING = '\u0001loading ';
/** Of a section that is removed, so many keys go in one transaction. */
const REMOVED_AT_ONCE = 1000;
/** There while a section is being loaded from a snapshot, or dropped: what the section holds is no fold of anything. */
export const loadingKey = (name: string): string => LOADING + name;

/**
 * What tasks keep on this machine: a cache of folds of the log, in one lmdb environment. It may be lost at any time; what
 * is there is always the fold of a prefix that the log holds, because a section is written whole, with its checkpoint.
 */
export class LocalStore {
  readonly #db: RootDatabase<unknown, string>;
  readonly #options: LocalStoreOptions;
  readonly #dropping = new Map<string, Promise<void>>();
  readonly #remembered: SharedCache;
  readonly #moments: FlushMoments;
  readonly #writeFailed: (failure: Error) => void;
  readonly #ranges = new OpenRanges();

  constructor(options: LocalStoreOptions) {
    this.#moments = new FlushMoments(options.flushAfterMs ?? 250);
    this.#remembered = options.budget?.caches.rows ?? new SharedCache(Infinity);
    makePrivateFolder(options.path);
    this.#options = options;
    this.#db = open<unknown, string>({ path: options.path, encoding: 'msgpack', ...STORE_TUNING });
    makeFilesPrivate(options.path);
    this.#writeFailed = watchLoss(this.#db, options.onLost);
    const format = options.format ?? STORE_FORMAT;
    if (this.#db.get(FORMAT_KEY) !== format) {
      this.#db.clearSync();
      this.#db.putSync(FORMAT_KEY, format);
    }
    for (const key of [...this.#db.getKeys({ start: LOADING, end: `${LOADING}\u{10ffff}` })]) {
      const name = key.slice(LOADING.length);
      const range = { start: name + SECTION, end: name + AFTER_SECTION, limit: REMOVED_AT_ONCE };
      for (let entries = [...this.#db.getKeys(range)]; entries.length > 0; entries = [...this.#db.getKeys(range)])
        this.#db.transactionSync(() => entries.forEach((entry) => this.#db.removeSync(entry)));
      this.#db.removeSync(key);
    }
  }

  get path(): string {
    return this.#options.path;
  }

  /** The loading, or the drop, of the section was broken off, and what it left could not be removed: drop it before it is opened. */
  isLoading(name: string): boolean {
    return this.#db.get(loadingKey(name)) !== undefined;
  }

  /** What another thread has committed is seen from here on. */
  refresh(): void {
    this.#db.resetReadTxn();
  }

  /** The section of one partition's task. */
  section(name: string): StoreSection {
    const { path, logger, flushEntries = 2000, budget = UNBOUNDED } = this.#options;
    return new StoreSection({
      db: this.#db,
      prefix: name + SECTION,
      logger,
      flushEntries,
      untilFlush: () => this.#moments.take(),
      requireRoom: (bytes) => requireSpace(path, Math.min(bytes, MOST_ASKED_BYTES), STORE_RESERVE_BYTES),
      failed: (error) => void lmdbFailure(error).then(this.#writeFailed),
      hold: budget.tenant(tenantOfKey(name)).hold('entries'),
      remembered: this.#remembered,
      ranges: this.#ranges,
    });
  }

  /** Names of the sections that hold anything, ascending. */
  *sections(): Generator<string> {
    for (let start = FORMAT_KEY + AFTER_SECTION; ;) {
      const [key] = this.#db.getKeys({ start, limit: 1 });
      const end = key?.indexOf(SECTION) ?? -1;
      if (key === undefined || end < 0) return;
      const name = key.slice(0, end);
      yield name;
      start = name + AFTER_SECTION;
    }
  }

  /** Drops all of a section that is not open, in slices. Broken off by the end of the process, it is ended by the next one as it opens the store. */
  drop(name: string): Promise<void> {
    const dropping = (this.#dropping.get(name) ?? Promise.resolve())
      .then(() => this.#drop(name))
      .finally(() => {
        if (this.#dropping.get(name) === dropping) this.#dropping.delete(name);
      });
    this.#dropping.set(name, dropping);
    return dropping;
  }

  /** Resolves when no drop of the section is under way: it may be opened. */
  async dropped(name: string): Promise<void> {
    await this.#dropping.get(name)?.catch(() => undefined); // whoever asked for it is told
  }

  async #drop(name: string): Promise<void> {
    const some = (): string[] => [
      ...this.#db.getKeys({ start: name + SECTION, end: name + AFTER_SECTION, limit: REMOVED_AT_ONCE }),
    ];
    let keys = some();
    if (keys.length === REMOVED_AT_ONCE) await this.#db.put(loadingKey(name), 1);
    for (; keys.length > 0; keys = some()) {
      const slice = keys;
      await this.#db.batch(() => {
        for (const key of slice) void this.#db.remove(key);
      });
      await nextTurn();
    }
    if (this.isLoading(name)) await this.#db.remove(loadingKey(name));
  }

  async close(): Promise<void> {
    await this.#db.close();
  }
}

/**
 * Separates the parts of a key; ids hold no control characters. Not one of the first five: lmdb's encoding of keys escapes those in
 * strings of less than 64 characters and not in longer ones, so that longer keys would have another order and be read as arrays.
 */
export const SEPARATOR = '\u0005';
/** Behind all keys that begin so: the exclusive end of their range. */
export const pastAll = (prefix: string): string =>
  prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1);
/** A number below 2^53 in a key: they sort as the numbers do. */
export const padded = (n: number): string => n.toString(36).padStart(11, '0');

/** Of all keys in [from, to) when both end differently: the text that both begin with. */
function commonPrefix(from: string, to: string): string {
  let length = 0;
  while (length < from.length && from[length] === to[length]) length++;
  return from.slice(0, length);
}

export interface StoreSectionOptions {
  readonly db: RootDatabase<unknown, string>;
  /** Of its keys. */
  readonly prefix: string;
  readonly logger: Logger;
  /** So many are written at once, before their time. */
  readonly flushEntries: number;
  /** How long the next write waits for more, milliseconds. */
  readonly untilFlush: () => number;
  /** Throws when the disk has no room for so many bytes. */
  readonly requireRoom?: (bytes: number) => void;
  /** Told of each write that failed. */
  readonly failed?: (error: unknown) => void;
  /** Of what is not written yet. */
  readonly hold?: Hold;
  /** What the sections of all tenants may remember together. */
  readonly remembered?: SharedCache;
  /** That are read now, of all sections. */
  readonly ranges: OpenRanges;
}

/** Entries of one partition with write-behind: changes are seen at once and written together with the checkpoint. */
export class StoreSection {
  readonly #db: RootDatabase<unknown, string>;
  readonly #prefix: string;
  readonly #logger: Logger;
  readonly #flushEntries: number;
  readonly #untilFlush: () => number;
  /** Throws when the disk has no room for so many bytes. */
  readonly #requireRoom: (bytes: number) => void;
  /** Told of each write that failed. */
  readonly #failed: (error: unknown) => void;
  /** What is not written yet. */
  readonly #hold: Hold;
  #dirty = new Map<string, unknown>();
  #dirtyBytes = 0;
  #flushing: Map<string, unknown> | undefined;
  #flushingBytes = 0;
  /** What the last two writes wrote: busy aggregates are read again and again, and a look-up in lmdb decodes each time. */
  #written: Map<string, unknown> | undefined;
  #writtenBytes = 0;
  #writtenBefore: Map<string, unknown> | undefined;
  #writtenBeforeBytes = 0;
  readonly #remembered: SharedCache;
  readonly #ranges: OpenRanges;
  /** Who waits until something was written. */
  readonly #awaiting: (() => void)[] = [];
  #running: Promise<void> | undefined;
  /** What is set now is part of a whole. */
  #together: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #scheduled = false;
  #closed = false;
  /** Writes in a row that failed, up to the last one: the next one waits for its time, whatever there is to write. */
  #failures = 0;
  #checkpoint: (() => void) | undefined;
  #bulk = false;
  #writes = 0;

  constructor({
    db,
    prefix,
    logger,
    flushEntries,
    untilFlush,
    requireRoom = () => undefined,
    failed = () => undefined,
    hold = UNBOUNDED.tenant('').hold('entries'),
    remembered = new SharedCache(Infinity),
    ranges,
  }: StoreSectionOptions) {
    this.#ranges = ranges;
    this.#failed = failed;
    this.#remembered = remembered;
    this.#hold = hold;
    this.#db = db;
    this.#requireRoom = requireRoom;
    this.#prefix = prefix;
    this.#logger = logger;
    this.#flushEntries = flushEntries;
    this.#untilFlush = untilFlush;
  }

  /** `checkpoint` puts the position that the entries are folded to; called right before each write. */
  onCheckpoint(checkpoint: () => void): void {
    this.#checkpoint = checkpoint;
  }

  /** From here on much is set, and soon: it is written in larger parts, and later. What is not yet written is folded again after a crash. */
  bulk(on: boolean): void {
    if (this.#bulk === on) return;
    this.#bulk = on;
    if (!on && this.#dirty.size > 0) void this.flush();
  }

  /** The value, not to be changed by the caller; undefined when there is none. */
  get(key: string): unknown {
    let value = this.#dirty.get(key);
    if (value !== undefined || this.#dirty.has(key)) return value;
    for (const layer of [this.#flushing, this.#written, this.#writtenBefore]) {
      if (layer === undefined) continue;
      value = layer.get(key);
      if (value !== undefined || layer.has(key)) return value;
    }
    return this.#db.get(this.#prefix + key);
  }

  /** Writes that were begun. A value that was set since the last one may be changed in place. */
  get writes(): number {
    return this.#writes;
  }

  set(key: string, value: unknown): void {
    if (this.#closed) return;
    const before = this.#dirty.get(key);
    const bytes =
      before === undefined && !this.#dirty.has(key)
        ? ENTRY_OVERHEAD + key.length + bytesOf(value)
        : bytesOf(value) - bytesOf(before);
    this.#dirtyBytes += bytes;
    if (bytes >= 0) this.#hold.add(bytes);
    else this.#hold.sub(-bytes);
    this.#dirty.set(key, value);
    if (this.#timer === undefined)
      this.#timer = setTimeout(() => void this.flush(), this.#bulk ? BULK.flushAfterMs : this.#untilFlush()).unref();
    if (
      !this.#isDue ||
      this.#running !== undefined ||
      this.#together !== undefined ||
      this.#scheduled ||
      this.isFailing
    )
      return;
    // Not on this turn: a record is folded by several entries, and a checkpoint stands between records.
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      void this.flush();
    });
  }

  delete(key: string): void {
    this.set(key, undefined);
  }

  /** So much changed that it is written now. */
  get #isDue(): boolean {
    return this.#bulk
      ? this.#dirty.size >= BULK.entries || this.#dirtyBytes >= BULK.flushBytes
      : this.#dirty.size >= this.#flushEntries || this.#dirtyBytes >= FLUSH_BYTES;
  }

  /** Bytes of what is not written yet, about. */
  get unwrittenBytes(): number {
    return this.#dirtyBytes + this.#flushingBytes;
  }

  /**
   * No more is to be put in here: what waits to be written takes all the memory that it may, as it does when the disk is full.
   * Below a small amount there is always room.
   */
  get isFull(): boolean {
    if (this.#closed) return false;
    return this.#isAhead || (this.unwrittenBytes >= LEAST_BYTES && this.#hold.full !== undefined);
  }

  /** History is folded faster than the disk takes it: as much waits to be written as is being written. */
  get #isAhead(): boolean {
    return this.#bulk && this.#running !== undefined && !this.isFailing && this.#isDue;
  }

  /** The last write failed. */
  get isFailing(): boolean {
    return this.#failures > 0;
  }

  /** For work that can wait: resolves when there is room, with false when `wanted` says no more, or the time is up. */
  async untilRoom(wanted: () => boolean, milliseconds = Infinity): Promise<boolean> {
    if (!this.isFull) return true;
    if (!this.#isAhead) this.#hold.countRefusal();
    for (const until = performance.now() + milliseconds; this.isFull;) {
      if (!wanted() || performance.now() > until) return false;
      if (this.#running === undefined && !this.isFailing) void this.flush();
      await within(new Promise<void>((resolve) => this.#awaiting.push(resolve)), ROOM_POLL_MS);
    }
    return wanted();
  }

  /** The same for what others wait for, and so not for long. Undefined: there is room. */
  roomSoon(wanted: () => boolean): Promise<boolean> | undefined {
    return this.isFull ? this.untilRoom(wanted, ROOM_WAIT_MS) : undefined;
  }

  readonly #forgetWritten = (): void => {
    this.#written = this.#writtenBefore = undefined;
    this.#writtenBytes = this.#writtenBeforeBytes = 0;
  };

  /** Entries with `from` <= key < `to`, ascending (or descending), those not yet written too. */
  range(
    from: string,
    to: string,
    options: { readonly limit?: number; readonly reverse?: boolean } = {},
  ): Generator<readonly [string, unknown]> {
    return this.#merged(from, to, options, this.#stored(from, to, options.reverse === true));
  }

  /** The first so many keys of the range, ascending: their values are not read. */
  keys(from: string, to: string, limit: number): string[] {
    return [...this.#merged(from, to, { limit }, this.#storedKeys(from, to))].map(([key]) => key);
  }

  *#merged(
    from: string,
    to: string,
    { limit = Infinity, reverse = false }: { readonly limit?: number; readonly reverse?: boolean },
    ahead: Generator<readonly [string, unknown], undefined>,
  ): Generator<readonly [string, unknown]> {
    const fresh = new Map<string, unknown>();
    const common = commonPrefix(from, to); // most keys are told apart by it, at a fraction of a comparison
    for (const layer of [this.#flushing, this.#dirty])
      if (layer)
        for (const [key, value] of layer)
          if (key.startsWith(common) && compareKeys(key, from) >= 0 && compareKeys(key, to) < 0) fresh.set(key, value);
    const order = reverse ? -1 : 1;
    const keys = [...fresh.keys()].sort((a, b) => order * compareKeys(a, b));
    let next = 0;
    let given = 0;
    try {
      for (let stored = ahead.next(); given < limit;) {
        const key = keys[next];
        if (key === undefined && stored.done) return;
        if (stored.done || (key !== undefined && order * compareKeys(key, stored.value[0]) <= 0)) {
          if (key === undefined) return;
          next++;
          if (!stored.done && stored.value[0] === key) stored = ahead.next();
          const value = fresh.get(key);
          if (value === undefined) continue;
          given++;
          yield [key, value];
        } else {
          given++;
          yield stored.value;
          stored = ahead.next();
        }
      }
    } finally {
      ahead.return(undefined);
    }
  }

  *#stored(from: string, to: string, reverse: boolean): Generator<readonly [string, unknown], undefined> {
    const [low, high] = [this.#prefix + from, this.#prefix + to];
    for (let last: string | undefined; ;) {
      const range = this.#ranges.open(
        this.#db.getRange(
          reverse
            ? { start: last ?? high, end: low, reverse: true, exclusiveStart: true, inclusiveEnd: true }
            : { start: last ?? low, end: high, exclusiveStart: last !== undefined },
        ),
      );
      try {
        while (!range.isClosed) {
          const row = range.rows.next();
          if (row.done === true) return undefined;
          const { key, value } = row.value;
          last = key;
          yield [key.slice(this.#prefix.length), value];
        }
      } finally {
        range.close();
      }
    }
  }

  *#storedKeys(from: string, to: string): Generator<readonly [string, unknown], undefined> {
    for (const key of this.#db.getKeys({ start: this.#prefix + from, end: this.#prefix + to }))
      yield [key.slice(this.#prefix.length), undefined];
    return undefined;
  }

  /**
   * Resolves when there is room for more: at once while little is not yet written, or when its write has begun; what is set while
   * that is under way waits for it when it is as much. Work over many rows asks for it between its slices, so that what it sets does
   * not pile up. @throws Error when the store can not be written now
   */
  async room(): Promise<void> {
    while (this.#dirty.size >= this.#flushEntries || this.#dirtyBytes >= FLUSH_BYTES) {
      const writing = this.#running ?? this.flush();
      if (this.#dirty.size === 0 && !this.isFailing) return;
      await writing;
      if (this.isFailing) throw new Error('the local store could not be written');
    }
  }

  /**
   * What the work sets is written together, and not before all of it is set: it may let others have their turn between. One at a time.
   */
  async together(work: () => Promise<void>): Promise<void> {
    while (this.#together !== undefined) await this.#together;
    let done = (): void => undefined;
    this.#together = new Promise((resolve) => (done = resolve));
    try {
      await work();
    } finally {
      this.#together = undefined;
      done();
      if (this.#isDue && !this.isFailing) void this.flush();
    }
  }

  /** Writes all changes so far with their checkpoint, as one transaction. */
  async flush(): Promise<void> {
    while (this.#running !== undefined || this.#together !== undefined) await (this.#running ?? this.#together);
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#dirty.size === 0) return;
    this.#running = this.#write().finally(() => (this.#running = undefined));
    await this.#running;
    if (this.#isDue && !this.isFailing) void this.flush();
  }

  /** Writes what there is; later changes are dropped, so that a straggler can't write over the next one to open the section. */
  async close(): Promise<void> {
    await this.flush();
    this.#closed = true;
    this.#writes++;
    this.#dirty = new Map();
    this.#dirtyBytes = 0;
    this.#forgetWritten();
    this.#remembered.set(this.#forgetWritten, 0);
    clearTimeout(this.#timer);
    while (this.#running !== undefined) await this.#running;
    this.#hold.close();
    this.#wake();
  }

  /** What was written stays to be read, unless it is very much: it is no more than a cache, and holds no room. */
  #remember(entries: Map<string, unknown>, bytes: number): void {
    this.#hold.sub(bytes);
    if (this.#closed || bytes > FLUSH_BYTES) {
      // What was written before it goes too: it would be read in place of this.
      this.#forgetWritten();
    } else {
      [this.#writtenBefore, this.#writtenBeforeBytes] = [this.#written, this.#writtenBytes];
      [this.#written, this.#writtenBytes] = [entries, bytes];
    }
    this.#remembered.set(this.#forgetWritten, this.#writtenBytes + this.#writtenBeforeBytes);
  }

  #wake(): void {
    for (const resolve of this.#awaiting.splice(0)) resolve();
  }

  /**
   * The entries as they are stored. What is handed over is one transaction, and so goes in one go: of many the values are encoded
   * before, while others have their turn. Nobody changes them any more.
   */
  async #encoded(entries: ReadonlyMap<string, unknown>): Promise<Iterable<readonly [string, unknown]>> {
    if (entries.size <= ENCODED_AT_ONCE.entries) return entries;
    const { encoder } = this.#db as unknown as { readonly encoder: { encode(value: unknown): Buffer } };
    const encoded: (readonly [string, unknown])[] = [];
    const left = entries.entries();
    for (let more = true; more;) {
      eventLoop.slice('store', () => {
        for (
          let [count, bytes] = [0, 0];
          more && count < ENCODED_AT_ONCE.entries && bytes < ENCODED_AT_ONCE.bytes;
          count++
        ) {
          const { done, value: entry } = left.next();
          if (done === true) {
            more = false;
            return;
          }
          const value = entry[1] === undefined ? undefined : encoder.encode(entry[1]);
          bytes += value?.length ?? 0;
          encoded.push([entry[0], value && asBinary(value)]);
        }
      });
      if (more) await nextTurn();
    }
    return encoded;
  }

  async #write(): Promise<void> {
    if (this.#checkpoint !== undefined) eventLoop.slice('store', this.#checkpoint);
    const entries = this.#dirty;
    this.#writes++;
    this.#flushing = entries;
    this.#dirty = new Map();
    const bytes = this.#dirtyBytes;
    [this.#dirtyBytes, this.#flushingBytes] = [0, bytes];
    clearTimeout(this.#timer);
    this.#timer = undefined;
    try {
      this.#requireRoom(entries.size * ENTRY_BYTES);
      const encoded = await this.#encoded(entries);
      await this.#db.batch(() =>
        eventLoop.slice('store', () => {
          for (const [key, value] of encoded) {
            if (value === undefined) void this.#db.remove(this.#prefix + key);
            else void this.#db.put(this.#prefix + key, value);
          }
        }),
      );
      this.#flushing = undefined;
      this.#flushingBytes = 0;
      if (this.#failures > 0)
        this.#logger.info({ section: this.#prefix, failures: this.#failures }, 'the local store takes writes again');
      this.#failures = 0;
      this.#remember(entries, bytes);
      this.#wake();
    } catch (error) {
      // A full disk: the log has it all, so nothing is lost; what was to be written stays in memory for the next try.
      this.#flushing = undefined;
      this.#flushingBytes = 0;
      const isFirst = this.#failures++ === 0;
      let kept = 0;
      for (const [key, value] of entries) {
        if (this.#dirty.has(key)) continue;
        kept += ENTRY_OVERHEAD + key.length + bytesOf(value);
        this.#dirty.set(key, value);
      }
      this.#dirtyBytes += kept;
      this.#hold.sub(bytes);
      this.#hold.add(kept);
      if (!this.#closed) this.#timer ??= setTimeout(() => void this.flush(), 1000).unref();
      this.#failed(error);
      // On a full disk it is tried each second, and the log may be on the same one.
      if (isFirst)
        this.#logger.error(
          { err: await lmdbFailure(error), section: this.#prefix },
          'the local store could not be written; it will be tried again',
        );
    }
  }
}

/** About what a value of an entry takes in memory: rows are lists of numbers, short texts and bytes. */
function bytesOf(value: unknown): number {
  switch (typeof value) {
    case 'string':
      return 24 + value.length;
    case 'object':
      if (value === null) return 0;
      if (Array.isArray(value)) {
        let bytes = 24 + 8 * value.length;
        for (const one of value) if (typeof one !== 'number') bytes += bytesOf(one);
        return bytes;
      }
      if (ArrayBuffer.isView(value)) return 100 + value.byteLength;
      return bytesOf(Object.values(value)) + 32;
    default:
      return 8;
  }
}

/** The order of the store: by UTF-8 bytes, which is the order of code points. */
export function compareKeys(a: string, b: string): number {
  if (a === b) return 0;
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (x !== y) return isSurrogate(x) !== isSurrogate(y) ? (isSurrogate(x) ? 1 : -1) : x - y;
  }
  return a.length - b.length;
}

const isSurrogate = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdfff;
