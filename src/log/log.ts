import { inParts } from '../core/parts.js';
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

/** What a read found. */
export interface LogPage {
  readonly records: readonly LogRecord[];
  /**
   * The offset of the next record, as the one who answered knows it. A new leader may know of less than was acknowledged: what
   * is missing below `end` was dropped, what is missing from there on may be there. `known-end.ts` asks again.
   */
  readonly end: number;
}

/** Of records that are picked. */
export interface PickedPage extends LogPage {
  /** So many of the offsets, the first ones, were looked at; absent: all of them. */
  readonly looked?: number | undefined;
}

/** Of one append, on every adapter. */
export const MAX_APPEND_BYTES = 16 * 1024 * 1024;
/** What whoever gathers puts into one append, about: much less, so that what it leaves out of its reckoning finds room. */
export const PRODUCE_BYTES = 4 * 1024 * 1024;

/** What an append counts against `maxAppendBytes`: keys, values, and no less than any adapter puts around them. */
export function appendBytes(records: readonly NewRecord[]): number {
  let bytes = 64;
  for (const { key, value } of records) bytes += 32 + key.length + (value?.length ?? 0);
  return bytes;
}

/** The records in as few appends as their bytes allow; one that is too large alone is one of its own, and refused. */
export const appendsOf = (records: readonly NewRecord[], most: number): Generator<readonly NewRecord[]> =>
  inParts(records, (record) => appendBytes([record]) - appendBytes([]), { bytes: most - appendBytes([]) });

/** The produce failed and is certain not to be in the log, now or later. */
export class AppendRefusedError extends Error {
  override readonly name = 'AppendRefusedError';
}

/** It is refused again, however often it is tried: only less at once is taken. */
export class AppendTooLargeError extends AppendRefusedError {}

export const tooLarge = (records: number, bytes: number, most: number): AppendTooLargeError =>
  new AppendTooLargeError(`${records} records have ${bytes} bytes together; the log takes ${most} at once`);

/** The produce failed and may yet be in the log: the caller must end its epoch before it decides again. */
export class AppendIndefiniteError extends Error {
  override readonly name = 'AppendIndefiniteError';
}

export interface Log {
  /** An append of more, by `appendBytes`, is refused, and nothing of it is stored: whoever gathers cuts before. */
  readonly maxAppendBytes: number;
  /**
   * Creates what is missing; a topic that is there with other settings is an error that names it. Where others can add partitions to it, those
   * past the ones that are asked for are left alone; where they can delete one, it is not made anew beside records of those that it was made with.
   * @throws InvariantError of a topic that was deleted
   */
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
   * Records from `from` on, ascending, up to about `maxBytes` but at least one. Dropped offsets are skipped: without a record
   * all of [from, end) is dropped. The answer may be behind: how far it goes is told by its `end`, and by that alone.
   * With `waitMs` a call at the end may wait so long for the first record, which then comes as soon as it is there.
   */
  read(of: PartitionRef, from: number, maxBytes: number, waitMs?: number): Promise<LogPage>;
  /**
   * The records at these ascending offsets, those that are there: of the others those below `end` are dropped. Past about `maxBytes` of
   * records, and at least one offset, those that follow are not looked at. Cheap where the log is local.
   */
  readAt(of: PartitionRef, offsets: readonly number[], maxBytes?: number): Promise<PickedPage>;
  /** An answer was behind what the partition is known to hold: what this client remembers of where it lies is looked up anew. */
  doubt(of: PartitionRef): void;
  /** Tells the log's own tools how far the owners of these partitions have come. For display only: it is never read back, and may fail unseen. */
  reportPositions(positions: readonly { readonly of: PartitionRef; readonly position: number }[]): void;
  close(): Promise<void>;
}
