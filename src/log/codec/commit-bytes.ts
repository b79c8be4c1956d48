import type { AppendCommand, NewEvent, StoredCommit } from '../../core/event.js';

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
  for (const event of events)
    bytes += AROUND_EVENT + CHARACTER * event.eventType.length + event.data.length + contextBytes(event);
  return bytes;
}

/** What is in a record beside texts and bytes, about: of it, and of each of its events. */
const STORED_COMMIT = 160;
const STORED_EVENT = 24;

/** What a commit takes in the log, about: as its reader counts it, and nearly the same for who wrote it. */
export function storedCommitBytes(commit: StoredCommit): number {
  if (commit.bytes !== undefined) return commit.bytes;
  let bytes = STORED_COMMIT + 2 * commit.aggregateId.length + (commit.metadata?.length ?? 0);
  for (const event of commit.events)
    bytes += STORED_EVENT + event.eventType.length + event.data.length + (event.metadata?.length ?? 0);
  return bytes;
}

function contextBytes(of: Pick<NewEvent, 'correlationId' | 'causationId' | 'metadata'>): number {
  return CHARACTER * ((of.correlationId?.length ?? 0) + (of.causationId?.length ?? 0)) + (of.metadata?.length ?? 0);
}
