import { WireError } from './wire.js';

/** Frames up to this are kept for what is in them. */
const KEPT_WHOLE = 1024 * 1024;

/** Reads the fields of one payload in order. What comes from a runner is hostile: everything is checked against the payload's end. */
export class FrameReader {
  readonly #payload: Buffer;
  #at = 0;

  constructor(payload: Buffer) {
    this.#payload = payload;
  }

  byte(): number {
    const value = this.#payload[this.#at];
    if (value === undefined) throw new WireError('a frame ends before its fields do');
    this.#at++;
    return value;
  }

  uint32(): number {
    this.#need(4);
    const value = this.#payload.readUInt32LE(this.#at);
    this.#at += 4;
    return value;
  }

  /** At most 2^49. */
  varUint(): number {
    let value = 0;
    for (let factor = 1; factor < 2 ** 49; factor *= 0x80) {
      const next = this.byte();
      value += (next & 0x7f) * factor;
      if (next < 0x80) return value;
    }
    throw new WireError('a number has too many bytes');
  }

  /** An index below `limit`. */
  index(limit: number): number {
    const value = this.varUint();
    if (value >= limit) throw new WireError('an index is out of range');
    return value;
  }

  /** A number of things that take a byte each at least, refused before room is made for them. */
  count(max: number, value = this.varUint()): number {
    if (value > this.#payload.length - this.#at) throw new WireError('a count is larger than its frame');
    if (value > max) throw new WireError(`a count of ${value} is larger than ${max}`);
    return value;
  }

  string(maxBytes = 64 * 1024): string {
    const length = this.varUint();
    if (length > maxBytes) throw new WireError('a string is too long');
    const bytes = this.#take(length);
    return bytes.toString('utf8');
  }

  /** A view into the payload, not a copy. */
  blob(maxBytes: number): Buffer {
    const length = this.uint32();
    if (length > maxBytes) throw new WireError('a blob is too long');
    return this.#take(length);
  }

  /** The bytes, copied where a small piece would keep a large frame in memory. */
  kept(piece: Buffer): Buffer {
    return this.#payload.length > KEPT_WHOLE && piece.length < this.#payload.length / 8 ? Buffer.from(piece) : piece;
  }

  finish(): void {
    if (this.#at !== this.#payload.length) throw new WireError('a frame goes on after its fields');
  }

  #take(length: number): Buffer {
    this.#need(length);
    const start = this.#at;
    this.#at += length;
    return this.#payload.subarray(start, this.#at);
  }

  #need(length: number): void {
    if (length > this.#payload.length - this.#at) throw new WireError('a frame ends before its fields do');
  }
}
