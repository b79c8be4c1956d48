/** A timer that is set to more fires at once. */
export const LONGEST_MS = 2 ** 31 - 1;

/** Resolves after so many milliseconds; rejects with the signal's reason when it aborts. */
export function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason as Error);
    const abort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(
      () => {
        signal?.removeEventListener('abort', abort);
        resolve();
      },
      Math.min(milliseconds, LONGEST_MS),
    );
    signal?.addEventListener('abort', abort, { once: true });
  });
}

/** Before the n-th attempt (from 1), milliseconds: doubling, and by chance half of it, so that clients do not come back together. */
export const backOff = (attempt: number, { first, most }: { readonly first: number; readonly most: number }): number =>
  Math.min(most, first * 2 ** Math.min(attempt - 1, 20)) * (0.5 + Math.random() / 2);
