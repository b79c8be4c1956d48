import { randomBytes, randomFillSync } from 'node:crypto';

const HEX = Array.from({ length: 256 }, (_, i) => i.toString(16).padStart(2, '0'));

/** Canonical text of 16 bytes at `offset`. */
export function uuidText(bytes: Uint8Array, offset = 0): string {
  let text = '';
  for (let i = 0; i < 16; i++) {
    if (i === 4 || i === 6 || i === 8 || i === 10) text += '-';
    text += HEX[bytes[offset + i] ?? 0];
  }
  return text;
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
  POOL.copy(into, offset + 6, used, used + 10);
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
  while (text.length < length) for (const byte of randomBytes(length)) if (byte < 248 && text.length < length) text += BASE62[byte % 62];
  return text;
}
