import { pastAll, SEPARATOR } from './keys.js';
import type { StoreSection } from './store-section.js';
import { TABLES } from './tables.js';

/** A former revision of a projection whose states are still there: what its code made of all inputs below the position. */
export interface KeptRevision {
  readonly revision: number;
  readonly artefactId: string;
  readonly classNames: readonly string[];
  /** Log offset, or place: the first input that is not in its states. */
  readonly position: number;
}

const sameCode = (
  a: Pick<KeptRevision, 'artefactId' | 'classNames'>,
  b: Pick<KeptRevision, 'artefactId' | 'classNames'>,
): boolean =>
  a.artefactId === b.artefactId &&
  a.classNames.length === b.classNames.length &&
  a.classNames.every((name, i) => name === b.classNames[i]);

/**
 * Former revisions with their states, so that a later revision of the same code goes on from them. Only a saving: which ones a
 * process has differs from that of another, and a build from the start comes to the same states.
 *
 * States lie at a place that has the number of the revision that they were first folded for. One that takes them over has another
 * number, and so a row that says where they lie; so has one of which the states were dropped, since what is dropped goes by and by.
 */
export class KeptRevisions {
  readonly #section: StoreSection;
  readonly #places = new Map<string, string>();

  constructor(section: StoreSection) {
    this.#section = section;
  }

  /** The name of the place at which the states of a revision lie: its number, as long as it had no other. */
  placeOf(projectionId: string, revision: number): string {
    const name = nameOf(projectionId, revision);
    let place = this.#places.get(name);
    if (place === undefined)
      this.#places.set(
        name,
        (place = (this.#section.get(`${TABLES.revisionPlaces}${name}`) as string | undefined) ?? String(revision)),
      );
    return place;
  }

  /** Oldest first, in the order in which they were given up. */
  of(projectionId: string): readonly KeptRevision[] {
    return (this.#section.get(`${TABLES.keptRevisions}${projectionId}`) as readonly KeptRevision[] | undefined) ?? [];
  }

  /** Ids of those that have former revisions. */
  projections(): readonly string[] {
    const table = TABLES.keptRevisions;
    return [...this.#section.range(table, pastAll(table))].map(([key]) => key.slice(table.length));
  }

  /** Keeps one more; gives those of which the states are to be dropped, so that `most` are left. */
  keep(projectionId: string, kept: KeptRevision, most: number): readonly KeptRevision[] {
    const all = [...this.of(projectionId).filter((one) => !sameCode(one, kept)), kept];
    const gone = [
      ...this.of(projectionId).filter((one) => sameCode(one, kept) && one.revision !== kept.revision),
      ...all.splice(0, Math.max(0, all.length - most)),
    ];
    this.#section.set(`${TABLES.keptRevisions}${projectionId}`, all.length === 0 ? undefined : all);
    return gone;
  }

  /** The states of a former revision of the same code become those of a new one, when they are of no input from `end` on. */
  adopt(
    projectionId: string,
    by: Pick<KeptRevision, 'revision' | 'artefactId' | 'classNames'>,
    end: number,
  ): KeptRevision | undefined {
    const found = this.of(projectionId).find(
      (one) => sameCode(one, by) && one.position <= end && one.revision < by.revision,
    );
    if (found === undefined) return undefined;
    const left = this.of(projectionId).filter(({ revision }) => revision !== found.revision);
    this.#section.set(`${TABLES.keptRevisions}${projectionId}`, left.length === 0 ? undefined : left);
    this.#move(projectionId, found.revision, by.revision);
    return found;
  }

  /** The other way round, when nothing comes of the new revision: its states are those of the former one again, further on by now. */
  giveBack(projectionId: string, adopted: KeptRevision, from: number, position: number): void {
    this.#move(projectionId, from, adopted.revision);
    this.#section.set(`${TABLES.keptRevisions}${projectionId}`, [...this.of(projectionId), { ...adopted, position }]);
  }

  /** What lies at the revision's place is no more its own: were its number used anew, its states would lie at a place that had none before. */
  renew(projectionId: string, revision: number): void {
    const counter = `${TABLES.revisionPlaces}${projectionId}${SEPARATOR}#`;
    const number = ((this.#section.get(counter) as number | undefined) ?? 0) + 1;
    this.#section.set(counter, number);
    this.#put(projectionId, revision, `x${number}`);
  }

  /** Revisions below are never built again: of those that have no states nothing is to be known. */
  forgetBelow(projectionId: string, revision: number): void {
    const base = `${TABLES.revisionPlaces}${projectionId}${SEPARATOR}`;
    const kept = this.of(projectionId).map((one) => one.revision);
    for (const [key] of [...this.#section.range(`${base}0`, `${base}:`)]) {
      const number = Number(key.slice(base.length));
      if (number >= revision || kept.includes(number)) continue;
      this.#section.delete(key);
      this.#places.delete(nameOf(projectionId, number));
    }
  }

  /** None is kept any more; gives those of which the states are to be dropped. */
  giveUp(projectionId: string): readonly KeptRevision[] {
    const all = this.of(projectionId);
    if (all.length > 0) this.#section.set(`${TABLES.keptRevisions}${projectionId}`, undefined);
    return all;
  }

  drop(projectionId: string): void {
    this.#section.delete(`${TABLES.keptRevisions}${projectionId}`);
    const base = `${TABLES.revisionPlaces}${projectionId}${SEPARATOR}`;
    for (const [key] of [...this.#section.range(base, pastAll(base))]) {
      this.#section.delete(key);
      this.#places.delete(key.slice(1));
    }
  }

  #move(projectionId: string, from: number, to: number): void {
    const place = this.placeOf(projectionId, from);
    this.renew(projectionId, from);
    this.#put(projectionId, to, place);
  }

  #put(projectionId: string, revision: number, place: string): void {
    const name = nameOf(projectionId, revision);
    this.#section.set(`${TABLES.revisionPlaces}${name}`, place === String(revision) ? undefined : place);
    this.#places.set(name, place);
  }
}

const nameOf = (projectionId: string, revision: number): string => `${projectionId}${SEPARATOR}${revision}`;
