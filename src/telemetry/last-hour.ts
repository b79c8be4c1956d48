import { performance } from 'node:perf_hooks';
import { eventLoop, WORK_KINDS } from '../core/event-loop.js';
import type { Metrics, Totals } from './metrics.js';

/** What is counted by tenant. */
export interface TenantCounts {
  events: number;
  folded: number;
  changes: number;
}

/** What happened in the time that ended at `at`. Counts are of that time; they become rates divided by `seconds`. */
export interface Sample {
  /** ISO 8601. */
  readonly at: string;
  readonly seconds: number;
  readonly requests: number;
  /** Requests that were answered 5xx. */
  readonly failures: number;
  readonly appends: number;
  readonly events: number;
  readonly folded: number;
  readonly changes: number;
  /** Of requests that append, in milliseconds; undefined: there was none. Read off the buckets of the histogram. */
  readonly appendP50Ms: number | undefined;
  readonly appendP99Ms: number | undefined;
  readonly lagCommits: number;
  readonly residentBytes: number;
  /** The longest that marked work held the event loop in the last one to two minutes. */
  readonly longestHoldMs: number;
  /** Those that took most, most first; the others are in the sums. */
  readonly tenants: readonly ({ readonly tenantId: string } & Readonly<TenantCounts>)[];
}

/** A tenant, or a partition of it, came to this process or left it. */
export interface Move {
  readonly at: string;
  readonly tenantId: string;
  readonly partition: number;
  /** `restored`: from its store, a snapshot or the log; `promoted`: it was a standby; `closed`: idle, or another process's. */
  readonly what: 'restored' | 'promoted' | 'closed';
  readonly tookMs?: number;
}

const EVERY_MS = 15_000;
const FIRST_MS = 1_000;
const KEPT_SAMPLES = 240;
const KEPT_MOVES = 500;
const TOP_TENANTS = 10;

export interface LastHourOptions {
  readonly metrics: Pick<Metrics, 'totals' | 'figure'>;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/**
 * The last hour of this process, in memory, for people who look without Prometheus: a sample each 15 s, made of the counters that
 * `/metrics` shows, and of counts by tenant. Takes some 300 KiB at most, whatever the number of tenants, and work for those alone
 * that did something.
 */
export class LastHour {
  readonly #options: LastHourOptions;
  readonly #samples: Sample[] = [];
  readonly #moves: Move[] = [];
  #counts = new Map<string, TenantCounts>();
  #totals: Totals;
  #sampledAt = performance.now();
  readonly #timer: NodeJS.Timeout;

  constructor(options: LastHourOptions) {
    this.#options = options;
    this.#totals = options.metrics.totals();
    this.#timer = setInterval(() => this.sample(), EVERY_MS).unref();
  }

  /** Ascending by time. Who looks at a process that has just begun need not wait for the first. */
  get samples(): readonly Sample[] {
    if (this.#samples.length === 0 && performance.now() - this.#sampledAt > FIRST_MS) this.sample();
    return this.#samples;
  }

  /** Ascending by time, the latest 500. */
  get moves(): readonly Move[] {
    return this.#moves;
  }

  count(tenantId: string, what: keyof TenantCounts, more: number): void {
    let counts = this.#counts.get(tenantId);
    if (counts === undefined) this.#counts.set(tenantId, (counts = { events: 0, folded: 0, changes: 0 }));
    counts[what] += more;
  }

  moved(move: Omit<Move, 'at'>): void {
    this.#moves.push({ at: this.#now(), ...move });
    if (this.#moves.length > KEPT_MOVES) this.#moves.shift();
  }

  /** Ends the sample under way. */
  sample(): void {
    const { metrics } = this.#options;
    const [before, totals, now] = [this.#totals, metrics.totals(), performance.now()];
    const counts = this.#counts;
    this.#counts = new Map();
    const since = <K extends keyof Totals>(name: K): number => Number(totals[name]) - Number(before[name]);
    const buckets = totals.appendCounts.map((count, i) => count - (before.appendCounts[i] ?? 0));
    const quantile = (q: number): number | undefined => quantileOf(q, totals.appendBounds, buckets);
    this.#samples.push({
      at: this.#now(),
      seconds: (now - this.#sampledAt) / 1000,
      ...{ requests: since('requests'), failures: since('failures') },
      ...{ appends: since('appends'), events: since('events'), folded: since('folded'), changes: since('changes') },
      ...{ appendP50Ms: quantile(0.5), appendP99Ms: quantile(0.99) },
      lagCommits: metrics.figure('projection_lag_commits') ?? 0,
      residentBytes: process.memoryUsage.rss(),
      longestHoldMs: Math.max(...WORK_KINDS.map((work) => eventLoop.longest(work))) * 1000,
      tenants: [...counts]
        .map(([tenantId, of]) => ({ tenantId, ...of }))
        .toSorted((a, b) => weightOf(b) - weightOf(a))
        .slice(0, TOP_TENANTS),
    });
    if (this.#samples.length > KEPT_SAMPLES) this.#samples.shift();
    this.#totals = totals;
    this.#sampledAt = now;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #now(): string {
    return new Date(this.#options.now()).toISOString();
  }
}

const weightOf = ({ events, folded, changes }: TenantCounts): number => events + folded + changes;

/** In milliseconds, linear within its bucket; of the last one, which has no end, its beginning. `bounds` are in seconds, ascending. */
export function quantileOf(q: number, bounds: readonly number[], counts: readonly number[]): number | undefined {
  const all = counts.reduce((sum, count) => sum + count, 0);
  if (all === 0) return undefined;
  let below = 0;
  for (const [i, count] of counts.entries()) {
    if (count === 0 || below + count < q * all) {
      below += count;
      continue;
    }
    const from = bounds[i - 1] ?? 0;
    const to = bounds[i] ?? from;
    return (from + ((to - from) * (q * all - below)) / count) * 1000;
  }
  return (bounds.at(-1) ?? 0) * 1000;
}
