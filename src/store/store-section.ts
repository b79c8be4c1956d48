import { asBinary, type RootDatabase } from 'lmdb';
import { UNBOUNDED, type Hold } from '../core/budget.js';
import { background } from '../core/background.js';
import { compareKeys } from '../core/compare-keys.js';
import { eventLoop } from '../core/event-loop.js';
import { lmdbFailure } from '../core/lmdb-failure.js';
import type { Logger } from '../core/logger.js';
import { SharedCache } from '../core/shared-cache.js';
import { nextTurn } from '../core/slices.js';
import { within } from '../core/within.js';
import { commonPrefix } from './keys.js';
import type { OpenRanges } from './open-ranges.js';

/** What writing one entry takes of the disk, about: the page that it is on. */
const ENTRY_BYTES = 4096;
/** A section is written when what changed is about so large, however few entries it is. */
const FLUSH_BYTES = 4 * 1024 * 1024;
/** A row that changes often is written once for many changes. */
const BULK = { entries: 20_000, flushBytes: 16 * 1024 * 1024, flushAfterMs: 5000 };
/**
 * While clients wait beside work that nobody waits for (a rebuild of states, say, of which each entry is changed once) little is written at
 * a time: all of a transaction is handed over in one go, some 5 µs an entry.
 */
const FEW_ENTRIES = 512;
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

export interface StoreSectionOptions {
  readonly db: RootDatabase<unknown, string>;
  /** Whose entries they are. */
  readonly tenantId: string;
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
  readonly tenantId: string;
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
    tenantId,
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
    this.tenantId = tenantId;
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
    return this.#bulk ? this.#dirty.size >= BULK.entries || this.#dirtyBytes >= BULK.flushBytes : this.#isMuch;
  }

  /** As much as one transaction should have. */
  get #isMuch(): boolean {
    const { size } = this.#dirty;
    if (size >= this.#flushEntries || this.#dirtyBytes >= FLUSH_BYTES) return true;
    return size >= FEW_ENTRIES && background.isAtWork && background.clientsAreAbout;
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
    while (this.#isMuch) {
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
