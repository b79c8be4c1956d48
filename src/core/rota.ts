import { firstIndex } from './first-index.js';

/** What waits, by whose it is: one of each has its turn, and then the next one's. */
export class Rota<T> {
  readonly #queues = new Map<string, T[]>();
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Whose turn it is. */
  get first(): T | undefined {
    for (const queue of this.#queues.values()) return queue[0];
    return undefined;
  }

  push(whose: string, item: T): void {
    this.insert(whose, item, () => false);
  }

  /** Before the first one of its own for which it holds; it does so for all behind that one. */
  insert(whose: string, item: T, isBehind: (other: T) => boolean): void {
    this.#length++;
    const queue = this.#queues.get(whose);
    if (queue === undefined) return void this.#queues.set(whose, [item]);
    // Mostly it is behind all of them.
    if (!isBehind(queue.at(-1) as T)) return void queue.push(item);
    queue.splice(
      firstIndex(queue.length, (at) => isBehind(queue[at] as T)),
      0,
      item,
    );
  }

  /** Takes out the first one; whose it was stands behind the others then. */
  shift(): T | undefined {
    for (const [whose, queue] of this.#queues) {
      const item = queue.shift();
      this.#length--;
      if (queue.length > 0 && this.#queues.size === 1) return item;
      this.#queues.delete(whose);
      if (queue.length > 0) this.#queues.set(whose, queue);
      return item;
    }
    return undefined;
  }

  /** Takes out those for which it holds. */
  remove(holds: (item: T) => boolean): readonly T[] {
    const removed: T[] = [];
    for (const [whose, queue] of this.#queues) {
      const left: T[] = [];
      for (const item of queue) (holds(item) ? removed : left).push(item);
      if (left.length === queue.length) continue;
      if (left.length > 0) this.#queues.set(whose, left);
      else this.#queues.delete(whose);
    }
    this.#length -= removed.length;
    return removed;
  }
}
