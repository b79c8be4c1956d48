import type { AppendCommand, NewEvent } from '../../core/event.js';

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

function contextBytes(of: Pick<NewEvent, 'correlationId' | 'causationId' | 'metadata'>): number {
  return CHARACTER * ((of.correlationId?.length ?? 0) + (of.causationId?.length ?? 0)) + (of.metadata?.length ?? 0);
}
