/** The bytes of an item on every channel: encoded once, whoever asks first, and shared by all subscribers. They live as long as the item does. */
export interface RecordBytes {
  /** The record: `{"sequence":…,"projectionId":…,…}`. Polling and webhooks. */
  readonly record: Buffer;
  /** The record as a WebSocket message: with `"type":"state_changed"`, say, before its fields. */
  readonly message: Buffer;
  /** The record as a whole SSE event, blank line included. */
  readonly serverSentEvent: Buffer;
  /** The record as a line of NDJSON, with its end. */
  readonly line: Buffer;
}

/** An encoder of items; `type` names the record on the channels that name it, `position` is its id there, where it has one. */
export function encoderOf<T extends object>(
  type: string,
  position: (item: T) => number | undefined,
  encode: (item: T) => Buffer,
): (item: T) => RecordBytes {
  const encoded = new WeakMap<T, Encoded>();
  const messageHead = Buffer.from(`{"type":"${type}",`);
  return (item) => {
    let bytes = encoded.get(item);
    if (bytes === undefined) encoded.set(item, (bytes = new Encoded(type, messageHead, position(item), encode(item))));
    return bytes;
  };
}

class Encoded implements RecordBytes {
  readonly #type: string;
  readonly #messageHead: Buffer;
  readonly #position: number | undefined;
  readonly record: Buffer;
  #message: Buffer | undefined;
  #serverSentEvent: Buffer | undefined;
  #line: Buffer | undefined;

  constructor(type: string, messageHead: Buffer, position: number | undefined, record: Buffer) {
    this.#type = type;
    this.#messageHead = messageHead;
    this.#position = position;
    this.record = record;
  }

  get message(): Buffer {
    this.#message ??= Buffer.concat([this.#messageHead, this.record.subarray(1)]);
    return this.#message;
  }

  get serverSentEvent(): Buffer {
    this.#serverSentEvent ??= encodeServerSentEvent(this.#type, this.#position, this.record);
    return this.#serverSentEvent;
  }

  get line(): Buffer {
    this.#line ??= Buffer.concat([isOneLine(this.record) ? this.record : joined(this.record), LINE_END]);
    return this.#line;
  }
}

const LINE_END = Buffer.from('\n');

/** White space between JSON tokens may hold line breaks; within a string none can. */
const isOneLine = (record: Buffer): boolean => !record.includes(0x0a) && !record.includes(0x0d);

function joined(record: Buffer): Buffer {
  const line = Buffer.from(record);
  for (const [i, byte] of line.entries()) if (byte === 0x0a || byte === 0x0d) line[i] = 0x20;
  return line;
}

function encodeServerSentEvent(type: string, position: number | undefined, record: Buffer): Buffer {
  // A line of an event ends at a line break.
  const data = isOneLine(record) ? record : Buffer.from(record.toString('utf8').replace(/\r\n?|\n/g, '\ndata: '));
  const id = position === undefined ? '' : `id: ${position}\n`;
  return Buffer.concat([Buffer.from(`${id}event: ${type}\ndata: `), data, Buffer.from('\n\n')]);
}
