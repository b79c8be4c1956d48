import { InvariantError } from '../../core/errors.js';

/** Avro's binary encoding, read by position. Everything that it gives is a view of, or a text from, these bytes. */
export class AvroBytes {
  /** Of the next byte to be read. */
  at = 0;

  constructor(public bytes: Buffer) {}

  /** @throws InvariantError past 2^53, or past the end. */
  long(): number {
    const { bytes } = this;
    let byte = bytes[this.at++];
    if (byte === undefined) throw shorter();
    if (byte < 0x80) return (byte >>> 1) ^ -(byte & 1);
    let low = byte & 0x7f;
    let shift = 7;
    do {
      byte = bytes[this.at++];
      if (byte === undefined) throw shorter();
      low |= (byte & 0x7f) << shift;
      shift += 7;
    } while (byte >= 0x80 && shift < 28);
    if (byte < 0x80) return (low >>> 1) ^ -(low & 1);
    // Past 28 bits in floating point.
    let zigzag = low;
    for (let factor = 2 ** 28; byte >= 0x80; factor *= 128) {
      byte = bytes[this.at++];
      if (byte === undefined) throw shorter();
      zigzag += (byte & 0x7f) * factor;
    }
    const value = zigzag % 2 === 0 ? zigzag / 2 : -(zigzag + 1) / 2;
    if (zigzag > 2 * Number.MAX_SAFE_INTEGER)
      throw new InvariantError('a record of the log has a number that is larger than any that is written');
    return value;
  }

  /** Of bytes or a string, its place: the next byte to be read is the first past it. */
  skip(): void {
    this.skipBytes(this.long());
  }

  skipBytes(length: number): void {
    this.at += length;
    if (length < 0 || this.at > this.bytes.length) throw shorter();
  }

  skipNullable(): void {
    if (this.long() === 1) this.skip();
  }

  view(): Buffer {
    return this.fixed(this.long());
  }

  fixed(length: number): Buffer {
    const from = this.at;
    this.skipBytes(length);
    return this.bytes.subarray(from, this.at);
  }

  text(): string {
    const length = this.long();
    const from = this.at;
    this.skipBytes(length);
    return this.bytes.toString('utf8', from, this.at);
  }

  nullableText(): string | null {
    return this.long() === 1 ? this.text() : null;
  }

  nullableView(): Buffer | null {
    return this.long() === 1 ? this.view() : null;
  }
}

const shorter = (): InvariantError => new InvariantError('a record of the log ends before it should');

/** A text that is often the same from one record to the next: then it is made once. */
export class RecurringText {
  #bytes: Uint8Array = new Uint8Array(0);
  #start = 0;
  #length = 0;
  #text = '';

  read(from: AvroBytes): string {
    const length = from.long();
    const start = from.at;
    from.skipBytes(length);
    const { bytes } = from;
    if (this.#length === length) {
      const known = this.#bytes;
      const distance = start - this.#start;
      // From the end: texts that differ do so there.
      let i = this.#start + length - 1;
      while (i >= this.#start && known[i] === bytes[i + distance]) i--;
      if (i < this.#start) return this.#text;
    }
    // A copy: it may be the same for long, and must not hold all that was read with it.
    this.expect(
      bytes.toString('utf8', start, from.at),
      Uint8Array.prototype.slice.call(bytes, start, from.at),
      0,
      length,
    );
    return this.#text;
  }

  /** The next one is likely to be this, which lies here. */
  expect(text: string, bytes: Uint8Array, start: number, length: number): void {
    this.#text = text;
    this.#bytes = bytes;
    this.#start = start;
    this.#length = length;
  }
}
