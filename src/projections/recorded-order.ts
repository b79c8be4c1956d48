import type { Change } from '../core/change.js';
import { nextTurn } from '../core/slices.js';
import type { StoreSection } from '../store/store-section.js';
import type { ChangesWriter } from './changes-writer.js';

/** Others have had their turn, and the disk has taken what was set; false: it is closed. */
export async function othersTurned(section: Pick<StoreSection, 'room'>, isClosed: () => boolean): Promise<boolean> {
  await nextTurn();
  await section.room();
  return !isClosed();
}

/**
 * The accepted changes of an input, in the order of their sequences. There may be any number, and their states may be large: only
 * their names are held. Who puts each in the store has, at any moment, the states that there were behind one of them.
 *
 * @param rows that are looked at before others have their turn
 * @param turned awaited each time: others had it; false ends it
 */
export async function* inSequence(
  changes: Pick<ChangesWriter, 'recordedNames' | 'recordedNamed'>,
  input: number,
  rows: number,
  turned: () => Promise<boolean>,
): AsyncGenerator<Change> {
  const names: [sequence: number, name: string][] = [];
  for (const [name, { sequence }] of changes.recordedNames(input))
    if (names.push([sequence, name]) % rows === 0 && !(await turned())) return;
  names.sort(([a], [b]) => a - b);
  for (const [i, [, name]] of names.entries()) {
    const change = changes.recordedNamed(input, name);
    if (change !== undefined) yield change;
    if ((i + 1) % rows === 0 && !(await turned())) return;
  }
}

/** Of the accepted changes of an input that are wanted the one with the highest sequence; undefined: there is none, or it was ended. As `inSequence`. */
export async function lastRecorded(
  changes: Pick<ChangesWriter, 'recordedOf'>,
  input: number,
  wanted: (change: Change) => boolean,
  rows: number,
  turned: () => Promise<boolean>,
): Promise<Change | undefined> {
  let last: Change | undefined;
  let seen = 0;
  for (const change of changes.recordedOf(input)) {
    if (wanted(change) && change.sequence > (last?.sequence ?? -1)) last = change;
    if (++seen % rows === 0 && !(await turned())) return undefined;
  }
  return last;
}
