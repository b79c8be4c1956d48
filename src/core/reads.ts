/** How much of a log or a feed is read in one go, bytes, where nothing else says it. */
export const READ_BYTES = 1024 * 1024;

/** The same where code folds what was read: it is held until that is done. */
export const FOLD_READ_BYTES = 512 * 1024;

/** The same while clients are about: what is read in one go is decoded in one go. */
export const SHORT_FOLD_READ_BYTES = 64 * 1024;

/** A page ends past so many bytes, whatever its limit: an answer is built in memory. */
export const PAGE_BYTES = 8 * 1024 * 1024;

/** An answer that is read for an assistant, which is told less: it is parsed, and written again, in one go. */
export const ASSISTANT_ANSWER_BYTES = 512 * 1024;

/** A page of a list ends past so many bytes, whatever its limit, where it is made and written as JSON in one go. */
export const LIST_BYTES = 1024 * 1024;

/** How many of the first items a page of a list has: `limit` at most, and the one that passes `LIST_BYTES` is the last. `bytesOf`: as JSON, about. */
export function fitting<T>(items: readonly T[], limit: number, bytesOf: (item: T) => number): number {
  let bytes = 0;
  let count = 0;
  for (const item of items) {
    if (count === limit || bytes >= LIST_BYTES) break;
    bytes += bytesOf(item);
    count++;
  }
  return count;
}

/** As JSON, UTF-8. */
export const jsonBytes = (value: object): number => Buffer.byteLength(JSON.stringify(value));
