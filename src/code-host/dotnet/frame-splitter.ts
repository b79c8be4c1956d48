import { type Frame, MAX_FRAME, WireError } from './wire.js';

const LENGTH = 4;
const HEADER = 9;
const FIRST_ROOM = 64 * 1024;

/**
 * Cuts a stream of bytes into frames. A frame inside one chunk is a view of it; one that spans chunks is gathered in a buffer that
 * grows with what has come, so that neither a large claim nor many small chunks take more than twice what was sent.
 */
export class FrameSplitter {
  readonly #onFrame: (frame: Frame) => boolean | void;
  readonly #limit: () => number;
  /** Begins with the frame that is not complete yet. */
  #room: Buffer | undefined;
  #held = 0;

  /**
   * @param onFrame false: the frames behind this one wait for a further `push`, of no bytes if there are none.
   * @param limit what the next frame may have after its length field; asked for as soon as it claims a length
   */
  constructor(onFrame: (frame: Frame) => boolean | void, limit: () => number = () => MAX_FRAME) {
    this.#onFrame = onFrame;
    this.#limit = limit;
  }

  /** Bytes that came and are no whole frame yet, or wait behind one. */
  get held(): number {
    return this.#held;
  }

  /** @throws WireError */
  push(chunk: Buffer): void {
    const bytes = this.#held === 0 ? chunk : this.#gathered(chunk);
    let from = 0;
    while (bytes.length - from >= LENGTH) {
      const length = bytes.readUInt32LE(from);
      if (length < HEADER - LENGTH || length > Math.min(MAX_FRAME, this.#limit()))
        throw new WireError(`a frame claims ${length} bytes`);
      const to = from + LENGTH + length;
      if (to > bytes.length) break;
      const frame = bytes.subarray(from, to);
      from = to;
      const goesOn = this.#onFrame({
        requestId: frame.readUInt32LE(LENGTH),
        tag: frame[LENGTH + 4] as number,
        payload: frame.subarray(HEADER),
      });
      if (goesOn === false) break;
    }
    this.#keep(bytes, from);
  }

  #gathered(chunk: Buffer): Buffer {
    const held = this.#held + chunk.length;
    if (this.#room === undefined || held > this.#room.length) this.#grow(Math.max(held, 2 * (this.#room?.length ?? 0)));
    chunk.copy(this.#room as Buffer, this.#held);
    this.#held = held;
    return (this.#room as Buffer).subarray(0, held);
  }

  #grow(size: number): void {
    const room = Buffer.allocUnsafeSlow(size);
    this.#room?.copy(room, 0, 0, this.#held);
    this.#room = room;
  }

  #keep(bytes: Buffer, from: number): void {
    const left = bytes.length - from;
    if (left === 0) {
      this.#room = undefined;
      this.#held = 0;
    } else if (from > 0 || this.#held === 0) {
      // Frames that were handed on are views of the buffer before.
      this.#room = Buffer.allocUnsafeSlow(Math.max(FIRST_ROOM, left));
      bytes.copy(this.#room, 0, from);
      this.#held = left;
    }
  }
}
