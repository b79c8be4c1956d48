import type { PartitionRef } from '../core/partition-ref.js';

export type { PartitionRef } from '../core/partition-ref.js';

/**
 * The log port: topics of partitions of records with dense, increasing offsets, as Apache Kafka has them.
 * Every adapter passes `test/contracts/log.contract.ts`.
 */

/** What the adapter may drop, and when. Nothing else is ever dropped. */
export type Cleanup =
  | { readonly policy: 'tombstones' } // only records whose key was tombstoned later
  | { readonly policy: 'latest' } // all but the last record of each key
  | { readonly policy: 'delete'; readonly retentionMs: number }; // records older than that, from the start

export interface TopicSpec {
  readonly topic: string;
  readonly partitions: number;
  readonly cleanup: Cleanup;
}

export interface NewRecord {
  readonly key: Buffer;
  /** Null is a tombstone: it erases earlier records of the same key. */
  readonly value: Buffer | null;
}

export interface LogRecord {
  readonly offset: number;
  /** Milliseconds since the epoch, given by the log at the append. */
  readonly timestamp: number;
  readonly key: Buffer;
  readonly value: Buffer | null;
}

/** The produce failed and is certain not to be in the log, now or later. */
export class AppendRefusedError extends Error {
  override readonly name = 'AppendRefusedError';
}

/** The produce failed and may yet be in the log: the caller must end its epoch before it decides again. */
export class AppendIndefiniteError extends Error {
  override readonly name = 'AppendIndefiniteError';
}

export interface Log {
  /** Creates what is missing; a topic that is there with other settings is an error that names it. */
  ensureTopics(specs: readonly TopicSpec[]): Promise<void>;
  /** Drops the topic with all it holds. A missing topic is no error. */
  deleteTopic(topic: string): Promise<void>;
  /**
   * One produce, one attempt: all records at consecutive offsets from the returned base, or none. Resolves when they are
   * as durable as the log can make them. Appends to one partition land in the order of the calls.
   * @throws AppendRefusedError | AppendIndefiniteError
   */
  append(to: PartitionRef, records: readonly NewRecord[]): Promise<{ baseOffset: number; timestamp: number }>;
  /** The offset of the next record, by a query begun after the call: all appends resolved before are below it. */
  endOffset(of: PartitionRef): Promise<number>;
  /** The oldest offset that can be read; below it all was dropped. */
  startOffset(of: PartitionRef): Promise<number>;
  /**
   * Records from `from` on, ascending, up to about `maxBytes` but at least one; empty at the end. Dropped offsets are skipped.
   * With `waitMs` a call at the end may wait so long for the first record, which then comes as soon as it is there.
   */
  read(of: PartitionRef, from: number, maxBytes: number, waitMs?: number): Promise<LogRecord[]>;
  /** The records at these ascending offsets, those that are there. Cheap where the log is local. */
  readAt(of: PartitionRef, offsets: readonly number[]): Promise<LogRecord[]>;
  /** Tells the log's own tools how far the owners of these partitions have come. For display only: it is never read back, and may fail unseen. */
  reportPositions(positions: readonly { readonly of: PartitionRef; readonly position: number }[]): void;
  close(): Promise<void>;
}
