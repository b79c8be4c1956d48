/** One attempt to deliver a message, as it is told to the endpoint's owner. */
export interface Attempt {
  /** Ascends from one attempt of an endpoint to the next, without a meaning of its own. */
  readonly n: number;
  /** Its `webhook-id`. */
  readonly messageId: string;
  /** Of the item in its feed; undefined: it was a test. */
  readonly position?: number;
  /** From 1 on, of this message. */
  readonly attempt: number;
  /** When it began; ISO 8601 UTC. */
  readonly at: string;
  readonly durationMs: number;
  /** Of HTTP; undefined: there was no answer. */
  readonly status?: number;
  /** Why it failed; undefined: it was delivered. */
  readonly error?: string;
  /** How the body of a refusal begins. */
  readonly responseExcerpt?: string;
}

/** So many that were delivered are kept of an endpoint, and so many that failed: successes must not push failures out of sight. */
export const KEPT_ATTEMPTS = 100;

/**
 * Keeps the latest attempts of each endpoint, for its owner to look at. They steer nothing: the latest ones may be lost, of a second where
 * few endpoints are busy.
 */
export interface AttemptStore {
  add(id: string, attempt: Omit<Attempt, 'n'>): void;
  /** Newest first. */
  list(id: string): Promise<readonly Attempt[]>;
  /** This process sends no more to the endpoint: what is kept of it needs no memory. */
  release(id: string): void;
  /** Of an endpoint that is gone. */
  delete(id: string): void;
  /** Resolves when all that was added before is durable, or has failed for good. */
  close(): Promise<void>;
}
