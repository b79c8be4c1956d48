import { randomBytes, randomFillSync } from 'node:crypto';

/** The characters of a byte's two hexadecimal digits. */
const [HIGH, LOW] = [4, 0].map((shift) =>
  Uint8Array.from({ length: 256 }, (_, byte) => '0123456789abcdef'.charCodeAt((byte >>> shift) & 15)),
) as [Uint8Array, Uint8Array];
const DASH = 45;

/** Of a UUID's canonical text, which is ASCII. */
export const UUID_TEXT_LENGTH = 36;
const TEXT = Buffer.allocUnsafeSlow(UUID_TEXT_LENGTH);

/**
 * Canonical text of 16 bytes at `offset`. Read back from a buffer: a string made of 36 character codes, or of pieces, leaves four times as
 * much behind for the collector, and each event of the service has an id.
 */
export function uuidText(bytes: Uint8Array, offset = 0): string {
  writeUuidText(TEXT, 0, bytes, offset);
  return TEXT.toString('latin1');
}

/** The characters of `uuidText`, written into `into`, where they take 36 bytes. */
export function writeUuidText(into: Uint8Array, at: number, bytes: Uint8Array, offset: number): void {
  let to = at;
  for (let i = 0; i < 16; i++) {
    if (i === 4 || i === 6 || i === 8 || i === 10) into[to++] = DASH;
    const byte = bytes[offset + i] as number;
    into[to++] = HIGH[byte] as number;
    into[to++] = LOW[byte] as number;
  }
}

const POOL = Buffer.alloc(10 * 1024);
let used = POOL.length;

/** 16 bytes of a UUIDv7 (RFC 9562): 48 bits of time in milliseconds, then random bits. Writes at `offset` of `into`. */
export function writeUuidv7(into: Uint8Array, offset: number, milliseconds: number): void {
  if (used === POOL.length) {
    randomFillSync(POOL);
    used = 0;
  }
  const high = Math.floor(milliseconds / 0x1_0000_0000);
  const low = milliseconds >>> 0;
  into[offset] = high >>> 8;
  into[offset + 1] = high;
  into[offset + 2] = low >>> 24;
  into[offset + 3] = low >>> 16;
  into[offset + 4] = low >>> 8;
  into[offset + 5] = low;
  // Not by `copy`, which makes a view of the part.
  for (let i = 0; i < 10; i++) into[offset + 6 + i] = POOL[used + i] as number;
  used += 10;
  into[offset + 6] = ((into[offset + 6] ?? 0) & 0x0f) | 0x70;
  into[offset + 8] = ((into[offset + 8] ?? 0) & 0x3f) | 0x80;
}

export function uuidv7(milliseconds: number = Date.now()): string {
  const bytes = new Uint8Array(16);
  writeUuidv7(bytes, 0, milliseconds);
  return uuidText(bytes);
}

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** Big-endian base62, padded with `0` to `length`. */
export function base62(value: bigint, length: number): string {
  let text = '';
  for (let rest = value; rest > 0n; rest /= 62n) text = BASE62[Number(rest % 62n)] + text;
  return text.padStart(length, '0');
}

/** `length` characters of base62, uniform. */
export function randomBase62(length: number): string {
  let text = '';
  while (text.length < length)
    for (const byte of randomBytes(length)) if (byte < 248 && text.length < length) text += BASE62[byte % 62];
  return text;
}

/** Names the code and the states of one revision of a projection. */
export const revisionUnit = (projectionId: string, revision: number): string => `${projectionId}@${revision}`;
