import { StatefoldError } from '../core/errors.js';

export interface RateLimitOptions {
  /** Requests a second that refill; 0 sets no limit. */
  readonly perSecond: number;
  /** Most that may be saved up; 0: those of one second. */
  readonly burst: number;
  /** A monotonic clock in milliseconds. */
  readonly now: () => number;
}

interface Bucket {
  tokens: number;
  at: number;
}

/** A token bucket a tenant. Buckets that are full again are forgotten, so that memory follows the tenants that are busy. */
export class RateLimiter {
  readonly #perSecond: number;
  readonly #burst: number;
  readonly #now: () => number;
  readonly #buckets = new Map<string, Bucket>();
  #sweepAt = 0;

  constructor(options: RateLimitOptions) {
    this.#perSecond = options.perSecond;
    this.#burst = Math.max(1, options.burst > 0 ? options.burst : options.perSecond);
    this.#now = options.now;
  }

  /** Takes one request. @throws StatefoldError RATE_LIMITED with the time until the next one */
  take(tenantId: string): void {
    if (this.#perSecond === 0) return;
    const now = this.#now();
    if (now >= this.#sweepAt) this.#sweep(now);
    const bucket = this.#buckets.get(tenantId) ?? { tokens: this.#burst, at: now };
    bucket.tokens = Math.min(this.#burst, bucket.tokens + ((now - bucket.at) * this.#perSecond) / 1000);
    bucket.at = now;
    this.#buckets.set(tenantId, bucket);
    if (bucket.tokens < 1) {
      throw new StatefoldError('RATE_LIMITED', `The tenant sends more than ${this.#perSecond} requests a second.`, {
        retryAfterSeconds: (1 - bucket.tokens) / this.#perSecond,
      });
    }
    bucket.tokens -= 1;
  }

  #sweep(now: number): void {
    const msToFull = (this.#burst / this.#perSecond) * 1000;
    for (const [tenantId, { at }] of this.#buckets) if (now - at >= msToFull) this.#buckets.delete(tenantId);
    this.#sweepAt = now + Math.max(msToFull, 60_000);
  }
}
