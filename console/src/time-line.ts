import type { Event, StatefoldClient } from '@statefold/client';
import { useEffect, useReducer, useRef } from 'preact/hooks';
import { useLoad, type Loaded } from './load';

const PAGE = 500;
const EVERY_MS = 3_000;

/** Events of an aggregate by their versions, of which there may be any number: pages come as they are looked at. */
export interface TimeLine {
  /** The last event, which is asked for again and again. */
  readonly newest: Loaded<Event | undefined>;
  readonly error: unknown;
  /** Undefined while it is not there yet. */
  at(version: number): Event | undefined;
  /** They are looked at. */
  need(from: number, to: number): void;
  reload(): void;
}

export function useTimeLine(client: StatefoldClient, aggregateId: string): TimeLine {
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  const pages = useRef(new Map<number, readonly Event[]>());
  const asked = useRef(new Set<number>());
  const failed = useRef<unknown>();
  const ended = useRef(new AbortController());
  const ask = async (query: object, signal: AbortSignal): Promise<readonly Event[]> => {
    const all = { include: 'metadata' as const, ...query };
    return (await client.request('listEvents', { path: { aggregateId }, query: all, signal })).events;
  };
  useEffect(() => {
    const one = new AbortController();
    ended.current = one;
    pages.current = new Map();
    asked.current = new Set();
    failed.current = undefined;
    return () => one.abort();
  }, [client, aggregateId]);
  const newest = useLoad(
    async (signal) => (await ask({ direction: 'backward', limit: 1 }, signal))[0],
    [client, aggregateId],
    EVERY_MS,
  );
  const head = newest.value?.version ?? 0;
  const pageOf = (version: number): number => Math.floor((version - 1) / PAGE);
  const need = (from: number, to: number): void => {
    const [kept, under] = [pages.current, asked.current];
    const { signal } = ended.current;
    for (let page = pageOf(Math.max(from, 1)); page <= pageOf(Math.min(to, head)); page++) {
      // Of the last page more may have come since.
      const isThere = (kept.get(page)?.length ?? 0) >= Math.min(PAGE, head - page * PAGE);
      if (isThere || under.has(page)) continue;
      under.add(page);
      ask({ fromVersion: page * PAGE + 1, limit: PAGE }, signal)
        .then(
          (events) => {
            kept.set(page, events);
            failed.current = undefined;
          },
          (error: unknown) => {
            if (!signal.aborted) failed.current = error;
          },
        )
        .finally(() => {
          under.delete(page);
          if (!signal.aborted) redraw(undefined);
        });
    }
  };
  return {
    newest,
    error: failed.current,
    at: (version) => pages.current.get(pageOf(version))?.[(version - 1) % PAGE],
    need,
    reload: () => {
      failed.current = undefined;
      newest.reload();
      redraw(undefined);
    },
  };
}
