import type { TenantCode } from '../code-host/tenant-code.js';
import type { Change } from '../core/change.js';
import type { StoredCommit } from '../core/event.js';
import type { ChangeValue } from '../core/records.js';
import { inSlices, nextTurn } from '../core/slices.js';
import type { PartitionTables } from '../store/partition-tables.js';
import type { ChangesWriter } from './changes-writer.js';
import { ProjectionBatch, valuesOf, type FoldedKeys } from './projection-fold.js';
import {
  beforeHalt,
  compareUnits,
  pendingState,
  storeNewer,
  stateName,
  type Effect,
  type PendingState,
  type RevisionUnit,
} from './projection-unit.js';

export interface PartedInputOptions {
  readonly tables: PartitionTables;
  readonly changes: ChangesWriter;
  readonly code: TenantCode;
}

/** What is kept of a change while the others are read: states are as many, and large. */
type Told = Pick<Change, 'sequence' | 'projectionId' | 'revision' | 'className' | 'key' | 'eventId'>;

/** Rows that are put in the store before others have their turn. */
const ROWS_PER_TURN = 500;

/**
 * An input whose changes come in parts, some of which are in the log already: the owner was stopped between them, or after the last
 * one and before it noted that. What the log has holds, whatever the code would make of the same events this time. The rest is what
 * the code makes of what comes behind it: at the event of the last change of the keys that were not told, and of all later events.
 */
export class PartedInput {
  readonly #options: PartedInputOptions;
  readonly #commit: StoredCommit;
  /** Of all live projections, and of those that are fed, in the order in which an event is told. */
  readonly #live: readonly RevisionUnit[];
  readonly #units: readonly RevisionUnit[];
  readonly #keys: FoldedKeys<RevisionUnit>;

  constructor(
    options: PartedInputOptions,
    commit: StoredCommit,
    live: readonly RevisionUnit[],
    fed: readonly RevisionUnit[],
    keys: FoldedKeys<RevisionUnit>,
  ) {
    this.#options = options;
    this.#commit = commit;
    this.#live = live;
    this.#units = fed;
    this.#keys = keys;
  }

  /**
   * The first of its changes may have been dropped by retention before they were read here: the states that they told are in no
   * record, and not in the store, where nothing is of this input yet.
   */
  get isDroppedInPart(): boolean {
    const { changes } = this.#options;
    const { offset } = this.#commit;
    if (!changes.isTrimmed(offset)) return false;
    for (const change of changes.recordedOf(offset)) if (!changes.isKept(change)) return false;
    return true;
  }

  /** All of it by the code: what was told, as it was recorded where it is, and what is still to be written. */
  async folded(): Promise<{ readonly told: readonly Change[]; readonly fresh: readonly ChangeValue[] }> {
    const { changes, code } = this.#options;
    const { offset } = this.#commit;
    let last: Told | undefined;
    for (const change of changes.recordedOf(offset)) if (change.sequence > (last?.sequence ?? -1)) last = change;
    const whole = changes.parts(offset)?.whole === true;
    const batch = new ProjectionBatch([this.#commit]);
    const values = await inSlices(valuesOf(beforeHalt(await batch.fold(code.runner, this.#units, this.#keys))));
    const places = new Map(batch.events.map(({ eventId }, i) => [eventId, i]));
    const told: Change[] = [];
    const fresh: ChangeValue[] = [];
    for (const value of values) {
      const recorded = changes.recorded(value);
      if (recorded !== undefined) told.push(recorded);
      else if (whole || last === undefined || this.#isBefore(value, last, places))
        told.push(changes.droppedChange(value));
      else fresh.push(value);
    }
    return { told, fresh };
  }

  #isBefore(value: ChangeValue, last: Told, places: ReadonlyMap<string, number>): boolean {
    const [at, end] = [places.get(value.eventId) ?? 0, places.get(last.eventId) ?? 0];
    if (at !== end) return at < end;
    // Of the same class all that is recorded was found by its number.
    return value.projectionId === last.projectionId
      ? value.inputIndex <= (this.#options.tables.lastInput(value.projectionId)?.[1] ?? -1)
      : value.projectionId < last.projectionId;
  }

  /** Puts in the store what the log has; resolves with what is still to be written. */
  async rest(isClosed: () => boolean): Promise<readonly ChangeValue[]> {
    const { changes, code } = this.#options;
    const { offset } = this.#commit;
    // What the runner has of the keys is of before.
    const forget = (): void => this.#units.forEach(({ id }) => code.runner.forget(id));
    forget();
    const told = await this.#stored(isClosed);
    const last = told.reduce<Told | undefined>(
      (a, b) => (a === undefined || b.sequence > a.sequence ? b : a),
      undefined,
    );
    if (isClosed() || last === undefined || changes.parts(offset)?.whole === true) return [];
    const batch = new ProjectionBatch([this.#commit]);
    // At the event of the last change the told keys count as stopped.
    const of = new Set(told.filter(({ eventId }) => eventId === last.eventId).map(nameOf));
    const place = this.#live.find(
      ({ projectionId, className }) => projectionId === last.projectionId && className === last.className,
    );
    const after = this.#units.filter((unit) => place === undefined || compareUnits(unit, place) >= 0);
    const there = await this.#fold(batch.only(last.eventId), after, (unit, key) =>
      of.has(nameOf({ ...unit, key })) ? { state: null, faulted: true } : this.#keys.stateOf(unit, key),
    );
    forget();
    const now = new Map<string, PendingState>();
    for (const { unit, key, state, fault } of there)
      now.set(stateName(unit, key), pendingState(state, fault !== undefined));
    const behind = await this.#fold(
      batch.startingAt(last.eventId, true),
      this.#units,
      (unit, key) => now.get(stateName(unit, key)) ?? this.#keys.stateOf(unit, key),
    );
    if (isClosed()) return [];
    // Not the last input of the projection: where retention dropped what came behind this one, that is a later input.
    const recorded = new Map<string, number>();
    for (const { projectionId } of told) recorded.set(projectionId, (recorded.get(projectionId) ?? 0) + 1);
    return inSlices(valuesOf(beforeHalt([...there, ...behind]), (projectionId) => recorded.get(projectionId) ?? 0));
  }

  async #fold(
    batch: ProjectionBatch | undefined,
    units: readonly RevisionUnit[],
    stateOf: FoldedKeys<RevisionUnit>['stateOf'],
  ): Promise<readonly Effect<RevisionUnit>[]> {
    if (batch === undefined || batch.events.length === 0 || units.length === 0) return [];
    const isHalted = (unit: RevisionUnit): boolean => this.#keys.isHalted?.(unit) === true;
    return batch.fold(this.#options.code.runner, units, { reply: 'each', stateOf, isHalted });
  }

  async #stored(isClosed: () => boolean): Promise<Told[]> {
    const { tables, changes } = this.#options;
    const told: Told[] = [];
    for (const change of changes.recordedOf(this.#commit.offset)) {
      storeNewer(tables, this.#live, change);
      const { sequence, projectionId, revision, className, key, eventId } = change;
      told.push({ sequence, projectionId, revision, className, key, eventId });
      if (told.length % ROWS_PER_TURN !== 0) continue;
      await nextTurn();
      await tables.section.room();
      if (isClosed()) return told;
    }
    return told;
  }
}

const nameOf = ({ projectionId, className, key }: Pick<Told, 'projectionId' | 'className' | 'key'>): string =>
  `${projectionId}\u0000${className}\u0000${key}`;
