import { StatefoldError } from './errors.js';

interface Kinds {
  string: string;
  number: number;
}
type Values<K extends readonly (keyof Kinds)[]> = { readonly [I in keyof K]: Kinds[K[I]] };

/** Opaque cursor of a page: where the next one starts. */
export const encodeCursor = (values: readonly (string | number)[]): string =>
  Buffer.from(JSON.stringify(values)).toString('base64url');

/** @throws StatefoldError INVALID_REQUEST unless the cursor holds values of these kinds. */
export function decodeCursor<const K extends readonly (keyof Kinds)[]>(cursor: string, kinds: K): Values<K> {
  try {
    const values: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString());
    if (Array.isArray(values) && values.length === kinds.length && kinds.every((kind, i) => typeof values[i] === kind))
      return values as unknown as Values<K>;
  } catch {
    // Told below.
  }
  throw new StatefoldError('INVALID_REQUEST', 'the cursor is not one that this list gave; start without a cursor');
}
