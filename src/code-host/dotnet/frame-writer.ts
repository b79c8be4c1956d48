import { FrameTooLargeError, MAX_FRAME } from './wire.js';

const INITIAL = 64 * 1024;
const KEPT = 4 * 1024 * 1024;
const SHORT = 0x80;

/** Builds one frame at a time in a buffer that grows and is used again; little endian. */
export class FrameWriter {
  #buffer = Buffer.allocUnsafeSlow(INITIAL);
  #view = viewOf(this.#buffer);
  #at = 0;

  get length(): number {
    return this.#at;
  }

  /** Not grown by one frame to what would be kept for nothing. */
  get isSmall(): boolean {
    return this.#buffer.length <= KEPT;
  }

  begin(requestId: number, tag: number): void {
    if (this.#buffer.length > KEPT) this.#replace(Buffer.allocUnsafeSlow(INITIAL));
    this.#at = 4;
    this.uint32(requestId);
    this.byte(tag);
  }

  /** The finished frame; valid until the next `begin`. */
  end(): Buffer {
    this.patchUint32(0, this.#at - 4);
    return this.#buffer.subarray(0, this.#at);
  }

  byte(value: number): void {
    this.#ensure(1);
    this.#buffer[this.#at++] = value;
  }

  uint32(value: number): void {
    this.#ensure(4);
    this.#view.setUint32(this.#at, value, true);
    this.#at += 4;
  }

  patchUint32(position: number, value: number): void {
    this.#view.setUint32(position, value, true);
  }

  /** A safe integer, not negative, as 64 bits. */
  uint64(value: number): void {
    this.#ensure(8);
    this.#view.setUint32(this.#at, value >>> 0, true);
    this.#view.setUint32(this.#at + 4, Math.floor(value / 0x1_0000_0000), true);
    this.#at += 8;
  }

  /** A safe integer, not negative, in 7 bits a byte. */
  varUint(value: number): void {
    this.#ensure(8);
    let rest = value;
    while (rest >= SHORT) {
      this.#buffer[this.#at++] = (rest & 0x7f) | 0x80;
      rest = rest < 0x8000_0000 ? rest >>> 7 : Math.floor(rest / SHORT);
    }
    this.#buffer[this.#at++] = rest;
  }

  string(value: string): void {
    const length = value.length;
    if (length < SHORT) {
      // Ids and names are short and ASCII: cheaper here than by a call into the runtime.
      this.#ensure(length + 1);
      const buffer = this.#buffer;
      let at = this.#at;
      buffer[at++] = length;
      let i = 0;
      for (; i < length; i++) {
        const code = value.charCodeAt(i);
        if (code >= 0x80) break;
        buffer[at++] = code;
      }
      if (i === length) {
        this.#at = at;
        return;
      }
    }
    const bytes = Buffer.byteLength(value);
    this.varUint(bytes);
    this.#ensure(bytes);
    this.#at += this.#buffer.write(value, this.#at, 'utf8');
  }

  blob(bytes: Buffer): void {
    const length = bytes.length;
    this.#ensure(length + 4);
    this.#view.setUint32(this.#at, length, true);
    this.#at += 4;
    this.#buffer.set(bytes, this.#at);
    this.#at += length;
  }

  #ensure(count: number): void {
    if (this.#at + count <= this.#buffer.length) return;
    const needed = this.#at + count;
    if (needed > MAX_FRAME) throw new FrameTooLargeError('a frame would pass the limit');
    const larger = Buffer.allocUnsafeSlow(Math.min(Math.max(needed, this.#buffer.length * 2), MAX_FRAME));
    this.#buffer.copy(larger, 0, 0, this.#at);
    this.#replace(larger);
  }

  #replace(buffer: ReturnType<typeof Buffer.allocUnsafeSlow>): void {
    this.#buffer = buffer;
    this.#view = viewOf(buffer);
  }
}

const viewOf = (buffer: Buffer): DataView => new DataView(buffer.buffer, buffer.byteOffset, buffer.length);
