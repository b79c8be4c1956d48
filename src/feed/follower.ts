import type { Change } from '../core/change.js';
import { StatefoldError } from '../core/errors.js';
import type { ChangeFeed } from './changes.js';
import type { Timers } from './timers.js';

/** Where a follower's changes go. */
export interface FollowSink {
  /** Takes one change; false: taken, but no more until `Follower.resume`. */
  push(change: Change): boolean;
  /** Called once when it ended by itself: the projection is gone, its cursor expired, or the sink threw. Not after `close`. */
  ended(reason: unknown): void;
}

export interface FollowOptions {
  readonly tenantId: string;
  readonly projectionId: string;
  /** The last sequence that the subscriber has; undefined: live changes only. */
  readonly after: number | undefined;
  /** Only changes of this state key. */
  readonly key?: string | undefined;
}

export interface Follower {
  /** Everything of the projection up to here was pushed or passed over. */
  readonly position: number;
  /** The sink has room again. */
  resume(): void;
  /** Nothing is pushed after it. */
  close(): void;
}

/**
 * ```
 *  OPENING ──► REPLAYING ◄──► LIVE          LIVE: every change up to the feed's head was pushed, the next comes by dispatch
 *     │         │     ▲        │
 *     │         ▼     │ resume │            BLOCKED: the sink is full; what comes meanwhile is replayed from the position
 *     │        BLOCKED ◄───────┘            WAITING: the feed is away; a new feed or a timer goes on
 *     └──────► WAITING ──► REPLAYING        any ──► CLOSED
 * ```
 */
type State = 'OPENING' | 'REPLAYING' | 'LIVE' | 'BLOCKED' | 'WAITING' | 'CLOSED';

/** What a follower needs of the hub. */
export interface FollowerHome {
  readonly timers: Timers;
  feed(): ChangeFeed | undefined;
  open(): Promise<ChangeFeed>;
  forget(follower: ChangeFollower): void;
}

const PAGE = 256;
const FIRST_RETRY_MS = 100;
const LAST_RETRY_MS = 5_000;

/**
 * One subscriber's way through the changes of a projection. Replay and live are one loop over one position: it turns live
 * only on a turn on which the position has reached the feed's head, and a dispatch of that same turn or later finds it live.
 */
export class ChangeFollower implements Follower {
  position: number;
  #state: State = 'OPENING';
  #retryMs = FIRST_RETRY_MS;
  #cancelRetry: (() => void) | undefined;
  /** What follows the position without a gap, taken from the feed before the sink was full: it takes one at a time, a page comes as a whole. */
  #left: readonly Change[] = [];
  /** Counts the pumps begun, so that one that was overtaken while it waited stops. */
  #pump = 0;

  constructor(
    readonly options: FollowOptions,
    private readonly sink: FollowSink,
    private readonly home: FollowerHome,
  ) {
    this.position = options.after ?? -1;
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
    if (this.#state === 'LIVE') this.position = Math.max(this.position, through);
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
    const { projectionId } = this.options;
    const feed = active ?? (await this.home.open());
    if (this.#overtaken(pump)) return;
    if (this.position < 0) this.position = feed.head();
    for (;;) {
      const head = feed.head();
      if (this.position >= head) {
        this.#state = 'LIVE';
        this.#retryMs = FIRST_RETRY_MS;
        return;
      }
      const page = feed.tail(projectionId, this.position, PAGE) ?? (await feed.read(projectionId, this.position, PAGE));
      if (this.#overtaken(pump)) return;
      // An empty page says that there is nothing up to the head as it was before the read; a short one says nothing.
      if (page.length === 0) this.position = Math.max(this.position, head);
      else if (!this.#take(page)) return;
      if (page.length === PAGE) await nextTurn();
      if (this.#overtaken(pump)) return;
    }
  }

  /** False when the sink is full or it all ended. */
  #take(changes: readonly Change[]): boolean {
    const { key } = this.options;
    for (const [i, change] of changes.entries()) {
      if (change.sequence <= this.position) continue;
      this.position = change.sequence;
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
        this.#left = changes.slice(i + 1);
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

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
