import { StatefoldError } from './errors.js';

/** What one tenant may take at most; `docs/reference/limits.md` says what each counts, and what happens past it. */
export interface Quotas {
  /** Requests of a second, on average; as many may come at once after a pause. */
  readonly requestsPerSecond: number;
  /** Events that are appended in a second, on average; as many may come at once after a pause. */
  readonly eventsPerSecond: number;
  /** Bytes of its events, kept changes, states and code, about. */
  readonly storageBytes: number;
  readonly projections: number;
  readonly reducers: number;
  /** WebSockets, SSE streams, long polls and answers that wait, at one moment. */
  readonly connections: number;
  /** Uploads that wait for their compilation, at one moment. */
  readonly pendingUploads: number;
}

export type QuotaName = keyof Quotas;

/** Each: an object that lacks one is refused by the compiler, as a list would not be. */
export const QUOTA_NAMES = Object.keys({
  requestsPerSecond: true,
  eventsPerSecond: true,
  storageBytes: true,
  projections: true,
  reducers: true,
  connections: true,
  pendingUploads: true,
} satisfies Record<QuotaName, true>) as readonly QuotaName[];

/** What a tenant may take, as of the call; `Infinity` where nothing is set. */
export type QuotaOf = (tenantId: string, name: QuotaName) => number;

/** What has a limit that no owner sets: changes that the audit log has. */
export type FixedPaceName = 'changesPerSecond';

/** Of something that is given back by itself: a pace, or a count of one moment. `t`: seconds until there may be room. */
export function rateLimited(
  quota: QuotaName | FixedPaceName,
  limit: number,
  message: string,
  afterSeconds: number,
): StatefoldError {
  const window = quota.endsWith('PerSecond') ? ';w=1' : '';
  const seconds = Math.max(1, Math.ceil(afterSeconds));
  // As draft-ietf-httpapi-ratelimit-headers has them.
  return new StatefoldError('RATE_LIMITED', message, {
    retryAfterSeconds: seconds,
    details: { quota, limit },
    headers: { 'RateLimit-Policy': `"${quota}";q=${limit}${window}`, RateLimit: `"${quota}";r=0;t=${seconds}` },
  });
}

/** Of something that lasts. */
export const quotaExceeded = (quota: QuotaName, usage: number, limit: number, what: string): StatefoldError =>
  new StatefoldError(
    'QUOTA_EXCEEDED',
    `The tenant has ${usage} ${what}, and may have ${limit} (quota ${quota}): delete what is not needed, or ask the owner of the service for more.`,
    { details: { quota, usage, limit } },
  );
