import { setTimeout as delay } from 'node:timers/promises';
import { backOff, type BackOff } from '../core/back-off.js';
import type { Logger } from '../core/logger.js';
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
  readonly state: RebuildPhase | 'done';
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
  #endedAt: string | undefined;
  /** One step at a time: the loop's, or what is asked for. */
  #steps: Promise<unknown> = Promise.resolve();
  readonly #closing = new AbortController();
  /** Resolves when it is through and the former tables are gone, or when it was closed. */
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
    return this.#step(async () => {
      await inLive();
      if (this.#record.phase === 'filling' && !this.#closing.signal.aborted)
        await inSecond(this.#second ?? this.#openSecond());
    });
  }

  /** Has the rows of a tenant, or all, written anew too. @returns false: it was through before */
  include(tenantId: string | undefined): Promise<boolean> {
    return this.#step(async () => {
      const { tenantIds, phase } = this.#record;
      if (phase === 'swapping' || this.#closing.signal.aborted) return false;
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

  status(): RebuildStatus {
    const { since, phase, tenantIds } = this.#record;
    const second = this.#second?.positions();
    const { refused = 0, failure: ofStore } = this.#second?.status() ?? {};
    const failure = this.#failure ?? ofStore ?? (refused > 0 ? `rows of ${refused} tenants are refused` : undefined);
    let [position, of] = [0, 0];
    const isThrough = this.#endedAt !== undefined;
    for (const [tenantId, live] of this.#options.live.positions()) {
      if (live === undefined || tenantIds?.includes(tenantId) === false) continue;
      const its = second?.get(tenantId);
      of += live.events + live.changes;
      position += Math.min(live.events, its?.events ?? 0) + Math.min(live.changes, its?.changes ?? 0);
    }
    if (isThrough) position = of;
    return {
      state: isThrough ? 'done' : phase,
      since: new Date(since).toISOString(),
      ...(this.#endedAt !== undefined && { endedAt: this.#endedAt }),
      ...(tenantIds && { tenantIds }),
      ...{ position, of },
      ...(failure !== undefined && { failure }),
    };
  }

  /** What is not through goes on after the next start. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.ended;
  }

  async #run(): Promise<void> {
    await this.#untilTrue(() => this.#step(() => this.#advance()));
    await this.#closeSecond();
    if (this.#endedAt === undefined) return;
    this.#options.logger.info({ since: this.status().since }, 'The read store is rebuilt');
    await this.#untilTrue(async () => {
      await this.#options.tables.drop();
      return true;
    });
  }

  /** Or until it is closed. */
  async #untilTrue(work: () => Promise<boolean>): Promise<void> {
    const { logger, pollMs = POLL_MS } = this.#options;
    for (let failures = 0; !this.#closing.signal.aborted;)
      try {
        if (await work()) return;
        failures = 0;
        this.#failure = undefined;
        await this.#wait(pollMs);
      } catch (error) {
        this.#failure = messageOf(error);
        if (failures === 0)
          logger.warn({ reason: this.#failure }, 'The rebuild of the read store stands still; it tries again');
        // Somebody may have dropped one. While they are exchanged, one that is missing is to be renamed.
        if (this.#record.phase !== 'swapping') await this.#options.ensureLive().catch(() => undefined);
        await this.#wait(backOff(failures++, BACK_OFF_MS));
      }
  }

  #step<T>(work: () => Promise<T>): Promise<T> {
    const step = this.#steps.then(work, work);
    this.#steps = step.catch(() => undefined);
    return step;
  }

  #wait(milliseconds: number): Promise<void> {
    return delay(milliseconds, undefined, { signal: this.#closing.signal }).catch(() => undefined);
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
      if (tenantIds !== undefined) await tables.copy({ butOf: tenantIds });
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
    for (const tenantId of lagging) if ((await reach()?.open(tenantId)) === false) absent.push(tenantId);
    if (absent.length === 0) return lagging.length > 0;
    logger.info(
      { tenantIds: absent.slice(0, 20) },
      'Tenants that are not open keep the rows that they have in the read store',
    );
    await live.alone(async () => {
      const now = live.positions();
      await tables.copy({ of: absent.filter((tenantId) => !now.has(tenantId)) });
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
      for (const end = Date.now() + PAUSE_MS; !hasReached(second.positions(), target); await this.#wait(PAUSE_POLL_MS))
        if (Date.now() > end || this.#closing.signal.aborted) return false;
      await this.#closeSecond();
      if ((await this.#lagging()).length > 0 || this.#closing.signal.aborted) return false;
      if (!(await this.#swap())) return false;
      live.restart();
      this.#failure = undefined;
      this.#endedAt = new Date().toISOString();
      return true;
    });
  }

  /** Once a table is exchanged nothing may be written before all are. @returns false: tables of the second set are gone */
  async #swap(): Promise<boolean> {
    const { tables } = this.#options;
    const { signal } = this.#closing;
    if ((await tables.find()) === undefined) return false;
    for (let failures = 0; ;)
      try {
        await this.#mark({ ...this.#record, phase: 'swapping' });
        while (await tables.exchange());
        return true;
      } catch (error) {
        if (signal.aborted || (await this.#isCalledOff())) throw error;
        this.#failure = messageOf(error);
        await this.#wait(backOff(failures++, BACK_OFF_MS));
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
