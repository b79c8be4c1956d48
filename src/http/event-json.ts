import { isoTimestamp, type StoredEvent } from '../core/event.js';
import type { JsonWriter } from './json-writer.js';

/** One event of a listing: exactly the fields of the interface, `data` as it was sent; `withMetadata` adds the others that an append may have. */
export function eventJson(writer: JsonWriter, event: StoredEvent, withMetadata = false): void {
  writer
    .text('{')
    .member('eventId', event.eventId, true)
    .member('aggregateId', event.aggregateId)
    .member('eventType', event.eventType)
    .raw('data', event.data)
    .member('version', event.version)
    .member('timestamp', isoTimestamp(event.timestamp));
  if (withMetadata) {
    const { aggregateType, correlationId, causationId, metadata } = event;
    writer.member('aggregateType', aggregateType);
    if (correlationId !== undefined) writer.member('correlationId', correlationId);
    if (causationId !== undefined) writer.member('causationId', causationId);
    if (metadata !== undefined) writer.raw('metadata', metadata);
  }
  writer.text('}');
}
