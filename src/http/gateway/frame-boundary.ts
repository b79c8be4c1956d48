/** Follows the WebSocket frames of a server (unmasked) through a stream of bytes: only between two of them may another be put in. */
export class FrameBoundary {
  #head: number[] = [];
  #payloadLeft = 0;
  #closed = false;

  /** No frame is under way, and none that closes was among them. */
  get open(): boolean {
    return this.#head.length === 0 && this.#payloadLeft === 0 && !this.#closed;
  }

  pass(bytes: Buffer): void {
    for (let i = 0; i < bytes.length;) {
      if (this.#payloadLeft > 0) {
        const taken = Math.min(this.#payloadLeft, bytes.length - i);
        this.#payloadLeft -= taken;
        i += taken;
        continue;
      }
      this.#head.push(bytes[i++] ?? 0);
      const short = (this.#head[1] ?? 0) & 0x7f;
      const lengthBytes = short === 127 ? 8 : short === 126 ? 2 : 0;
      if (this.#head.length < 2 + lengthBytes) continue;
      this.#payloadLeft =
        lengthBytes === 0 ? short : this.#head.slice(2).reduce((length, byte) => length * 256 + byte, 0);
      if (((this.#head[0] ?? 0) & 0x0f) === CLOSE) this.#closed = true;
      this.#head = [];
    }
  }
}

const CLOSE = 0x8;

/** An unmasked close frame; the reason has at most 123 bytes. */
export function closeFrame(code: number, reason: string): Buffer {
  const text = Buffer.from(reason);
  return Buffer.concat([Buffer.from([0x80 | CLOSE, 2 + text.length, code >> 8, code & 0xff]), text]);
}
