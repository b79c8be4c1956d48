/**
 * Resolves after so many milliseconds, or as soon as the signal aborts. A process that waits for nothing else ends meanwhile, unless
 * `ref` says that it is to wait.
 */
export const pause = (
  ms: number,
  { ref = false, signal }: { readonly ref?: boolean; readonly signal?: AbortSignal } = {},
): Promise<void> =>
  new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    if (!ref) timer.unref();
    if (signal?.aborted === true) end();
    else signal?.addEventListener('abort', end);
  });
