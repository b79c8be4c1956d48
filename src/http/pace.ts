import { rateLimited, type FixedPaceName, type QuotaName } from '../core/quotas.js';

export interface PaceOptions {
  readonly quota: QuotaName | FixedPaceName;
  /** What is counted, as the refusal names it. */
  readonly what: string;
  /** Of a tenant, as of the call: what refills a second, and the most that may be saved up. `Infinity`: no limit. */
  readonly limitOf: (tenantId: string) => { readonly perSecond: number; readonly burst: number };
  /** A monotonic clock in milliseconds. */
  readonly now: () => number;
}

interface Bucket {
  tokens: number;
  at: number;
  /** What was taken in the second that began at `since`, and in the one before. */
  taken: number;
  takenBefore: number;
  since: number;
}

const SECOND_MS = 1_000;
const SWEEP_MS = 60_000;
/** A tenant that may send nothing has no time at which it may. */
const NEVER_SECONDS = 60;

/**
 * A token bucket a tenant. Written here, since each request goes through it: the libraries for this make a promise, and often an
 * object, each time. Buckets that nobody takes from are forgotten, so that memory follows the tenants that are busy.
 */
export class Pace {
  readonly #options: PaceOptions;
  readonly #buckets = new Map<string, Bucket>();
  #sweepAt = 0;

  constructor(options: PaceOptions) {
    this.#options = options;
  }

  /**
   * Takes so many. More than may be saved up are taken at once where all is there, and what follows waits until they are paid for.
   * @throws StatefoldError RATE_LIMITED with the time until there is room
   */
  take(tenantId: string, amount = 1): void {
    const { quota, what, limitOf, now: clock } = this.#options;
    const { perSecond, burst } = limitOf(tenantId);
    const now = clock();
    if (now >= this.#sweepAt) this.#sweep(now);
    let bucket = this.#buckets.get(tenantId);
    if (bucket === undefined) {
      bucket = { tokens: burst, at: now, taken: 0, takenBefore: 0, since: now };
      this.#buckets.set(tenantId, bucket);
    }
    turn(bucket, now);
    if (perSecond !== Infinity) {
      const refilled = Number.isFinite(bucket.tokens)
        ? bucket.tokens + ((now - bucket.at) * perSecond) / SECOND_MS
        : burst;
      bucket.tokens = Math.min(burst, refilled);
      bucket.at = now;
      const missing = Math.min(amount, burst) - bucket.tokens;
      if (perSecond === 0 || missing > 0)
        throw rateLimited(
          quota,
          perSecond,
          `The tenant sends more than ${perSecond} ${what} a second.`,
          perSecond === 0 ? NEVER_SECONDS : missing / perSecond,
        );
      bucket.tokens -= amount;
    }
    bucket.taken += amount;
  }

  /** What the tenant took here in the last full second. */
  lastSecond(tenantId: string): number {
    const bucket = this.#buckets.get(tenantId);
    if (bucket === undefined) return 0;
    turn(bucket, this.#options.now());
    return bucket.takenBefore;
  }

  #sweep(now: number): void {
    const { limitOf } = this.#options;
    for (const [tenantId, { at, since, tokens }] of this.#buckets) {
      const { perSecond, burst } = limitOf(tenantId);
      const full = perSecond === Infinity || tokens + ((now - at) * perSecond) / SECOND_MS >= burst;
      if (full && now - since >= 2 * SECOND_MS) this.#buckets.delete(tenantId);
    }
    this.#sweepAt = now + SWEEP_MS;
  }
}

/** Begins the next second where it is due. */
function turn(bucket: Bucket, now: number): void {
  const seconds = Math.floor((now - bucket.since) / SECOND_MS);
  if (seconds === 0) return;
  bucket.takenBefore = seconds === 1 ? bucket.taken : 0;
  bucket.taken = 0;
  bucket.since += seconds * SECOND_MS;
}
