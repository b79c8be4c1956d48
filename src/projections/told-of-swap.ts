import { nextTurn } from '../core/slices.js';
import type { PartitionTables } from '../store/partition-tables.js';
import type { ChangesWriter } from './changes-writer.js';
import { nameOf, type NamedState } from './projection-unit.js';

/** Of changes, looked at in one go. */
const NAMES_PER_SLICE = 2000;

/**
 * What owners before told of a swap that is not through, where something was erased since: who builds without it comes to other
 * states, in which other keys differ, so that a number says nothing of the key. What was told holds, and what is told
 * beside it has numbers of its own.
 */
export class ToldOfSwap {
  readonly #names = new Set<string>();
  #next: number;

  private constructor(next: number) {
    this.#next = next;
  }

  /** Undefined: the numbers of what was told say what it was. */
  static async of(
    projectionId: string,
    offset: number,
    changes: Pick<ChangesWriter, 'recordedPast'>,
    tables: Pick<PartitionTables, 'hasErasures' | 'lastInput'>,
  ): Promise<ToldOfSwap | undefined> {
    const last = tables.lastInput(projectionId);
    if (!tables.hasErasures || last?.[0] !== offset) return undefined;
    const told = new ToldOfSwap(last[1] + 1);
    for (let past: string | undefined = ''; past !== undefined; await nextTurn())
      past = told.#read(projectionId, changes.recordedPast(offset, past));
    return told;
  }

  /** Gives the name behind which there is more. */
  #read(projectionId: string, recorded: ReturnType<ChangesWriter['recordedPast']>): string | undefined {
    let seen = 0;
    for (const [name, change] of recorded) {
      if (change.projectionId === projectionId) this.#names.add(nameOf(change));
      if (++seen === NAMES_PER_SLICE) return name;
    }
    return undefined;
  }

  has(state: Omit<NamedState, 'state'>): boolean {
    return this.#names.has(nameOf(state));
  }

  nextIndex(): number {
    return this.#next++;
  }
}
