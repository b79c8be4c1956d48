/** How much of a log or a feed is read in one go, bytes, where nothing else says it. */
export const READ_BYTES = 1024 * 1024;

/** The same where code folds what was read: it is held until that is done. */
export const FOLD_READ_BYTES = 512 * 1024;

/** The same while clients are about: what is read in one go is decoded in one go. */
export const SHORT_FOLD_READ_BYTES = 64 * 1024;

/** A page ends past so many bytes, whatever its limit: an answer is built in memory. */
export const PAGE_BYTES = 8 * 1024 * 1024;
