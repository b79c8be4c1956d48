import { useCallback, useEffect, useState } from 'preact/hooks';

export interface Loaded<T> {
  /** The last answer: it stays while the next is on its way. */
  readonly value: T | undefined;
  readonly error: unknown;
  readonly isLoading: boolean;
  readonly reload: () => void;
}

/** Asks when the page opens, when one of `inputs` changes, and every `everyMs` while the tab is seen. */
export function useLoad<T>(
  ask: (signal: AbortSignal) => Promise<T>,
  inputs: readonly unknown[],
  everyMs?: number,
): Loaded<T> {
  const [round, setRound] = useState(0);
  const [at, setAt] = useState<{ value: T | undefined; error: unknown; isLoading: boolean }>({
    value: undefined,
    error: undefined,
    isLoading: true,
  });
  const reload = useCallback(() => setRound((one) => one + 1), []);
  // Of another object nothing of the one before is shown.
  useEffect(() => setAt({ value: undefined, error: undefined, isLoading: true }), inputs);
  useEffect(() => {
    const ended = new AbortController();
    setAt((before) => ({ ...before, isLoading: true }));
    ask(ended.signal).then(
      (value) => ended.signal.aborted || setAt({ value, error: undefined, isLoading: false }),
      (error: unknown) => ended.signal.aborted || setAt((before) => ({ ...before, error, isLoading: false })),
    );
    return () => ended.abort();
  }, [...inputs, round]);
  useEffect(() => {
    if (everyMs === undefined) return undefined;
    const timer = setInterval(() => !document.hidden && reload(), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return { ...at, reload };
}
