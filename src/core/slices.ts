/** Work that gives way to others between its slices: each `yield` is a place where it may. */
export type Sliced<T> = Iterator<void, T, void>;

/** Little work, which has no slices. */
export const oneSlice = <T>(work: () => T): Sliced<T> => ({ next: () => ({ done: true, value: work() }) });

export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Does the work, and lets others have their turn after each slice. */
export async function inSlices<T>(work: Sliced<T>): Promise<T> {
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value;
    await nextTurn();
  }
}

/** Does the work in one go: where it is known to be little, and an answer waits for it. */
export function atOnce<T>(work: Sliced<T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done === true) return value;
  }
}

/** Says when a slice is long enough, by what was done in it and not by a clock: the same work has the same slices each time. */
export class SliceMeter {
  readonly #most: { readonly items: number; readonly bytes: number };
  #items = 0;
  #bytes = 0;

  constructor(most: { readonly items: number; readonly bytes: number }) {
    this.#most = most;
  }

  /** One more item; true: others are to have their turn. */
  add(bytes: number): boolean {
    this.#bytes += bytes;
    if (++this.#items < this.#most.items && this.#bytes < this.#most.bytes) return false;
    this.#items = this.#bytes = 0;
    return true;
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
