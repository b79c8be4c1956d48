import type { AggregateCommit, AppendCommand, NewEvent, StoredCommit, TransactionCommand } from '../../core/event.js';
import type { Control } from '../../core/records.js';

/** What a record has besides the client's texts and bytes: type, ids, hash, numbers, lengths; and the same around an event. */
const AROUND_COMMIT = 512;
const AROUND_EVENT = 48;
/** Of a character in UTF-8, at most. */
const CHARACTER = 3;

/** An append's record in the log has no more bytes, key and value; much less only where its texts aren't ASCII's. */
export function commitBytes(command: AppendCommand): number {
  const { aggregateId, commandId, events } = command;
  // The id is in the key as well.
  let bytes = AROUND_COMMIT + CHARACTER * (2 * aggregateId.length + commandId.length) + contextBytes(command);
  for (const event of events) bytes += eventBytes(event);
  return bytes;
}

/** What a part of a transaction has besides its id and its events: its type, which is ASCII, numbers, lengths. */
const AROUND_PART = 192;

/** The same of a transaction. */
export function transactionBytes(command: TransactionCommand): number {
  // The id of the first aggregate is in the key.
  let bytes =
    AROUND_COMMIT +
    CHARACTER * (command.commandId.length + (command.appends[0]?.aggregateId.length ?? 0)) +
    contextBytes(command);
  for (const { aggregateId, events } of command.appends) {
    bytes += AROUND_PART + CHARACTER * aggregateId.length;
    for (const event of events) bytes += eventBytes(event);
  }
  return bytes;
}

const eventBytes = (event: NewEvent): number =>
  AROUND_EVENT + CHARACTER * event.eventType.length + event.data.length + contextBytes(event);

/** What is in a record beside texts and bytes, about: of it, and of each of its events. */
const STORED_COMMIT = 160;
const STORED_EVENT = 24;

/** What a commit takes in the log, about: as its reader counts it, and nearly the same for who wrote it. */
export function storedCommitBytes(commit: StoredCommit): number {
  if (commit.bytes !== undefined) return commit.bytes;
  if (commit.parts === undefined)
    return STORED_COMMIT + commit.aggregateId.length + (commit.metadata?.length ?? 0) + storedPartBytes(commit);
  const [first] = commit.parts;
  return commit.parts.reduce(
    (sum, part) => sum + STORED_PART + storedPartBytes(part),
    STORED_COMMIT + (first?.aggregateId.length ?? 0) + (first?.metadata?.length ?? 0),
  );
}

/** What a control takes in the log, about. */
export const storedControlBytes = ({ value }: Control): number =>
  Object.values<unknown>({ ...value }).reduce<number>((sum, one) => sum + lengthOf(one), STORED_COMMIT);

function lengthOf(value: unknown): number {
  if (typeof value === 'string' || Buffer.isBuffer(value)) return value.length;
  return Array.isArray(value) ? value.reduce<number>((sum, one) => sum + lengthOf(one), 0) : 0;
}

const STORED_PART = 12;

function storedPartBytes({ aggregateId, events }: AggregateCommit): number {
  let bytes = aggregateId.length;
  for (const event of events)
    bytes += STORED_EVENT + event.eventType.length + event.data.length + (event.metadata?.length ?? 0);
  return bytes;
}

function contextBytes(of: Pick<NewEvent, 'correlationId' | 'causationId' | 'metadata'>): number {
  return CHARACTER * ((of.correlationId?.length ?? 0) + (of.causationId?.length ?? 0)) + (of.metadata?.length ?? 0);
}
