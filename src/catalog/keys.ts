import { hash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { base62, randomBase62 } from '../core/ids.js';

/** A key in clear, which is shown once, and what is kept of it. */
export interface MintedKey {
  /** `sf_<8 characters>_<256 bits, base62>_<checksum>` */
  readonly key: string;
  /** Hex SHA-256 of the whole key. */
  readonly hash: string;
  /** What may be shown of it: `sf_<8 characters>`. */
  readonly prefix: string;
}

const SECRET_LENGTH = 43; // 62^43 > 2^256
const CHECKSUM_LENGTH = 6; // 62^6 > 2^32
const SHAPE = /^(sf_[0-9A-Za-z]{8}_[0-9A-Za-z]{43})_([0-9A-Za-z]{6})$/;

const checksum = (text: string): string => base62(BigInt(crc32(text)), CHECKSUM_LENGTH);

/** In one call: an object of its own for each request is one that the collector has to look at by itself. */
export const hashApiKey = (key: string): string => hash('sha256', key, 'hex');

export function mintApiKey(): MintedKey {
  const prefix = `sf_${randomBase62(8)}`;
  const body = `${prefix}_${base62(BigInt(`0x${randomBytes(32).toString('hex')}`), SECRET_LENGTH)}`;
  const key = `${body}_${checksum(body)}`;
  return { key, hash: hashApiKey(key), prefix };
}

/**
 * Has the key the shape and checksum of a minted one? For scanners of leaked secrets and for telling a typing error; it does
 * not decide whether a key is valid, as an operator may set a key of another shape.
 */
export function isWellFormedKey(key: string): boolean {
  const [, body, sum] = SHAPE.exec(key) ?? [];
  return body !== undefined && checksum(body) === sum;
}
