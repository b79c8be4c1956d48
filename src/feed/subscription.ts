import { background } from '../core/background.js';
import { StatefoldError } from '../core/errors.js';
import { eventLoop } from '../core/event-loop.js';
import type { Budget, FollowedFeed, Page } from './feed.js';
import type { Replays } from './replays.js';
import type { Source, TenantFeed } from './tenant-feeds.js';
import type { Timers } from './timers.js';

/** Where a subscription's items go. */
export interface Subscriber<T> {
  /** Takes one item; false: taken, but no more until `Subscription.resume`; `later`: not taken, it comes again then. */
  push(item: T): boolean | 'later';
  /** It is full: may this, which is left of a page, be kept for it? False: it is read anew, as it is for those of which there are many. */
  keeps?(left: readonly T[]): boolean;
  /** Called each time that all there is was pushed or passed over, up to `end`, exclusive. */
  caughtUp?(end: number): void;
  /** Called once when it ended by itself: what it follows is gone, its cursor expired, or the subscriber threw. Not after `close`. */
  ended(reason: unknown): void;
}

export interface SubscriptionOptions<T> {
  readonly tenantId: string;
  readonly source: Source<T>;
  /** The first position that the subscriber does not have; undefined: what comes from now on. */
  readonly from: number | undefined;
  /** Items that are not wanted are passed over. */
  readonly wanted?: ((item: T) => boolean) | undefined;
  /** While the feed can't be read it waits for it, unless this says that it ends instead. */
  readonly whenAway?: 'wait' | 'end';
  /** Resolves when it may go on behind a page that has more behind it. Without it, it shares the way through history with others: `Replays`. */
  readonly nextPage?: (() => Promise<void>) | undefined;
}

export interface Subscription {
  /** Everything before it was pushed or passed over; -1 while it is not known where "from now on" begins. */
  readonly end: number;
  /** Position of the last item that was pushed or passed over; before the first, and as far as it is known, where it began. */
  readonly reached: number;
  /** Begins, once: the first items may be pushed while it is called. `from`: in place of that of the options, where it was not known yet. */
  start(from?: number): void;
  /** The subscriber has room again. */
  resume(): void;
  /** Nothing is pushed after it. */
  close(): void;
}

/**
 * ```
 *  OPENING ──► REPLAYING ◄──► LIVE          LIVE: every item up to the feed's head was pushed; the feed tells when there is more
 *     │         │     ▲        │
 *     │         ▼     │ resume │            BLOCKED: the subscriber is full; what comes meanwhile is read from the end on
 *     │        BLOCKED ◄───────┘            WAITING: the feed is away; a new feed or a timer goes on
 *     └──────► WAITING ──► REPLAYING        any ──► CLOSED
 * ```
 */
type State = 'OPENING' | 'REPLAYING' | 'LIVE' | 'BLOCKED' | 'WAITING' | 'CLOSED';

/** What a subscription needs of the hub. */
export interface SubscriptionHome {
  readonly timers: Timers;
  readonly replays: Replays;
  active(): TenantFeed | undefined;
  open(): Promise<TenantFeed>;
  forget(): void;
}

const PAGE = 256;
/** Of one who takes turns with others for each page. */
const SHORT_PAGE = 32;
/** What a sink that is full leaves of a page stays in memory. */
const PAGE_BYTES = 1024 * 1024;
const FIRST_RETRY_MS = 100;
const LAST_RETRY_MS = 5_000;

/**
 * One subscriber's way through a feed. Replay and live are one loop over one cursor: the subscription reads from its end up to the
 * feed's head, and does so again whenever the feed has more. It turns live only on a turn on which it has reached the head.
 */
export class FeedSubscription<T> implements Subscription {
  end: number;
  reached: number;
  #state: State = 'OPENING';
  #tenant: TenantFeed | undefined;
  #feed: FollowedFeed<T> | undefined;
  #unsubscribe: (() => void) | undefined;
  /** The feed has grown since the last read began. */
  #advancedMeanwhile = false;
  /** When it turned live all of the feed could be read, as mostly. */
  #atHead = false;
  #retryMs = FIRST_RETRY_MS;
  #cancelRetry: (() => void) | undefined;
  /** What follows without a gap, taken from the feed before the subscriber was full: it takes one at a time, a page comes as a whole. */
  #left: { readonly feed: FollowedFeed<T>; readonly items: readonly T[]; readonly end: number } | undefined;
  /** Items that are read at once: fewer where the subscriber was full before it had taken as many. */
  #page = PAGE;
  /** Counts the pumps begun, so that one that was overtaken while it waited stops. */
  #pump = 0;

  constructor(
    private readonly options: SubscriptionOptions<T>,
    private readonly subscriber: Subscriber<T>,
    private readonly home: SubscriptionHome,
  ) {
    this.end = options.from ?? -1;
    this.reached = Math.max(0, this.end - 1);
  }

  get sourceId(): string {
    return this.options.source.id;
  }

  start(from?: number): void {
    if (this.#state !== 'OPENING') return;
    if (from !== undefined) [this.end, this.reached] = [from, Math.max(0, from - 1)];
    this.#run();
  }

  /** The tenant's feeds are others now. */
  renewed(tenant: TenantFeed): void {
    if (this.#tenant === tenant) return;
    // All of the former feed was pushed, also where the items of others were the last ones; the new one may have dropped them.
    if (this.#state === 'LIVE' && this.#atHead) this.end = Math.max(this.end, this.#feed?.head ?? 0);
    if (this.#state === 'LIVE' || this.#state === 'WAITING' || this.#state === 'REPLAYING') this.#run();
  }

  resume(): void {
    if (this.#state !== 'BLOCKED') return;
    const left = this.#left;
    this.#left = undefined;
    this.#state = 'REPLAYING';
    if (left === undefined || this.#take(left.feed, left.items, left.end)) this.#run();
  }

  close(): void {
    if (this.#state === 'CLOSED') return;
    this.#state = 'CLOSED';
    this.#left = undefined;
    this.#cancelRetry?.();
    this.#unsubscribe?.();
    this.home.forget();
  }

  fail(reason: unknown): void {
    if (this.#state === 'CLOSED') return;
    this.close();
    this.subscriber.ended(reason);
  }

  /** On the turn on which there is more, as long as memory has it. */
  #advanced(first = 0): void {
    this.#advancedMeanwhile = true;
    if (this.#state !== 'LIVE' || this.#feed === undefined) return;
    // What lies between is others' alone, however long that was: it may not be in memory, or be dropped.
    this.end = Math.max(this.end, first);
    try {
      const { end } = this;
      const budget = this.#budget();
      const page = this.#feed.recent(end, budget);
      if (page === undefined || page.items.length >= budget.items) return this.#run();
      if (!this.#take(this.#feed, page.items, page.end)) return;
      this.#atHead = this.end >= this.#feed.head;
      // A page ends with its bytes, too.
      if (!this.#atHead && this.end > end) this.#run();
      else this.#caughtUp();
    } catch (error) {
      this.fail(error);
    }
  }

  #run(): void {
    this.#cancelRetry?.();
    this.#cancelRetry = undefined;
    this.#state = 'REPLAYING';
    const pump = ++this.#pump;
    const active = this.home.active();
    this.#replay(pump, active).catch((error: unknown) => {
      if (this.#overtaken(pump)) return;
      const away =
        error instanceof StatefoldError
          ? error.code === 'UNAVAILABLE'
          : active !== undefined && this.home.active() !== active;
      if (away && this.options.whenAway !== 'end') this.#retryLater();
      else this.fail(error);
    });
  }

  /** Runs on the caller's turn as long as memory has what it needs. */
  async #replay(pump: number, active: TenantFeed | undefined): Promise<void> {
    const tenant = active ?? (await this.home.open());
    if (this.#overtaken(pump)) return;
    const feed = this.#attach(tenant);
    if (this.end < 0) this.end = feed.head;
    for (let isFirst = true; ; isFirst = false) {
      const { end } = this;
      this.#advancedMeanwhile = false;
      if (end < feed.head) {
        const budget = this.#budget();
        if (!isFirst) await this.options.nextPage?.();
        if (this.#overtaken(pump)) return;
        // The first page at once, where memory has it.
        const page = (isFirst ? feed.recent(end, budget) : undefined) ?? (await this.#read(pump, feed, end, budget));
        if (page === undefined || this.#overtaken(pump) || !this.#take(feed, page.items, page.end)) return;
        // What is there and can't be read yet is told of when it can.
        if (page.end > end || this.#advancedMeanwhile) continue;
      }
      this.#atHead = this.end >= feed.head;
      this.#state = 'LIVE';
      this.#retryMs = FIRST_RETRY_MS;
      this.#caughtUp();
      return;
    }
  }

  /** Undefined: it was overtaken before its turn came. */
  #read(pump: number, feed: FollowedFeed<T>, from: number, budget: Budget): Promise<Page<T> | undefined> {
    const { tenantId, nextPage } = this.options;
    const read = async (): Promise<Page<T> | undefined> =>
      this.#overtaken(pump) ? undefined : (feed.recent(from, budget) ?? feed.read(from, budget));
    return nextPage === undefined ? this.home.replays.page(tenantId, read) : read();
  }

  #attach(tenant: TenantFeed): FollowedFeed<T> {
    if (this.#tenant === tenant && this.#feed !== undefined) return this.#feed;
    this.#unsubscribe?.();
    this.#tenant = tenant;
    this.#feed = this.options.source.of(tenant);
    this.#unsubscribe = this.#feed.subscribe((first) => this.#advanced(first));
    return this.#feed;
  }

  /** False when the subscriber is full or it all ended. */
  #take(feed: FollowedFeed<T>, items: readonly T[], end: number): boolean {
    if (items.length > 0 && !eventLoop.slice('notifications', () => this.#pushed(feed, items, end))) return false;
    this.end = Math.max(this.end, end);
    return true;
  }

  #pushed(feed: FollowedFeed<T>, items: readonly T[], end: number): boolean {
    const { wanted } = this.options;
    for (const [i, item] of items.entries()) {
      const position = feed.positionOf(item);
      if (position < this.end) continue;
      this.end = position + 1;
      const before = this.reached;
      this.reached = position;
      if (wanted?.(item) === false) continue;
      let room: boolean | 'later';
      try {
        room = this.subscriber.push(item);
      } catch (error) {
        this.fail(error);
        return false;
      }
      if (this.#isClosed()) return false;
      if (room === true) continue;
      if (room === 'later') [this.end, this.reached] = [position, before];
      this.#state = 'BLOCKED';
      const taken = room === 'later' ? i : i + 1;
      const left = items.slice(taken);
      if (this.subscriber.keeps?.(left) === false) this.#page = Math.min(PAGE, Math.max(1, 2 * taken));
      else this.#left = { feed, items: left, end };
      return false;
    }
    this.#page = Math.min(PAGE, 2 * this.#page);
    return true;
  }

  #budget(): { readonly items: number; readonly bytes: number } {
    const isShort = this.options.nextPage !== undefined && background.isShared;
    return { items: isShort ? Math.min(SHORT_PAGE, this.#page) : this.#page, bytes: PAGE_BYTES };
  }

  #caughtUp(): void {
    try {
      this.subscriber.caughtUp?.(this.end);
    } catch (error) {
      this.fail(error);
    }
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
