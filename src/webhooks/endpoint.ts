import { setImmediate } from 'node:timers';
import type { Hold, MemoryBudget } from '../core/budget.js';
import type { Change } from '../core/change.js';
import { StatefoldError } from '../core/errors.js';
import type { Logger } from '../core/logger.js';
import type { ChangeFeed } from '../feed/changes.js';
import type { CursorStore, EndpointCheckpoint, ParkedChange } from './cursor-store.js';
import type { Subscription, Subscriber } from '../feed/subscription.js';
import type { ChangeHub } from '../feed/hub.js';
import type { Timers } from '../feed/timers.js';
import { DeliveryWindow } from './delivery-window.js';
import type { FairSlots } from './fair-slots.js';
import { retryDelay } from './retry-schedule.js';
import type { AttemptOutcome } from './webhook-client.js';

export interface EndpointLimits {
  /** Changes taken and not settled, past which no more are taken. */
  readonly windowChanges: number;
  /** The same by the bytes of their states. */
  readonly windowBytes: number;
  /** Requests at once while the endpoint answers; one while it fails. */
  readonly concurrency: number;
  /** Waits before the second attempt and on; after the last the change is parked. */
  readonly retryDelaysMs: readonly number[];
  /** Failures in a row after which the endpoint counts as failing. */
  readonly failuresToOpen: number;
  /** Between two attempts while it fails: doubled from the first to the last. */
  readonly firstPauseMs: number;
  readonly lastPauseMs: number;
}

/** What an endpoint is given by its deliverer. */
export interface EndpointContext {
  readonly hub: ChangeHub;
  readonly store: CursorStore;
  readonly logger: Logger;
  readonly timers: Timers;
  readonly random: () => number;
  readonly wallClock: () => number;
  readonly limits: EndpointLimits;
  /** What is taken and not delivered is held of it. */
  readonly budget: MemoryBudget;
  /** Slots for endpoints that answer, and those apart for the ones that fail, so that these can't hold up the others. */
  readonly slots: FairSlots;
  readonly probationSlots: FairSlots;
  feed(tenantId: string): Promise<ChangeFeed>;
  /** One attempt; never rejects. Undefined: the catalog has no such endpoint now. */
  attempt(
    endpoint: Endpoint,
    change: Change,
    attempt: number,
    signal: AbortSignal,
  ): Promise<AttemptOutcome | undefined>;
  parked(endpoint: Endpoint, parked: ParkedChange): void;
  gone(endpoint: Endpoint): void;
}

export interface EndpointStatus {
  /** `failing`: one attempt at a time, with pauses. */
  readonly state: 'delivering' | 'failing' | 'stopped';
  /** Everything up to here is delivered or parked. */
  readonly cursor: number;
  readonly pending: number;
  readonly parked: readonly ParkedChange[];
  readonly lastFailure: string | undefined;
}

const MAX_PARKED = 100;
const RESTART_MS = 5_000;

/** Deliveries of one projection to its endpoint: order kept a key, at least once, from a cursor that outlives the process. */
export class Endpoint implements Subscriber {
  readonly id: string;
  #window: DeliveryWindow<Change>;
  readonly #hold: Hold;
  #parked: readonly ParkedChange[];
  #subscription: Subscription | undefined;
  #active = 0;
  #failures = 0;
  #pauseMs: number;
  #pausedUntil = Number.NEGATIVE_INFINITY;
  #lastFailure: string | undefined;
  #cancelTimer: (() => void) | undefined;
  #saveDue = false;
  #pumpDue = false;
  #started = false;
  #stopped = false;
  #stopping: Promise<void> | undefined;
  /** Changes that wait for a slot, and how to withdraw them. */
  readonly #queued = new Map<number, () => void>();
  readonly #abort = new AbortController();
  readonly #running = new Set<Promise<void>>();

  constructor(
    readonly tenantId: string,
    readonly projectionId: string,
    private readonly context: EndpointContext,
  ) {
    this.id = endpointId(tenantId, projectionId);
    this.#window = this.#emptyWindow(0);
    this.#hold = context.budget.tenant(tenantId).hold('webhooks');
    this.#parked = [];
    this.#pauseMs = context.limits.firstPauseMs;
  }

  /** Begins where its checkpoint ends, else at `from`. Resolves when it follows, or has put that off. */
  async start(from: number): Promise<void> {
    if (this.#stopped) return;
    try {
      const feed = await this.context.feed(this.tenantId);
      const checkpoint = this.context.store.load(this.id) ?? { through: from, pending: [], parked: [] };
      const window = await this.#restore(feed, checkpoint);
      if (this.#isStopped()) return;
      this.#window = window;
      this.#hold.set(window.bytes);
      this.#parked = checkpoint.parked;
      this.#started = true;
      this.#save();
      this.#follow(window.through);
      this.#pump();
    } catch (error) {
      if (this.#isStopped()) return;
      this.context.logger.warn({ err: error, endpoint: this.id }, 'deliveries could not begin; trying again');
      this.#cancelTimer = this.context.timers.after(RESTART_MS, () => void this.start(from));
    }
  }

  push(change: Change): boolean {
    this.#window.add(change, bytesOf(change));
    // Signing and sending wait for the next turn: this one belongs to the append that made the change.
    if (!this.#pumpDue) {
      this.#pumpDue = true;
      setImmediate(() => {
        this.#pumpDue = false;
        this.#pump();
      });
    }
    this.#hold.set(this.#window.bytes);
    if (this.#window.hasRoom && this.#hold.full !== undefined) this.#hold.countRefusal();
    return this.#hasRoom;
  }

  /** Each endpoint goes on with one change at a time, whatever is held. */
  get #hasRoom(): boolean {
    return this.#window.hasRoom && (this.#window.size === 0 || this.#hold.full === undefined);
  }

  ended(reason: unknown): void {
    if (this.#stopped) return;
    const code = reason instanceof StatefoldError ? reason.code : undefined;
    // The projection's end is the catalog's to tell, the hub's is the process's.
    if (code === 'NOT_FOUND' || code === 'UNAVAILABLE') return;
    const { through } = this.#window;
    const oldest = code === 'CURSOR_EXPIRED' ? (reason as StatefoldError).details?.['oldestSequence'] : undefined;
    if (typeof oldest === 'number' && oldest - 1 > through) {
      this.context.logger.warn(
        { endpoint: this.id, after: through, oldest },
        'changes were trimmed before they could be delivered; going on with the oldest',
      );
      this.#followAgain(0, oldest - 1);
    } else {
      this.context.logger.error({ err: reason, endpoint: this.id }, 'deliveries were interrupted; trying again');
      this.#followAgain(RESTART_MS, through);
    }
  }

  status(): EndpointStatus {
    return {
      state: this.#stopped ? 'stopped' : this.#failing ? 'failing' : 'delivering',
      cursor: this.#window.cursor,
      pending: this.#window.size,
      parked: this.#parked,
      lastFailure: this.#lastFailure,
    };
  }

  /** The endpoint was changed: what it failed before says nothing now. */
  hurry(): void {
    this.#recovered();
    this.#window.hurry();
    this.#pump();
  }

  /** Calls off what is in flight; resolves when all of it has ended and the checkpoint was handed over. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    this.#stopped = true;
    this.#subscription?.close();
    this.#cancelTimer?.();
    for (const withdraw of this.#queued.values()) withdraw();
    this.#queued.clear();
    this.#abort.abort();
    await Promise.all(this.#running);
    this.#hold.close();
    if (this.#started) this.#saveNow();
  }

  get #failing(): boolean {
    return this.#failures >= this.context.limits.failuresToOpen;
  }

  #isStopped(): boolean {
    return this.#stopped;
  }

  #emptyWindow(through: number): DeliveryWindow<Change> {
    const { windowChanges, windowBytes } = this.context.limits;
    return new DeliveryWindow<Change>(through, { count: windowChanges, bytes: windowBytes });
  }

  async #restore(feed: ChangeFeed, checkpoint: EndpointCheckpoint): Promise<DeliveryWindow<Change>> {
    const window = this.#emptyWindow(checkpoint.through);
    for (const [sequence, attempts] of checkpoint.pending) {
      let change: Change | undefined;
      try {
        [change] = (await feed.of(this.projectionId).read(sequence, { items: 1 })).items;
      } catch (error) {
        if (!(error instanceof StatefoldError) || error.code !== 'CURSOR_EXPIRED') throw error;
      }
      if (change?.sequence === sequence) window.add(change, bytesOf(change), { attempts });
      else
        this.context.logger.warn({ endpoint: this.id, sequence }, 'a change was trimmed before it could be delivered');
    }
    return window;
  }

  #follow(after: number): void {
    this.#subscription = this.context.hub.subscribe(
      { tenantId: this.tenantId, projectionId: this.projectionId, after },
      this,
    );
  }

  #followAgain(waitMs: number, after: number): void {
    this.context.timers.after(waitMs, () => {
      if (this.#stopped) return;
      try {
        this.#follow(after);
      } catch (error) {
        this.context.logger.debug({ err: error, endpoint: this.id }, 'no more changes are followed');
      }
    });
  }

  #pump(): void {
    if (this.#stopped) return;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    const now = this.context.timers.now();
    if (now >= this.#pausedUntil) {
      const limit = this.#failing ? 1 : this.context.limits.concurrency;
      while (this.#active < limit) {
        const change = this.#window.take(now);
        if (change === undefined) break;
        this.#enqueue(change);
      }
      if (this.#active >= limit) return;
    }
    const due = this.#window.nextDue();
    if (due === undefined) return;
    const wait = Math.max(due, this.#pausedUntil) - now;
    this.#cancelTimer = this.context.timers.after(Math.max(wait, 0), () => this.#pump());
  }

  #enqueue(change: Change): void {
    const slots = this.#failing ? this.context.probationSlots : this.context.slots;
    this.#active++;
    let started = false;
    const withdraw = slots.acquire(this.tenantId, () => {
      started = true;
      this.#queued.delete(change.sequence);
      const run = this.#deliver(change).finally(() => {
        this.#running.delete(run);
        slots.release(this.tenantId);
        this.#active--;
        this.#pump();
      });
      this.#running.add(run);
    });
    if (!started) this.#queued.set(change.sequence, withdraw);
  }

  async #deliver(change: Change): Promise<void> {
    const { sequence } = change;
    const attempt = this.#window.attempts(sequence) + 1;
    const outcome = await this.context.attempt(this, change, attempt, this.#abort.signal);
    if (this.#stopped) {
      // An answer that came while stopping counts where it is a delivery; what was called off is pending still.
      if (outcome?.kind === 'delivered') this.#window.settled(sequence);
      return;
    }
    if (outcome === undefined) {
      // The catalog has no endpoint any more, and is about to say so.
      this.#window.released(sequence);
      this.#pausedUntil = this.context.timers.now() + RESTART_MS;
      return;
    }
    if (outcome.kind === 'delivered') this.#delivered(sequence);
    else if (outcome.kind === 'failed') this.#failed(change, attempt, outcome);
    else {
      this.#window.released(sequence);
      this.context.gone(this);
    }
    this.#hold.set(this.#window.bytes);
    this.#save();
    if (this.#hasRoom) this.#subscription?.resume();
  }

  #delivered(sequence: number): void {
    this.#window.settled(sequence);
    const wasFailing = this.#failing;
    this.#recovered();
    if (wasFailing) this.#window.hurry();
  }

  #recovered(): void {
    this.#failures = 0;
    this.#pauseMs = this.context.limits.firstPauseMs;
    this.#pausedUntil = Number.NEGATIVE_INFINITY;
  }

  #failed(change: Change, attempt: number, outcome: AttemptOutcome & { kind: 'failed' }): void {
    const { limits, timers, random, wallClock } = this.context;
    const now = timers.now();
    this.#failures++;
    this.#lastFailure = outcome.reason;
    const asked = outcome.retryAfterMs ?? 0;
    if (asked > 0) this.#pausedUntil = Math.max(this.#pausedUntil, now + asked);
    if (this.#failing) {
      this.#pausedUntil = Math.max(this.#pausedUntil, now + this.#pauseMs);
      this.#pauseMs = Math.min(this.#pauseMs * 2, limits.lastPauseMs);
    }
    const delay = retryDelay(attempt, random(), asked, limits.retryDelaysMs);
    if (delay !== undefined) {
      this.#window.failed(change.sequence, now + delay);
      return;
    }
    const parked = {
      sequence: change.sequence,
      key: change.key,
      at: new Date(wallClock()).toISOString(),
      attempts: attempt,
      reason: outcome.reason,
    };
    this.#parked = [...this.#parked, parked].slice(-MAX_PARKED);
    this.#window.settled(change.sequence);
    this.context.parked(this, parked);
  }

  /** Once a turn, however much was settled on it. */
  #save(): void {
    if (this.#saveDue) return;
    this.#saveDue = true;
    setImmediate(() => {
      this.#saveDue = false;
      if (!this.#stopped) this.#saveNow();
    });
  }

  #saveNow(): void {
    this.context.store.save(this.id, { ...this.#window.checkpoint(), parked: this.#parked });
  }
}

export const endpointId = (tenantId: string, projectionId: string): string => `${tenantId}/${projectionId}`;

const RECORD_BYTES = 512;
const bytesOf = (change: Change): number => RECORD_BYTES + (change.state?.length ?? 0);
