import { isoTimestamp } from '../core/event.js';
import { bytesOnce, isErasure, type FeedItem, type PositionedErasure, type PositionedEvent } from './events.js';
import { encoderOf, encoderOfEach, lineOf, type RecordBytes } from './record-bytes.js';

/** The bytes of an event on every channel of the feed; `data` and `metadata` are spliced as they were sent. */
const ofEvent = encoderOfEach<PositionedEvent>('event', ({ position }) => position, encodeRecord);
const ofErasure = encoderOf<PositionedErasure>('erased', ({ position }) => position, encodeErasure);
/** The record says its type already. */
const erasureBytes = (erasure: PositionedErasure): RecordBytes => {
  const bytes = ofErasure(erasure);
  const { record, serverSentEvent, line } = bytes;
  return { record, message: record, serverSentEvent, line };
};
export const eventBytes = (item: FeedItem): RecordBytes =>
  isErasure(item) ? erasureBytes(item) : bytesOnce(item, ofEvent);

/** What isn't an event has a type, on every channel. */
export const erasureRecord = ({
  position,
  aggregateId,
  aggregateType,
  timestamp,
  reason,
}: PositionedErasure): object => ({
  type: 'erased',
  position,
  aggregateId,
  aggregateType,
  timestamp: isoTimestamp(timestamp),
  ...(reason === undefined ? {} : { reason }),
});

function encodeErasure(erasure: PositionedErasure): Buffer {
  return lineOf(JSON.stringify(erasureRecord(erasure)));
}

/** Most texts are told as they are. */
const PLAIN = /^[ !#-[\]-~]*$/;
const jsonOf = (text: string): string => (PLAIN.test(text) ? `"${text}"` : JSON.stringify(text));

function encodeRecord(event: PositionedEvent): Buffer {
  const { position, eventId, aggregateId, aggregateType, eventType, data, version, timestamp } = event;
  const { correlationId, causationId, metadata } = event;
  const head =
    `{"position":${position},"eventId":"${eventId}","aggregateId":${jsonOf(aggregateId)}` +
    `,"aggregateType":"${aggregateType}","eventType":${jsonOf(eventType)},"data":`;
  const rest =
    `,"version":${version},"timestamp":"${isoTimestamp(timestamp)}"` +
    (correlationId === undefined ? '' : `,"correlationId":${JSON.stringify(correlationId)}`) +
    (causationId === undefined ? '' : `,"causationId":${JSON.stringify(causationId)}`);
  return metadata === undefined
    ? lineOf(head, data, `${rest}}`)
    : lineOf(head, data, `${rest},"metadata":`, metadata, '}');
}
