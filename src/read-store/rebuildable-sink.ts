import { backOff, type BackOff } from '../core/back-off.js';
import { StatefoldError } from '../core/errors.js';
import { OneByOne } from '../core/one-by-one.js';
import { pause } from '../core/pause.js';
import { LeftoverRows } from './leftover-rows.js';
import type { ReadStore } from './read-store.js';
import { noRebuild, Rebuild, type RebuildReach, type RebuildStatus } from './rebuild.js';
import type { RebuildRecord, SecondTables } from './second-tables.js';
import { Sink, type FlushTarget, type SinkOptions, type SinkStatus } from './sink.js';
import type { SinkSource } from './sink-source.js';

export interface RebuildableSinkOptions extends Omit<SinkOptions, 'prepare'> {
  /** Undefined: other processes write to the same tables, and rows are dropped and filled again in their place. */
  readonly second?: { readonly tables: SecondTables; readonly store: ReadStore } | undefined;
  readonly pollMs?: number;
}

const BACK_OFF_MS: BackOff = { first: 200, last: 15_000 };

/**
 * Writes the read store: the live tables always, and, while a rebuild is under way, a second set beside them. A rebuild that an
 * earlier process began goes on with the first use of the store, or is put to its end where the exchange had begun.
 */
export class RebuildableSink {
  readonly #options: RebuildableSinkOptions;
  readonly #live: Sink;
  readonly #leftovers: LeftoverRows;
  readonly #sources = new Map<string, SinkSource>();
  #rebuild: Rebuild | undefined;
  #last: RebuildStatus | undefined;
  #reach: RebuildReach | undefined;
  #takingUp: Promise<void> | undefined;
  readonly #requests = new OneByOne();
  readonly #closing = new AbortController();

  constructor(options: RebuildableSinkOptions) {
    this.#options = options;
    const { observer, store, logger } = options;
    this.#leftovers = new LeftoverRows({
      ...{ store, logger, reach: () => this.#reach },
      remove: (tenantId) => this.#inAllSets((sink) => sink.rebuild(tenantId)),
    });
    this.#live = new Sink({
      ...options,
      prepare: () => this.#takenUp(),
      observer: {
        ...observer,
        storeAvailable: (isAvailable) => {
          observer?.storeAvailable?.(isAvailable);
          if (isAvailable) this.#leftovers.look();
        },
      },
    });
  }

  /** Goes on with what an earlier process began, as soon as the store is there. */
  start(reach: RebuildReach): void {
    this.#reach = reach;
    void this.#start().then(() => this.#leftovers.look());
  }

  /** Resolves when all tables are there, an exchange that was broken off included. @throws StatefoldError UNAVAILABLE while the store is away */
  async ready(): Promise<void> {
    await this.#takenUp();
    await this.#options.store.ensureSchema();
  }

  attach(source: SinkSource): void {
    this.#sources.set(source.tenantId, source);
    this.#live.attach(source);
    this.#rebuild?.attach(source);
  }

  detach(tenantId: string): void {
    this.#sources.delete(tenantId);
    this.#live.detach(tenantId);
    this.#rebuild?.detach(tenantId);
  }

  flush(tenantId: string, target: FlushTarget, deadlineMs?: number): Promise<void> {
    return this.#live.flush(tenantId, target, deadlineMs);
  }

  /** As of the live sink. */
  withoutFormer(tenantId: string, deadlineMs: number): Promise<void> {
    return this.#live.withoutFormer(tenantId, deadlineMs);
  }

  /**
   * Detaches a tenant and drops its rows, with no block of it still on its way. @throws StatefoldError UNAVAILABLE: the rows are there
   * still, and go when the store is back, once the catalog has the tenant no more.
   */
  async remove(tenantId: string): Promise<void> {
    this.detach(tenantId);
    try {
      await this.#inAllSets((sink) => sink.remove(tenantId));
    } catch (error) {
      this.#leftovers.look();
      throw error;
    }
  }

  /** A tenant is no more, by whoever deleted it. */
  tenantDeleted(): void {
    this.#leftovers.look();
  }

  /** Also in what a rebuild fills, be it one that an earlier process began. */
  async #inAllSets(work: (sink: Sink) => Promise<void>): Promise<void> {
    await this.#takenUp();
    const inLive = (): Promise<void> => work(this.#live);
    await (this.#rebuild === undefined ? inLive() : this.#rebuild.inBoth(inLive, work));
  }

  status(): SinkStatus {
    return this.#live.status();
  }

  /** Of the one that is under way, or of the last one of this process. */
  rebuildStatus(): RebuildStatus | undefined {
    return this.#rebuild?.status() ?? this.#last;
  }

  /**
   * Writes the rows of a tenant, or of all, anew from the log. Resolves when it has begun, from where on it outlasts the process.
   * @throws StatefoldError UNAVAILABLE while the store is away
   */
  rebuild(tenantId?: string): Promise<void> {
    if (this.#options.second === undefined) return this.#live.rebuild(tenantId);
    const { tables } = this.#options.second;
    return this.#requests.run(async () => {
      // Also when the tables were there a while ago: an analyst may have dropped one, which is why somebody rebuilds.
      await this.ready();
      if ((await this.#rebuild?.include(tenantId)) === true) return;
      await this.#rebuild?.ended;
      const tenantIds = tenantId === undefined ? undefined : [tenantId];
      const record: RebuildRecord = { since: Date.now(), phase: 'preparing', tenantIds };
      await tables.make(record);
      this.#begin(record, true);
    });
  }

  /**
   * Calls off the rebuild that is under way: the tables stay as they are. Resolves when no start goes on with it, and where the last one of
   * this process was called off before.
   * @throws StatefoldError NO_REBUILD, REBUILD_NOT_CANCELLABLE: past the point, or rows were dropped when it began; UNAVAILABLE while the store is away
   */
  async cancelRebuild(): Promise<void> {
    if (this.#options.second === undefined)
      throw new StatefoldError(
        'REBUILD_NOT_CANCELLABLE',
        'Here a rebuild drops the rows and fills them in again in their place, since several processes, or several servers, share the tables: there are none of before to go back to. Wait until all rows are there.',
      );
    await this.#takenUp();
    // One that is asked for may be about to begin.
    if (this.#rebuild === undefined) await this.#requests.ended();
    if (this.#rebuild !== undefined) return this.#rebuild.cancel();
    // Whoever was told 503, or nothing at all, asks again when it is through.
    if (this.#last?.state !== 'cancelled') throw noRebuild();
  }

  /** What is under way goes on after the next start. */
  async close(): Promise<void> {
    this.#closing.abort();
    // The live sink is to write nothing any more when an exchange is broken off.
    const rebuilt = this.#rebuild?.close();
    await this.#options.second?.tables.close();
    await Promise.all([this.#live.close(), rebuilt, this.#requests.ended(), this.#leftovers.close()]);
    await this.#rebuild?.close();
  }

  async #start(): Promise<void> {
    const { signal } = this.#closing;
    for (let failures = 0; !signal.aborted;)
      try {
        return await this.#takenUp();
      } catch {
        await pause(backOff(failures++, BACK_OFF_MS), { signal });
      }
  }

  /** What an earlier process left is taken up, once, before anything is written. */
  #takenUp(): Promise<void> {
    this.#takingUp ??= this.#takeUp().catch((error: unknown) => {
      this.#takingUp = undefined;
      throw error;
    });
    return this.#takingUp;
  }

  /** An exchange that was broken off is put to its end, and what is of no use is dropped. */
  async #takeUp(): Promise<void> {
    const { second, logger } = this.#options;
    if (second === undefined) return;
    const record = await second.tables.find();
    if (record === undefined) return second.tables.drop();
    logger.info({ since: new Date(record.since).toISOString() }, 'A rebuild of the read store goes on');
    if (record.phase !== 'swapping') return this.#begin(record, false);
    while (await second.tables.exchange());
    await second.tables.drop();
    const since = new Date(record.since).toISOString();
    this.#last = { state: 'done', since, endedAt: new Date().toISOString(), ...{ position: 0, of: 0 } };
  }

  #begin(record: RebuildRecord, isMade: boolean): void {
    const { second, logger, pollMs } = this.#options;
    if (second === undefined || this.#closing.signal.aborted) return;
    const { tables, store } = second;
    const rebuild = new Rebuild(
      {
        ...{ tables, logger, pollMs, live: this.#live, ensureLive: () => this.#options.store.ensureSchema() },
        openSecond: () => new Sink({ ...this.#options, observer: {}, store }),
        sources: () => this.#sources.values(),
        reach: () => this.#reach,
      },
      record,
      isMade,
    );
    this.#rebuild = rebuild;
    void rebuild.ended.then(() => {
      if (this.#closing.signal.aborted) return;
      this.#last = rebuild.status();
      this.#rebuild = undefined;
      this.#leftovers.look();
    });
  }
}
