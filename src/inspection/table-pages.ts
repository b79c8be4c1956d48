import { READ_BYTES } from '../core/reads.js';

/** Entries that are read in one go of a table that may be long. */
const PAGE = 500;

/**
 * Reads a table that others write to, a page at a time: `read` gives what comes after an entry. `between` is awaited before each further one.
 * `bytesOf`: of an entry whose size is worth counting.
 */
export async function* pagesOf<T>(
  read: (after: T | undefined) => Iterable<T>,
  between: () => Promise<void>,
  bytesOf: (entry: T) => number = () => 0,
): AsyncGenerator<readonly T[]> {
  let last: T | undefined;
  for (let isLast = false; !isLast;) {
    const page: T[] = [];
    let bytes = 0;
    isLast = true;
    for (const entry of read(last)) {
      page.push(entry);
      bytes += bytesOf(entry);
      isLast = page.length < PAGE && bytes < READ_BYTES;
      if (!isLast) break;
    }
    last = page.at(-1);
    if (page.length > 0) yield page;
    if (!isLast) await between();
  }
}

/** `count` of the entries, each as likely as any other; the same for the same entries and seed. */
export async function sampleOf<T>(entries: AsyncIterable<readonly T[]>, count: number, seed: number): Promise<T[]> {
  const random = mulberry32(seed);
  const chosen: T[] = [];
  let seen = 0;
  for await (const page of entries)
    for (const entry of page) {
      if (chosen.length < count) chosen.push(entry);
      else {
        const place = Math.floor(random() * (seen + 1));
        if (place < count) chosen[place] = entry;
      }
      seen++;
    }
  return chosen;
}

/** A small generator with a seed of 32 bits, by Tommy Ettinger. */
function mulberry32(seed: number): () => number {
  let a = seed | 0;
  return () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
