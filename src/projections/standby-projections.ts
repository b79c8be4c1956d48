import type { Change } from '../core/change.js';
import type { Logger } from '../core/logger.js';
import type { ProjectionReleaseValue, ProjectionSwapValue } from '../core/records.js';
import { revisionUnit } from '../core/ids.js';
import { FOLD_READ_BYTES } from '../core/reads.js';
import type { TenantCode } from '../code-host/tenant-code.js';
import type { ProjectionCursor } from './projection-cursor.js';
import type { ChangesWriter } from './changes-writer.js';
import { inputOffset, type Input, type InputFeed } from '../feed/inputs.js';
import { heldRow } from './key-releases.js';
import type { ProjectionBuilds } from './projection-builds.js';
import { FollowingSwap, goLive } from './projection-swap.js';
import { withRecorded } from './recorded-inputs.js';
import { inSequence, lastRecorded, othersTurned } from './recorded-order.js';
import { storeChange, storeNewer, unitsOf, type RevisionUnit } from './projection-unit.js';
import { SLICE, type SliceBounds } from '../jobs/sliced-job.js';
import { Steps, type SteppedWork } from '../jobs/steps.js';
import type { PartitionTables } from '../store/partition-tables.js';

export interface StandbyProjectionsOptions {
  readonly tables: PartitionTables;
  readonly inputs: InputFeed;
  readonly changes: ChangesWriter;
  readonly builds: ProjectionBuilds;
  /** The states of a halted revision are not those of all inputs. */
  readonly code: TenantCode;
  readonly cursor: ProjectionCursor;
  /** Of a projection so many former revisions keep their states. */
  readonly keptRevisions: number;
  /** Of a swap, so much at a time. */
  readonly slice?: SliceBounds | undefined;
  readonly logger: Logger;
}

/**
 * What a standby knows of a tenant's projections: their states, as the owner recorded them, without running their code. An owner
 * records the changes of the inputs in their order, those of one input after each other. So before the last input that has a change
 * every input has all that it will ever have, and those without a change had none. What lies past it is left to a promotion.
 */
export class StandbyProjections implements SteppedWork {
  readonly #options: StandbyProjectionsOptions;
  #units: RevisionUnit[] = [];
  /** Of a revision to which the rows of the one before are being copied. */
  #swapped: readonly RevisionUnit[] = [];
  readonly #steps = new Steps(this);

  constructor(options: StandbyProjectionsOptions) {
    this.#options = options;
    for (const [projectionId, live] of options.tables.liveProjections())
      this.#units.push(...unitsOf(projectionId, live));
  }

  /** All changes from the position on are in the log, or have been folded: from here on it goes on by itself. */
  start(): void {
    this.#steps.start();
  }

  /** There may be inputs, or changes. */
  signal(): void {
    this.#steps.signal();
  }

  /** Nothing more is put in the store. */
  close(): void {
    this.#steps.close();
  }

  /** A change of an input that was passed: it was recorded late, and is the last word on its key. */
  recorded(change: Change, inputOffset: number): void {
    if (this.#steps.closed) return;
    if (inputOffset < this.#options.cursor.stored) {
      this.#storeLate(change);
      this.#options.changes.passed(inputOffset);
    } else this.signal();
  }

  /**
   * Another owner told it, who folded the input without what was erased meanwhile. Nothing of the projection was told of any input
   * behind it: each revision that took the place of its own since has its key as it is told here.
   */
  #storeLate(change: Change): void {
    const { tables } = this.#options;
    const { projectionId, revision, className } = change;
    const live = tables.liveProjection(projectionId);
    if (live?.revision !== revision && live?.past?.some((one) => one.revision === revision) !== true) return;
    // One that goes on after a restart may have copied the row that was there.
    if (this.#swapped[0]?.projectionId !== projectionId) tables.setSwap(projectionId, undefined);
    for (const unit of [...this.#units, ...this.#swapped])
      if (unit.projectionId === projectionId && unit.className === className)
        storeChange(tables, [unit], { ...change, revision: unit.revision });
  }

  failed(error: unknown, again: boolean): void {
    if (!again) this.#options.logger.warn({ err: error }, 'projections could not be followed; trying again');
  }

  async step(): Promise<boolean> {
    const { inputs, changes, cursor, builds } = this.#options;
    const from = cursor.stored;
    if (from >= this.#recordedTo()) return false;
    const { items, end: next } = await inputs.read(from, { bytes: FOLD_READ_BYTES });
    const recordedTo = this.#recordedTo();
    for (const input of withRecorded(items, from, next, changes)) {
      if (this.#steps.closed) return false;
      const offset = inputOffset(input);
      // Of what came meanwhile some may be of inputs before this one that are gone.
      if (offset >= recordedTo && this.#recordedTo() > recordedTo) return true;
      if (!this.#isRecorded(input)) {
        cursor.moveTo(offset);
        return false;
      }
      // On the turn on which its rows are put there: a checkpoint between would have them before their place.
      const pass = (): void => {
        changes.passed(offset);
        cursor.moveTo(offset + 1);
      };
      if (input.kind === 'commit') {
        if (changes.parts(offset) === undefined) this.#store(offset);
        else if (!(await this.#parts(offset))) return false;
      } else if (input.kind === 'erased') builds.markErased();
      else if (input.kind === 'control') {
        const { control } = input;
        if (control.kind === 'ProjectionDrop') this.#drop(control.value.projectionId);
        else if (control.kind === 'ProjectionRelease') this.#release(control.value, await this.#lastOf(offset));
        else {
          await this.#swap(control.value, offset, pass);
          // Without a projection all was recorded: now it is to be asked which of the inputs behind it are, and what came meanwhile.
          return true;
        }
      }
      pass();
    }
    if (this.#steps.closed) return false;
    // Asked again: what was read may have been overtaken by the first projection meanwhile; and no further than it was read for.
    cursor.moveTo(Math.max(cursor.stored, Math.min(next, recordedTo, this.#recordedTo())));
    return cursor.stored > from;
  }

  #store(offset: number): void {
    const { tables, changes } = this.#options;
    for (const change of inOrder(changes.recordedOf(offset))) storeChange(tables, this.#units, change);
  }

  /** Of an input whose changes come in parts there may be many, of which some are in the store already. False: closed in the middle of it. */
  async #parts(offset: number): Promise<boolean> {
    const { tables, changes } = this.#options;
    for await (const change of inSequence(changes, offset, this.#rows, this.#turned))
      storeNewer(tables, this.#units, change);
    return !this.#steps.closed;
  }

  get #rows(): number {
    return (this.#options.slice ?? SLICE).rows;
  }

  readonly #turned = (): Promise<boolean> => othersTurned(this.#options.tables.section, () => this.#steps.closed);

  /** Without a projection no input has a change. */
  #recordedTo(): number {
    return this.#units.length === 0 ? Infinity : this.#options.changes.lastRecorded();
  }

  #isRecorded(input: Input): boolean {
    if (input.kind !== 'control' || input.control.kind === 'ProjectionDrop')
      return inputOffset(input) < this.#recordedTo();
    // The changes of a swap, or of a release, are several produces: only one of a later input says that they are through.
    if (inputOffset(input) < this.#options.changes.lastRecorded()) return true;
    return input.control.kind === 'ProjectionSwap'
      ? this.#passedOver(input.control.value)
      : heldRow(this.#options.tables, this.#units, input.control.value) === undefined;
  }

  /** By its revision alone: of a projection that was deleted, the owner told nothing, and a promotion drops it. */
  #passedOver({ projectionId, revision }: ProjectionSwapValue): boolean {
    return (this.#options.tables.liveProjection(projectionId)?.revision ?? 0) >= revision;
  }

  /** The rows of the new revision are those of the one before, and what the swap told. */
  async #swap(swap: ProjectionSwapValue, offset: number, pass: () => void): Promise<void> {
    const { tables, builds, changes } = this.#options;
    const { projectionId, revision } = swap;
    const passedOver = this.#passedOver(swap);
    builds.forget(projectionId, revision);
    if (passedOver) return pass();
    const before = tables.liveProjection(projectionId);
    const mustGoOn = (): void => {
      if (this.#steps.closed) throw new Error('the tenant is followed no more');
    };
    const plan = { tables, swap, before, offset, slice: this.#options.slice ?? SLICE, mustGoOn };
    this.#swapped = unitsOf(projectionId, swap);
    const changed = await new FollowingSwap(plan, (past) => changes.recordedPast(offset, past))
      .run()
      .finally(() => (this.#swapped = []));
    this.#units = [...this.#units.filter((unit) => unit.projectionId !== projectionId), ...unitsOf(projectionId, swap)];
    const halted = before !== undefined && this.#options.code.isHalted(revisionUnit(projectionId, before.revision));
    goLive(tables, swap, before, offset, changed, halted ? 0 : this.#options.keptRevisions);
    pass();
  }

  /** Of the changes of a release, which are all of one key. @throws where it is closed meanwhile */
  async #lastOf(offset: number): Promise<Change | undefined> {
    const last = await lastRecorded(this.#options.changes, offset, () => true, this.#rows, this.#turned);
    if (this.#steps.closed) throw new Error('the tenant is followed no more');
    return last;
  }

  #release(release: ProjectionReleaseValue, last: Change | undefined): void {
    const { tables } = this.#options;
    if (heldRow(tables, this.#units, release) === undefined) return;
    tables.faults.setDeparted(release.projectionId, release.revision);
    if (last !== undefined) storeChange(tables, this.#units, last);
  }

  #drop(projectionId: string): void {
    this.#units = this.#units.filter((unit) => unit.projectionId !== projectionId);
    this.#options.builds.forget(projectionId);
    this.#options.tables.dropProjection(projectionId);
  }
}

const inOrder = (changes: Iterable<Change>): Change[] => [...changes].sort((a, b) => a.sequence - b.sequence);
