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

/** The texts and the bytes behind each other, as one line with its end. */
export function lineOf(...parts: readonly (string | Buffer)[]): Buffer {
  let length = 1;
  for (const part of parts) length += typeof part === 'string' ? Buffer.byteLength(part) : part.length;
  const line = Buffer.allocUnsafe(length);
  let at = 0;
  for (const part of parts) at += typeof part === 'string' ? line.write(part, at) : part.copy(line, at);
  line[at] = LINE_FEED;
  return line;
}

/** An encoder of items; `encode` gives the record as `lineOf` does; `type` names the record on the channels that name it, `position` is its id there, where it has one. */
export function encoderOf<T extends object>(
  type: string,
  position: (item: T) => number | undefined,
  encode: (item: T) => Buffer,
): (item: T) => RecordBytes {
  const encoded = new WeakMap<T, RecordBytes>();
  const once = encoderOfEach(type, position, encode);
  return (item) => {
    let bytes = encoded.get(item);
    if (bytes === undefined) encoded.set(item, (bytes = once(item)));
    return bytes;
  };
}

/** The same, anew with each call. */
export function encoderOfEach<T>(
  type: string,
  position: (item: T) => number | undefined,
  encode: (item: T) => Buffer,
): (item: T) => RecordBytes {
  const messageHead = Buffer.from(`{"type":"${type}",`);
  return (item) => new Encoded(type, messageHead, position(item), encode(item));
}

class Encoded implements RecordBytes {
  readonly #type: string;
  readonly #messageHead: Buffer;
  readonly #position: number | undefined;
  readonly #encoded: Buffer;
  #record: Buffer | undefined;
  #message: Buffer | undefined;
  #serverSentEvent: Buffer | undefined;
  #line: Buffer | undefined;

  constructor(type: string, messageHead: Buffer, position: number | undefined, encoded: Buffer) {
    this.#type = type;
    this.#messageHead = messageHead;
    this.#position = position;
    this.#encoded = encoded;
  }

  get record(): Buffer {
    return (this.#record ??= this.#encoded.subarray(0, -1));
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
    return (this.#line ??= joined(this.#encoded));
  }
}

const LINE_FEED = 0x0a;

/** White space between JSON tokens may hold line breaks; within a string none can. */
export const isOneLine = (record: Buffer): boolean => !record.includes(0x0a) && !record.includes(0x0d);

/** Line breaks between the places become spaces. */
export function joinLines(bytes: Buffer, from: number, to: number): void {
  for (let i = from; i < to; i++) if (bytes[i] === LINE_FEED || bytes[i] === 0x0d) bytes[i] = 0x20;
}

/** What was encoded as one line, its end the only one. */
function joined(encoded: Buffer): Buffer {
  const end = encoded.length - 1;
  if (encoded.indexOf(LINE_FEED) === end && !encoded.includes(0x0d)) return encoded;
  const line = Buffer.from(encoded);
  joinLines(line, 0, end);
  return line;
}

function encodeServerSentEvent(type: string, position: number | undefined, record: Buffer): Buffer {
  // A line of an event ends at a line break.
  const data = isOneLine(record) ? record : Buffer.from(record.toString('utf8').replace(/\r\n?|\n/g, '\ndata: '));
  const id = position === undefined ? '' : `id: ${position}\n`;
  return Buffer.concat([Buffer.from(`${id}event: ${type}\ndata: `), data, Buffer.from('\n\n')]);
}
