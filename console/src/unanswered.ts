import { isClientError, RefusedError } from '@statefold/client';

/** Whether it was done is not known: no answer came, or one that leaves it open. */
export const isUnanswered = (error: unknown): boolean =>
  isClientError(error) &&
  (error instanceof RefusedError ? error.code === 'UNAVAILABLE' || error.code === 'INTERNAL' : error.kind !== 'closed');
