import { background, type Background, type LoopTimes } from './background.js';
import { Rota } from './rota.js';

export interface HeadroomOptions {
  readonly times?: () => LoopTimes;
  readonly now?: () => number;
  readonly after?: (milliseconds: number, work: () => void) => void;
  readonly clients?: Pick<Background, 'isShared'>;
}

/** While several tenants ask, the loop is to be active at most so much of its time. */
const MOST_ACTIVE = 0.6;
/** How often that is looked at, milliseconds. */
const LOOK_MS = 50;
/** Between two portions, milliseconds: when several tenants begin to ask, until it is known what the loop lacks; and at most. */
const FIRST_MS = 2;
const MOST_MS = 10;
/** How much of what the loop lacks is made up for at once: what portions lead to comes later. */
const SMOOTHING = 0.5;

/**
 * The turns of streams of lines, none of which anybody waits for, beside requests of other tenants, who wait for each. A request passes
 * through several rounds of the event loop, and its commit needs a processor: where the loop is full it waits in each of them, and for
 * what a full loop gives other threads and processes to do. So while several tenants ask, portions of lines come one after the other,
 * as far apart as leaves the loop idle for a part of its time. Where a tenant is alone, or the loop has time, nothing waits here.
 */
export class Headroom {
  readonly #times: () => LoopTimes;
  readonly #now: () => number;
  readonly #after: (milliseconds: number, work: () => void) => void;
  readonly #clients: Pick<Background, 'isShared'>;
  /** By tenant. */
  readonly #waiting = new Rota<() => void>();
  #pausing = false;
  #lookedAt = -Infinity;
  #last: LoopTimes = { idle: 0, active: 0 };
  /** Since then. */
  #portions = 0;
  /** Between two portions, milliseconds. */
  #apart = 0;
  /** Of a millisecond, which timers do not have parts of. */
  #owed = 0;

  constructor({
    times = () => performance.eventLoopUtilization(),
    now = () => performance.now(),
    after = (milliseconds, work) => void setTimeout(work, milliseconds),
    clients = background,
  }: HeadroomOptions = {}) {
    this.#times = times;
    this.#now = now;
    this.#after = after;
    this.#clients = clients;
  }

  /** Undefined: the next portion may begin. Else when the promise resolves. */
  turn(tenantId: string): Promise<void> | undefined {
    if (!this.#pausing && !this.#isDue()) return undefined;
    const turn = new Promise<void>((resolve) => this.#waiting.push(tenantId, resolve));
    if (!this.#pausing) this.#pause();
    return turn;
  }

  /** A portion comes, and is to wait. */
  #isDue(): boolean {
    if (!this.#clients.isShared) return false;
    const now = this.#now();
    if (now - this.#lookedAt >= LOOK_MS) this.#look(now);
    this.#portions++;
    this.#owed += this.#apart;
    return this.#owed >= 1;
  }

  #pause(): void {
    this.#pausing = true;
    const pause = Math.floor(this.#owed);
    this.#owed -= pause;
    this.#after(pause, () => {
      this.#pausing = false;
      // Those that waited meanwhile go on until the next pause is due.
      do this.#waiting.shift()?.();
      while (this.#waiting.length > 0 && !this.#isDue());
      if (this.#waiting.length > 0) this.#pause();
    });
  }

  #look(now: number): void {
    const times = this.#times();
    const active = times.active - this.#last.active;
    const idle = times.idle - this.#last.idle;
    // What came long ago says nothing.
    const isRecent = now - this.#lookedAt < 10 * LOOK_MS && this.#portions > 0;
    const lacking = active * (1 / MOST_ACTIVE - 1) - idle;
    const apart = this.#apart + (SMOOTHING * lacking) / this.#portions;
    this.#apart = isRecent ? Math.min(MOST_MS, Math.max(0, apart)) : FIRST_MS;
    this.#last = times;
    this.#lookedAt = now;
    this.#portions = 0;
  }
}

/** Of this process, which has one event loop. */
export const headroom = new Headroom();
