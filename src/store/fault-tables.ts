import type { Fault } from '../core/event.js';
import { SEPARATOR, type StoreSection } from './local-store.js';

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

export const NO_MARKS: ReducerMarks = { skipped: [], stop: undefined };

/** Which aggregates and keys stand at a fault, with their numbers, and what the log says of faults of reducers. */
export class FaultTables {
  readonly #section: StoreSection;
  #marked: boolean | undefined;

  constructor(section: StoreSection) {
    this.#section = section;
  }

  /** Most tenants have no marks at all, and are not asked for each aggregate. */
  marks(aggregateId: string, code: Code): ReducerMarks {
    this.#marked ??= [...this.#section.range('z', '{', { limit: 1 })].length > 0;
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
    this.#section.set(`z${aggregateId}`, rows.length === 0 ? undefined : rows);
  }
  #marksRow(aggregateId: string): MarksRow {
    return (this.#section.get(`z${aggregateId}`) as MarksRow | undefined) ?? [];
  }

  setAggregate(aggregateType: string, aggregateId: string, faulted: boolean): void {
    this.#set(`g${aggregateType}${SEPARATOR}${aggregateId}`, `G${aggregateType}`, faulted);
  }
  /** Ids of a type after `cursor`, ascending; one whose state is of an earlier binding may have none any more. */
  *aggregates(aggregateType: string, cursor: string): Generator<string> {
    const base = `g${aggregateType}${SEPARATOR}`;
    for (const [key] of this.#section.range(cursor === '' ? base : `${base}${cursor}${SEPARATOR}`, after(base)))
      yield key.slice(base.length);
  }
  aggregateCount(aggregateType: string): number {
    return (this.#section.get(`G${aggregateType}`) as number | undefined) ?? 0;
  }
  /** Of all types. */
  allAggregates(): number {
    return this.#sum('G', 'H');
  }

  setKey(projectionId: string, key: string, classIndex: number, faulted: boolean): void {
    this.#set(`f${projectionId}${SEPARATOR}${key}${SEPARATOR}${classIndex}`, `F${projectionId}`, faulted);
  }
  /** Keys of a projection after `cursor` (a key, then a class), ascending. */
  *keys(
    projectionId: string,
    cursor?: readonly [key: string, classIndex: number],
  ): Generator<readonly [key: string, classIndex: number]> {
    const base = `f${projectionId}${SEPARATOR}`;
    const from = cursor === undefined ? base : `${base}${cursor[0]}${SEPARATOR}${cursor[1]}${SEPARATOR}`;
    for (const [key] of this.#section.range(from, after(base))) {
      const end = key.lastIndexOf(SEPARATOR);
      yield [key.slice(base.length, end), Number(key.slice(end + 1))];
    }
  }
  keyCount(projectionId: string): number {
    return (this.#section.get(`F${projectionId}`) as number | undefined) ?? 0;
  }
  /** Of all projections. */
  allKeys(): number {
    return this.#sum('F', 'G');
  }

  /** The states of a revision are not those of a build from the start any more: of what was released, or was no fault of the code alone, a build knows nothing. */
  setDeparted(projectionId: string, revision: number): void {
    if (!this.departed(projectionId, revision)) this.#section.set(`i${projectionId}${SEPARATOR}${revision}`, 1);
  }
  departed(projectionId: string, revision: number): boolean {
    return this.#section.get(`i${projectionId}${SEPARATOR}${revision}`) !== undefined;
  }

  dropProjection(projectionId: string): void {
    for (const [key, classIndex] of [...this.keys(projectionId)]) this.setKey(projectionId, key, classIndex, false);
    const base = `i${projectionId}${SEPARATOR}`;
    for (const [row] of [...this.#section.range(base, after(base))]) this.#section.delete(row);
  }

  #set(row: string, count: string, faulted: boolean): void {
    if ((this.#section.get(row) !== undefined) === faulted) return;
    this.#section.set(row, faulted ? 1 : undefined);
    const number = ((this.#section.get(count) as number | undefined) ?? 0) + (faulted ? 1 : -1);
    this.#section.set(count, number > 0 ? number : undefined);
  }

  #sum(from: string, to: string): number {
    let sum = 0;
    for (const [, count] of this.#section.range(from, to)) sum += count as number;
    return sum;
  }
}

const after = (prefix: string): string =>
  prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1);
