import type { Fault } from '../core/event.js';
import { pastAll, SEPARATOR } from './keys.js';
import type { StoreSection } from './store-section.js';
import { TABLES } from './tables.js';

/** What the log says of an aggregate in one piece of code: versions that are passed over, and where a stopped process left it. */
export interface ReducerMarks {
  /** Ascending. */
  readonly skipped: readonly number[];
  readonly stop: Fault | undefined;
}

/** The code that a mark is of: a later upload is other code, and knows nothing of it. */
export interface Code {
  readonly artefactId: string;
  readonly className: string;
}

type MarksRow = readonly (readonly [
  artefactId: string,
  className: string,
  skipped: readonly number[],
  stop: Fault | null,
])[];

/** Where what belongs to a revision lies. */
export interface RevisionPlaces {
  placeOf(projectionId: string, revision: number): string;
}

export const NO_MARKS: ReducerMarks = { skipped: [], stop: undefined };

/** Which aggregates and keys are faulted, with their numbers, and what the log says of faults of reducers. */
export class FaultTables {
  readonly #section: StoreSection;
  readonly #places: RevisionPlaces;
  #marked: boolean | undefined;

  constructor(section: StoreSection, places: RevisionPlaces) {
    this.#section = section;
    this.#places = places;
  }

  /** Most tenants have no marks at all, and are not asked for each aggregate. */
  marks(aggregateId: string, code: Code): ReducerMarks {
    this.#marked ??=
      [...this.#section.range(TABLES.reducerMarks, pastAll(TABLES.reducerMarks), { limit: 1 })].length > 0;
    if (!this.#marked) return NO_MARKS;
    const row = this.#marksRow(aggregateId).find(
      ([artefactId, className]) => artefactId === code.artefactId && className === code.className,
    );
    return row === undefined ? NO_MARKS : { skipped: row[2], stop: row[3] ?? undefined };
  }
  setMarks(aggregateId: string, { artefactId, className }: Code, { skipped, stop }: ReducerMarks): void {
    this.#marked = true;
    const others = this.#marksRow(aggregateId).filter((row) => row[0] !== artefactId || row[1] !== className);
    const rows =
      skipped.length === 0 && stop === undefined
        ? others
        : [...others, [artefactId, className, skipped, stop ?? null] as const];
    this.#section.set(`${TABLES.reducerMarks}${aggregateId}`, rows.length === 0 ? undefined : rows);
  }
  #marksRow(aggregateId: string): MarksRow {
    return (this.#section.get(`${TABLES.reducerMarks}${aggregateId}`) as MarksRow | undefined) ?? [];
  }

  setAggregate(aggregateType: string, aggregateId: string, faulted: boolean): void {
    this.#set(
      `${TABLES.faultedAggregates}${aggregateType}${SEPARATOR}${aggregateId}`,
      `${TABLES.faultedAggregateCounts}${aggregateType}`,
      faulted,
    );
  }
  /** Ids of a type after `cursor`, ascending; one whose state is of an earlier binding may have none any more. */
  *aggregates(aggregateType: string, cursor: string): Generator<string> {
    const base = `${TABLES.faultedAggregates}${aggregateType}${SEPARATOR}`;
    for (const [key] of this.#section.range(cursor === '' ? base : `${base}${cursor}${SEPARATOR}`, pastAll(base)))
      yield key.slice(base.length);
  }
  aggregateCount(aggregateType: string): number {
    return (this.#section.get(`${TABLES.faultedAggregateCounts}${aggregateType}`) as number | undefined) ?? 0;
  }
  /** Of all types. */
  allAggregates(): number {
    let sum = 0;
    for (const [, count] of this.#section.range(TABLES.faultedAggregateCounts, pastAll(TABLES.faultedAggregateCounts)))
      sum += count as number;
    return sum;
  }

  /** Each revision has its own: what a swap finds shows when it goes live, and not before. */
  setKey(projectionId: string, revision: number, key: string, classIndex: number, faulted: boolean): void {
    const place = this.#place(projectionId, revision);
    this.#set(
      `${TABLES.faultedKeys}${place}${SEPARATOR}${key}${SEPARATOR}${classIndex}`,
      `${TABLES.faultedKeyCounts}${place}`,
      faulted,
    );
  }
  /** Keys of a revision after `cursor` (a key, then a class), ascending. */
  *keys(
    projectionId: string,
    revision: number,
    cursor?: readonly [key: string, classIndex: number],
  ): Generator<readonly [key: string, classIndex: number]> {
    const base = `${TABLES.faultedKeys}${this.#place(projectionId, revision)}${SEPARATOR}`;
    const from = cursor === undefined ? base : `${base}${cursor[0]}${SEPARATOR}${cursor[1]}${SEPARATOR}`;
    for (const [key] of this.#section.range(from, pastAll(base))) {
      const end = key.lastIndexOf(SEPARATOR);
      yield [key.slice(base.length, end), Number(key.slice(end + 1))];
    }
  }
  keyCount(projectionId: string, revision: number): number {
    return (
      (this.#section.get(`${TABLES.faultedKeyCounts}${this.#place(projectionId, revision)}`) as number | undefined) ?? 0
    );
  }
  /** Of all projections, of the revisions that are live. */
  allKeys(liveRevisionOf: (projectionId: string) => number | undefined): number {
    let sum = 0;
    for (const [key, count] of this.#section.range(TABLES.faultedKeyCounts, pastAll(TABLES.faultedKeyCounts))) {
      const projectionId = key.slice(1, key.lastIndexOf('@'));
      const revision = liveRevisionOf(projectionId);
      if (revision !== undefined && key === `${TABLES.faultedKeyCounts}${this.#place(projectionId, revision)}`)
        sum += count as number;
    }
    return sum;
  }
  #place(projectionId: string, revision: number): string {
    return `${projectionId}@${this.#places.placeOf(projectionId, revision)}`;
  }

  /** The states of a revision are not those of a build from the start any more: of what was released, or was no fault of the code alone, a build knows nothing. */
  setDeparted(projectionId: string, revision: number): void {
    if (!this.departed(projectionId, revision))
      this.#section.set(`${TABLES.departed}${projectionId}${SEPARATOR}${revision}`, 1);
  }
  departed(projectionId: string, revision: number): boolean {
    return this.#section.get(`${TABLES.departed}${projectionId}${SEPARATOR}${revision}`) !== undefined;
  }

  /** Where the rows of a revision lie, which nobody reads any more: they are to be removed, and count no longer. */
  giveUp(projectionId: string, revision: number): string {
    const place = this.#place(projectionId, revision);
    this.#section.delete(`${TABLES.faultedKeyCounts}${place}`);
    return `${TABLES.faultedKeys}${place}${SEPARATOR}`;
  }

  dropProjection(projectionId: string): void {
    const base = `${TABLES.departed}${projectionId}${SEPARATOR}`;
    for (const from of [base, `${TABLES.faultedKeyCounts}${projectionId}@`])
      for (const [row] of [...this.#section.range(from, pastAll(from))]) this.#section.delete(row);
  }

  #set(row: string, count: string, faulted: boolean): void {
    if ((this.#section.get(row) !== undefined) === faulted) return;
    this.#section.set(row, faulted ? 1 : undefined);
    const number = ((this.#section.get(count) as number | undefined) ?? 0) + (faulted ? 1 : -1);
    this.#section.set(count, number > 0 ? number : undefined);
  }
}
