import type { WindowCheckpoint } from './delivery-window.js';

/** A message that was given up after its last attempt. */
export interface DeadLetter {
  /** Of the item in its feed. */
  readonly position: number;
  readonly key: string;
  /** ISO 8601 UTC. */
  readonly at: string;
  readonly attempts: number;
  readonly reason: string;
}

/** What is kept of an endpoint across restarts. */
export interface EndpointCheckpoint extends WindowCheckpoint {
  /** The latest only; oldest first. */
  readonly deadLetters: readonly DeadLetter[];
}

/**
 * Keeps how far each webhook endpoint has got. Nothing is lost when the latest saves are: what they covered is delivered again.
 */
export interface CursorStore {
  /** Reads what other processes saved before the call, of the endpoints that are not kept here. */
  caughtUp(): Promise<void>;
  load(id: string): EndpointCheckpoint | undefined;
  /** Kept soon; later saves of the same id replace earlier ones. */
  save(id: string, checkpoint: EndpointCheckpoint): void;
  delete(id: string): void;
  /** Resolves when all saves before the call are durable, or have failed for good. */
  close(): Promise<void>;
}
