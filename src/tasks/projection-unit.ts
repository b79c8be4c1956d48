import type { HostEvent, ProjectionUnit, State } from '../code-host/code-host.js';
import type { StoredCommit } from '../core/event.js';
import { eventsOf } from './commit-reader.js';

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
    events += commit.events.length;
    if (events >= count) return i + 1;
  }
  return commits.length;
}

export const sameState = (a: State, b: State): boolean => (a === null || b === null ? a === b : a.equals(b));
