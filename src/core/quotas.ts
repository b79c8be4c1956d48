/** What one tenant may take at most; `docs/reference/limits.md` says what each counts, and what happens past it. */
export interface Quotas {
  /** Requests of a second, on average; as many may come at once after a pause. */
  readonly requestsPerSecond: number;
  /** Events that are appended in a second, on average; as many may come at once after a pause. */
  readonly eventsPerSecond: number;
  /** Bytes of its events and code in the log, and of what is kept of them. */
  readonly storageBytes: number;
  readonly projections: number;
  readonly reducers: number;
  /** WebSockets, SSE streams, long polls and answers that wait, at one moment. */
  readonly connections: number;
  /** Uploads that wait for their compilation, at one moment. */
  readonly pendingUploads: number;
}

export type QuotaName = keyof Quotas;

export const QUOTA_NAMES = [
  'requestsPerSecond',
  'eventsPerSecond',
  'storageBytes',
  'projections',
  'reducers',
  'connections',
  'pendingUploads',
] as const satisfies readonly QuotaName[];
