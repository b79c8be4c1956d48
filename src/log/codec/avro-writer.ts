const INITIAL = 64 * 1024;
const KEPT = 1024 * 1024;
const SHORT = 64;

/** Avro's binary encoding, written one record at a time into a buffer that grows and is used again. */
export class AvroWriter {
  #bytes = Buffer.allocUnsafeSlow(INITIAL);
  #at = 0;

  /** Leaves so many bytes before what is written. */
  begin(before: number): void {
    if (this.#bytes.length > KEPT) this.#bytes = Buffer.allocUnsafeSlow(INITIAL);
    this.#at = before;
  }

  /** A copy of all that was written. */
  take(): Buffer {
    return Buffer.from(this.#bytes.subarray(0, this.#at));
  }

  byte(value: number): void {
    this.#room(1)[this.#at++] = value;
  }

  /** A safe integer. */
  long(value: number): void {
    const bytes = this.#room(10);
    let at = this.#at;
    if (value >= -0x4000_0000 && value < 0x4000_0000) {
      let rest = ((value << 1) ^ (value >> 31)) >>> 0;
      for (; rest > 0x7f; rest >>>= 7) bytes[at++] = (rest & 0x7f) | 0x80;
      bytes[at++] = rest;
    } else {
      let rest = value < 0 ? -2 * value - 1 : 2 * value;
      for (; rest > 0x7f; rest = Math.floor(rest / 128)) bytes[at++] = (rest % 128) | 0x80;
      bytes[at++] = rest;
    }
    this.#at = at;
  }

  text(value: string): void {
    const { length } = value;
    if (length < SHORT) {
      // Ids and names are short and ASCII: cheaper here than by a call into the runtime.
      const bytes = this.#room(length + 1);
      let at = this.#at;
      bytes[at++] = length << 1;
      let i = 0;
      for (; i < length; i++) {
        const code = value.charCodeAt(i);
        if (code > 0x7f) break;
        bytes[at++] = code;
      }
      if (i === length) {
        this.#at = at;
        return;
      }
    }
    const size = Buffer.byteLength(value);
    this.long(size);
    this.#at += this.#room(size).write(value, this.#at);
  }

  blob(value: Uint8Array): void {
    this.long(value.length);
    this.fixed(value);
  }

  fixed(value: Uint8Array): void {
    this.#room(value.length).set(value, this.#at);
    this.#at += value.length;
  }

  /** As `fixed`, of what lies from `start` to `end`: a few bytes. */
  part(of: Uint8Array, start: number, end: number): void {
    const bytes = this.#room(end - start);
    for (let i = start; i < end; i++) bytes[this.#at++] = of[i] as number;
  }

  /** The second branch of a union, or null, which is the first. */
  nullableText(value: string | null): void {
    this.byte(value === null ? 0 : 2);
    if (value !== null) this.text(value);
  }

  nullableBlob(value: Uint8Array | null): void {
    this.byte(value === null ? 0 : 2);
    if (value !== null) this.blob(value);
  }

  #room(bytes: number): Buffer {
    if (this.#at + bytes > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(this.#bytes.length * 2, this.#at + bytes));
      this.#bytes.copy(larger, 0, 0, this.#at);
      this.#bytes = larger;
    }
    return this.#bytes;
  }
}
