import { crc32 } from 'node:zlib';

/*
 * A chunk is the value of one record on `statefold.artefacts`, whose key is `<artefact id>/<part>/<n>`:
 *
 *   1 byte   version, 1
 *   4 bytes  CRC-32 of all that follows, big endian
 *   4 bytes  number of chunks of the part, big endian
 *   n bytes  content, at most 256 KiB
 */
export const CHUNK_BYTES = 256 * 1024;
const VERSION = 1;
const HEADER = 9;
const CHECKSUM_END = 5;

/** At least one chunk, also of an empty part: it tells that the part is there. */
export function splitChunks(bytes: Buffer): Buffer[] {
  const count = Math.max(1, Math.ceil(bytes.length / CHUNK_BYTES));
  return Array.from({ length: count }, (_, n) =>
    encodeChunk(bytes.subarray(n * CHUNK_BYTES, (n + 1) * CHUNK_BYTES), count),
  );
}

function encodeChunk(content: Buffer, count: number): Buffer {
  const chunk = Buffer.allocUnsafe(HEADER + content.length);
  chunk[0] = VERSION;
  chunk.writeUInt32BE(count, CHECKSUM_END);
  content.copy(chunk, HEADER);
  chunk.writeUInt32BE(crc32(chunk.subarray(CHECKSUM_END)), 1);
  return chunk;
}

/** Undefined when it is no chunk, or a damaged one. */
export function decodeChunk(value: Buffer): { readonly count: number; readonly content: Buffer } | undefined {
  if (value.length < HEADER || value[0] !== VERSION || value.readUInt32BE(1) !== crc32(value.subarray(CHECKSUM_END)))
    return undefined;
  return { count: value.readUInt32BE(CHECKSUM_END), content: value.subarray(HEADER) };
}
