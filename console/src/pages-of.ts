import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { mayPass, RETRY_MS } from './load';

export interface Pages<T> {
  readonly items: readonly T[];
  readonly isLoading: boolean;
  /** All pages are there. */
  readonly isWhole: boolean;
  readonly error: unknown;
  /** When what is shown was answered; of several pages, the first. */
  readonly at: Date | undefined;
  /** Asks again for what failed. */
  readonly retry: () => void;
  /** Asks for the next page, unless it is asked for already, or there is none. */
  readonly more: () => void;
  readonly reload: () => void;
  /** Asks for what is there again, and puts it in its place once it has come; a list that is very long is left as it is. */
  readonly refresh: () => void;
}

/** Asks for what is there again every now and then, while the tab is seen. */
export function useRefreshed(list: Pick<Pages<unknown>, 'refresh'>, everyMs: number): void {
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && list.refresh(), everyMs);
    return () => clearInterval(timer);
  }, [list.refresh]);
}

/** As many are asked for again by the way. */
const MOST_REFRESHED = 2_000;

/** It is asked for again every now and then; else it is as it was when its pages came. */
export const isRefreshed = ({ items }: Pick<Pages<unknown>, 'items'>): boolean => items.length <= MOST_REFRESHED;

interface PageOf<T> {
  readonly items: readonly T[];
  readonly nextCursor: string | undefined;
}

/** All of a list that is not long, page by page. */
export async function allPages<T>(ask: (cursor: string | undefined) => Promise<PageOf<T>>): Promise<readonly T[]> {
  const found: T[] = [];
  let cursor: string | undefined;
  do {
    const page = await ask(cursor);
    found.push(...page.items);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return found;
}

type PagesState = Pick<Pages<unknown>, 'isLoading' | 'isWhole' | 'error' | 'at'>;
const NOTHING: PagesState = { isLoading: true, isWhole: false, error: undefined, at: undefined };

/** Where the list goes on. */
interface Next {
  cursor: string | undefined;
  isBusy: boolean;
  isWhole: boolean;
  /** What is asked for again on demand. */
  failed: 'more' | 'refresh' | undefined;
  /** What was asked for while it was busy. */
  wantsMore: boolean;
  wantsRefresh: boolean;
  readonly ended: AbortController;
}

const beginning = (ended: AbortController): Next => ({
  cursor: undefined,
  isBusy: false,
  isWhole: false,
  failed: undefined,
  wantsMore: false,
  wantsRefresh: false,
  ended,
});

/** A list of any length, page by page as its end comes into sight. */
export function usePages<T>(
  ask: (cursor: string | undefined, signal: AbortSignal) => Promise<PageOf<T>>,
  inputs: readonly unknown[],
): Pages<T> {
  const [items, setItems] = useState<readonly T[]>([]);
  const [state, setState] = useState<PagesState>(NOTHING);
  const [round, setRound] = useState(0);
  const shown = useRef(0);
  shown.current = items.length;
  const next = useRef<Next>(beginning(new AbortController()));
  const againOnceItPasses = (error: unknown, ask: () => void): void => {
    const { failed, ended } = next.current;
    if (!mayPass(error)) return;
    const timer = setTimeout(() => next.current.failed === failed && ask(), RETRY_MS);
    ended.signal.addEventListener('abort', () => clearTimeout(timer), { once: true });
  };
  const more = useCallback(() => {
    const at = next.current;
    if (at.isWhole) return;
    at.wantsMore = at.isBusy;
    if (at.isBusy) return;
    at.isBusy = true;
    setState((before) => ({ ...before, isLoading: true }));
    ask(at.cursor, at.ended.signal).then(
      ({ items: found, nextCursor }) => {
        if (at.ended.signal.aborted) return;
        Object.assign(at, { cursor: nextCursor, isBusy: false, isWhole: nextCursor === undefined, failed: undefined });
        setItems((before) => [...before, ...found]);
        // A page may have nothing, and the next one something: nobody scrolls for that.
        if (found.length === 0 && !at.isWhole) more();
        else {
          const now = new Date();
          setState((before) => ({
            isLoading: false,
            isWhole: at.isWhole,
            error: undefined,
            at: before.at ?? now,
          }));
          if (at.wantsRefresh) refresh();
        }
      },
      (error: unknown) => {
        if (at.ended.signal.aborted) return;
        Object.assign(at, { isBusy: false, failed: 'more' });
        setState((before) => ({ ...before, isLoading: false, error }));
        againOnceItPasses(error, more);
      },
    );
  }, [...inputs, round]);
  useEffect(() => {
    const ended = new AbortController();
    next.current = beginning(ended);
    setItems([]);
    setState(NOTHING);
    more();
    return () => ended.abort();
  }, [...inputs, round]);
  const refresh = useCallback(() => {
    const at = next.current;
    const { signal } = at.ended;
    const wanted = shown.current;
    // What is on its way may be of before: it is asked for again once it has come.
    at.wantsRefresh = at.isBusy;
    if (at.isBusy || wanted > MOST_REFRESHED) return;
    at.isBusy = true;
    const again = async (): Promise<{ readonly found: readonly T[]; readonly cursor: string | undefined }> => {
      const found: T[] = [];
      let cursor: string | undefined;
      do {
        const page = await ask(cursor, signal);
        found.push(...page.items);
        cursor = page.nextCursor;
      } while (cursor !== undefined && found.length < wanted);
      return { found, cursor };
    };
    again().then(
      ({ found, cursor }) => {
        if (signal.aborted) return;
        Object.assign(at, { cursor, isBusy: false, isWhole: cursor === undefined, failed: undefined });
        setItems(found);
        setState({ isLoading: false, isWhole: at.isWhole, error: undefined, at: new Date() });
        if (at.wantsRefresh) refresh();
        // Its end came into sight meanwhile.
        else if (at.wantsMore) more();
      },
      (error: unknown) => {
        if (signal.aborted) return;
        Object.assign(at, { isBusy: false, failed: 'refresh' });
        setState((before) => ({ ...before, error }));
        againOnceItPasses(error, refresh);
      },
    );
  }, [...inputs, round]);
  const retry = (): void => (next.current.failed === 'refresh' ? refresh() : more());
  return { items, ...state, retry, more, reload: () => setRound((one) => one + 1), refresh };
}

/** Asks for page after page while `isWanted`: what is looked for may be further down. */
export function useFurtherPages({ isLoading, isWhole, error, more }: Pages<unknown>, isWanted: boolean): void {
  const isDue = isWanted && !isLoading && !isWhole && error === undefined;
  // With `isLoading`: each page that has come asks for the next.
  useEffect(() => {
    if (isDue) more();
  }, [isDue, more]);
}
