import type { TenantCode } from '../code-host/tenant-code.js';
import type { Change } from '../core/change.js';
import { eventsOf, type StoredCommit } from '../core/event.js';
import type { ChangeValue } from '../core/records.js';
import { inSlices } from '../core/slices.js';
import type { KeyState, PartitionTables } from '../store/partition-tables.js';
import type { ChangesWriter } from './changes-writer.js';
import { ProjectionBatch, valuesOf, type FoldedKeys } from './projection-fold.js';
import { inSequence, othersTurned } from './recorded-order.js';
import {
  beforeHalt,
  compareUnits,
  pendingState,
  stateName,
  storeChange,
  unitOf,
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

/** What an input in parts still comes to. */
export interface Rest {
  /** Has been told, and is not in the store. */
  readonly told: readonly Change[];
  /** Is to be written, behind all others of the input. */
  readonly fresh: readonly ChangeValue[];
}

/** Rows that are looked at before others have their turn. */
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
   * Puts in the store what the log has, as far as that is whole from the first change on, and gives what comes behind it: what was
   * told (as it was recorded; by the code where retention took it before it was read here), and what is still to be written.
   */
  async rest(isClosed: () => boolean): Promise<Rest> {
    const { changes, code } = this.#options;
    const { offset } = this.#commit;
    // What the runner has of the keys is of before.
    const forget = (): void => this.#units.forEach(({ id }) => code.runner.forget(id));
    forget();
    const recorded = await this.#recorded(isClosed);
    const trimmed = changes.isTrimmed(offset);
    const own = this.#eventIds(recorded);
    const through = trimmed ? await this.#storedThrough(own, isClosed) : Infinity;
    if (isClosed()) return NOTHING;
    const there = recorded.filter(({ sequence }) => sequence <= through);
    await this.#store(own, through, isClosed);
    const whole = changes.parts(offset)?.whole === true;
    if (isClosed() || (whole && !trimmed)) return NOTHING;
    const values = await this.#behind(there);
    if (isClosed()) return NOTHING;
    return trimmed ? this.#parted(values, recorded, through, isClosed) : { told: [], fresh: values };
  }

  /** What the code gives behind the changes that are in the store: all of them, or what comes at the event of the last one and later. */
  async #behind(there: readonly Told[]): Promise<readonly ChangeValue[]> {
    const batch = new ProjectionBatch([this.#commit]);
    // Not the last input of the projection: where retention dropped what came behind this one, that is a later input.
    const counts = new Map<string, number>();
    for (const { projectionId } of there) counts.set(projectionId, (counts.get(projectionId) ?? 0) + 1);
    const values = (effects: readonly Effect<RevisionUnit>[]): Promise<readonly ChangeValue[]> =>
      inSlices(valuesOf(beforeHalt(effects), (projectionId) => counts.get(projectionId) ?? 0));
    // Of an input of which events were erased meanwhile: what lies between the last one that is left and those had told nothing.
    const left = new Set(batch.events.map(({ eventId }) => eventId));
    const last = lastOf(there.filter(({ eventId }) => left.has(eventId)));
    if (last === undefined) return values(await this.#fold(batch, this.#units, this.#stateOf));
    // At the event of the last change the told keys count as stopped.
    const of = new Set(there.filter(({ eventId }) => eventId === last.eventId).map(nameOf));
    const place = this.#live.find(
      ({ projectionId, className }) => projectionId === last.projectionId && className === last.className,
    );
    const after = this.#units.filter((unit) => place === undefined || compareUnits(unit, place) >= 0);
    const beside = await this.#fold(batch.only(last.eventId), after, (unit, key) =>
      of.has(nameOf({ ...unit, key })) ? { state: null, faulted: true } : this.#keys.stateOf(unit, key),
    );
    this.#units.forEach(({ id }) => this.#options.code.runner.forget(id));
    const now = new Map<string, PendingState>();
    for (const { unit, key, state, fault } of beside)
      now.set(stateName(unit, key), pendingState(state, fault !== undefined));
    const behind = await this.#fold(
      batch.startingAt(last.eventId, true),
      this.#units,
      (unit, key) => now.get(stateName(unit, key)) ?? this.#keys.stateOf(unit, key),
    );
    return values([...beside, ...behind]);
  }

  /** Retention took some of its changes. What stands before one that is left was told, and so was all when a later input was come to. */
  async #parted(
    values: readonly ChangeValue[],
    recorded: readonly Told[],
    through: number,
    isClosed: () => boolean,
  ): Promise<Rest> {
    const { changes } = this.#options;
    const { offset } = this.#commit;
    const last = lastOf(recorded);
    const isTold = last === undefined || !changes.isKept(last) || changes.isPassed(offset);
    const whole = isTold || changes.parts(offset)?.whole === true;
    const places = new Map(Array.from(eventsOf(this.#commit), ({ eventId }, i) => [eventId, i]));
    const inPlace = (change: Change): Change => (changes.isKept(change) ? change : changes.asDropped(change));
    const told: Change[] = [];
    const fresh: ChangeValue[] = [];
    const found = new Set<number>();
    for (const value of values) {
      const change = changes.recorded(value);
      if (change !== undefined) {
        found.add(change.sequence);
        told.push(inPlace(change));
      } else if (whole || this.#isBefore(value, last, places)) told.push(changes.droppedChange(value));
      else fresh.push(value);
    }
    // What the code did not give this time holds too: it may be halted by now.
    for await (const change of this.#each(isClosed))
      if (change.sequence > through && !found.has(change.sequence)) told.push(inPlace(change));
    return { told: told.sort((a, b) => a.sequence - b.sequence), fresh };
  }

  #isBefore(value: ChangeValue, last: Told | undefined, places: ReadonlyMap<string, number>): boolean {
    if (last === undefined) return false;
    const [at, end] = [places.get(value.eventId) ?? 0, places.get(last.eventId) ?? 0];
    if (at !== end) return at < end;
    // Of the same class all that is recorded was found by its number.
    return value.projectionId === last.projectionId
      ? value.inputIndex <= (this.#options.tables.lastInput(value.projectionId)?.[1] ?? -1)
      : value.projectionId < last.projectionId;
  }

  readonly #stateOf: FoldedKeys<RevisionUnit>['stateOf'] = (unit, key) => this.#keys.stateOf(unit, key);

  async #fold(
    batch: ProjectionBatch | undefined,
    units: readonly RevisionUnit[],
    stateOf: FoldedKeys<RevisionUnit>['stateOf'],
  ): Promise<readonly Effect<RevisionUnit>[]> {
    if (batch === undefined || batch.events.length === 0 || units.length === 0) return [];
    const isHalted = (unit: RevisionUnit): boolean => this.#keys.isHalted?.(unit) === true;
    return batch.fold(this.#options.code.runner, units, { reply: 'each', stateOf, isHalted });
  }

  /** The accepted changes of the input, in no order; others have their turn between. */
  async *#each(isClosed: () => boolean): AsyncGenerator<Change> {
    let seen = 0;
    for (const change of this.#options.changes.recordedOf(this.#commit.offset)) {
      yield change;
      if (++seen % ROWS_PER_TURN === 0 && !(await othersTurned(this.#options.tables.section, isClosed))) return;
    }
  }

  async #recorded(isClosed: () => boolean): Promise<Told[]> {
    const told: Told[] = [];
    for await (const { sequence, projectionId, revision, className, key, eventId } of this.#each(isClosed))
      told.push({ sequence, projectionId, revision, className, key, eventId });
    return told;
  }

  /**
   * The last of its changes whose state is in the store; -1: none. The process that put it there had read all of them up to it, and
   * from the first one on: where one was missing already, nothing was put there before all were told.
   */
  async #storedThrough(own: ReadonlySet<string>, isClosed: () => boolean): Promise<number> {
    let through = -1;
    for await (const change of this.#each(isClosed)) {
      const row = this.#rowOf(change);
      if (row !== undefined && own.has(row.origin.eventId)) through = Math.max(through, row.sequence);
    }
    return through;
  }

  /**
   * A row of this input that is newer was put there before a restart. That of an input before is replaced whatever its sequence: one
   * that was folded past what retention took has a later one.
   */
  async #store(own: ReadonlySet<string>, through: number, isClosed: () => boolean): Promise<void> {
    const { changes, tables } = this.#options;
    const turned = (): Promise<boolean> => othersTurned(tables.section, isClosed);
    for await (const change of inSequence(changes, this.#commit.offset, ROWS_PER_TURN, turned)) {
      if (change.sequence > through) break;
      const row = this.#rowOf(change);
      if (row === undefined || !own.has(row.origin.eventId) || row.sequence < change.sequence)
        storeChange(tables, this.#live, change);
    }
  }

  /** Of the input's events; of one that was erased meanwhile there are none but in its changes. */
  #eventIds(recorded: readonly Told[]): ReadonlySet<string> {
    const ids = new Set(recorded.map(({ eventId }) => eventId));
    for (const { eventId } of eventsOf(this.#commit)) ids.add(eventId);
    return ids;
  }

  /** What the store has under the key of the change. */
  #rowOf(change: Change): KeyState | undefined {
    const unit = unitOf(this.#live, change);
    return unit && this.#options.tables.keyState(unit.projectionId, unit.revision, change.key, unit.classIndex);
  }
}

const NOTHING: Rest = { told: [], fresh: [] };

const lastOf = (changes: readonly Told[]): Told | undefined =>
  changes.reduce<Told | undefined>((a, b) => (a === undefined || b.sequence > a.sequence ? b : a), undefined);

const nameOf = ({ projectionId, className, key }: Pick<Told, 'projectionId' | 'className' | 'key'>): string =>
  `${projectionId}\u0000${className}\u0000${key}`;
