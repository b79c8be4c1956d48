import { randomFillSync } from 'node:crypto';
import { WireError } from './wire.js';

/** Bytes of the key, and of the seal at the end of each frame. */
const KEY = 16;
export const SEAL_BYTES = 8;

/**
 * What the frames of a process end with: the next 64 bits of a sequence that begins with a key, which the process was sent before
 * any uploaded code was in it. Who only has the descriptor can write bytes, but no frame that is taken. xoshiro128++: nobody but
 * the two ends sees what it gives, so it need not hold against one who does, and costs nothing.
 */
export class Seal {
  readonly key: Buffer;
  #a: number;
  #b: number;
  #c: number;
  #d: number;

  constructor(key: Buffer = randomFillSync(Buffer.alloc(KEY))) {
    this.key = key;
    this.#a = key.readInt32LE(0);
    this.#b = key.readInt32LE(4);
    this.#c = key.readInt32LE(8);
    this.#d = key.readInt32LE(12);
  }

  /** The payload without its seal. @throws WireError when it is not the one that comes next */
  open(payload: Buffer): Buffer {
    const end = payload.length - SEAL_BYTES;
    if (end < 0) throw new WireError('a frame has no seal');
    const [low, high] = [this.#next(), this.#next()];
    if (payload.readUInt32LE(end) !== low || payload.readUInt32LE(end + 4) !== high)
      throw new WireError('a frame has a wrong seal');
    return payload.subarray(0, end);
  }

  /** What the next frame ends with. */
  take(): Buffer {
    const bytes = Buffer.alloc(SEAL_BYTES);
    bytes.writeUInt32LE(this.#next(), 0);
    bytes.writeUInt32LE(this.#next(), 4);
    return bytes;
  }

  #next(): number {
    const sum = (this.#a + this.#d) | 0;
    const result = (((sum << 7) | (sum >>> 25)) + this.#a) >>> 0;
    const shifted = this.#b << 9;
    this.#c ^= this.#a;
    this.#d ^= this.#b;
    this.#b ^= this.#c;
    this.#a ^= this.#d;
    this.#c ^= shifted;
    this.#d = (this.#d << 11) | (this.#d >>> 21);
    return result;
  }
}
