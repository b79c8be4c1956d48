import { changeBytes, type Change } from '../core/change.js';
import { StatefoldError } from '../core/errors.js';
import type { ChangeFeed } from './changes.js';
import type { Timers } from './timers.js';

/** Where a subscription's changes go. */
export interface Subscriber {
  /** Takes one change; false: taken, but no more until `Subscription.resume`. */
  push(change: Change): boolean;
  /** Called once when it ended by itself: the projection is gone, its cursor expired, or the sink threw. Not after `close`. */
  ended(reason: unknown): void;
}

export interface SubscriptionOptions {
  readonly tenantId: string;
  readonly projectionId: string;
  /** The last sequence that the subscriber has; undefined: live changes only. */
  readonly after: number | undefined;
  /** Only changes of this state key. */
  readonly key?: string | undefined;
}

export interface Subscription {
  /** Everything of the projection up to here was pushed or passed over. */
  readonly cursor: number;
  /** The sink has room again. */
  resume(): void;
  /** Nothing is pushed after it. */
  close(): void;
}

/**
 * ```
 *  OPENING ──► REPLAYING ◄──► LIVE          LIVE: every change up to the feed's head was pushed, the next comes by dispatch
 *     │         │     ▲        │
 *     │         ▼     │ resume │            BLOCKED: the sink is full; what comes meanwhile is replayed from the cursor
 *     │        BLOCKED ◄───────┘            WAITING: the feed is away; a new feed or a timer goes on
 *     └──────► WAITING ──► REPLAYING        any ──► CLOSED
 * ```
 */
type State = 'OPENING' | 'REPLAYING' | 'LIVE' | 'BLOCKED' | 'WAITING' | 'CLOSED';

/** What a subscription needs of the hub. */
export interface SubscriptionHome {
  readonly timers: Timers;
  feed(): ChangeFeed | undefined;
  open(): Promise<ChangeFeed>;
  forget(subscription: ChangeSubscription): void;
}

const PAGE = 256;
/** A page that was read for a sink that is full is kept for it up to here; what is more is read again. */
const LEFT_BYTES = 256 * 1024;
const FIRST_RETRY_MS = 100;
const LAST_RETRY_MS = 5_000;

/**
 * One subscriber's way through the changes of a projection. Replay and live are one loop over one cursor: it turns live
 * only on a turn on which the cursor has reached the feed's head, and a dispatch of that same turn or later finds it live.
 */
export class ChangeSubscription implements Subscription {
  cursor: number;
  #state: State = 'OPENING';
  #retryMs = FIRST_RETRY_MS;
  #cancelRetry: (() => void) | undefined;
  /** What follows the cursor without a gap, taken from the feed before the sink was full: it takes one at a time, a page comes as a whole. */
  #left: readonly Change[] = [];
  /** Counts the pumps begun, so that one that was overtaken while it waited stops. */
  #pump = 0;

  constructor(
    readonly options: SubscriptionOptions,
    private readonly sink: Subscriber,
    private readonly home: SubscriptionHome,
  ) {
    this.cursor = options.after ?? -1;
  }

  start(): void {
    if (this.#state === 'OPENING') this.#run();
  }

  /** Changes of the projection, on the turn on which they were acknowledged. */
  dispatch(changes: readonly Change[]): void {
    if (this.#state === 'LIVE') this.#take(changes);
  }

  /** The feed was replaced; all before `through` was dispatched by the old one. */
  renewed(through: number): void {
    if (this.#state === 'LIVE') this.cursor = Math.max(this.cursor, through);
    if (this.#state === 'LIVE' || this.#state === 'WAITING' || this.#state === 'REPLAYING') this.#run();
  }

  resume(): void {
    if (this.#state !== 'BLOCKED') return;
    const left = this.#left;
    this.#left = [];
    this.#state = 'REPLAYING';
    if (this.#take(left)) this.#run();
  }

  close(): void {
    if (this.#state === 'CLOSED') return;
    this.#state = 'CLOSED';
    this.#left = [];
    this.#cancelRetry?.();
    this.home.forget(this);
  }

  end(reason: unknown): void {
    if (this.#state === 'CLOSED') return;
    this.close();
    this.sink.ended(reason);
  }

  #run(): void {
    this.#cancelRetry?.();
    this.#cancelRetry = undefined;
    this.#state = 'REPLAYING';
    const pump = ++this.#pump;
    const from = this.home.feed();
    this.#replay(pump, from).catch((error: unknown) => {
      if (this.#overtaken(pump)) return;
      const away =
        error instanceof StatefoldError
          ? error.code === 'UNAVAILABLE'
          : from !== undefined && this.home.feed() !== from;
      if (away) this.#retryLater();
      else this.end(error);
    });
  }

  /** Runs on the caller's turn as long as memory has what it needs. */
  async #replay(pump: number, active: ChangeFeed | undefined): Promise<void> {
    const changes = active ?? (await this.home.open());
    if (this.#overtaken(pump)) return;
    const feed = changes.of(this.options.projectionId);
    if (this.cursor < 0) this.cursor = feed.head - 1;
    for (;;) {
      if (this.cursor >= feed.head - 1) {
        this.#state = 'LIVE';
        this.#retryMs = FIRST_RETRY_MS;
        return;
      }
      const budget = { items: PAGE };
      const page = feed.recent(this.cursor + 1, budget) ?? (await feed.read(this.cursor + 1, budget));
      if (this.#overtaken(pump) || !this.#take(page.items)) return;
      this.cursor = Math.max(this.cursor, page.end - 1);
      if (page.items.length === PAGE) await nextTurn();
      if (this.#overtaken(pump)) return;
    }
  }

  /** False when the sink is full or it all ended. */
  #take(changes: readonly Change[]): boolean {
    const { key } = this.options;
    for (const [i, change] of changes.entries()) {
      if (change.sequence <= this.cursor) continue;
      this.cursor = change.sequence;
      if (change.fault !== undefined || (key !== undefined && change.key !== key)) continue;
      let room: boolean;
      try {
        room = this.sink.push(change);
      } catch (error) {
        this.end(error);
        return false;
      }
      if (this.#isClosed()) return false;
      if (!room) {
        this.#state = 'BLOCKED';
        this.#left = beginningOf(changes, i + 1);
        return false;
      }
    }
    return true;
  }

  #retryLater(): void {
    this.#state = 'WAITING';
    this.#cancelRetry = this.home.timers.after(this.#retryMs, () => this.#run());
    this.#retryMs = Math.min(this.#retryMs * 2, LAST_RETRY_MS);
  }

  #overtaken(pump: number): boolean {
    return this.#pump !== pump || this.#state !== 'REPLAYING';
  }

  #isClosed(): boolean {
    return this.#state === 'CLOSED';
  }
}

/** From there on, as many as may be kept. */
function beginningOf(changes: readonly Change[], from: number): readonly Change[] {
  let end = from;
  for (let bytes = 0; end < changes.length; end++) {
    bytes += changeBytes(changes[end] as Change);
    if (bytes > LEFT_BYTES) break;
  }
  return changes.slice(from, end);
}

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
