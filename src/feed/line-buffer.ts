import { UUID_TEXT_LENGTH, writeUuidText } from '../core/ids.js';
import { isOneLine, joinLines } from './record-bytes.js';

const FIRST_BYTES = 128 * 1024;
/** Room that one item made is given back. */
const KEPT_BYTES = 1024 * 1024;
const SHORT_BYTES = 256;
const SMALL_DIGITS = 8;
const SMALL = 10 ** SMALL_DIGITS;
const ZERO = 0x30;

/** Gathers lines of JSON in one piece of memory: a reader of history is given hundreds at once, and a buffer for each costs more than its bytes. */
export class LineBuffer {
  #bytes = Buffer.allocUnsafeSlow(FIRST_BYTES);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Text of ASCII alone. Byte by byte: most are short, and to join them first, or to cross to the runtime for each, costs more. */
  ascii(text: string): void {
    const { length } = text;
    this.#room(length);
    const bytes = this.#bytes;
    let at = this.#length;
    for (let i = 0; i < length; i++) bytes[at++] = text.charCodeAt(i);
    this.#length = at;
  }

  text(text: string): void {
    this.#room(3 * text.length);
    this.#length += this.#bytes.write(text, this.#length);
  }

  /** In one go: what is longer than a dozen bytes. */
  bytes(bytes: Uint8Array): void {
    this.#room(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  /** A whole number of at least 0 and below 2^53. */
  integer(value: number): void {
    if (value < SMALL) return this.#digits(value, digitsOf(value));
    // In parts that the processor divides as integers.
    const high = Math.floor(value / SMALL);
    this.integer(high);
    this.#digits(value - high * SMALL, SMALL_DIGITS);
  }

  #digits(value: number, count: number): void {
    this.#room(count);
    const bytes = this.#bytes;
    const from = this.#length;
    let rest = value;
    for (let at = from + count - 1; at >= from; at--) {
      const tenth = Math.trunc(rest / 10);
      bytes[at] = ZERO + (rest - 10 * tenth);
      rest = tenth;
    }
    this.#length = from + count;
  }

  /** The text of the UUID whose 16 bytes lie there. */
  uuid(of: Uint8Array, from: number): void {
    this.#room(UUID_TEXT_LENGTH);
    writeUuidText(this.#bytes, this.#length, of, from);
    this.#length += UUID_TEXT_LENGTH;
  }

  /** JSON as it was sent; `joined`: line breaks between its tokens become spaces. */
  json(json: Buffer, joined: boolean, start = 0, end = json.length): void {
    const from = this.#length;
    this.#room(end - start);
    this.#length += json.copy(this.#bytes, from, start, end);
    if (!joined) return;
    // A view to look through costs more than a short text does.
    const isShort = end - start <= SHORT_BYTES;
    if (isShort || !isOneLine(this.#bytes.subarray(from, this.#length))) joinLines(this.#bytes, from, this.#length);
  }

  /** Takes back what was written behind so many bytes. */
  cutTo(length: number): void {
    this.#length = length;
  }

  /** A copy of what was gathered; from now on there is nothing. */
  take(): Buffer {
    const taken = Buffer.allocUnsafe(this.#length);
    this.#bytes.copy(taken, 0, 0, this.#length);
    this.#length = 0;
    if (this.#bytes.length > KEPT_BYTES) this.#bytes = Buffer.allocUnsafeSlow(FIRST_BYTES);
    return taken;
  }

  #room(bytes: number): void {
    const needed = this.#length + bytes;
    if (needed <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(2 * needed);
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}

/** Of a number below `SMALL`. */
function digitsOf(value: number): number {
  let digits = 1;
  for (let least = 10; value >= least; least *= 10) digits++;
  return digits;
}
