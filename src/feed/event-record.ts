import { isoTimestamp } from '../core/event.js';
import {
  bytesOnce,
  isAskedAgain,
  isErasure,
  type FeedItem,
  type PositionedErasure,
  type PositionedEvent,
} from './events.js';
import type { LineBuffer } from './line-buffer.js';
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
  const { position, eventId, aggregateId, aggregateType, eventType, data, version, timestamp, metadata } = event;
  const head =
    `{"position":${position},"eventId":"${eventId}","aggregateId":${jsonOf(aggregateId)}` +
    `,"aggregateType":"${aggregateType}","eventType":${jsonOf(eventType)},"data":`;
  const rest = `,"version":${version},"timestamp":"${isoTimestamp(timestamp)}"${contextOf(event)}`;
  return metadata === undefined
    ? lineOf(head, data, `${rest}}`)
    : lineOf(head, data, `${rest},"metadata":`, metadata, '}');
}

const contextOf = ({ correlationId, causationId }: PositionedEvent): string =>
  (correlationId === undefined ? '' : `,"correlationId":${JSON.stringify(correlationId)}`) +
  (causationId === undefined ? '' : `,"causationId":${JSON.stringify(causationId)}`);

/**
 * Writes the item as a line of its own, the same bytes as those of `eventBytes`. A reader of history is the only one who asks for an
 * event, mostly, and keeps nothing of it. False, and nothing is written, where others ask for it too: `eventBytes` encodes it once for
 * all of them, who share its memory.
 */
export function writeEventLine(item: FeedItem, lines: LineBuffer): boolean {
  if (isErasure(item) || isAskedAgain(item)) return false;
  lines.ascii('{"position":');
  lines.ascii(String(item.position));
  lines.ascii(',"eventId":"');
  lines.ascii(item.eventId);
  lines.ascii('","aggregateId":');
  writeText(item.aggregateId, lines);
  lines.ascii(',"aggregateType":"');
  lines.ascii(item.aggregateType);
  lines.ascii('","eventType":');
  writeText(item.eventType, lines);
  lines.ascii(',"data":');
  lines.json(item.data);
  lines.ascii(',"version":');
  lines.ascii(String(item.version));
  lines.ascii(',"timestamp":"');
  lines.ascii(isoTimestamp(item.timestamp));
  lines.ascii('"');
  const context = contextOf(item);
  if (context !== '') lines.text(context);
  const { metadata } = item;
  if (metadata !== undefined) {
    lines.ascii(',"metadata":');
    lines.json(metadata);
  }
  lines.ascii('}\n');
  return true;
}

function writeText(text: string, lines: LineBuffer): void {
  if (!PLAIN.test(text)) return lines.text(JSON.stringify(text));
  lines.ascii('"');
  lines.ascii(text);
  lines.ascii('"');
}
