import type { WindowCheckpoint } from './delivery-window.js';

/** A message that was given up after its last attempt. */
export interface DeadLetter {
  /** Of the item in its feed. */
  readonly position: number;
  /** Its `webhook-id`; absent of those that earlier releases wrote. */
  readonly messageId?: string;
  readonly key: string;
  /** ISO 8601 UTC. */
  readonly at: string;
  readonly attempts: number;
  readonly reason: string;
}

/** What an endpoint sends again: all from what is pending, or past `end`, up to `to`, inclusive. */
export interface Replay extends WindowCheckpoint {
  readonly to: number;
  /** Only these positions, ascending; absent: all. */
  readonly only?: readonly number[];
}

/** How the latest attempts of an endpoint went. Times are milliseconds since the epoch. */
export interface EndpointHealth {
  /** In a row, up to the latest attempt. */
  readonly failures: number;
  /** When the first of them was; without any: when an attempt first succeeded after the last failure. */
  readonly since: number;
  /** Since when attempts have failed without a long time between two of them, and when the latest did; absent where none has. */
  readonly failingSince?: number;
  readonly failedAt?: number;
  /** Of the latest failure. */
  readonly reason?: string;
  /** It asked for a pause until then. */
  readonly pausedUntil?: number;
}

/** What is kept of an endpoint across restarts. The times of what is pending are milliseconds since the epoch. */
export interface EndpointCheckpoint extends WindowCheckpoint {
  /** The latest only; oldest first. */
  readonly deadLetters: readonly DeadLetter[];
  /** Those that are not done yet. */
  readonly replays?: readonly Replay[];
  /** Absent while all goes well since the first attempt. */
  readonly health?: EndpointHealth;
}

/** A checkpoint, or who has it. */
export type Saved = EndpointCheckpoint | (() => EndpointCheckpoint);

/**
 * Keeps how far each webhook endpoint has got. Nothing is lost when the latest saves are: what they covered is delivered again.
 */
export interface CursorStore {
  /** Reads what other processes saved before the call, of the endpoints that are not kept here. */
  caughtUp(): Promise<void>;
  load(id: string): EndpointCheckpoint | undefined;
  /** Kept soon; later saves of the same id replace earlier ones. A function is asked when it is written, or loaded. */
  save(id: string, checkpoint: Saved): void;
  delete(id: string): void;
  /** Writes what was saved before the call at once; resolves when what was saved of the id is durable. Rejects where it could not be written. */
  flush(id: string): Promise<void>;
  /** Resolves when all saves before the call are durable, or have failed for good. */
  close(): Promise<void>;
}
