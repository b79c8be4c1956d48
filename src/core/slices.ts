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
