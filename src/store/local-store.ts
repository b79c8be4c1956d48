import { open, type RootDatabase } from 'lmdb';
import { UNBOUNDED, type MemoryBudget } from '../core/budget.js';
import { LOG_RESERVE_BYTES, requireSpace, reserveOfRemovals, STORE_RESERVE_BYTES } from '../core/disk-space.js';
import { allWritten, lmdbFailure, watchLoss } from '../core/lmdb-failure.js';
import type { Logger } from '../core/logger.js';
import { SharedCache } from '../core/shared-cache.js';
import { makeFilesPrivate, makePrivateFolder } from '../core/private-folder.js';
import { nextTurn } from '../core/slices.js';
import { tenantOfKey } from '../core/slots.js';
import { FlushMoments } from './flush-moments.js';
import { OpenRanges } from './open-ranges.js';
import { StoreSection } from './store-section.js';

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
/** Where the log takes appends the store can write them: what waits in memory is bounded by that. */
const MOST_ASKED_BYTES = (LOG_RESERVE_BYTES - STORE_RESERVE_BYTES) / 2;
const FORMAT_KEY = '\u0001format';
export const STORE_FORMAT = 8;
// As in the log (`log/embedded/lmdb-log.ts`) a failed commit rejects what we hold. Nobody waits for one write: the threshold gathers those of a turn.
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
    const tenantId = tenantOfKey(name);
    return new StoreSection({
      db: this.#db,
      tenantId,
      prefix: name + SECTION,
      logger,
      flushEntries,
      untilFlush: () => this.#moments.take(),
      requireRoom: (bytes) => requireSpace(path, Math.min(bytes, MOST_ASKED_BYTES), STORE_RESERVE_BYTES),
      failed: (error) => void lmdbFailure(error).then(this.#writeFailed),
      hold: budget.tenant(tenantId).hold('entries'),
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
    const write = async (begin: () => Promise<unknown>): Promise<void> => {
      requireSpace(this.path, 0, reserveOfRemovals(STORE_RESERVE_BYTES));
      await allWritten([begin()]);
    };
    let keys = some();
    if (keys.length === REMOVED_AT_ONCE) await write(() => this.#db.put(loadingKey(name), 1));
    for (; keys.length > 0; keys = some()) {
      const slice = keys;
      await write(() =>
        this.#db.batch(() => {
          for (const key of slice) void this.#db.remove(key);
        }),
      );
      await nextTurn();
    }
    if (this.isLoading(name)) await write(() => this.#db.remove(loadingKey(name)));
  }

  async close(): Promise<void> {
    await this.#db.close();
  }
}
