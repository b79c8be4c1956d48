import type { State } from '../code-host/code-host.js';
import type { Change } from '../core/change.js';
import type { Fault } from '../core/event.js';
import { FOLD_READ_BYTES } from '../core/reads.js';
import type { ChangeValue, ProjectionReleaseValue, ReleaseMode } from '../core/records.js';
import { nextTurn } from '../core/slices.js';
import type { TenantCode } from '../code-host/tenant-code.js';
import type { ChangesWriter } from './changes-writer.js';
import { bytesOfValue, PRODUCE } from './portions.js';
import type { InputFeed } from '../feed/inputs.js';
import { SLICE } from '../jobs/sliced-job.js';
import {
  changeOfRow,
  commitsBetween,
  ProjectionBatch,
  rowAfter,
  type FoldedKeys,
  type KeyRow,
} from './projection-fold.js';
import { storeChange, type RevisionUnit } from './projection-unit.js';
import { lastRecorded } from './recorded-order.js';
import type { KeyState, PartitionTables } from '../store/partition-tables.js';

/** What a retry or a skip came to. `changes` counts the states that it told. */
export type ReleaseOutcome =
  | { readonly outcome: 'released'; readonly changes: number }
  /** At the same event again, or at a later one. */
  | { readonly outcome: 'faulted'; readonly changes: number; readonly fault: Fault }
  /** That fault did not stop the key any more, or another revision was live by then. */
  | { readonly outcome: 'superseded' };

export interface KeyReleasesOptions {
  readonly tables: PartitionTables;
  readonly inputs: InputFeed;
  readonly changes: ChangesWriter;
  /** Of a halted revision a release is passed over. */
  readonly code: TenantCode;
  readonly changesPerProduce?: number | undefined;
  readonly observer?:
    { released?(kind: 'projection', mode: ReleaseMode, outcome: ReleaseOutcome['outcome']): void } | undefined;
}

const EVENTS_PER_BATCH = 256;

/** The row of the key that the release is for, if that fault stops it: as every reader of the log finds it at that place. */
export function heldRow(
  tables: PartitionTables,
  units: readonly RevisionUnit[],
  release: ProjectionReleaseValue,
): { readonly unit: RevisionUnit; readonly row: KeyState & { readonly fault: Fault } } | undefined {
  const { projectionId, revision, className, key, eventId } = release;
  const unit = units.find(
    (one) => one.projectionId === projectionId && one.revision === revision && one.className === className,
  );
  const row = unit === undefined ? undefined : tables.keyState(projectionId, revision, key, unit.classIndex);
  return unit === undefined || row?.fault?.eventId !== eventId
    ? undefined
    : { unit, row: { ...row, fault: row.fault } };
}

/**
 * Takes a key of a projection on from where it stopped, at the place of the release in the tenant's order: its events from the fault
 * on are read again from the log and folded, one change for each state, while all other keys stay as they are.
 *
 * The row is put in the store when all changes are acknowledged. Broken off before, the release is done again at the same place,
 * and goes on behind the last change that was accepted, whatever the code would make of the events before it this time.
 */
export class KeyReleases {
  readonly #options: KeyReleasesOptions;
  readonly #waiting = new Map<string, (outcome: ReleaseOutcome) => void>();

  constructor(options: KeyReleasesOptions) {
    this.#options = options;
  }

  /** What the release of this command comes to, when the projections have come to it in this process. */
  outcomeOf(commandId: string): { readonly outcome: Promise<ReleaseOutcome>; forget(): void } {
    const outcome = new Promise<ReleaseOutcome>((resolve) => this.#waiting.set(commandId, resolve));
    return { outcome, forget: () => this.#waiting.delete(commandId) };
  }

  /**
   * All changes of inputs before are in the store. `pass` is called on the turn on which the row is put there: a checkpoint between would
   * have a key that goes on at an input that is yet to come. @throws where the code could not be run: it is begun again then
   */
  async apply(
    release: ProjectionReleaseValue,
    offset: number,
    units: readonly RevisionUnit[],
    pass: () => void,
  ): Promise<void> {
    const { tables, changes, code, observer } = this.#options;
    const held = heldRow(tables, units, release);
    let outcome: ReleaseOutcome = { outcome: 'superseded' };
    const begun = hasOf(changes.recordedOf(offset), release.projectionId);
    if (
      held !== undefined &&
      (begun || !code.isHalted(held.unit.id)) &&
      // Another revision took its place since.
      (await code.loads(held.unit.artefactId))
    ) {
      const run = new Run(this.#options, release, offset, held.unit, held.row);
      await run.finish();
      // What the runner has of the key says that it is faulted.
      code.runner.forget(held.unit.id);
      const { last, made } = run;
      tables.faults.setDeparted(release.projectionId, release.revision);
      storeChange(tables, [held.unit], last);
      outcome =
        last.fault === undefined
          ? { outcome: 'released', changes: made }
          : { outcome: 'faulted', changes: made - 1, fault: last.fault };
    }
    pass();
    observer?.released?.('projection', release.mode, outcome.outcome);
    this.#waiting.get(release.commandId)?.(outcome);
    this.#waiting.delete(release.commandId);
  }
}

/** One release of one key. */
class Run implements FoldedKeys<RevisionUnit> {
  readonly reply = 'each';
  readonly #options: KeyReleasesOptions;
  readonly #release: ProjectionReleaseValue;
  readonly #offset: number;
  readonly #unit: RevisionUnit;
  readonly #row: KeyState & { readonly fault: Fault };
  #state: State;
  /** Events up to this one have been folded, or are passed over; undefined: past it by now. */
  #after: string | undefined;
  #index = 0;
  #last: Change | undefined;
  /** What comes past the changes that are known was dropped by retention: it has been told. */
  #told = false;
  #batch: ChangeValue[] = [];
  #bytes = 0;

  constructor(
    options: KeyReleasesOptions,
    release: ProjectionReleaseValue,
    offset: number,
    unit: RevisionUnit,
    row: KeyState & { readonly fault: Fault },
  ) {
    this.#options = options;
    this.#release = release;
    this.#offset = offset;
    this.#unit = unit;
    this.#row = row;
    this.#state = row.state;
    this.#after = row.fault.eventId;
  }

  get last(): Change {
    if (this.#last === undefined) throw new Error('a release ends with a change');
    return this.#last;
  }

  /** How many changes there are of it. */
  get made(): number {
    return this.#index;
  }

  async finish(): Promise<void> {
    const { changes, tables } = this.#options;
    const { projectionId, mode } = this.#release;
    const isOurs = (change: Change): boolean => change.projectionId === projectionId;
    this.#last = await lastRecorded(changes, this.#offset, isOurs, SLICE.rows, async () => {
      await nextTurn();
      return true;
    });
    const lastInput = tables.lastInput(projectionId);
    if (this.#last !== undefined) {
      // Later inputs have theirs only when all of this one were there.
      if (this.#last.fault !== undefined || (lastInput !== undefined && lastInput[0] > this.#offset)) return;
      this.#index = (lastInput?.[1] ?? -1) + 1;
      this.#told = this.#isTold();
      this.#state = this.#last.state;
      await this.#fold(this.#last.eventId, true);
    } else {
      this.#told = this.#isTold();
      await this.#fold(this.#row.fault.eventId, mode === 'skip');
      // What made no other state is told too: the key goes on.
      if (this.#index === 0) this.#push(this.#value({ ...this.#row, state: this.#state, fault: undefined }));
    }
    await this.#write();
  }

  /** From the event on, or from the one after it. */
  async #fold(eventId: string, past: boolean): Promise<void> {
    this.#after = eventId;
    const { place: from = 0 } = this.#row.fault;
    let looked = false;
    for await (const read of commitsBetween(this.#options.inputs, from, this.#offset, FOLD_READ_BYTES)) {
      let commits = read;
      if (!looked && eventId === this.#row.fault.eventId && this.#row.fault.place !== undefined && read.length > 0) {
        looked = true;
        const at = read.find(({ offset }) => offset === from);
        // It was erased: the key goes on behind it.
        if (at === undefined || new ProjectionBatch([at]).only(eventId) === undefined) {
          commits = read.filter(({ offset }) => offset > from);
          this.#after = undefined;
        }
      }
      for (const batch of ProjectionBatch.of(commits, EVENTS_PER_BATCH)) if (await this.#project(batch, past)) return;
    }
  }

  /** True when the key has stopped again. */
  async #project(whole: ProjectionBatch, past: boolean): Promise<boolean> {
    const batch = this.#after === undefined ? whole : whole.startingAt(this.#after, past);
    if (batch === undefined) return false;
    this.#after = undefined;
    const { code, changesPerProduce = PRODUCE.changes } = this.#options;
    // Of a name of its own: of other keys nothing is folded, and nothing of them is remembered.
    const unit = { ...this.#unit, id: `${this.#unit.id}@release` };
    code.runner.forget(unit.id);
    for (const effect of await batch.fold(code.runner, [unit], this)) {
      if (effect.key !== this.#release.key) continue;
      this.#state = effect.state;
      this.#push(this.#value(rowAfter(effect)));
      if (this.#batch.length >= changesPerProduce || this.#bytes >= PRODUCE.bytes) await this.#write();
      if (effect.fault !== undefined) return true;
    }
    return false;
  }

  stateOf(_: RevisionUnit, key: string): { readonly state: State; readonly faulted: boolean } {
    return key === this.#release.key ? { state: this.#state, faulted: false } : { state: null, faulted: true };
  }

  #value(row: KeyRow): ChangeValue {
    return changeOfRow(this.#release, [this.#offset, this.#index++], this.#release.mode, row);
  }

  #isTold(): boolean {
    const { projectionId } = this.#release;
    return this.#options.changes.isTold({ projectionId, inputOffset: this.#offset, inputIndex: this.#index });
  }

  #push(value: ChangeValue): void {
    this.#batch.push(value);
    this.#bytes += bytesOfValue(value);
  }

  async #write(): Promise<void> {
    const values = this.#batch.splice(0);
    this.#bytes = 0;
    const final = values.at(-1);
    if (final === undefined) return;
    const { changes } = this.#options;
    if (this.#told) this.#last = changes.trimmedChange(final);
    else
      this.#last = await new Promise<Change | undefined>((resolve) =>
        changes.write(values, (acked) => resolve(acked.reduce((a, b) => (a.sequence > b.sequence ? a : b))), 'control'),
      );
  }
}

/** As far as it takes to tell. */
function hasOf(changes: Iterable<Change>, projectionId: string): boolean {
  for (const change of changes) if (change.projectionId === projectionId) return true;
  return false;
}
