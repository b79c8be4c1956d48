/** Calls `look` whenever there may be more to be found, until the function that it gives is called. */
type News = (look: () => void) => () => void;

/** Looks now, at all news, and when the signal aborts, until something is found; undefined is nothing. Rejects with what `find` throws. */
export function whenFound<T>(find: () => T | undefined, signal: AbortSignal, ...news: readonly News[]): Promise<T> {
  return new Promise((resolve, reject) => {
    const ends: (() => void)[] = [];
    const settle = (outcome: () => void): void => {
      for (const end of ends.splice(0)) end();
      outcome();
    };
    const look = (): void => {
      try {
        const found = find();
        if (found !== undefined) settle(() => resolve(found));
      } catch (error) {
        settle(() => reject(error instanceof Error ? error : new Error(String(error))));
      }
    };
    signal.addEventListener('abort', look);
    ends.push(() => signal.removeEventListener('abort', look), ...news.map((listen) => listen(look)));
    look();
  });
}
