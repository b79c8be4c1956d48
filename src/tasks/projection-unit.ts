import type { HostEvent, ProjectionUnit, State } from '../code-host/code-host.js';
import type { Change } from '../core/change.js';
import type { Fault, StoredCommit } from '../core/event.js';
import { eventsOf } from './commit-reader.js';
import type { KeyState, PartitionTables } from './store/partition-tables.js';

/** One class of one revision of a projection. */
export interface RevisionUnit extends ProjectionUnit {
  readonly projectionId: string;
  readonly revision: number;
  readonly classIndex: number;
}

export function unitsOf(projectionId: string, of: { readonly revision: number; readonly artefactId: string; readonly classNames: readonly string[] }): RevisionUnit[] {
  const { revision, artefactId, classNames } = of;
  return classNames.map((className, classIndex) => ({ id: `${projectionId}@${revision}`, artefactId, className, projectionId, revision, classIndex }));
}

/** Events of commits in order, each with the place of its commit. */
export function flatten(commits: readonly StoredCommit[]): { readonly events: HostEvent[]; readonly commitOf: StoredCommit[] } {
  const events: HostEvent[] = [];
  const commitOf: StoredCommit[] = [];
  for (const commit of commits)
    for (const event of eventsOf(commit)) {
      events.push(event);
      commitOf.push(commit);
    }
  return { events, commitOf };
}

/** The first commits with about `count` events; at least one. */
export function takeEvents(commits: readonly StoredCommit[], count: number): number {
  let events = 0;
  for (const [i, commit] of commits.entries()) {
    events += commit.eventCount ?? commit.events.length;
    if (events >= count) return i + 1;
  }
  return commits.length;
}

export const sameState = (a: State, b: State): boolean => (a === null || b === null ? a === b : a.equals(b));

/** When it was found does not tell two faults apart. */
const faultText = (fault: Fault | undefined): string => (fault === undefined ? '' : JSON.stringify({ ...fault, at: '' }));

/** A swap tells nothing of a key whose row says the same before and after: the row stays whole. No row is as good as an empty one. */
export const sameRow = (a: KeyState | undefined, b: KeyState | undefined): boolean =>
  sameState(a?.state ?? null, b?.state ?? null) && faultText(a?.fault) === faultText(b?.fault);

/** Puts the state of an accepted change in the store, when it is one of these units'. */
export function settleChange(tables: PartitionTables, units: readonly RevisionUnit[], change: Change): void {
  const unit = units.find((one) => one.projectionId === change.projectionId && one.revision === change.revision && one.className === change.className);
  if (unit === undefined) return;
  const { key, state, sequence, timestamp, fault, eventId, aggregateId, aggregateType, version } = change;
  tables.setKeyState(unit.projectionId, unit.revision, key, unit.classIndex, { state, sequence, lastModified: timestamp, fault, origin: { eventId, aggregateId, aggregateType, version } });
  if (fault !== undefined) tables.setFaulted(unit.projectionId, key, unit.classIndex, true);
}
