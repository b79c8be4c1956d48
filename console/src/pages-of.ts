import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

export interface Pages<T> {
  readonly items: readonly T[];
  readonly isLoading: boolean;
  /** All pages are there. */
  readonly isWhole: boolean;
  readonly error: unknown;
  /** Asks for the next page, unless it is asked for already, or there is none. */
  readonly more: () => void;
  readonly reload: () => void;
}

interface PageOf<T> {
  readonly items: readonly T[];
  readonly nextCursor: string | undefined;
}

/** A list of any length, page by page as its end comes into sight. */
export function usePages<T>(
  ask: (cursor: string | undefined, signal: AbortSignal) => Promise<PageOf<T>>,
  inputs: readonly unknown[],
): Pages<T> {
  const [items, setItems] = useState<readonly T[]>([]);
  const [state, setState] = useState<{ isLoading: boolean; isWhole: boolean; error: unknown }>({
    isLoading: true,
    isWhole: false,
    error: undefined,
  });
  const [round, setRound] = useState(0);
  const next = useRef<{ cursor: string | undefined; isBusy: boolean; isWhole: boolean; ended: AbortController }>({
    cursor: undefined,
    isBusy: false,
    isWhole: false,
    ended: new AbortController(),
  });
  const more = useCallback(() => {
    const at = next.current;
    if (at.isBusy || at.isWhole) return;
    at.isBusy = true;
    setState((before) => ({ ...before, isLoading: true, error: undefined }));
    ask(at.cursor, at.ended.signal).then(
      ({ items: found, nextCursor }) => {
        if (at.ended.signal.aborted) return;
        Object.assign(at, { cursor: nextCursor, isBusy: false, isWhole: nextCursor === undefined });
        setItems((before) => [...before, ...found]);
        setState({ isLoading: false, isWhole: at.isWhole, error: undefined });
      },
      (error: unknown) => {
        if (at.ended.signal.aborted) return;
        at.isBusy = false;
        setState((before) => ({ ...before, isLoading: false, error }));
      },
    );
  }, [...inputs, round]);
  useEffect(() => {
    const ended = new AbortController();
    next.current = { cursor: undefined, isBusy: false, isWhole: false, ended };
    setItems([]);
    setState({ isLoading: true, isWhole: false, error: undefined });
    more();
    return () => ended.abort();
  }, [...inputs, round]);
  return { items, ...state, more, reload: () => setRound((one) => one + 1) };
}
