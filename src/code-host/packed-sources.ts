import { once } from 'node:events';
import { buffer } from 'node:stream/consumers';
import { createGunzip, createGzip } from 'node:zlib';
import type { SourceText } from './code-host.js';

/**
 * So many characters are written at a time, bytes inflated: an upload may have 20 MB, and all of it in one go would hold the event loop
 * for a tenth of a second.
 */
const AT_ONCE = 64 * 1024;
/** A member of gzip ends with the checksum and the length of what it holds. */
const TRAILER_BYTES = 8;
const LENGTH_BYTES = 4;

/**
 * Sources of one upload as they are kept, and as the compiler gets them: gzip of the JSON text of an array of `SourceText`, ascending by
 * path. Files of an upload have no order: equal ones are equal here.
 */
export class PackedSources {
  readonly bytes: Buffer;

  /** @param bytes as `pack` made them */
  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  static async pack(sources: readonly SourceText[]): Promise<PackedSources> {
    const gzip = createGzip();
    const packed = buffer(gzip);
    // Whoever waits for it to drain is told first.
    packed.catch(() => undefined);
    try {
      // Each piece is compressed on another thread, and others have their turn meanwhile.
      for (const piece of jsonOf(sources)) if (!gzip.write(piece)) await once(gzip, 'drain');
      gzip.end();
      return new PackedSources(await packed);
    } catch (error) {
      gzip.destroy();
      throw error;
    }
  }

  /** Of the JSON text, UTF-8. */
  get jsonBytes(): number {
    return this.bytes.readUInt32LE(this.bytes.length - LENGTH_BYTES);
  }

  /** The JSON text, inflated as it is asked for. */
  async *chunks(): AsyncGenerator<Buffer> {
    const parts = createGunzip({ chunkSize: AT_ONCE });
    parts.end(this.bytes);
    for await (const part of parts) yield part as Buffer;
  }

  /** Whether they are the same sources, whichever release of zlib has packed them. */
  async equals(other: PackedSources): Promise<boolean> {
    if (this.bytes.equals(other.bytes)) return true;
    if (!this.bytes.subarray(-TRAILER_BYTES).equals(other.bytes.subarray(-TRAILER_BYTES))) return false;
    const others = other.chunks();
    // Chunks are of the same length but for the last ones.
    for await (const chunk of this.chunks()) {
      const next = await others.next();
      if (next.done === true || !chunk.equals(next.value)) {
        await others.return(undefined);
        return false;
      }
    }
    return (await others.next()).done === true;
  }
}

/** Some characters at a time. */
function* jsonOf(sources: readonly SourceText[]): Generator<string> {
  const sorted = [...sources].sort((a, b) => (a.path < b.path ? -1 : 1));
  for (const [i, { path, text }] of sorted.entries()) {
    yield `${i === 0 ? '[' : ','}{"path":${JSON.stringify(path)},"text":"`;
    for (const piece of [text].flat())
      for (let at = 0, end = 0; at < piece.length; at = end) {
        end = Math.min(at + AT_ONCE, piece.length);
        // The two halves of a character stay together.
        if (end < piece.length && isHighSurrogate(piece.charCodeAt(end - 1))) end++;
        yield JSON.stringify(piece.slice(at, end)).slice(1, -1);
      }
    yield '"}';
  }
  yield sorted.length === 0 ? '[]' : ']';
}

const isHighSurrogate = (unit: number): boolean => unit >= 0xd800 && unit < 0xdc00;
