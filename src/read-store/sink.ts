import { backOff, type BackOff } from '../core/back-off.js';
import { StatefoldError } from '../core/errors.js';
import type { Logger } from '../core/logger.js';
import { within } from '../core/within.js';
import type { Block, ReadStore, SinkStream, Watermark } from './read-store.js';
import { blocksOf } from './sink-rows.js';
import type { SinkSource } from './sink-source.js';
import { SinkTenant, type Gathered, type SinkPositions } from './sink-tenant.js';

export interface SinkObserver {
  /** A block that the store has taken. */
  block?(table: Block['table'], rows: number, milliseconds: number): void;
  /** The store took its first block, went away, or came back. */
  storeAvailable?(available: boolean): void;
  /** A stream of one tenant couldn't be read; it is tried again. */
  streamFailed?(tenantId: string, stream: SinkStream): void;
}

export interface SinkOptions {
  readonly store: ReadStore;
  readonly logger: Logger;
  readonly observer?: SinkObserver;
  /** Awaited before anything is read from the store or written to it, at the start and when it was away. */
  readonly prepare?: () => Promise<void>;
  /** Of all blocks that are held at once, about. */
  readonly maxBytes?: number;
  /** From the first row of a quiet time to its block. */
  readonly delayMs?: number;
  /** How long one read of a tenant's source may take. */
  readonly sourceDeadlineMs?: number;
  readonly backOffMs?: BackOff;
}

export interface FlushTarget {
  /** Exclusive offset of the events topic: both events and states. */
  readonly events?: number;
  /** Exclusive offset of the changes topic. */
  readonly changes?: number;
}

export interface SinkStatus {
  readonly tenants: number;
  /** Tenants with something to write, and for how long the longest of them has waited. */
  readonly behind: number;
  readonly oldestMs: number;
  /** Tenants whose rows were refused at the last attempt, while those of others were taken. */
  readonly refused: number;
  readonly storeAvailable: boolean;
  /** Why the store took nothing at the last attempt. */
  readonly failure: string | undefined;
}

interface Flush {
  readonly target: FlushTarget;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** Past an eighth of so many, or a sixteenth of the bytes, a round is taken for full. */
const ROWS_PER_ROUND = 10_000;
const DEFAULT_BYTES = 8 * 1024 * 1024;
/** Tenants that are read side by side; each gets an equal share of the bytes. */
const MAX_READING = 16;
/** How long a round waits for tenants that it reads; those that take longer join a later one. */
const GRACE_MS = 100;

/**
 * Copies accepted records of the log into the read store, in blocks that several tenants share. One round at a time reads,
 * writes the rows, then the watermarks; positions move only then, so that whatever fails is read again and absorbed by the store.
 * A quiet tenant costs nothing: no timer, no query.
 */
export class Sink {
  readonly #options: SinkOptions;
  readonly #tenants = new Map<string, SinkTenant>();
  readonly #unsubscribe = new Map<string, () => void>();
  readonly #flushes = new Map<string, Set<Flush>>();
  /** With something to read, in the order in which they get their turn. */
  readonly #dirty = new Set<SinkTenant>();
  readonly #reading = new Map<SinkTenant, Promise<void>>();
  /** Read, and to be written by the next round. */
  #gathered: Gathered[] = [];
  #timer: { readonly handle: NodeJS.Timeout; readonly at: number } | undefined;
  #round: Promise<void> | undefined;
  #schemaReady = false;
  /** It has taken something since the start: before, it may just take its time to come up. */
  #storeSeen = false;
  #storeFailures = 0;
  #failure: string | undefined;
  #storeNotBefore = 0;
  #exclusive: Promise<unknown> = Promise.resolve();
  #paused = 0;
  #closed = false;

  constructor(options: SinkOptions) {
    this.#options = options;
  }

  /** Follows the tenant from the store's watermark on. A tenant that is attached already is followed through the new source. */
  attach(source: SinkSource): void {
    this.detach(source.tenantId);
    const tenant = new SinkTenant(source, this.#options.sourceDeadlineMs ?? 60_000);
    this.#tenants.set(source.tenantId, tenant);
    this.#unsubscribe.set(
      source.tenantId,
      source.onAdvance(() => this.#advance(tenant)),
    );
    // What the log took while nobody was attached.
    this.#advance(tenant);
  }

  /** Rows that are being written are finished or not; either way the watermark says so. */
  detach(tenantId: string): void {
    const tenant = this.#tenants.get(tenantId);
    if (tenant === undefined) return;
    tenant.detached = true;
    this.#unsubscribe.get(tenantId)?.();
    this.#unsubscribe.delete(tenantId);
    this.#tenants.delete(tenantId);
    this.#dirty.delete(tenant);
    this.#reject(tenantId, `The read store no longer follows tenant ${tenantId}`);
  }

  /**
   * Resolves when the tenant's watermarks have reached the target. @throws StatefoldError UNAVAILABLE when that takes longer
   * than `deadlineMs`, or when the tenant isn't attached.
   */
  async flush(tenantId: string, target: FlushTarget, deadlineMs = 30_000): Promise<void> {
    const tenant = this.#tenants.get(tenantId);
    if (tenant === undefined || this.#closed)
      throw new StatefoldError('UNAVAILABLE', `The read store doesn't follow tenant ${tenantId} here`);
    if (reached(tenant, target)) return;
    const waiting = this.#flushes.get(tenantId) ?? new Set<Flush>();
    this.#flushes.set(tenantId, waiting);
    await new Promise<void>((resolve, reject) => {
      const settle = (): void => {
        clearTimeout(timer);
        waiting.delete(flush);
      };
      const flush: Flush = {
        target,
        resolve: () => (settle(), resolve()),
        reject: (error) => (settle(), reject(error)),
      };
      const timer = setTimeout(
        () =>
          flush.reject(new StatefoldError('UNAVAILABLE', `The read store did not catch up within ${deadlineMs} ms`)),
        deadlineMs,
      );
      waiting.add(flush);
      tenant.notBefore = 0;
      this.#mark(tenant);
      this.#schedule(0);
    });
  }

  /**
   * Resolves when no row is in the store of a former tenant of that id. @throws StatefoldError UNAVAILABLE when that takes longer than
   * `deadlineMs`, or when the tenant isn't attached.
   */
  async withoutFormer(tenantId: string, deadlineMs: number): Promise<void> {
    const tenant = this.#tenants.get(tenantId);
    // The first of its id has no former one.
    if (tenant === undefined || tenant.source.incarnation !== undefined) await this.flush(tenantId, {}, deadlineMs);
  }

  /** Drops a tenant's rows (or all), then fills them again from the log. Resolves when the rows are dropped; `flush` waits for the refill. */
  async rebuild(tenantId?: string): Promise<void> {
    await this.alone(async () => {
      // Also when the tables were there a while ago: an analyst may have dropped one, which is why somebody rebuilds.
      await this.#options.store.ensureSchema();
      await this.#options.store.reset(tenantId);
    });
    for (const tenant of this.#tenants.values()) {
      if (tenantId !== undefined && tenant.source.tenantId !== tenantId) continue;
      tenant.forget();
      this.#advance(tenant);
    }
  }

  /** Detaches a tenant and drops its rows, with no block of it still on its way. @throws StatefoldError UNAVAILABLE: the rows are there still. */
  async remove(tenantId: string): Promise<void> {
    this.detach(tenantId);
    await this.alone(() => this.#options.store.reset(tenantId));
  }

  /** Runs `work` while no round does: the log keeps what comes meanwhile. */
  alone<T>(work: () => Promise<T>): Promise<T> {
    this.#paused++;
    clearTimeout(this.#timer?.handle);
    this.#timer = undefined;
    const result = this.#exclusive.then(async () => {
      await this.#round;
      return work();
    });
    this.#exclusive = result.then(
      () => this.#resume(),
      () => this.#resume(),
    );
    return result;
  }

  /** Asks the store anew where each tenant stands: its tables are other ones. To be called while alone. */
  restart(): void {
    for (const tenant of this.#tenants.values()) {
      tenant.forget();
      this.#mark(tenant);
    }
  }

  /** How far each tenant that is followed is in the store, as the sink knows it; undefined: it has not asked yet. */
  positions(): ReadonlyMap<string, SinkPositions | undefined> {
    return new Map([...this.#tenants].map(([tenantId, tenant]) => [tenantId, tenant.positions]));
  }

  status(): SinkStatus {
    const since = [...this.#tenants.values()].flatMap(({ behindSince }) =>
      behindSince === undefined ? [] : [behindSince],
    );
    const oldestMs = since.length === 0 ? 0 : Math.max(0, performance.now() - since.reduce((a, b) => Math.min(a, b)));
    let refused = 0;
    for (const tenant of this.#tenants.values()) if (tenant.isRefused) refused++;
    const { size: tenants } = this.#tenants;
    const storeAvailable = this.#storeFailures === 0;
    return { tenants, behind: since.length, oldestMs, refused, storeAvailable, failure: this.#failure };
  }

  /** Stops reading; the round that runs is awaited. What isn't written yet is written after the next start. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer?.handle);
    for (const tenantId of [...this.#tenants.keys()]) this.detach(tenantId);
    await this.#round;
    await this.#exclusive;
  }

  #advance(tenant: SinkTenant): void {
    // What is refused isn't taken sooner for having grown.
    if (!tenant.isRefused) tenant.notBefore = 0;
    this.#mark(tenant);
    this.#schedule(this.#options.delayMs ?? 250);
  }

  #mark(tenant: SinkTenant): void {
    if (tenant.detached) return;
    tenant.behindSince ??= performance.now();
    this.#dirty.add(tenant);
  }

  /** One timer, and only while there is something to do; a sooner time replaces a later one. */
  #schedule(delayMs: number): void {
    if (this.#closed || this.#round !== undefined || this.#paused > 0) return;
    const at = Math.max(performance.now() + delayMs, this.#storeNotBefore);
    if (this.#timer !== undefined && this.#timer.at <= at) return;
    clearTimeout(this.#timer?.handle);
    this.#timer = { at, handle: setTimeout(() => this.#start(), Math.ceil(at - performance.now())) };
  }

  #start(): void {
    this.#timer = undefined;
    this.#round = this.#run().then((full) => {
      this.#round = undefined;
      const delay = this.#nextDelay(full);
      if (delay !== undefined) this.#schedule(delay);
    });
  }

  #resume(): void {
    this.#paused--;
    if (this.#dirty.size > 0 || this.#gathered.length > 0) this.#schedule(0);
  }

  /** Never rejects. @returns whether there is no reason to wait before the next round. */
  async #run(): Promise<boolean> {
    let full = false;
    try {
      const leftOut = await this.#read();
      full = (await this.#write()) || leftOut;
      if (this.#storeFailures > 0)
        this.#options.logger.info({}, this.#storeSeen ? 'The read store is back' : 'The read store is up');
      if (this.#storeFailures > 0 || !this.#storeSeen) this.#options.observer?.storeAvailable?.(true);
      this.#storeSeen = true;
      this.#storeFailures = 0;
      this.#failure = undefined;
    } catch (error) {
      this.#storeFailed(error);
    }
    return full;
  }

  /** Milliseconds until the next round; undefined when there is nothing to do. */
  #nextDelay(full: boolean): number | undefined {
    if (this.#gathered.length > 0) return 0;
    const now = performance.now();
    let soonest: number | undefined;
    // One that is being read asks for a round itself when it has been.
    for (const tenant of this.#dirty)
      if (!this.#reading.has(tenant))
        soonest = Math.min(soonest ?? Number.POSITIVE_INFINITY, Math.max(0, tenant.notBefore - now));
    if (soonest === undefined) return undefined;
    const awaited = [...this.#flushes.values()].some((waiting) => waiting.size > 0);
    return full || awaited ? soonest : Math.max(soonest, this.#options.delayMs ?? 250);
  }

  /** Starts reading the tenants whose turn it is, and waits a little for them. @returns whether some must wait for a later turn. */
  async #read(): Promise<boolean> {
    const { store, maxBytes = DEFAULT_BYTES } = this.#options;
    const now = performance.now();
    // One reading of a tenant at a time, until it is written.
    const busy = new Set([...this.#reading.keys(), ...this.#gathered.map(({ tenant }) => tenant)]);
    const ready = [...this.#dirty].filter((tenant) => !busy.has(tenant) && tenant.notBefore <= now);
    const turn = ready.slice(0, Math.max(0, MAX_READING - this.#reading.size - this.#gathered.length));
    if (turn.length === 0) return false;
    if (!this.#schemaReady) {
      await this.#options.prepare?.();
      await store.ensureSchema();
    }
    this.#schemaReady = true;
    // A tenant alone fills the block; of many, each gets its share.
    const started: Promise<void>[] = [];
    const share = Math.max(64 * 1024, Math.floor(maxBytes / 3 / turn.length));
    await this.#startAll(turn.filter(({ started: isStarted }) => !isStarted));
    for (const tenant of turn) {
      // Off the list before it is read: an advance from here on puts it back.
      this.#dirty.delete(tenant);
      const reading = tenant.gather(share).then((gathered) => {
        this.#reading.delete(tenant);
        this.#gathered.push(gathered);
        this.#schedule(0);
      });
      this.#reading.set(tenant, reading);
      started.push(reading);
    }
    await within(Promise.all(started), GRACE_MS);
    return ready.length > turn.length;
  }

  async #startAll(tenants: readonly SinkTenant[]): Promise<void> {
    const { store } = this.#options;
    const found = new Map<SinkTenant, Awaited<ReturnType<ReadStore['watermarks']>>>();
    const unknown: Watermark[] = [];
    for (const tenant of tenants) {
      const { tenantId, incarnation } = tenant.source;
      const watermarks = await store.watermarks(tenantId, incarnation);
      found.set(tenant, watermarks);
      if (Object.values(watermarks).some((offset) => offset > 0)) continue;
      // The store was away when the former tenant of the id was deleted: what it still has would be taken for this one's.
      if (incarnation !== undefined) await store.reset(tenantId);
      unknown.push({ tenantId, incarnation, stream: 'events', offset: 0 });
    }
    // Before its first row: whose rows there are is told by watermarks.
    if (unknown.length > 0) await store.setWatermarks(unknown);
    for (const [tenant, watermarks] of found) tenant.start(watermarks);
  }

  /** Writes what was read, the watermarks last. @returns whether that was about as much as a round takes. */
  async #write(): Promise<boolean> {
    const { maxBytes = DEFAULT_BYTES } = this.#options;
    const gathered = this.#gathered.splice(0).filter((one) => one.tenant.isCurrent(one));
    for (const one of gathered) this.#reportFailures(one);
    const taken = await this.#stored(gathered);
    const count = taken.reduce((sum, { rows }) => sum + rows.count, 0);
    const bytes = taken.reduce((sum, { rows }) => sum + rows.bytes, 0);
    const full = 8 * count >= ROWS_PER_ROUND || 16 * bytes >= maxBytes;
    for (const one of taken) this.#written(one, full);
    return full;
  }

  /**
   * @returns what is in the store. Where it does not take all together each tenant's is tried apart: what one has holds up nobody else's.
   * @throws where it takes nothing.
   */
  async #stored(gathered: readonly Gathered[]): Promise<readonly Gathered[]> {
    try {
      await this.#store(gathered);
      return gathered;
    } catch (error) {
      // A store that is away, or with one tenant alone, has nothing that could be told apart.
      if (this.#tenants.size < 2 || !(await this.#options.store.ping())) throw this.#unstored(gathered, error);
      const taken: Gathered[] = [];
      const refused: { readonly tenant: SinkTenant; readonly error: unknown }[] = [];
      for (const one of gathered)
        try {
          if (gathered.length === 1) throw error;
          await this.#store([one]);
          taken.push(one);
        } catch (reason) {
          refused.push({ tenant: one.tenant, error: reason });
        }
      if (taken.length === 0 && gathered.length > 1) throw this.#unstored(gathered, error);
      for (const { tenant, error: reason } of refused) this.#refused(tenant, reason);
      return taken;
    }
  }

  #unstored(gathered: readonly Gathered[], error: unknown): unknown {
    for (const { tenant } of gathered) this.#mark(tenant);
    return error;
  }

  async #store(gathered: readonly Gathered[]): Promise<void> {
    const { observer, store } = this.#options;
    for (const block of blocksOf(gathered.map(({ rows }) => rows))) {
      const started = performance.now();
      await store.insert(block);
      observer?.block?.(block.table, block.rows.length, performance.now() - started);
    }
    for (const { tenant, dropped } of gathered)
      for (const projectionId of dropped) await store.dropProjection(tenant.source.tenantId, projectionId);
    for (const { tenant, erased } of gathered)
      if (erased.length > 0) await store.eraseAggregates(tenant.source.tenantId, erased);
    const watermarks = gathered.flatMap((one) => one.tenant.watermarksOf(one));
    if (watermarks.length > 0) await store.setWatermarks(watermarks);
  }

  /** Its tables may be gone, as well as what is in its rows be the reason. */
  #refused(tenant: SinkTenant, error: unknown): void {
    this.#schemaReady = false;
    const { tenantId } = tenant.source;
    if (tenant.refused()) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#options.logger.warn(
        { tenantId, reason },
        'The read store refuses the rows of a tenant; the log keeps what it misses, and it tries again',
      );
    }
    this.#mark(tenant);
  }

  #written(gathered: Gathered, full: boolean): void {
    const { tenant, progress, isPartial, startedAt } = gathered;
    if (tenant.isRefused)
      this.#options.logger.info(
        { tenantId: tenant.source.tenantId },
        'The read store takes the rows of the tenant again',
      );
    tenant.commit(gathered);
    const retryAt = tenant.retryAt();
    const wasMarked = this.#dirty.has(tenant);
    if (progress.size > 0 || isPartial) {
      // There may be more where this came from; a reading that finds nothing new ends it.
      if (!full) tenant.behindSince = startedAt;
      this.#mark(tenant);
    } else if (retryAt !== undefined) {
      this.#mark(tenant);
      if (!wasMarked) tenant.notBefore = retryAt;
    } else if (!wasMarked) {
      tenant.behindSince = undefined;
    }
    for (const flush of this.#flushes.get(tenant.source.tenantId) ?? [])
      if (reached(tenant, flush.target)) flush.resolve();
  }

  #reportFailures({ tenant, failures }: Gathered): void {
    for (const { stream, error } of failures) {
      this.#options.logger.warn(
        { err: error, tenantId: tenant.source.tenantId, stream },
        'The read store could not read a stream of a tenant; it tries again',
      );
      this.#options.observer?.streamFailed?.(tenant.source.tenantId, stream);
    }
  }

  #storeFailed(error: unknown): void {
    this.#failure = error instanceof Error ? error.message : String(error);
    const wait = backOff(this.#storeFailures, this.#options.backOffMs ?? { first: 200, last: 15_000 });
    if (this.#storeFailures++ === 0) {
      const fields = error instanceof StatefoldError ? { reason: error.message } : { err: error };
      if (this.#storeSeen) this.#options.logger.warn(fields, 'The read store is away; the log keeps what it misses');
      else this.#options.logger.info(fields, 'The read store is not up yet; the log keeps what it misses');
      this.#options.observer?.storeAvailable?.(false);
    }
    // It may come back with less than it had, or as a new one without tables: it is asked again where each tenant stands.
    this.#schemaReady = false;
    this.restart();
    this.#storeNotBefore = performance.now() + wait;
  }

  #reject(tenantId: string, message: string): void {
    for (const flush of this.#flushes.get(tenantId) ?? []) flush.reject(new StatefoldError('UNAVAILABLE', message));
    this.#flushes.delete(tenantId);
  }
}

const reached = (tenant: SinkTenant, target: FlushTarget): boolean =>
  tenant.started &&
  (target.events === undefined ||
    Math.min(tenant.offset('events') ?? 0, tenant.offset('states') ?? 0) >= target.events) &&
  (target.changes === undefined || (tenant.offset('changes') ?? 0) >= target.changes);
