import type { HostEvent, ProjectionUnit, State } from '../code-host/code-host.js';
import type { Change } from '../core/change.js';
import type { Fault, StoredCommit } from '../core/event.js';
import type { ChangeValue } from '../core/records.js';
import { revisionUnit } from '../core/ids.js';
import type { ChangesWriter } from './changes-writer.js';
import type { KeyState, PartitionTables } from '../store/partition-tables.js';

/** One class of one revision of a projection. */
export interface RevisionUnit extends ProjectionUnit {
  readonly projectionId: string;
  readonly revision: number;
  readonly classIndex: number;
}

export function unitsOf(
  projectionId: string,
  of: { readonly revision: number; readonly artefactId: string; readonly classNames: readonly string[] },
): RevisionUnit[] {
  const { revision, artefactId, classNames } = of;
  return classNames.map((className, classIndex) => ({
    id: revisionUnit(projectionId, revision),
    artefactId,
    className,
    projectionId,
    revision,
    classIndex,
  }));
}

/** What an event did to a key; of a unit that was halted, that it was not fed from this event on. */
export interface Effect<U extends ProjectionUnit> {
  readonly unit: U;
  /** Among those that were fed. */
  readonly unitIndex: number;
  readonly commit: StoredCommit;
  readonly event: HostEvent;
  readonly key: string;
  readonly halted: boolean;
  readonly state: State;
  /** With its place in the tenant's order, from where a release reads on. */
  readonly fault: Fault | undefined;
}

/** What a revision made before it was halted: of whole commits only, and the same of all its classes, so that its last change says how far it is. */
export function beforeHalt(effects: readonly Effect<RevisionUnit>[]): readonly Effect<RevisionUnit>[] {
  const ends = new Map<string, number>();
  for (const { halted, unit, commit } of effects)
    if (halted) ends.set(unit.id, Math.min(ends.get(unit.id) ?? Infinity, commit.offset));
  if (ends.size === 0) return effects;
  return effects.filter(({ halted, unit, commit }) => !halted && commit.offset < (ends.get(unit.id) ?? Infinity));
}

export const sameState = (a: State, b: State): boolean => (a === null || b === null ? a === b : a.equals(b));

/** When it was found does not tell two faults apart. */
const faultText = (fault: Fault | undefined): string =>
  fault === undefined ? '' : JSON.stringify({ ...fault, at: '' });

/** What a row says of its key. */
type Stand = Pick<KeyState, 'state' | 'fault'>;

/** A swap tells nothing of a key whose row says the same before and after: the row stays whole. No row is as good as an empty one. */
export const sameRow = (a: Stand | undefined, b: Stand | undefined): boolean =>
  sameState(a?.state ?? null, b?.state ?? null) && faultText(a?.fault) === faultText(b?.fault);

export interface Disagreement {
  readonly commit: StoredCommit;
  readonly projectionId: string;
}

/**
 * The first of the commits of which the log has other changes than the code gave now, and whose they are. A fault need not come again: the process of
 * the code may have been stopped, and is not this time.
 */
export function firstDisagreement(
  changes: Pick<ChangesWriter, 'isTrimmed' | 'isKept' | 'lastRecorded' | 'recordedOf' | 'recorded'>,
  units: readonly RevisionUnit[],
  commits: readonly StoredCommit[],
  values: readonly ChangeValue[],
): Disagreement | undefined {
  const last = changes.lastRecorded();
  if ((commits[0]?.offset ?? Infinity) > last) return undefined;
  const given = new Map<number, ChangeValue[]>();
  for (const value of values) {
    const of = given.get(value.inputOffset);
    if (of === undefined) given.set(value.inputOffset, [value]);
    else of.push(value);
  }
  const live = new Set(units.map(({ id }) => id));
  for (const commit of commits) {
    const { offset } = commit;
    if (offset > last) continue;
    const recorded = [...changes.recordedOf(offset)].filter(({ projectionId, revision }) =>
      live.has(revisionUnit(projectionId, revision)),
    );
    if (recorded.length === 0) continue;
    // All of this commit went in one produce: none is missing where one was read past what retention took.
    if (changes.isTrimmed(offset) && !recorded.some((change) => changes.isKept(change))) continue;
    const now = given.get(offset) ?? [];
    const projectionId =
      now.find((value) => !sameChange(changes.recorded(value), value))?.projectionId ?? uneven(recorded, now);
    if (projectionId !== undefined) return { commit, projectionId };
  }
  return undefined;
}

/** A projection of which the log has more changes than were given, or fewer. */
function uneven(recorded: readonly Change[], given: readonly ChangeValue[]): string | undefined {
  if (recorded.length === given.length) return undefined;
  const more = new Map<string, number>();
  for (const { projectionId } of recorded) more.set(projectionId, (more.get(projectionId) ?? 0) + 1);
  for (const { projectionId } of given) more.set(projectionId, (more.get(projectionId) ?? 0) - 1);
  return [...more].find(([, count]) => count !== 0)?.[0];
}

const sameChange = (change: Change | undefined, value: ChangeValue): boolean =>
  change?.key === value.key &&
  change.className === value.className &&
  (change.fault === undefined) === (value.fault === null) &&
  sameState(change.state, value.state);

/** The one whose code made the change, if it is among these. */
export const unitOf = (
  units: readonly RevisionUnit[],
  { projectionId, revision, className }: Pick<Change, 'projectionId' | 'revision' | 'className'>,
): RevisionUnit | undefined =>
  units.find((one) => one.projectionId === projectionId && one.revision === revision && one.className === className);

/** Puts the state of an accepted change in the store, when it is one of these units'. */
export function storeChange(tables: PartitionTables, units: readonly RevisionUnit[], change: Change): void {
  const unit = unitOf(units, change);
  if (unit === undefined) return;
  const { key, state, sequence, timestamp, fault, eventId, aggregateId, aggregateType, version } = change;
  tables.setKeyState(unit.projectionId, unit.revision, key, unit.classIndex, {
    state,
    sequence,
    lastModified: timestamp,
    fault,
    origin: { eventId, aggregateId, aggregateType, version },
  });
  tables.faults.setKey(unit.projectionId, unit.revision, key, unit.classIndex, fault !== undefined);
  if (fault?.stopped === true) tables.faults.setDeparted(unit.projectionId, unit.revision);
}

/** As `storeChange`, in any order: of a key that has a later one already nothing is done. */
export function storeNewer(tables: PartitionTables, units: readonly RevisionUnit[], change: Change): void {
  const { projectionId, revision, key, sequence } = change;
  const unit = unitOf(units, change);
  if (unit === undefined) return;
  const row = tables.keyState(projectionId, revision, key, unit.classIndex);
  if (row === undefined || row.sequence < sequence) storeChange(tables, [unit], change);
}

/** The order in which an event is told: the same in every process, whatever went live when. */
export const inUnitOrder = (units: readonly RevisionUnit[]): RevisionUnit[] => [...units].sort(compareUnits);
export const compareUnits = (
  a: Pick<RevisionUnit, 'projectionId' | 'classIndex'>,
  b: Pick<RevisionUnit, 'projectionId' | 'classIndex'>,
): number => {
  if (a.projectionId !== b.projectionId) return a.projectionId < b.projectionId ? -1 : 1;
  return a.classIndex - b.classIndex;
};

export type NamedState = Pick<ChangeValue, 'projectionId' | 'revision' | 'key' | 'className' | 'state'>;
/** The state of a key while its change is on the way. */
export interface PendingState {
  readonly state: State;
  readonly faulted: boolean;
}

export const stateName = (unit: RevisionUnit, key: string): string => `${unit.id}\u0000${key}\u0000${unit.className}`;
export const pendingState = (state: State, faulted: boolean): PendingState => ({ state, faulted });
export const nameOf = ({ projectionId, revision, key, className }: Omit<NamedState, 'state'>): string =>
  `${revisionUnit(projectionId, revision)}\u0000${key}\u0000${className}`;
