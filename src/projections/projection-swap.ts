import type { ChangeValue, ProjectionSwapValue } from '../core/records.js';
import { changeOfRow } from './projection-fold.js';
import { sameRow } from './projection-unit.js';
import type { KeyState, LivePast, LiveProjection, PartitionTables } from '../store/partition-tables.js';

/** Of so many revisions it is known that they were live. */
const PAST = 50;

/**
 * What a swap tells: each key of which the row is another one than before, those of the old revision first. A key that is as it
 * was keeps its row whole, so the rows of a revision are those of the one before, and what its swap told: a standby follows it
 * without the code. No row is as good as an empty one: an empty one of which nobody was told is dropped, so that it makes no
 * difference whether a revision was folded from the start, or from states of it that were kept.
 *
 * A swap that a crash cut off numbers its changes as before: what it has told by then changes neither which rows are old nor how they differ.
 */
export function* swapValues(
  tables: PartitionTables,
  swap: ProjectionSwapValue,
  before: LiveProjection | undefined,
  offset: number,
): Generator<ChangeValue> {
  const { projectionId, revision, classNames, cause } = swap;
  let index = 0;
  const value = (key: string, className: string, row: KeyState, gone: boolean): ChangeValue =>
    changeOfRow(
      { projectionId, revision, className, key },
      [offset, index++],
      cause,
      gone ? { ...row, state: null, fault: undefined } : row,
    );
  for (const [key, classIndex, old] of before === undefined ? [] : tables.keyStates(projectionId, before.revision)) {
    const className = before?.classNames[classIndex] ?? '';
    const now = classNames.indexOf(className);
    const row = now < 0 ? undefined : tables.keyState(projectionId, revision, key, now);
    if (!sameRow(old, row))
      yield row === undefined ? value(key, className, old, true) : value(key, className, row, false);
    else if (now >= 0) {
      tables.setKeyState(projectionId, revision, key, now, old);
      if (old.fault !== undefined) tables.faults.setKey(projectionId, key, now, true);
    }
  }
  for (const [key, classIndex, row] of tables.keyStates(projectionId, revision)) {
    const className = classNames[classIndex] ?? '';
    const known = before?.classNames.indexOf(className) ?? -1;
    if (before !== undefined && known >= 0 && tables.keyState(projectionId, before.revision, key, known) !== undefined)
      continue;
    if (sameRow(undefined, row)) tables.dropKeyState(projectionId, revision, key, classIndex);
    else yield value(key, className, row, false);
  }
}

/**
 * The revision is the live one, with `changed` keys other than before. The states of the one before are kept, up to `most`
 * revisions of them; not those that a rebuild came to replace, nor those that a build from the start would not come to: of a
 * revision that was halted, say, for which `most` is 0.
 */
export function goLive(
  tables: PartitionTables,
  swap: ProjectionSwapValue,
  before: LiveProjection | undefined,
  offset: number,
  changed: number,
  most: number,
): void {
  const { projectionId, revision, artefactId, classNames, cause } = swap;
  const past: readonly LivePast[] = [...(before?.past ?? []), { revision, artefactId, changed }].slice(-PAST);
  tables.setLiveProjection(projectionId, { revision, artefactId, classNames, past });
  if (before === undefined) return;
  for (const [key, classIndex] of [...tables.faults.keys(projectionId)])
    if (tables.keyState(projectionId, revision, key, classIndex)?.fault === undefined)
      tables.faults.setKey(projectionId, key, classIndex, false);
  const kept = {
    revision: before.revision,
    artefactId: before.artefactId,
    classNames: before.classNames,
    position: offset,
  };
  const gone =
    most === 0 || cause === 'rebuild' || cause === 'revive' || tables.faults.departed(projectionId, before.revision)
      ? [kept]
      : tables.kept.keep(projectionId, kept, most);
  for (const one of gone) tables.dropRevision(projectionId, one.revision);
}
