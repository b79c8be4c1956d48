import { isoTimestamp } from '../core/event.js';
import {
  bytesOnce,
  isAskedAgain,
  isErasure,
  type FeedItem,
  type PositionedErasure,
  type PositionedEvent,
} from './events.js';
import { LineBuffer } from './line-buffer.js';
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

/** Of what is encoded for many. */
const encoding = new LineBuffer();

/** `data` and `metadata` as they were sent, line breaks too. */
function encodeRecord(event: PositionedEvent): Buffer {
  encoding.cutTo(0);
  writeEvent(event, encoding, false);
  return encoding.take();
}

/**
 * Writes the item as a line of its own, the same bytes as those of `eventBytes`. A reader of history is the only one who asks for an
 * event, mostly, and keeps nothing of it. False, and nothing is written, where others ask for it too: `eventBytes` encodes it once for
 * all of them, who share its memory.
 */
export function writeEventLine(item: FeedItem, lines: LineBuffer): boolean {
  if (isErasure(item) || isAskedAgain(item)) return false;
  writeEvent(item, lines, true);
  return true;
}

/** The event and its end; `joined`: no line ends within it. */
function writeEvent(event: PositionedEvent, lines: LineBuffer, joined: boolean): void {
  lines.ascii('{"position":');
  lines.ascii(String(event.position));
  lines.ascii(',"eventId":"');
  lines.ascii(event.eventId);
  lines.ascii('","aggregateId":');
  writeText(event.aggregateId, lines);
  lines.ascii(',"aggregateType":"');
  lines.ascii(event.aggregateType);
  lines.ascii('","eventType":');
  writeText(event.eventType, lines);
  lines.ascii(',"data":');
  lines.json(event.data, joined);
  lines.ascii(',"version":');
  lines.ascii(String(event.version));
  lines.ascii(',"timestamp":"');
  lines.ascii(isoTimestamp(event.timestamp));
  lines.ascii('"');
  const { correlationId, causationId, metadata } = event;
  if (correlationId !== undefined) lines.text(`,"correlationId":${JSON.stringify(correlationId)}`);
  if (causationId !== undefined) lines.text(`,"causationId":${JSON.stringify(causationId)}`);
  if (metadata !== undefined) {
    lines.ascii(',"metadata":');
    lines.json(metadata, joined);
  }
  lines.ascii('}\n');
}

function writeText(text: string, lines: LineBuffer): void {
  if (!PLAIN.test(text)) return lines.text(JSON.stringify(text));
  lines.ascii('"');
  lines.ascii(text);
  lines.ascii('"');
}
