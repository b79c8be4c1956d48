import { padded, pastAll, SEPARATOR } from './keys.js';
import type { StoreSection } from './store-section.js';
import { TABLES } from './tables.js';

/**
 * What is remembered of commands of erased aggregates: as much as one of them had appends, so that it goes in slices. A row says of each
 * aggregate how far that is; after a restart it goes on from there. Nobody asks for these commands: an aggregate that is erased takes none.
 */
export class ErasedCommands {
  readonly #section: StoreSection;
  #listener: (() => void) | undefined;

  constructor(section: StoreSection) {
    this.#section = section;
  }

  /** Called when there is something to remove. */
  onAdded(listener: () => void): void {
    this.#listener = listener;
  }

  /** The aggregate is erased. */
  add(aggregateId: string): void {
    const base = commandsOf(aggregateId);
    if (this.#section.keys(base, pastAll(base), 1).length === 0) return;
    this.#section.set(`${TABLES.erasedCommands}${aggregateId}`, base);
    this.#listener?.();
  }

  /** Removes the next ones, at most so many; false: nothing is left to remove. */
  removeSome(most: number): boolean {
    for (const [row, at] of this.#section.range(TABLES.erasedCommands, pastAll(TABLES.erasedCommands), { limit: 1 })) {
      const end = pastAll(commandsOf(row.slice(1)));
      const some = [...this.#section.range(at as string, end, { limit: most })];
      for (const [key, command] of some) {
        this.#section.delete(key);
        this.#section.delete(`${TABLES.commandOffsets}${padded((command as { readonly offset: number }).offset)}`);
      }
      const last = some.length < most ? undefined : some.at(-1)?.[0];
      this.#section.set(row, last);
      return true;
    }
    return false;
  }
}

const commandsOf = (aggregateId: string): string => `${TABLES.commands}${aggregateId}${SEPARATOR}`;
