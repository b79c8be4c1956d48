import { type Frame, MAX_FRAME, WireError } from './wire.js';

const LENGTH = 4;
const HEADER = 9;

/** Cuts a stream of bytes into frames. A frame inside one chunk is a view of it; one that spans chunks is put together once. */
export class FrameSplitter {
  readonly #onFrame: (frame: Frame) => void;
  #chunks: Buffer[] = [];
  #held = 0;
  /** Bytes of the frame that is being gathered; 0 while its length is not known. */
  #wanted = 0;

  constructor(onFrame: (frame: Frame) => void) {
    this.#onFrame = onFrame;
  }

  /** @throws WireError */
  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#held += chunk.length;
    while (this.#held >= LENGTH) {
      if (this.#wanted === 0) this.#wanted = this.#frameLength();
      if (this.#held < this.#wanted) return;
      const bytes = this.#chunks.length === 1 ? (this.#chunks[0] as Buffer) : Buffer.concat(this.#chunks, this.#held);
      const frame = bytes.subarray(0, this.#wanted);
      const rest = bytes.subarray(this.#wanted);
      this.#chunks = rest.length > 0 ? [rest] : [];
      this.#held = rest.length;
      this.#wanted = 0;
      this.#onFrame({ requestId: frame.readUInt32LE(LENGTH), tag: frame[LENGTH + 4] as number, payload: frame.subarray(HEADER) });
    }
  }

  #frameLength(): number {
    const first = this.#chunks[0] as Buffer;
    const head = first.length >= LENGTH ? first : Buffer.concat(this.#chunks, this.#held);
    if (head !== first) this.#chunks = [head];
    const length = head.readUInt32LE(0);
    if (length < HEADER - LENGTH || length > MAX_FRAME) throw new WireError(`a frame claims ${length} bytes`);
    return LENGTH + length;
  }
}
