import { isoTimestamp } from '../core/event.js';
import type { PositionedEvent } from './events.js';
import { encoderOf } from './record-bytes.js';

/** The bytes of an event on every channel of the feed; `data` and `metadata` are spliced as they were sent. */
export const eventBytes = encoderOf<PositionedEvent>('event', ({ position }) => position, encodeRecord);

function encodeRecord(event: PositionedEvent): Buffer {
  const { position, eventId, aggregateId, aggregateType, eventType, data, version, timestamp } = event;
  const { correlationId, causationId, metadata } = event;
  const head =
    `{"position":${position},"eventId":"${eventId}","aggregateId":${JSON.stringify(aggregateId)}` +
    `,"aggregateType":"${aggregateType}","eventType":${JSON.stringify(eventType)},"data":`;
  const rest =
    `,"version":${version},"timestamp":"${isoTimestamp(timestamp)}"` +
    (correlationId === undefined ? '' : `,"correlationId":${JSON.stringify(correlationId)}`) +
    (causationId === undefined ? '' : `,"causationId":${JSON.stringify(causationId)}`);
  return metadata === undefined
    ? Buffer.concat([Buffer.from(head), data, Buffer.from(`${rest}}`)])
    : Buffer.concat([Buffer.from(head), data, Buffer.from(`${rest},"metadata":`), metadata, CLOSE]);
}

const CLOSE = Buffer.from('}');
