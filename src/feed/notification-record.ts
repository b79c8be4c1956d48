import type { Change } from '../core/change.js';
import { isoTimestamp } from '../core/event.js';

/**
 * The bytes of a change on every channel: encoded once, whoever asks first, and shared by all subscribers. They live as
 * long as the change itself does. `state` is spliced as the runner gave it.
 */
export interface NotificationBytes {
  /** The notification record: `{"sequence":…,"projectionId":…,…}`. Polling and webhooks. */
  readonly record: Buffer;
  /** The record as a WebSocket message: with `"type":"state_changed"` before its fields. */
  readonly message: Buffer;
  /** The record as a whole SSE event, blank line included. */
  readonly serverSentEvent: Buffer;
}

const encoded = new WeakMap<Change, EncodedChange>();

export function notificationBytes(change: Change): NotificationBytes {
  let bytes = encoded.get(change);
  if (bytes === undefined) {
    bytes = new EncodedChange(change);
    encoded.set(change, bytes);
  }
  return bytes;
}

class EncodedChange implements NotificationBytes {
  readonly #sequence: number;
  readonly record: Buffer;
  #message: Buffer | undefined;
  #serverSentEvent: Buffer | undefined;

  constructor(change: Change) {
    this.#sequence = change.sequence;
    this.record = encodeRecord(change);
  }

  get message(): Buffer {
    this.#message ??= Buffer.concat([MESSAGE_HEAD, this.record.subarray(1)]);
    return this.#message;
  }

  get serverSentEvent(): Buffer {
    this.#serverSentEvent ??= encodeServerSentEvent(this.#sequence, this.record);
    return this.#serverSentEvent;
  }
}

const MESSAGE_HEAD = Buffer.from('{"type":"state_changed",');
const NULL = Buffer.from('null');

function encodeRecord(change: Change): Buffer {
  const head =
    `{"sequence":${change.sequence},"projectionId":${JSON.stringify(change.projectionId)},"aggregateId":${JSON.stringify(change.aggregateId)}` +
    `,"aggregateType":${JSON.stringify(change.aggregateType)},"state":`;
  const cause = change.cause === undefined ? '' : `,"cause":"${change.cause}"`;
  const rest =
    `,"timestamp":"${isoTimestamp(change.timestamp)}","key":${JSON.stringify(change.key)},"version":${change.version}` +
    `,"eventId":${JSON.stringify(change.eventId)},"className":${JSON.stringify(change.className)}${cause}}`;
  return Buffer.concat([Buffer.from(head), change.state ?? NULL, Buffer.from(rest)]);
}

function encodeServerSentEvent(sequence: number, record: Buffer): Buffer {
  // White space between JSON tokens may hold line breaks, and a line of an event ends at one.
  const oneLine = !record.includes(0x0a) && !record.includes(0x0d);
  const data = oneLine ? record : Buffer.from(record.toString('utf8').replace(/\r\n?|\n/g, '\ndata: '));
  return Buffer.concat([Buffer.from(`id: ${sequence}\nevent: state_changed\ndata: `), data, Buffer.from('\n\n')]);
}
