import { eventLoop, type WorkKind } from './event-loop.js';

/** Work that gives way to others between its slices: each `yield` is a place where it may. */
export type Sliced<T> = Generator<void, T, void>;

export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Does the work, and lets others have their turn after each slice. */
export async function inSlices<T>(work: Sliced<T>): Promise<T> {
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value;
    await nextTurn();
  }
}

const MAPPED = 2000;

/** The items, each as `to` makes it. */
export function* mapped<A, B>(items: readonly A[], to: (item: A) => B): Sliced<B[]> {
  const made: B[] = [];
  for (const item of items) {
    made.push(to(item));
    if (made.length % MAPPED === 0) yield;
  }
  return made;
}

/** How long the work over a list may hold the event loop at a time, milliseconds. */
const SLICE_MS = 2;
/** Items between two looks at the clock. */
const LOOK_EVERY = 16;

/** Does the work for each item, in order, for a bounded time on a turn of the event loop. */
export async function overSlices<T>(kind: WorkKind, items: readonly T[], work: (item: T) => void): Promise<void> {
  for (let at = 0; at < items.length;) {
    eventLoop.slice(kind, () => {
      const until = performance.now() + SLICE_MS;
      do {
        const end = Math.min(items.length, at + LOOK_EVERY);
        for (; at < end; at++) work(items[at] as T);
      } while (at < items.length && performance.now() < until);
    });
    if (at < items.length) await nextTurn();
  }
}
