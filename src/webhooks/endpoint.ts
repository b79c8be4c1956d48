import { setImmediate } from 'node:timers';
import type { Hold, MemoryBudget } from '../core/budget.js';
import type { Logger } from '../core/logger.js';
import type { TenantFeed } from '../feed/tenant-feeds.js';
import type { CursorStore, DeadLetter, EndpointCheckpoint, EndpointHealth, Replay } from './cursor-store.js';
import type { FeedHub } from '../feed/hub.js';
import type { Timers } from '../feed/timers.js';
import { DeliveryHealth, monotonic, onWallClock, type HealthLimits } from './delivery-health.js';
import { DeliveryWindow, type WindowCheckpoint } from './delivery-window.js';
import type { Filtered } from './endpoint-filter.js';
import type { FairPermits } from './fair-permits.js';
import { Lane, type LaneHome } from './lane.js';
import { retryDelay } from './retry-schedule.js';
import type { AttemptOutcome } from './webhook-client.js';
import type { Message, MessageFeed } from './webhook-message.js';

export interface EndpointLimits extends HealthLimits {
  /** Messages taken and not done with, past which no more are taken. */
  readonly windowMessages: number;
  /** The same by the bytes of their items. */
  readonly windowBytes: number;
  /** Requests at once while the endpoint answers; one while it fails. */
  readonly concurrency: number;
}

/** What an endpoint is given by its deliverer. */
export interface EndpointContext {
  readonly hub: FeedHub;
  readonly store: CursorStore;
  readonly logger: Logger;
  readonly timers: Timers;
  readonly random: () => number;
  readonly wallClock: () => number;
  readonly limits: EndpointLimits;
  /** What is taken and not delivered is held of it. */
  readonly budget: MemoryBudget;
  /** Slots for endpoints that answer, and those apart for the ones that fail, so that these can't hold up the others. */
  readonly permits: FairPermits;
  readonly probationPermits: FairPermits;
  /** The feeds of the tenant, when what others saved of its endpoints is known too. */
  open(tenantId: string): Promise<TenantFeed>;
  /** One attempt; never rejects. Undefined: the catalog has no such endpoint now, or it is not to be sent to. */
  attempt(
    endpoint: EndpointIdentity,
    message: Message,
    attempt: number,
    signal: AbortSignal,
  ): Promise<AttemptOutcome | undefined>;
  /** The endpoint is told of what has this, as it is configured now. */
  wanted(endpoint: EndpointIdentity, item: Filtered): boolean;
  /** Least milliseconds between two attempts, as it is configured now; 0: none. */
  paceMs(endpoint: EndpointIdentity): number;
  /** A message was given up. */
  buried(endpoint: EndpointIdentity, letter: DeadLetter): void;
  gone(endpoint: EndpointIdentity, url: string): void;
  /** All attempts have failed for so long that no more are to be made. */
  failedTooLong(endpoint: EndpointIdentity): void;
}

/** An endpoint, for those who are told of it. */
export interface EndpointIdentity {
  readonly tenantId: string;
  readonly endpointId: string;
}

export interface EndpointStatus {
  /** `failing`: one attempt at a time, with pauses. */
  readonly state: 'delivering' | 'failing' | 'stopped';
  /** Everything before it is delivered, or a dead letter. */
  readonly cursor: number;
  readonly pending: number;
  readonly deadLetters: readonly DeadLetter[];
  readonly lastFailure: string | undefined;
  readonly health: EndpointHealth | undefined;
}

/** The latest are listed. The others can be sent again too, by their range. */
const MAX_DEAD_LETTERS = 500;
const RESTART_MS = 5_000;
/** Memory is all held: how long it is before an endpoint looks whether there is room again. */
const ROOM_POLL_MS = 1_000;
/** Messages of so many bytes an endpoint may have that wait for another attempt, whatever is held. */
const LEAST_BYTES = 64 * 1024;
/** How far it is, where nothing has to be sent: kept so often, so that a start does not begin far behind. */
const ADVANCED_MS = 10_000;
/** A pace is kept on average over so long: timers are late, and must not make it slower than was asked for. */
const PACE_SLACK_MS = 20;

/** Deliveries of a feed to an endpoint: order kept a key, at least once, from a cursor that outlives the process. */
export class Endpoint<T> implements EndpointIdentity {
  /** Of its checkpoint. */
  readonly id: string;
  readonly #home: LaneHome<T>;
  #live: Lane<T>;
  /** Ranges that are sent again, beside what is live and beside each other. */
  #replays: readonly Lane<T>[] = [];
  /** Where the next attempt is looked for first: all lanes take turns. */
  #turn = 0;
  readonly #hold: Hold;
  #deadLetters: readonly DeadLetter[] = [];
  #active = 0;
  readonly #health: DeliveryHealth;
  /** By the pace, no attempt before. */
  #paceAt = Number.NEGATIVE_INFINITY;
  #cancelTimer: (() => void) | undefined;
  #cancelPoll: (() => void) | undefined;
  #cancelAdvanced: (() => void) | undefined;
  #saveDue = false;
  #pumpDue = false;
  #started = false;
  #stopped = false;
  #stopping: Promise<void> | undefined;
  /** Told when it has begun, or is stopped. */
  readonly #waiters: (() => void)[] = [];
  /** Messages that wait for a permit, and how to withdraw them. */
  readonly #queued = new Map<Message, () => void>();
  readonly #abort = new AbortController();
  readonly #running = new Set<Promise<void>>();

  constructor(
    readonly tenantId: string,
    readonly endpointId: string,
    messages: MessageFeed<T>,
    private readonly context: EndpointContext,
  ) {
    this.id = checkpointId(tenantId, endpointId);
    const { hub, logger, timers, limits } = context;
    this.#home = {
      ...{ id: this.id, tenantId, messages, hub, logger, timers },
      capacity: { count: limits.windowMessages, bytes: limits.windowBytes },
      wanted: (item) => context.wanted(this, item),
      took: (lane) => this.#took(lane),
      keeps: (lane) => this.#keeps(lane),
      advanced: () => this.#advanced(),
    };
    this.#live = new Lane(new DeliveryWindow<Message>(0, this.#home.capacity), Number.POSITIVE_INFINITY, this.#home);
    this.#hold = context.budget.tenant(tenantId).hold('webhooks');
    this.#health = new DeliveryHealth(context);
  }

  /**
   * Begins where its checkpoint ends, else at `from`. `resumed`: what failed before says nothing now, and what waits is due. Resolves when
   * it follows, or has put that off.
   */
  async start(from: number, resumed = false): Promise<void> {
    if (this.#stopped) return;
    try {
      const tenant = await this.context.open(this.tenantId);
      const checkpoint = this.context.store.load(this.id) ?? { end: from, pending: [], deadLetters: [] };
      const live = await this.#restored(tenant, checkpoint, Number.POSITIVE_INFINITY);
      const replays: Lane<T>[] = [];
      for (const replay of checkpoint.replays ?? [])
        replays.push(await this.#restored(tenant, replay, replay.to, replay.only));
      if (this.#isStopped()) return;
      this.#live = live;
      this.#replays = replays;
      this.#hold.set(this.#bytes);
      this.#deadLetters = checkpoint.deadLetters;
      this.#health.restore(checkpoint.health);
      if (resumed) this.#renew();
      this.#started = true;
      this.#tellWaiters();
      this.#save();
      for (const lane of this.#lanes) lane.follow();
      this.#pump();
    } catch (error) {
      if (this.#isStopped()) return;
      this.context.logger.warn({ err: error, endpoint: this.id }, 'deliveries could not begin; trying again');
      this.#cancelTimer = this.context.timers.after(RESTART_MS, () => void this.start(from, resumed));
    }
  }

  /** Resolves when it has begun, or was stopped before. */
  get begun(): Promise<void> {
    return this.#started || this.#stopped ? Promise.resolve() : new Promise((resolve) => this.#waiters.push(resolve));
  }

  /** A checkpoint may be asked of it: it has begun where its last one ended. */
  get started(): boolean {
    return this.#started;
  }

  /** Sends the range again, both ends inclusive, or `only` these positions of it, beside what is live. That it is not sent already is its caller's to know. */
  replay(from: number, to: number, only?: readonly number[]): void {
    const window = new DeliveryWindow<Message>(from, this.#home.capacity);
    const lane = new Lane(window, to, this.#home, only && new Set(only));
    this.#replays = [...this.#replays, lane];
    this.#saveNow();
    lane.follow();
    this.#pump();
  }

  /**
   * Attempts a message that waits for another attempt now, whatever the pauses of the endpoint, and its pace; where that fails it is due by
   * its schedule, and that says nothing against the endpoint. False: there is no such message whose turn it is.
   */
  retry(messageId: string): boolean {
    if (this.#stopped || !this.#started) return false;
    const now = this.context.timers.now();
    for (const lane of this.#lanes) {
      const message = lane.window.takeNow(now, ({ id }) => id === messageId);
      if (message === undefined) continue;
      this.#enqueue(lane, message, true);
      return true;
    }
    return false;
  }

  #took(lane: Lane<T>): boolean {
    // Signing and sending wait for the next turn: this one belongs to the append that made the item.
    if (!this.#pumpDue) {
      this.#pumpDue = true;
      setImmediate(() => {
        this.#pumpDue = false;
        this.#pump();
      });
    }
    this.#hold.set(this.#bytes);
    if (lane.window.hasRoom && this.#hold.full !== undefined) this.#hold.countRefusal();
    if (this.#hasRoom(lane)) return true;
    this.#awaitRoom();
    return false;
  }

  /** Nothing was taken: that is worth a write only now and then. */
  #advanced(): void {
    this.#endReplays();
    this.#cancelAdvanced ??= this.context.timers.after(ADVANCED_MS, () => {
      this.#cancelAdvanced = undefined;
      this.#save();
    });
  }

  get #lanes(): readonly Lane<T>[] {
    return this.#replays.length === 0 ? [this.#live] : [this.#live, ...this.#replays];
  }

  get #bytes(): number {
    let bytes = 0;
    for (const { window, kept } of this.#lanes) bytes += window.bytes + kept;
    return bytes;
  }

  /** What lanes that are full keep of their pages leaves room for as much again: it is there to save a read, and no delivery waits for it. */
  #keeps({ kept }: Lane<T>): boolean {
    const budget = this.context.budget.tenant(this.tenantId);
    this.#hold.set(this.#bytes);
    if (budget.refuses('webhooks', budget.held('webhooks')) === undefined) return true;
    this.#hold.sub(kept);
    return false;
  }

  /**
   * Each endpoint goes on with one change at a time, whatever is held: what waits for another attempt is in nobody's way, unless
   * all fail and it would only become more.
   */
  #hasRoom({ window }: Lane<T>): boolean {
    if (!window.hasRoom) return false;
    if (window.size === 0 || this.#hold.full === undefined) return true;
    const now = this.context.timers.now();
    const idle = this.#active === 0 && now >= this.#health.pausedUntil && (window.nextDue() ?? Infinity) > now;
    return idle && (!this.#health.isFailing || window.bytes < LEAST_BYTES);
  }

  /** Takes more as soon as it may. */
  #resume(): void {
    if (this.#stopped) return;
    for (const lane of this.#lanes)
      if (this.#hasRoom(lane)) lane.resume();
      else this.#awaitRoom();
  }

  /** What is held is others' too, who do not say when they give it back: to tell all endpoints each time would cost each append. */
  #awaitRoom(): void {
    if (this.#cancelPoll !== undefined || !this.#lanes.some(({ window }) => window.hasRoom)) return;
    this.#cancelPoll = this.context.timers.after(ROOM_POLL_MS, () => {
      this.#cancelPoll = undefined;
      this.#resume();
    });
  }

  status(): EndpointStatus {
    // To put a checkpoint together takes a millisecond where much is sent again, and lists ask each endpoint.
    return {
      state: this.#stopped ? 'stopped' : this.#health.isFailing ? 'failing' : 'delivering',
      cursor: this.#live.window.cursor,
      pending: this.#live.window.size,
      deadLetters: this.#deadLetters,
      lastFailure: this.#health.lastFailure,
      health: this.#health.row,
    };
  }

  /** The endpoint was changed: what it failed before says nothing now. */
  hurry(): void {
    this.#renew();
    this.#save();
    this.#pump();
  }

  #renew(): void {
    this.#health.recovered();
    for (const { window } of this.#lanes) window.hurry(true);
  }

  /** Its pace or its filter is another. */
  reconsider(): void {
    this.#paceAt = Number.NEGATIVE_INFINITY;
    this.#pump();
  }

  /** Calls off what is in flight; resolves when all of it has ended and the checkpoint was handed over. */
  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  #tellWaiters(): void {
    for (const tell of this.#waiters.splice(0)) tell();
  }

  async #stop(): Promise<void> {
    this.#stopped = true;
    this.#tellWaiters();
    for (const lane of this.#lanes) lane.close();
    this.#cancelTimer?.();
    this.#cancelPoll?.();
    this.#cancelAdvanced?.();
    for (const withdraw of this.#queued.values()) withdraw();
    this.#queued.clear();
    this.#abort.abort();
    await Promise.all(this.#running);
    this.#hold.close();
    // What is stopped is not held on to for that.
    if (this.#started) this.context.store.save(this.id, this.checkpoint());
  }

  #isStopped(): boolean {
    return this.#stopped;
  }

  #restored(tenant: TenantFeed, checkpoint: WindowCheckpoint, to: number, only?: readonly number[]): Promise<Lane<T>> {
    const waitOf = (dueAt: number): number => monotonic(this.context, dueAt, this.#health.longestPause);
    return Lane.restored(tenant, checkpoint, to, this.#home, waitOf, only);
  }

  #pump(): void {
    if (this.#stopped || !this.#started) return;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    const now = this.context.timers.now();
    if (now >= this.#health.pausedUntil) {
      const limit = this.#health.isFailing ? 1 : this.context.limits.concurrency;
      const paceMs = this.context.paceMs(this);
      while (this.#active < limit && (paceMs === 0 || now >= this.#paceAt)) {
        const next = this.#next(now);
        if (next === undefined) break;
        if (paceMs > 0) this.#paceAt = Math.max(this.#paceAt, now - PACE_SLACK_MS) + paceMs;
        this.#enqueue(...next);
      }
      if (this.#active >= limit) return;
    }
    let due: number | undefined;
    for (const { window } of this.#lanes) {
      const one = window.nextDue();
      if (one !== undefined && (due === undefined || one < due)) due = one;
    }
    if (due === undefined) return;
    const wait = Math.max(due, this.#health.pausedUntil, this.context.paceMs(this) === 0 ? 0 : this.#paceAt) - now;
    this.#cancelTimer = this.context.timers.after(Math.max(wait, 0), () => this.#pump());
  }

  /** A message to attempt now, of the lane whose turn it is first. */
  #next(now: number): readonly [Lane<T>, Message] | undefined {
    const lanes = this.#lanes;
    for (let i = 0; i < lanes.length; i++) {
      const lane = lanes[(this.#turn + i) % lanes.length] as Lane<T>;
      const message = lane.window.take(now, this.#health.isFailing);
      if (message === undefined) continue;
      this.#turn = (this.#turn + i + 1) % lanes.length;
      return [lane, message];
    }
    return undefined;
  }

  /** `byOwner`: the attempt was asked for. */
  #enqueue(lane: Lane<T>, message: Message, byOwner = false): void {
    const permits = this.#health.isFailing ? this.context.probationPermits : this.context.permits;
    this.#active++;
    let started = false;
    const withdraw = permits.acquire(this.tenantId, this.endpointId, (permit) => {
      started = true;
      this.#queued.delete(message);
      const run = this.#deliver(lane, message, byOwner).finally(() => {
        this.#running.delete(run);
        permits.release(permit);
        this.#active--;
        this.#pump();
        this.#resume();
      });
      this.#running.add(run);
    });
    if (!started) this.#queued.set(message, withdraw);
  }

  async #deliver(lane: Lane<T>, message: Message, byOwner: boolean): Promise<void> {
    const { window } = lane;
    const { position } = message;
    // Its filter may be another than when the message was taken.
    if (!this.context.wanted(this, message)) {
      window.finish(position);
      return this.#afterAttempt();
    }
    const attempt = window.attempts(position) + 1;
    const begunAt = this.context.timers.now();
    const outcome = await this.context.attempt(this, message, attempt, this.#abort.signal);
    if (this.#stopped) {
      // An answer that came while stopping counts where it is a delivery; what was called off is pending still.
      if (outcome?.kind === 'delivered') window.finish(position);
      return;
    }
    if (outcome === undefined) {
      // The catalog has no endpoint any more, and is about to say so.
      window.released(position);
      this.#health.pause(RESTART_MS);
      return;
    }
    if (outcome.kind === 'delivered') this.#delivered(lane, position, begunAt);
    else if (outcome.kind === 'failed') {
      this.#failed(lane, message, attempt, outcome, byOwner);
      if (!byOwner && outcome.isOurs !== true && this.#health.hasFailedTooLong) this.context.failedTooLong(this);
    } else {
      window.released(position);
      this.context.gone(this, outcome.url);
    }
    this.#afterAttempt();
  }

  #afterAttempt(): void {
    this.#endReplays();
    this.#hold.set(this.#bytes);
    this.#save();
  }

  #endReplays(): void {
    if (!this.#replays.some(({ done }) => done)) return;
    this.#replays = this.#replays.filter(({ done }) => !done);
    this.#save();
  }

  #delivered(lane: Lane<T>, position: number, begunAt: number): void {
    lane.window.finish(position);
    // One that was given up, and was sent again.
    if (lane !== this.#live && this.#deadLetters.some((letter) => letter.position === position))
      this.#deadLetters = this.#deadLetters.filter((letter) => letter.position !== position);
    const wasFailing = this.#health.isFailing;
    this.#health.delivered(begunAt);
    if (wasFailing) for (const { window } of this.#lanes) window.hurry();
  }

  #failed(
    lane: Lane<T>,
    message: Message,
    attempt: number,
    outcome: AttemptOutcome & { kind: 'failed' },
    byOwner: boolean,
  ): void {
    const { limits, timers, random, wallClock } = this.context;
    const now = timers.now();
    const asked = outcome.retryAfterMs ?? 0;
    this.#health.failed(outcome, !byOwner);
    // What its owner asked for takes nothing of the schedule, also where it came due meanwhile.
    if (byOwner || lane.window.isEarly(message.position, now))
      return lane.window.failedEarly(message.position, now + asked);
    const delay = retryDelay(attempt, random(), asked, limits.retryDelaysMs);
    if (delay !== undefined) {
      lane.window.failed(message.position, now + delay);
      return;
    }
    const letter = {
      position: message.position,
      messageId: message.id,
      key: message.key,
      at: new Date(wallClock()).toISOString(),
      attempts: attempt,
      reason: outcome.reason,
    };
    const others = this.#deadLetters.filter(({ position }) => position !== letter.position);
    this.#deadLetters = [...others, letter].slice(-MAX_DEAD_LETTERS);
    lane.window.finish(message.position);
    this.context.buried(this, letter);
  }

  /** How far it is now. */
  checkpoint(): EndpointCheckpoint {
    const replays = this.#replays.map((lane): Replay => ({
      ...this.#windowOf(lane),
      to: lane.to,
      ...(lane.only && { only: [...lane.only] }),
    }));
    const health = this.#health.row;
    return {
      ...this.#windowOf(this.#live),
      deadLetters: this.#deadLetters,
      ...(replays.length === 0 ? {} : { replays }),
      ...(health === undefined ? {} : { health }),
    };
  }

  #windowOf({ window }: Lane<T>): WindowCheckpoint {
    const { end, pending } = window.checkpoint();
    return {
      end,
      pending: pending.map(([position, attempts, dueAt]) =>
        dueAt === undefined ? [position, attempts] : [position, attempts, onWallClock(this.context, dueAt)],
      ),
    };
  }

  /** Once a turn, however much was done with on it. */
  #save(): void {
    if (this.#saveDue) return;
    this.#saveDue = true;
    setImmediate(() => {
      this.#saveDue = false;
      if (!this.#stopped && this.#started) this.#saveNow();
    });
  }

  /** As it is when it is written: to put it together costs more than to send a message. */
  #saveNow(): void {
    this.context.store.save(this.id, () => this.checkpoint());
  }
}

/** Of what is kept of an endpoint in the cursor store. */
export const checkpointId = (tenantId: string, endpointId: string): string => `${tenantId}/${endpointId}`;
