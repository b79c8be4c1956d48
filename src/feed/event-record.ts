import { EventSpan, isoTimestamp } from '../core/event.js';
import { bytesOnce, isAskedAgain, spannedIn } from './events.js';
import { isErasure, type FeedItem, type PositionedErasure, type PositionedEvent } from './feed-item.js';
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
/** Of the event that is being written. */
const span = new EventSpan();

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

const HEAD = Buffer.from('{"position":');
const EVENT_ID = Buffer.from(',"eventId":"');
const AGGREGATE_ID = Buffer.from('","aggregateId":');
const VERSION = Buffer.from(',"version":');

/** The event and its end; `joined`: no line ends within it. */
function writeEvent(event: PositionedEvent, lines: LineBuffer, joined: boolean): void {
  const commit = spannedIn(event, span);
  lines.bytes(HEAD);
  lines.integer(event.position);
  lines.bytes(EVENT_ID);
  if (commit === undefined) lines.ascii(event.eventId);
  else lines.uuid(span.bytes, span.idAt);
  lines.bytes(AGGREGATE_ID);
  writeText(event.aggregateId, lines);
  lines.bytes(typesOf(event.aggregateType, commit === undefined ? event.eventType : span.eventType));
  if (commit === undefined) lines.json(event.data, joined);
  else lines.json(span.bytes, joined, span.dataAt, span.dataEnd);
  span.letGo();
  lines.bytes(VERSION);
  lines.integer(event.version);
  lines.bytes(timeOf(event.timestamp));
  const { correlationId, causationId, metadata } = commit ?? event;
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

interface Types {
  readonly aggregateType: string;
  readonly bytes: Buffer;
}

const KEPT_TYPES = 256;
/** By the type of the event: there are few, and each comes again and again. */
const types = new Map<string, Types>();

/** From the type of the aggregate to the data. */
function typesOf(aggregateType: string, eventType: string): Buffer {
  const known = types.get(eventType);
  if (known?.aggregateType === aggregateType) return known.bytes;
  const bytes = Buffer.from(`,"aggregateType":"${aggregateType}","eventType":${JSON.stringify(eventType)},"data":`);
  if (types.size >= KEPT_TYPES) types.clear();
  types.set(eventType, { aggregateType, bytes });
  return bytes;
}

let lastTime = { of: NaN, bytes: Buffer.alloc(0) };

/** From the version to what few events have. The events of a page are often of one millisecond. */
function timeOf(timestamp: number): Buffer {
  if (timestamp !== lastTime.of)
    lastTime = { of: timestamp, bytes: Buffer.from(`,"timestamp":"${isoTimestamp(timestamp)}"`) };
  return lastTime.bytes;
}
