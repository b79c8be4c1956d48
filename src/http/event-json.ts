import { isoTimestamp, type StoredEvent } from '../core/event.js';
import type { JsonWriter } from './json-writer.js';

/** One event of a listing: exactly the fields of the interface, `data` as it was sent. */
export function eventJson(writer: JsonWriter, event: StoredEvent): void {
  writer
    .text('{')
    .member('eventId', event.eventId, true)
    .member('aggregateId', event.aggregateId)
    .member('eventType', event.eventType)
    .raw('data', event.data)
    .member('version', event.version)
    .member('timestamp', isoTimestamp(event.timestamp))
    .text('}');
}
