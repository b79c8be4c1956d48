/** Resolves after so many milliseconds. A process that waits for nothing else ends meanwhile, unless `ref` says that it is to wait. */
export const pause = (ms: number, { ref = false }: { readonly ref?: boolean } = {}): Promise<void> =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    if (!ref) timer.unref();
  });
