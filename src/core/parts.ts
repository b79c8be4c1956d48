/** In their order, in parts of so many bytes and items at most; what is larger by itself is a part alone. */
export function* inParts<T>(
  all: readonly T[],
  bytesOf: (one: T) => number,
  { bytes: most, items = Infinity }: { readonly bytes: number; readonly items?: number },
): Generator<readonly T[]> {
  let [first, bytes] = [0, 0];
  for (const [i, one] of all.entries()) {
    const more = bytesOf(one);
    if (i > first && (i - first === items || bytes + more > most)) {
      yield all.slice(first, i);
      [first, bytes] = [i, 0];
    }
    bytes += more;
  }
  if (first < all.length) yield all.slice(first);
}

/** In their order, so many at a time. */
export function* chunksOf<T>(all: readonly T[], size: number): Generator<readonly T[]> {
  for (let first = 0; first < all.length; first += size) yield all.slice(first, first + size);
}
