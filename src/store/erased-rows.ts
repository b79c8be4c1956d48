import { padded, pastAll, SEPARATOR } from './keys.js';
import type { StoreSection } from './store-section.js';
import { TABLES } from './tables.js';

/**
 * Rows of erased aggregates: what is remembered of its commands, and where its commits lie. One of them may have as many as it had appends, so
 * that they go in slices. A row says of each range how far that is; after a restart it goes on from there. Nobody asks for them meanwhile,
 * and none is added: an aggregate that is erased takes nothing.
 */
export class ErasedRows {
  readonly #section: StoreSection;
  #listener: (() => void) | undefined;

  constructor(section: StoreSection) {
    this.#section = section;
  }

  /** Called when there is something to remove. */
  onAdded(listener: () => void): void {
    this.#listener = listener;
  }

  /** What the table has of the aggregate is given up. */
  add(table: typeof TABLES.commands | typeof TABLES.commits, aggregateId: string): void {
    const base = `${table}${aggregateId}${SEPARATOR}`;
    if (this.#section.keys(base, pastAll(base), 1).length === 0) return;
    this.#section.set(`${TABLES.erasedRows}${base}`, base);
    this.#listener?.();
  }

  /** Removes the next ones, at most so many; false: nothing is left to remove. */
  removeSome(most: number): boolean {
    for (const [row, at] of this.#section.range(TABLES.erasedRows, pastAll(TABLES.erasedRows), { limit: 1 })) {
      const base = row.slice(TABLES.erasedRows.length);
      const some = [...this.#section.range(at as string, pastAll(base), { limit: most })];
      for (const [key, value] of some) {
        this.#section.delete(key);
        if (base.startsWith(TABLES.commands))
          this.#section.delete(`${TABLES.commandOffsets}${padded((value as { readonly offset: number }).offset)}`);
      }
      this.#section.set(row, some.length < most ? undefined : some.at(-1)?.[0]);
      return true;
    }
    return false;
  }
}
