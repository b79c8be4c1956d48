import type { Timers } from '../feed/timers.js';
import type { EndpointHealth } from './cursor-store.js';
import { longestDelay, MAX_RETRY_AFTER_MS } from './retry-schedule.js';
import type { AttemptOutcome } from './webhook-client.js';

/** Attempts are due by the clock of the timers; what is kept for another process is of the wall clock. */
export interface Clocks {
  readonly timers: Pick<Timers, 'now'>;
  readonly wallClock: () => number;
}

/** A time of the wall clock by the timers' one. That clock may have been set since: it is never longer than `most` to wait. */
export const monotonic = ({ timers, wallClock }: Clocks, at: number, most: number): number =>
  timers.now() + Math.min(Math.max(at - wallClock(), 0), most);

export const onWallClock = ({ timers, wallClock }: Clocks, at: number): number =>
  Math.round(wallClock() + at - timers.now());

export interface HealthLimits {
  /** Waits before the second attempt and on; after the last the message is a dead letter. */
  readonly retryDelaysMs: readonly number[];
  /** Failures in a row after which the endpoint counts as failing. */
  readonly failuresToOpen: number;
  /** Between two attempts while it fails: doubled from the first to the last. */
  readonly firstPauseMs: number;
  readonly lastPauseMs: number;
  /** One that has failed for so long, without a delivery between, is to be disabled; 0: none is. */
  readonly disableAfterMs: number;
}

export interface HealthContext extends Clocks {
  readonly limits: HealthLimits;
}

type Failure = AttemptOutcome & { kind: 'failed' };

/** How an endpoint takes what it is sent: its failures in a row, and until when nothing is to be attempted. */
export class DeliveryHealth {
  #failures = 0;
  /** When the first failure of the row was, or what ended the row before; of the wall clock. */
  #since: number | undefined;
  /** Since when attempts have failed again and again, and when the latest did; of the wall clock. */
  #failingSince: number | undefined;
  #failedAt: number | undefined;
  #pauseMs: number;
  #pausedUntil = Number.NEGATIVE_INFINITY;
  /** The endpoint itself asked for a pause until then. */
  #askedUntil = Number.NEGATIVE_INFINITY;
  /** When it did. */
  #askedAt = Number.NEGATIVE_INFINITY;
  #lastFailure: string | undefined;

  constructor(private readonly context: HealthContext) {
    this.#pauseMs = context.limits.firstPauseMs;
  }

  get isFailing(): boolean {
    return this.#failures >= this.context.limits.failuresToOpen;
  }

  get hasFailedTooLong(): boolean {
    const { limits, wallClock } = this.context;
    const { disableAfterMs: most } = limits;
    return most > 0 && this.isFailing && this.#failingSince !== undefined && wallClock() - this.#failingSince >= most;
  }

  get pausedUntil(): number {
    return this.#pausedUntil;
  }

  get lastFailure(): string | undefined {
    return this.#lastFailure;
  }

  /** Between two attempts at a message. */
  get longestPause(): number {
    return Math.max(longestDelay(this.context.limits.retryDelaysMs), MAX_RETRY_AFTER_MS);
  }

  /** As it is kept; undefined: it never failed. */
  get row(): EndpointHealth | undefined {
    if (this.#since === undefined) return undefined;
    const isAsked = this.#askedUntil > this.context.timers.now();
    return {
      failures: this.#failures,
      since: this.#since,
      ...(this.#failingSince === undefined ? {} : { failingSince: this.#failingSince }),
      ...(this.#failedAt === undefined ? {} : { failedAt: this.#failedAt }),
      ...(this.#lastFailure === undefined || this.#failures === 0 ? {} : { reason: this.#lastFailure }),
      ...(isAsked ? { pausedUntil: onWallClock(this.context, this.#askedUntil) } : {}),
    };
  }

  restore(row: EndpointHealth | undefined): void {
    if (row === undefined) return;
    this.#failures = row.failures;
    this.#since = row.since;
    this.#failingSince = row.failingSince;
    this.#failedAt = row.failedAt;
    this.#lastFailure = row.reason;
    if (row.pausedUntil === undefined) return;
    this.#askedUntil = monotonic(this.context, row.pausedUntil, MAX_RETRY_AFTER_MS);
    this.#pausedUntil = this.#askedUntil;
  }

  /** Nothing is attempted for so long. */
  pause(milliseconds: number): void {
    this.#pausedUntil = this.context.timers.now() + milliseconds;
  }

  delivered(begunAt: number): void {
    // What was under way when the endpoint asked for a pause says nothing of it.
    const asked = begunAt < this.#askedAt ? this.#askedUntil : Number.NEGATIVE_INFINITY;
    this.recovered();
    this.#askedUntil = this.#pausedUntil = asked;
  }

  /** What it failed before says nothing now. */
  recovered(): void {
    if (this.#failures > 0) this.#since = this.context.wallClock();
    this.#failures = 0;
    this.#failingSince = undefined;
    this.#failedAt = undefined;
    this.#pauseMs = this.context.limits.firstPauseMs;
    this.#pausedUntil = Number.NEGATIVE_INFINITY;
    this.#askedUntil = Number.NEGATIVE_INFINITY;
  }

  /** `counts`: nobody asked for the attempt. Then it counts against the endpoint, which is given a pause where there were many. */
  failed({ reason, retryAfterMs: asked = 0, isOurs }: Failure, counts: boolean): void {
    if (counts) this.#count(isOurs === true);
    this.#lastFailure = reason;
    if (asked <= 0) return;
    this.#askedAt = this.context.timers.now();
    this.#askedUntil = Math.max(this.#askedUntil, this.#askedAt + asked);
    this.#pausedUntil = Math.max(this.#pausedUntil, this.#askedUntil);
  }

  #count(isOurs: boolean): void {
    const { limits, timers, wallClock } = this.context;
    if (this.#failures === 0) this.#since = wallClock();
    this.#failures++;
    if (!isOurs) this.#countDays();
    if (!this.isFailing) return;
    this.#pausedUntil = Math.max(this.#pausedUntil, timers.now() + this.#pauseMs);
    this.#pauseMs = Math.min(this.#pauseMs * 2, limits.lastPauseMs);
  }

  /** Time in which nothing was attempted says nothing of the endpoint: the service was stopped, say, or there was no message. */
  #countDays(): void {
    const now = this.context.wallClock();
    const isBegun = this.#failedAt !== undefined && now - this.#failedAt <= 2 * this.longestPause;
    if (!isBegun || this.#failingSince === undefined) this.#failingSince = now;
    this.#failedAt = now;
  }
}
