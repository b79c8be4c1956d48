/** How much of a log or a feed is read in one go, bytes, where nothing else says it. */
export const READ_BYTES = 1024 * 1024;

/** The same where code folds what was read: it is held until that is done. */
export const FOLD_READ_BYTES = 512 * 1024;

/** The same while clients are about. A build whose history grows as fast reads up to eight times as much. */
export const SHORT_FOLD_READ_BYTES = 64 * 1024;

/** Of states so many bytes are read on a turn, where they are read beside what is asked for. */
export const STATES_READ_BYTES = 256 * 1024;

/** What a chunk that somebody sends costs beside its bytes, where these are bounded: it may have one. */
export const CHUNK_COST_BYTES = 256;

/** A page ends past so many bytes, whatever its limit: an answer is built in memory. */
export const PAGE_BYTES = 8 * 1024 * 1024;

/** An answer that is read for an assistant, which is told less: it is parsed, and written again, in one go. */
export const ASSISTANT_ANSWER_BYTES = 512 * 1024;

/** A page of a list ends past so many bytes, whatever its limit, where it is made and written as JSON in one go. */
export const LIST_BYTES = 1024 * 1024;

/**
 * The first items of a list that its page has: `limit` at most, and the one that passes `LIST_BYTES` is the last. Of the items behind them one
 * is asked for at most. `bytesOf`: as JSON, about.
 */
export function fitting<T>(
  items: Iterable<T>,
  limit: number,
  bytesOf: (item: T) => number,
): { readonly shown: readonly T[]; readonly more: boolean } {
  const shown: T[] = [];
  let bytes = 0;
  for (const item of items) {
    if (shown.length === limit || bytes >= LIST_BYTES) return { shown, more: true };
    bytes += bytesOf(item);
    shown.push(item);
  }
  return { shown, more: false };
}

/** The first `count` of them, or all. No item behind these is asked for. */
export function* firstOf<T>(items: Iterable<T>, count: number): Generator<T> {
  let left = count;
  if (left <= 0) return;
  for (const item of items) {
    yield item;
    if (--left === 0) return;
  }
}

/** As JSON, UTF-8. */
export const jsonBytes = (value: object): number => Buffer.byteLength(JSON.stringify(value));
