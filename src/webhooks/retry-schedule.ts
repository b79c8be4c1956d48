/** Milliseconds before each attempt after the first: 5 s, 30 s, 2 min, 15 min, 1, 3, 6, 12, 24, 24 h. */
export const RETRY_DELAYS_MS: readonly number[] = [5, 30, 120, 900, 3_600, 10_800, 21_600, 43_200, 86_400, 86_400].map(
  (s) => s * 1_000,
);

const JITTER = 0.2;

/**
 * How long to wait after `attempts` failed attempts; undefined: give up. `random`: 0 to 1. What the endpoint asked for is
 * the least, where it asked.
 */
export function retryDelay(
  attempts: number,
  random: number,
  askedMs = 0,
  delays: readonly number[] = RETRY_DELAYS_MS,
): number | undefined {
  const delay = delays[attempts - 1];
  return delay === undefined ? undefined : Math.max(askedMs, Math.round(delay * (1 - JITTER + 2 * JITTER * random)));
}

/** The longest that `retryDelay` waits by itself. */
export const longestDelay = (delays: readonly number[]): number => Math.max(0, ...delays) * (1 + JITTER);

/** The longest that an endpoint may ask for. */
export const MAX_RETRY_AFTER_MS = 3_600_000;

/** A `Retry-After` header, seconds or an HTTP date, in milliseconds from `now` (wall clock); undefined where it makes no sense. */
export function retryAfterMs(header: string | undefined, now: number): number | undefined {
  if (header === undefined) return undefined;
  const text = header.trim();
  const wait = /^\d{1,9}$/.test(text)
    ? Number(text) * 1_000
    : /^[A-Za-z]{3}, /.test(text)
      ? Date.parse(text) - now
      : Number.NaN;
  return Number.isNaN(wait) ? undefined : Math.min(Math.max(wait, 0), MAX_RETRY_AFTER_MS);
}
