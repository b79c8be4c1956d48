import { isOneLine, joinLines } from './record-bytes.js';

const FIRST_BYTES = 128 * 1024;
/** Room that one item made is given back. */
const KEPT_BYTES = 1024 * 1024;

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

  /** JSON as it was sent; `joined`: line breaks between its tokens become spaces. */
  json(json: Buffer, joined: boolean): void {
    const from = this.#length;
    this.#room(json.length);
    this.#length += json.copy(this.#bytes, from);
    if (joined && !isOneLine(json)) joinLines(this.#bytes, from, this.#length);
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
