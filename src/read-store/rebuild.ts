import { backOff, type BackOff } from '../core/back-off.js';
import { StatefoldError } from '../core/errors.js';
import type { Logger } from '../core/logger.js';
import { OneByOne } from '../core/one-by-one.js';
import { pause } from '../core/pause.js';
import type { RebuildPhase, RebuildRecord, SecondTables } from './second-tables.js';
import type { Sink } from './sink.js';
import type { SinkSource } from './sink-source.js';
import type { SinkPositions } from './sink-tenant.js';

/** Tenants, beyond those that are followed too. */
export interface RebuildReach {
  /** All that there are, with their incarnations. */
  tenants(): ReadonlyMap<string, string | undefined>;
  /** Resolves when `tenants` knows all that there were at the call. */
  caughtUp(): Promise<void>;
  /** No other process writes rows of the tenant to these tables. */
  isWrittenHere(tenantId: string): boolean;
  /** Has a tenant followed from here on. @returns whether it could be */
  open(tenantId: string): Promise<boolean>;
}

export interface RebuildOptions {
  readonly tables: SecondTables;
  /** Makes a sink that fills the second set. */
  readonly openSecond: () => Sink;
  readonly live: Pick<Sink, 'alone' | 'positions' | 'restart'>;
  /** Makes live tables that are missing. */
  readonly ensureLive: () => Promise<void>;
  /** Those that are followed now. */
  readonly sources: () => Iterable<SinkSource>;
  readonly reach: () => RebuildReach | undefined;
  readonly logger: Logger;
  readonly pollMs?: number | undefined;
}

export interface RebuildStatus {
  readonly state: RebuildPhase | End['state'];
  /** ISO 8601. */
  readonly since: string;
  readonly endedAt?: string;
  /** Whose rows are written anew; absent: everyone's. */
  readonly tenantIds?: readonly string[];
  /** How many positions of the log are in the second set, and how many in the live tables, of tenants that are active. */
  readonly position: number;
  readonly of: number;
  /** Why it stands still, where it does; it tries again. */
  readonly failure?: string;
}

/** Positions, as `RebuildStatus` tells them. */
type Progress = Pick<RebuildStatus, 'position' | 'of'>;

interface End {
  readonly state: 'done' | 'cancelled';
  /** ISO 8601. */
  readonly at: string;
  /** How far it came. */
  readonly progress: Progress;
}

/** Between two looks at how far it is. */
const POLL_MS = 500;
/** For so long at most the live tables get nothing new while the second set comes to where they are. */
const PAUSE_MS = 10_000;
const PAUSE_POLL_MS = 25;
const BACK_OFF_MS: BackOff = { first: 500, last: 15_000 };

/**
 * One rebuild: a second sink fills the second set from the log, beside the live one. When it is where the live one was at the last
 * look, the live one is held until they are even, and the tables are exchanged.
 */
export class Rebuild {
  readonly #options: RebuildOptions;
  #record: RebuildRecord;
  #isMade: boolean;
  #second: Sink | undefined;
  #before: ReadonlyMap<string, SinkPositions | undefined> | undefined;
  #failure: string | undefined;
  #end: End | undefined;
  /** From before the first exchange is noted until all are done, or the first is refused. */
  #isExchanging = false;
  #isDropped = false;
  /** One step at a time: the loop's, or what is asked for. */
  readonly #steps = new OneByOne();
  readonly #closing = new AbortController();
  readonly #cancelling = new AbortController();
  /** Nothing more is to be filled. */
  readonly #stopping = AbortSignal.any([this.#closing.signal, this.#cancelling.signal]);
  /** Resolves when it is through or cancelled and the tables of no use are gone, or when it was closed. */
  readonly ended: Promise<void>;

  /** @param isMade its tables were made just now, and are empty */
  constructor(options: RebuildOptions, record: RebuildRecord, isMade: boolean) {
    this.#options = options;
    this.#record = record;
    this.#isMade = isMade;
    this.ended = this.#run();
  }

  attach(source: SinkSource): void {
    this.#second?.attach(source);
  }

  detach(tenantId: string): void {
    this.#second?.detach(tenantId);
  }

  /** Does something to the rows of the live tables and of the second set, with no exchange between. */
  inBoth(inLive: () => Promise<void>, inSecond: (sink: Sink) => Promise<void>): Promise<void> {
    return this.#steps.run(async () => {
      await inLive();
      if (this.#record.phase === 'filling' && !this.#stopping.aborted)
        await inSecond(this.#second ?? this.#openSecond());
    });
  }

  /** Has the rows of a tenant, or all, written anew too. @returns false: it was through, or cancelled, before */
  include(tenantId: string | undefined): Promise<boolean> {
    return this.#steps.run(async () => {
      const { tenantIds, phase } = this.#record;
      if (phase === 'swapping' || this.#stopping.aborted) return false;
      if (tenantIds === undefined || (tenantId !== undefined && tenantIds.includes(tenantId))) return true;
      const more = { ...this.#record, tenantIds: tenantId === undefined ? undefined : [...tenantIds, tenantId] };
      // Until the rows are dropped, what a crash leaves is made anew.
      this.#record = { ...more, phase: 'preparing' };
      await this.#options.tables.mark(this.#record);
      if (phase === 'preparing' || this.#second === undefined) return true;
      await this.#second.rebuild(tenantId);
      await this.#mark({ ...more, phase: 'filling' });
      return true;
    });
  }

  /**
   * Leaves the live tables as they are, and drops what it has filled: from where on no start goes on with it. Where that fails it is
   * tried again, and a process that ends before it is done goes on with the rebuild after its next start.
   * @throws StatefoldError NO_REBUILD: it was through before, REBUILD_NOT_CANCELLABLE while the tables are exchanged, UNAVAILABLE while the store is away
   */
  async cancel(): Promise<void> {
    if (this.#end?.state === 'done') throw noRebuild();
    if (this.#isExchanging)
      throw new StatefoldError(
        'REBUILD_NOT_CANCELLABLE',
        'The tables that the rebuild has filled are taking the place of the live ones, which is not undone: wait until it is through.',
      );
    this.#end ??= { state: 'cancelled', at: new Date().toISOString(), progress: this.#progress() };
    // The step that is under way waits for nothing any more, and begins no exchange.
    this.#cancelling.abort();
    await this.#steps.run(() => this.#dropAll());
    await this.ended;
  }

  status(): RebuildStatus {
    const { since, phase, tenantIds } = this.#record;
    const { refused = 0, failure: ofStore } = this.#second?.status() ?? {};
    const failure = this.#failure ?? ofStore ?? (refused > 0 ? `rows of ${refused} tenants are refused` : undefined);
    return {
      state: this.#end?.state ?? phase,
      since: new Date(since).toISOString(),
      ...(this.#end !== undefined && { endedAt: this.#end.at }),
      ...(tenantIds && { tenantIds }),
      ...(this.#end?.progress ?? this.#progress()),
      ...(failure !== undefined && { failure }),
    };
  }

  #progress(): Progress {
    const second = this.#second?.positions();
    let [position, of] = [0, 0];
    for (const [tenantId, live] of this.#options.live.positions()) {
      if (live === undefined || this.#record.tenantIds?.includes(tenantId) === false) continue;
      const its = second?.get(tenantId);
      of += live.events + live.changes;
      position += Math.min(live.events, its?.events ?? 0) + Math.min(live.changes, its?.changes ?? 0);
    }
    return { position, of };
  }

  /** What is not through goes on after the next start. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.ended;
  }

  async #run(): Promise<void> {
    await this.#untilTrue(this.#stopping, () => this.#steps.run(() => this.#advance()));
    await this.#closeSecond();
    if (this.#end === undefined) return;
    const { logger } = this.#options;
    const { since } = this.status();
    if (this.#end.state === 'done') logger.info({ since }, 'The read store is rebuilt');
    else logger.info({ since }, 'The rebuild of the read store is cancelled; its tables stay as they are');
    await this.#untilTrue(this.#closing.signal, async () => {
      await this.#steps.run(() => this.#dropAll());
      return true;
    });
  }

  /** Drops the tables that are of no use any more: the former ones, or those of a cancelled rebuild. */
  async #dropAll(): Promise<void> {
    await this.#closeSecond();
    if (!this.#isDropped) await this.#options.tables.drop();
    this.#isDropped = true;
    this.#failure = undefined;
  }

  /** Or until the signal says that nobody wants it. */
  async #untilTrue(signal: AbortSignal, work: () => Promise<boolean>): Promise<void> {
    const { logger, pollMs = POLL_MS } = this.#options;
    for (let failures = 0; !signal.aborted;)
      try {
        if (await work()) return;
        failures = 0;
        this.#failure = undefined;
        await pause(pollMs, { ref: true, signal });
      } catch (error) {
        if (signal.aborted) return;
        this.#failure = messageOf(error);
        if (failures === 0)
          logger.warn({ reason: this.#failure }, 'The rebuild of the read store stands still; it tries again');
        // Somebody may have dropped one. While they are exchanged, one that is missing is to be renamed.
        if (this.#record.phase !== 'swapping') await this.#options.ensureLive().catch(() => undefined);
        await pause(backOff(failures++, BACK_OFF_MS), { ref: true, signal });
      }
  }

  /** @returns whether it is through */
  async #advance(): Promise<boolean> {
    const { tables, live } = this.#options;
    if (this.#record.phase === 'preparing') await this.#prepare();
    else if ((await tables.find())?.phase !== this.#record.phase) return this.#beginAgain();
    const second = this.#second ?? this.#openSecond();
    const before = this.#before;
    this.#before = live.positions();
    if (before === undefined || !hasReached(second.positions(), before)) return false;
    if (await this.#reachAbsent()) return false;
    return this.#swapWhereEven(second);
  }

  async #prepare(): Promise<void> {
    const { tables, live } = this.#options;
    await this.#closeSecond();
    if (!this.#isMade) await tables.make(this.#record);
    this.#isMade = false;
    const { tenantIds } = this.#record;
    await live.alone(async () => {
      if (tenantIds !== undefined) await tables.copy({ butOf: tenantIds }, this.#stopping);
      await this.#mark({ ...this.#record, phase: 'filling' });
      this.#openSecond();
    });
  }

  /** Somebody has dropped tables of it, or a process of another version has made them. */
  #beginAgain(): false {
    this.#options.logger.warn(
      {},
      'Tables that a rebuild of the read store filled are gone, or of another version; it begins again',
    );
    this.#record = { ...this.#record, phase: 'preparing' };
    return false;
  }

  #openSecond(): Sink {
    const second = this.#options.openSecond();
    this.#second = second;
    this.#before = undefined;
    for (const source of this.#options.sources()) second.attach(source);
    return second;
  }

  async #closeSecond(): Promise<void> {
    const second = this.#second;
    this.#second = undefined;
    await second?.close();
  }

  async #mark(record: RebuildRecord): Promise<void> {
    await this.#options.tables.mark(record);
    this.#record = record;
  }

  /** Of tenants that nobody follows now, the live tables have more. @returns whether there was something to do */
  async #reachAbsent(): Promise<boolean> {
    const { tables, live, reach, logger } = this.#options;
    const absent: string[] = [];
    const followed = live.positions();
    const lagging = (await this.#lagging()).filter((tenantId) => !followed.has(tenantId));
    for (const tenantId of lagging) {
      this.#stopping.throwIfAborted();
      if ((await reach()?.open(tenantId)) === false) absent.push(tenantId);
    }
    if (absent.length === 0) return lagging.length > 0;
    logger.info(
      { tenantIds: absent.slice(0, 20) },
      'Tenants that are not open keep the rows that they have in the read store',
    );
    await live.alone(async () => {
      const now = live.positions();
      await tables.copy({ of: absent.filter((tenantId) => !now.has(tenantId)) }, this.#stopping);
    });
    return true;
  }

  /** Tenants, of those that there are, of which the live tables have more than the second set. */
  async #lagging(): Promise<readonly string[]> {
    const { tables, reach } = this.#options;
    const known = reach()?.tenants();
    const lagging = (await tables.lagging()).filter(
      ({ tenantId, incarnation }) =>
        known === undefined || (known.has(tenantId) && known.get(tenantId) === incarnation),
    );
    return [...new Set(lagging.map(({ tenantId }) => tenantId))];
  }

  /** @returns whether the tables were exchanged; where not, nothing has changed */
  #swapWhereEven(second: Sink): Promise<boolean> {
    const { live } = this.#options;
    return live.alone(async () => {
      const target = live.positions();
      for (
        const end = performance.now() + PAUSE_MS;
        !hasReached(second.positions(), target);
        await pause(PAUSE_POLL_MS, { ref: true, signal: this.#stopping })
      )
        if (performance.now() > end || this.#stopping.aborted) return false;
      const progress = this.#progress();
      await this.#closeSecond();
      if ((await this.#lagging()).length > 0 || !(await this.#swap())) return false;
      live.restart();
      this.#failure = undefined;
      this.#end = { state: 'done', at: new Date().toISOString(), progress };
      return true;
    });
  }

  /**
   * Once a table is exchanged nothing may be written before all are.
   * @returns false: tables of the second set are gone, or nobody wants them any more
   */
  async #swap(): Promise<boolean> {
    const { tables } = this.#options;
    const { signal } = this.#closing;
    if ((await tables.find()) === undefined || this.#stopping.aborted) return false;
    this.#isExchanging = true;
    for (let failures = 0; ;)
      try {
        await this.#mark({ ...this.#record, phase: 'swapping' });
        while (await tables.exchange());
        return true;
      } catch (error) {
        if (signal.aborted || (await this.#isCalledOff())) {
          this.#isExchanging = false;
          throw error;
        }
        this.#failure = messageOf(error);
        await pause(backOff(failures++, BACK_OFF_MS), { ref: true, signal });
        signal.throwIfAborted();
      }
  }

  /** Where the first exchange is refused, the live tables are written on. */
  async #isCalledOff(): Promise<boolean> {
    const { tables } = this.#options;
    const filling = { ...this.#record, phase: 'filling' } as const;
    try {
      await tables.mark(filling);
      // A set that is being filled is whole, or none.
      if ((await tables.find()) === undefined) return false;
      this.#record = filling;
      return true;
    } catch {
      return false;
    }
  }
}

/** None is under way that could be cancelled. */
export const noRebuild = (): StatefoldError =>
  new StatefoldError('NO_REBUILD', 'No rebuild of the read store is under way.');

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

const STREAMS = ['events', 'states', 'changes'] as const;

function hasReached(
  positions: ReadonlyMap<string, SinkPositions | undefined>,
  target: ReadonlyMap<string, SinkPositions | undefined>,
): boolean {
  return [...target].every(([tenantId, wanted]) => {
    const its = positions.get(tenantId);
    return wanted !== undefined && its !== undefined && STREAMS.every((stream) => its[stream] >= wanted[stream]);
  });
}
