import { Rota } from './rota.js';

export interface BackgroundOptions {
  /** Runs the work in the next round of the event loop, behind what came in by then and what was handed over before. */
  readonly nextRound?: (work: () => void) => void;
  readonly after?: (milliseconds: number, work: () => void) => void;
  readonly now?: () => number;
  readonly times?: () => LoopTimes;
}

/** What the event loop did since it began, as `performance.eventLoopUtilization()` tells: milliseconds. */
export interface LoopTimes {
  readonly idle: number;
  readonly active: number;
}

/** What the loop would have to be idle for to have been so for as long as it was active since then; below 0 where it was. */
export const lackingIdle = (since: LoopTimes, now: LoopTimes): number =>
  now.active - since.active - (now.idle - since.idle);

/** Clients are about while one of them asked for something within this time, milliseconds: who asks seldom would wait for long slices each time. */
const ABOUT_MS = 2000;
/** They ask while one of them did within this time, milliseconds: what the background does holds up one of them at any time. */
const ASKING_MS = 100;
/**
 * Those of several tenants are while one asked behind that of another within this time: longer than who waits for an answer takes to ask again,
 * or the one who is held up would be alone as soon as it is held up for long.
 */
const SHARED_MS = 1000;
/** Rests are put together up to this, milliseconds: timers are no finer. */
const LEAST_REST_MS = 1;
/** The next slice has its turn so long after the one before, however little the loop was idle meanwhile, milliseconds. */
const MOST_REST_MS = 20;
/** The same in a full loop: clients may fill it whatever the background does, which would come to little. */
const REST_IN_FULL_LOOP_MS = 10;
/** The loop is full when it was idle for less than this share of so many of the longest rests, one behind the other. */
const FULL_LOOP_IDLE = 0.05;
const FULL_RESTS = 3;
/** It is taken for full for so long, milliseconds: by then what the background does may be what fills it. */
const FULL_MS = 1000;

/**
 * The turns of work that no client waits for: catch-ups, builds, jobs over whole projections, of all tenants. A request passes through
 * several rounds of the event loop, and each slice of background work in a round delays it once more. So while clients are about slices
 * are short, and one runs at a time. While clients ask, the next one begins when the loop has been idle for as long as it was active
 * since: what a slice leads to (answers, rows, collections) comes later, and is most of what it costs. Tenants take turns, however much
 * each has to do. While no client is about, whoever asks has its turn in the next round.
 */
export class Background {
  readonly #nextRound: (work: () => void) => void;
  readonly #after: (milliseconds: number, work: () => void) => void;
  readonly #now: () => number;
  readonly #times: () => LoopTimes;
  readonly #waiting = new Rota<() => void>();
  #serving = false;
  #askedAt = -Infinity;
  /** Who asked last. */
  #asking: string | undefined;
  #sharedUntil = -Infinity;
  /** What the loop had done when the first slice began that it was not left to clients for yet; undefined: there is none. */
  #since: LoopTimes | undefined;
  /** Of the longest rests those that left the loop hardly any time, one behind the other. */
  #fullRests = 0;
  #fullUntil = -Infinity;

  constructor({
    nextRound = (work) => void setImmediate(work),
    after = (milliseconds, work) => void setTimeout(work, milliseconds),
    now = () => performance.now(),
    times = () => performance.eventLoopUtilization(),
  }: BackgroundOptions = {}) {
    this.#nextRound = nextRound;
    this.#after = after;
    this.#now = now;
    this.#times = times;
  }

  /** A client of the tenant asked for something. */
  asked(tenantId: string): void {
    const now = this.#now();
    if (tenantId !== this.#asking) {
      if (now - this.#askedAt < ASKING_MS) this.#sharedUntil = now + SHARED_MS;
      this.#asking = tenantId;
    }
    this.#askedAt = now;
  }

  /** As `givesWay`; where no client ever asks, nobody looks at the clock. */
  get clientsAreAbout(): boolean {
    return this.#asking !== undefined && this.givesWay;
  }

  /** A slice is to be short: somebody waits behind it. */
  get givesWay(): boolean {
    return this.#now() - this.#askedAt < ABOUT_MS;
  }

  /** Clients of several tenants are about: what one of them asked for is in the way of the others. */
  get isShared(): boolean {
    // Where no client ever asks, nobody looks at the clock.
    return this.#sharedUntil > -Infinity && this.#now() < this.#sharedUntil;
  }

  /**
   * How long to wait, milliseconds, before something begins that last began then, by `performance.now()`: while clients of several tenants
   * are about, it is to begin so far apart. 0: it need not wait.
   */
  restOf(begunAt: number, apartMs: number): number {
    return this.isShared ? Math.max(0, Math.ceil(begunAt + apartMs - this.#now())) : 0;
  }

  /** There is work that no client waits for. */
  get isAtWork(): boolean {
    return this.#serving;
  }

  /**
   * Resolves when the next slice of a work of the tenant has its turn; to be asked for before each. `isAwaited`: what the tenant's clients are
   * told waits for it, so it has turns of its own, and doesn't stand behind what else there is of the tenant's.
   */
  turn(tenantId: string, isAwaited = false): Promise<void> {
    return new Promise((go) => {
      // No tenant's id has a space.
      this.#waiting.push(isAwaited ? `${tenantId} awaited` : tenantId, go);
      if (this.#serving) return;
      this.#serving = true;
      this.#serve();
    });
  }

  #serve(): void {
    this.#nextRound(() => {
      this.#since ??= this.#times();
      for (let left = this.givesWay ? 1 : this.#waiting.length; left > 0; left--) this.#waiting.shift()?.();
    });
    // In the same round, right behind the slice and what follows from it at once.
    this.#nextRound(() => {
      const now = this.#now();
      if (now < this.#fullUntil) this.#rest(now + REST_IN_FULL_LOOP_MS);
      else this.#rest(now + MOST_REST_MS, this.#times().idle);
    });
  }

  /** `idle`: of one of the longest rests, what the loop had been idle for when it began. */
  #rest(until: number, idle?: number): void {
    const left = until - this.#now();
    const lacking = this.#lackingIdle();
    if (lacking >= LEAST_REST_MS && left > 0)
      return this.#after(Math.min(lacking, left), () => this.#rest(until, idle));
    if (lacking < LEAST_REST_MS) this.#fullRests = 0;
    else if (idle !== undefined) this.#restedInVain(this.#times().idle - idle);
    // What is not made up for in time never is: else a full loop would be paid for when it is full no more.
    if (lacking <= 0 || left <= 0) this.#since = undefined;
    this.#goOn();
  }

  /** One of the longest rests is over, and the loop lacks idle time still. `idleMs`: what it was idle for meanwhile. */
  #restedInVain(idleMs: number): void {
    this.#fullRests = idleMs < FULL_LOOP_IDLE * MOST_REST_MS ? this.#fullRests + 1 : 0;
    if (this.#fullRests < FULL_RESTS) return;
    this.#fullRests = 0;
    this.#fullUntil = this.#now() + FULL_MS;
  }

  #lackingIdle(): number {
    if (this.#now() - this.#askedAt >= ASKING_MS || this.#since === undefined) return 0;
    return lackingIdle(this.#since, this.#times());
  }

  #goOn(): void {
    if (this.#waiting.length > 0) return this.#serve();
    this.#serving = false;
    this.#fullRests = 0;
  }
}

/** Of this process, which has one event loop. */
export const background = new Background();
