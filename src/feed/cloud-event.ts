import { isoTimestamp } from '../core/event.js';
import type { PositionedEvent } from './feed-item.js';
import { encoderOf, lineOf, type RecordBytes } from './record-bytes.js';

/** Before the member by which two copies of an event may differ no more: behind it lies what an import keeps. */
export const KEPT_FROM = ',"id":';

/**
 * Encodes the events of a tenant as CloudEvents 1.0. What an import does not keep (`source`, `position`) comes first, so that
 * what follows `KEPT_FROM` is the same, byte for byte, wherever the event lies. `position` is text: it may be past an Integer of CloudEvents.
 */
export const cloudEventBytes = (tenantId: string): ((event: PositionedEvent) => RecordBytes) =>
  encoderOf<PositionedEvent>(
    'event',
    ({ position }) => position,
    (event) => encode(event, tenantId),
  );

function encode(event: PositionedEvent, tenantId: string): Buffer {
  const { position, eventId, aggregateId, aggregateType, eventType, data, version, timestamp } = event;
  const { correlationId, causationId, metadata } = event;
  const head =
    `{"specversion":"1.0","source":"/tenants/${tenantId}","position":"${position}"${KEPT_FROM}"${eventId}"` +
    `,"type":${JSON.stringify(eventType)},"subject":${JSON.stringify(aggregateId)},"time":"${isoTimestamp(timestamp)}"` +
    `,"datacontenttype":"application/json","aggregatetype":"${aggregateType}","aggregateversion":${version}` +
    (correlationId === undefined ? '' : `,"correlationid":${JSON.stringify(correlationId)}`) +
    (causationId === undefined ? '' : `,"causationid":${JSON.stringify(causationId)}`) +
    (metadata === undefined ? '' : `,"metadata":${JSON.stringify(metadata.toString('utf8'))}`) +
    ',"data":';
  return lineOf(head, data, '}');
}
