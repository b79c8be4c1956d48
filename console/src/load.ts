import { isRefused } from '@statefold/client';
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

export interface Loaded<T> {
  /** The last answer: it stays while the next is on its way, and when that fails. */
  readonly value: T | undefined;
  /** When `value` was answered. */
  readonly at: Date | undefined;
  /** Of the last time that it was asked; undefined once an answer has come again. */
  readonly error: unknown;
  readonly isLoading: boolean;
  readonly reload: () => void;
}

type Answered<T> = Omit<Loaded<T>, 'reload'>;
const NOTHING: Answered<never> = { value: undefined, at: undefined, error: undefined, isLoading: true };

/** After an answer that did not come, or said that a later one may be another. */
export const RETRY_MS = 3_000;
export const mayPass = (error: unknown): boolean => (error as { readonly retryable?: unknown }).retryable === true;

/**
 * Asks when the page opens, when one of `inputs` changes, and `everyMs` after each answer while the tab is seen. An answer that is slow is
 * waited for: only another object ends it. Where none comes it is asked for again, also without `everyMs`. What is not there, or there no
 * more, is asked for again by `reload` alone: a browser logs each refusal as an error.
 */
export function useLoad<T>(
  ask: (signal: AbortSignal) => Promise<T>,
  inputs: readonly unknown[],
  everyMs?: number,
): Loaded<T> {
  const [state, setState] = useState<Answered<T>>(NOTHING);
  const under = useRef<{ again: () => void }>();
  useEffect(() => {
    const ended = new AbortController();
    const { signal } = ended;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isUnderWay = false;
    let isAskedAgain = false;
    let pause = everyMs;
    const later = (): void => {
      if (pause === undefined) return;
      timer = setTimeout(() => (document.hidden ? later() : go()), pause);
    };
    const answered = (next: (before: Answered<T>) => Answered<T>): void => {
      if (signal.aborted) return;
      setState(next);
      isUnderWay = false;
      if (isAskedAgain) go();
      else later();
    };
    const go = (): void => {
      clearTimeout(timer);
      isAskedAgain = isUnderWay;
      if (isUnderWay) return;
      isUnderWay = true;
      setState((before) => ({ ...before, isLoading: true }));
      ask(signal).then(
        (value) => {
          pause = everyMs;
          answered(() => ({ value, at: new Date(), error: undefined, isLoading: false }));
        },
        (error: unknown) => {
          const isMissing = isRefused(error, 'NOT_FOUND', 'GONE');
          pause = isMissing ? undefined : (everyMs ?? (mayPass(error) ? RETRY_MS : undefined));
          answered((before) => ({ ...before, error, isLoading: false }));
        },
      );
    };
    // Of another object nothing of the one before is shown.
    setState(NOTHING);
    under.current = { again: go };
    go();
    return () => {
      ended.abort();
      clearTimeout(timer);
    };
  }, inputs);
  const reload = useCallback(() => under.current?.again(), []);
  return { ...state, reload };
}
