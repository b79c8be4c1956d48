import { setImmediate } from 'node:timers';
import type { Hold, MemoryBudget } from '../core/budget.js';
import { StatefoldError } from '../core/errors.js';
import type { Logger } from '../core/logger.js';
import type { TenantFeed } from '../feed/tenant-feeds.js';
import type { CursorStore, DeadLetter, EndpointCheckpoint } from './cursor-store.js';
import type { Subscription, Subscriber } from '../feed/subscription.js';
import type { FeedHub } from '../feed/hub.js';
import type { Timers } from '../feed/timers.js';
import { DeliveryWindow } from './delivery-window.js';
import type { FairSlots } from './fair-slots.js';
import { retryDelay } from './retry-schedule.js';
import type { AttemptOutcome } from './webhook-client.js';
import type { Message, MessageFeed } from './webhook-message.js';

export interface EndpointLimits {
  /** Messages taken and not done with, past which no more are taken. */
  readonly windowMessages: number;
  /** The same by the bytes of their items. */
  readonly windowBytes: number;
  /** Requests at once while the endpoint answers; one while it fails. */
  readonly concurrency: number;
  /** Waits before the second attempt and on; after the last the message is a dead letter. */
  readonly retryDelaysMs: readonly number[];
  /** Failures in a row after which the endpoint counts as failing. */
  readonly failuresToOpen: number;
  /** Between two attempts while it fails: doubled from the first to the last. */
  readonly firstPauseMs: number;
  readonly lastPauseMs: number;
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
  readonly slots: FairSlots;
  readonly probationSlots: FairSlots;
  /** The feeds of the tenant, when what others saved of its endpoints is known too. */
  open(tenantId: string): Promise<TenantFeed>;
  /** One attempt; never rejects. Undefined: the catalog has no such endpoint now. */
  attempt(
    endpoint: EndpointIdentity,
    message: Message,
    attempt: number,
    signal: AbortSignal,
  ): Promise<AttemptOutcome | undefined>;
  /** A message was given up. */
  buried(endpoint: EndpointIdentity, letter: DeadLetter): void;
  gone(endpoint: EndpointIdentity): void;
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
}

const MAX_DEAD_LETTERS = 100;
const RESTART_MS = 5_000;
/** Memory is all held: how long it is before an endpoint looks whether there is room again. */
const ROOM_POLL_MS = 1_000;
/** Messages of so many bytes an endpoint may have that wait for another attempt, whatever is held. */
const LEAST_BYTES = 64 * 1024;

/** Deliveries of a feed to an endpoint: order kept a key, at least once, from a cursor that outlives the process. */
export class Endpoint<T> implements Subscriber<T>, EndpointIdentity {
  /** Of its checkpoint. */
  readonly id: string;
  #window: DeliveryWindow<Message>;
  readonly #hold: Hold;
  #deadLetters: readonly DeadLetter[];
  #subscription: Subscription | undefined;
  #active = 0;
  #failures = 0;
  #pauseMs: number;
  #pausedUntil = Number.NEGATIVE_INFINITY;
  #lastFailure: string | undefined;
  #cancelTimer: (() => void) | undefined;
  #cancelPoll: (() => void) | undefined;
  #saveDue = false;
  #pumpDue = false;
  #started = false;
  #stopped = false;
  #stopping: Promise<void> | undefined;
  /** Positions of messages that wait for a slot, and how to withdraw them. */
  readonly #queued = new Map<number, () => void>();
  readonly #abort = new AbortController();
  readonly #running = new Set<Promise<void>>();

  constructor(
    readonly tenantId: string,
    readonly endpointId: string,
    private readonly messages: MessageFeed<T>,
    private readonly context: EndpointContext,
  ) {
    this.id = checkpointId(tenantId, endpointId);
    this.#window = this.#emptyWindow(0);
    this.#hold = context.budget.tenant(tenantId).hold('webhooks');
    this.#deadLetters = [];
    this.#pauseMs = context.limits.firstPauseMs;
  }

  /** Begins where its checkpoint ends, else at `from`. Resolves when it follows, or has put that off. */
  async start(from: number): Promise<void> {
    if (this.#stopped) return;
    try {
      const tenant = await this.context.open(this.tenantId);
      const checkpoint = this.context.store.load(this.id) ?? { end: from, pending: [], deadLetters: [] };
      const window = await this.#restore(tenant, checkpoint);
      if (this.#isStopped()) return;
      this.#window = window;
      this.#hold.set(window.bytes);
      this.#deadLetters = checkpoint.deadLetters;
      this.#started = true;
      this.#save();
      this.#follow(window.end);
      this.#pump();
    } catch (error) {
      if (this.#isStopped()) return;
      this.context.logger.warn({ err: error, endpoint: this.id }, 'deliveries could not begin; trying again');
      this.#cancelTimer = this.context.timers.after(RESTART_MS, () => void this.start(from));
    }
  }

  push(item: T): boolean {
    const message = this.messages.messageOf(item);
    this.#window.add(message, message.bytes);
    // Signing and sending wait for the next turn: this one belongs to the append that made the item.
    if (!this.#pumpDue) {
      this.#pumpDue = true;
      setImmediate(() => {
        this.#pumpDue = false;
        this.#pump();
      });
    }
    this.#hold.set(this.#window.bytes);
    if (this.#window.hasRoom && this.#hold.full !== undefined) this.#hold.countRefusal();
    if (this.#hasRoom) return true;
    this.#awaitRoom();
    return false;
  }

  /**
   * Each endpoint goes on with one change at a time, whatever is held: what waits for another attempt is in nobody's way, unless
   * all fail and it would only become more.
   */
  get #hasRoom(): boolean {
    if (!this.#window.hasRoom) return false;
    if (this.#window.size === 0 || this.#hold.full === undefined) return true;
    const now = this.context.timers.now();
    const idle = this.#active === 0 && now >= this.#pausedUntil && (this.#window.nextDue() ?? Infinity) > now;
    return idle && (!this.#failing || this.#window.bytes < LEAST_BYTES);
  }

  /** Takes more as soon as it may. */
  #resume(): void {
    if (this.#stopped) return;
    if (this.#hasRoom) this.#subscription?.resume();
    else this.#awaitRoom();
  }

  /** What is held is others' too, who do not say when they give it back: to tell all endpoints each time would cost each append. */
  #awaitRoom(): void {
    if (!this.#window.hasRoom || this.#cancelPoll !== undefined) return;
    this.#cancelPoll = this.context.timers.after(ROOM_POLL_MS, () => {
      this.#cancelPoll = undefined;
      this.#resume();
    });
  }

  ended(reason: unknown): void {
    if (this.#stopped) return;
    const code = reason instanceof StatefoldError ? reason.code : undefined;
    // The end of what it follows is the catalog's to tell, the hub's is the process's.
    if (code === 'NOT_FOUND' || code === 'UNAVAILABLE' || code === 'TENANT_SUSPENDED') return;
    const { end } = this.#window;
    const oldest = code === 'CURSOR_EXPIRED' ? (reason as StatefoldError).details?.['oldestSequence'] : undefined;
    if (typeof oldest === 'number' && oldest > end) {
      this.context.logger.warn(
        { endpoint: this.id, from: end, oldest },
        'changes were trimmed before they could be delivered; going on with the oldest',
      );
      this.#followAgain(0, oldest);
    } else {
      this.context.logger.error({ err: reason, endpoint: this.id }, 'deliveries were interrupted; trying again');
      this.#followAgain(RESTART_MS, end);
    }
  }

  status(): EndpointStatus {
    return {
      state: this.#stopped ? 'stopped' : this.#failing ? 'failing' : 'delivering',
      cursor: this.#window.cursor,
      pending: this.#window.size,
      deadLetters: this.#deadLetters,
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
    this.#cancelPoll?.();
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

  #emptyWindow(end: number): DeliveryWindow<Message> {
    const { windowMessages, windowBytes } = this.context.limits;
    return new DeliveryWindow<Message>(end, { count: windowMessages, bytes: windowBytes });
  }

  async #restore(tenant: TenantFeed, checkpoint: EndpointCheckpoint): Promise<DeliveryWindow<Message>> {
    const window = this.#emptyWindow(checkpoint.end);
    const feed = this.messages.source.of(tenant);
    for (const [position, attempts] of checkpoint.pending) {
      let item: T | undefined;
      try {
        [item] = (await feed.read(position, { items: 1 })).items;
      } catch (error) {
        if (!(error instanceof StatefoldError) || error.code !== 'CURSOR_EXPIRED') throw error;
      }
      const message = item === undefined ? undefined : this.messages.messageOf(item);
      if (message?.position === position) window.add(message, message.bytes, { attempts });
      else
        this.context.logger.warn({ endpoint: this.id, position }, 'a change was trimmed before it could be delivered');
    }
    return window;
  }

  #follow(from: number): void {
    const { tenantId, messages } = this;
    this.#subscription = this.context.hub.subscribe({ tenantId, source: messages.source, from }, this);
    this.#subscription.start();
  }

  #followAgain(waitMs: number, from: number): void {
    this.context.timers.after(waitMs, () => {
      if (this.#stopped) return;
      try {
        this.#follow(from);
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
        const message = this.#window.take(now);
        if (message === undefined) break;
        this.#enqueue(message);
      }
      if (this.#active >= limit) return;
    }
    const due = this.#window.nextDue();
    if (due === undefined) return;
    const wait = Math.max(due, this.#pausedUntil) - now;
    this.#cancelTimer = this.context.timers.after(Math.max(wait, 0), () => this.#pump());
  }

  #enqueue(message: Message): void {
    const slots = this.#failing ? this.context.probationSlots : this.context.slots;
    this.#active++;
    let started = false;
    const withdraw = slots.acquire(this.tenantId, () => {
      started = true;
      this.#queued.delete(message.position);
      const run = this.#deliver(message).finally(() => {
        this.#running.delete(run);
        slots.release(this.tenantId);
        this.#active--;
        this.#pump();
        this.#resume();
      });
      this.#running.add(run);
    });
    if (!started) this.#queued.set(message.position, withdraw);
  }

  async #deliver(message: Message): Promise<void> {
    const { position } = message;
    const attempt = this.#window.attempts(position) + 1;
    const outcome = await this.context.attempt(this, message, attempt, this.#abort.signal);
    if (this.#stopped) {
      // An answer that came while stopping counts where it is a delivery; what was called off is pending still.
      if (outcome?.kind === 'delivered') this.#window.finish(position);
      return;
    }
    if (outcome === undefined) {
      // The catalog has no endpoint any more, and is about to say so.
      this.#window.released(position);
      this.#pausedUntil = this.context.timers.now() + RESTART_MS;
      return;
    }
    if (outcome.kind === 'delivered') this.#delivered(position);
    else if (outcome.kind === 'failed') this.#failed(message, attempt, outcome);
    else {
      this.#window.released(position);
      this.context.gone(this);
    }
    this.#hold.set(this.#window.bytes);
    this.#save();
  }

  #delivered(position: number): void {
    this.#window.finish(position);
    const wasFailing = this.#failing;
    this.#recovered();
    if (wasFailing) this.#window.hurry();
  }

  #recovered(): void {
    this.#failures = 0;
    this.#pauseMs = this.context.limits.firstPauseMs;
    this.#pausedUntil = Number.NEGATIVE_INFINITY;
  }

  #failed(message: Message, attempt: number, outcome: AttemptOutcome & { kind: 'failed' }): void {
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
      this.#window.failed(message.position, now + delay);
      return;
    }
    const letter = {
      position: message.position,
      key: message.key,
      at: new Date(wallClock()).toISOString(),
      attempts: attempt,
      reason: outcome.reason,
    };
    this.#deadLetters = [...this.#deadLetters, letter].slice(-MAX_DEAD_LETTERS);
    this.#window.finish(message.position);
    this.context.buried(this, letter);
  }

  /** Once a turn, however much was done with on it. */
  #save(): void {
    if (this.#saveDue) return;
    this.#saveDue = true;
    setImmediate(() => {
      this.#saveDue = false;
      if (!this.#stopped) this.#saveNow();
    });
  }

  #saveNow(): void {
    this.context.store.save(this.id, { ...this.#window.checkpoint(), deadLetters: this.#deadLetters });
  }
}

/** Of what is kept of an endpoint in the cursor store. */
export const checkpointId = (tenantId: string, endpointId: string): string => `${tenantId}/${endpointId}`;
