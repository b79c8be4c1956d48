/**
 * Separates the parts of a key; ids hold no control characters. Not one of the first five: lmdb's encoding of keys escapes those in
 * strings of less than 64 characters and not in longer ones, so that longer keys would have another order and be read as arrays.
 */
export const SEPARATOR = '\u0005';
/** Behind all keys that begin so: the exclusive end of their range. */
export const pastAll = (prefix: string): string =>
  prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1);
/** A number below 2^53 in a key: they sort as the numbers do. */
export const padded = (n: number): string => n.toString(36).padStart(11, '0');

/** Of all keys in [from, to) when both end differently: the text that both begin with. */
export function commonPrefix(from: string, to: string): string {
  let length = 0;
  while (length < from.length && from[length] === to[length]) length++;
  return from.slice(0, length);
}
