import type { TenantCode } from '../code-host/tenant-code.js';
import type { ProjectionCursor } from './projection-cursor.js';
import { changeBytes, type Change, type SwapCause } from '../core/change.js';
import { InvariantError } from '../core/errors.js';
import { eventLoop } from '../core/event-loop.js';
import type { StoredCommit } from '../core/event.js';
import type { Logger } from '../core/logger.js';
import type { ChangeValue, ProjectionSwapValue } from '../core/records.js';
import { revisionUnit } from '../core/ids.js';
import { inputAfter, PRODUCE_BYTES, type ChangesWriter } from './changes-writer.js';
import { commitsOf, type InputFeed } from '../feed/inputs.js';
import { Foresight, type Foreseen } from './foresight.js';
import type { KeyReleases } from './key-releases.js';
import { changeOfRow, ProjectionBatch, rowAfter, type Effect, type FoldedKeys } from './projection-fold.js';
import type { ProjectionBuilds } from './projection-builds.js';
import { goLive, TellingSwap } from './projection-swap.js';
import {
  beforeHalt,
  firstDisagreement,
  nameOf,
  pendingOf,
  sameState,
  storeChange,
  stateName,
  unitsOf,
  type NamedState,
  type PendingState,
  type RevisionUnit,
} from './projection-unit.js';
import { takeEvents } from '../core/event.js';
import { SLICE, type SliceBounds } from '../jobs/sliced-job.js';
import { Steps, type SteppedWork } from '../jobs/steps.js';
import type { ProjectionReads } from './projection-reads.js';
import type { PartitionTables } from '../store/partition-tables.js';

export interface ProjectorOptions {
  /** Told when a revision went live. */
  readonly reads: Pick<ProjectionReads, 'livesChanged'>;
  readonly tables: PartitionTables;
  readonly inputs: InputFeed;
  readonly changes: ChangesWriter;
  readonly builds: ProjectionBuilds;
  readonly releases: KeyReleases;
  /** A halted revision is not fed any more. Its number never is again, since its states have a gap from there on. */
  readonly code: TenantCode;
  readonly cursor: ProjectionCursor;
  /** A swap of a projection that was deleted is passed over. */
  readonly definitions: { projectionExists(projectionId: string): boolean };
  /** Of a projection so many former revisions keep their states. */
  readonly keptRevisions: number;
  readonly logger: Logger;
  readonly changesPerProduce?: number | undefined;
  /** Of a swap, so much at a time. */
  readonly slice?: SliceBounds | undefined;
  readonly observer?: ProjectorObserver | undefined;
}

export interface ProjectorObserver {
  projected?(events: number, changes: number, seconds: number): void;
  faulted?(kind: 'projection'): void;
  swapped?(cause: SwapCause): void;
}

/** Inputs that are folded and whose changes may be on the way. What they did is put in the store in their order, when all of it is acknowledged. */
interface Flight {
  readonly upTo: number;
  readonly inputs: readonly number[];
  acked: boolean;
  readonly made: Made[];
}
interface Made {
  readonly change: Change;
  readonly pending: PendingState;
}

const READ_BYTES = 512 * 1024;
const EVENTS_PER_BATCH = 256;
const BATCHES_IN_FLIGHT = 8;
const CHANGES_PER_PRODUCE = 1000;

const bytesOfValue = (value: ChangeValue): number => changeBytes(value) + (value.fault?.length ?? 0);

/**
 * Feeds a tenant's events, in their one order, to its live projections. A batch is folded while the changes of the one before
 * are being written; states and the position count when they are acknowledged. After a restart the inputs past the checkpoint
 * are folded again: a change that was accepted then is taken as it was recorded, not written twice.
 */
export class Projector implements SteppedWork, FoldedKeys<RevisionUnit> {
  readonly reply = 'each';
  readonly #options: ProjectorOptions;
  #units: RevisionUnit[] = [];
  readonly #pending = new Map<string, PendingState>();
  readonly #flights: Flight[] = [];
  readonly #foresight: Foresight;
  readonly #steps = new Steps(this);
  #freed: (() => void) | undefined;

  constructor(options: ProjectorOptions) {
    this.#options = options;
    this.#foresight = new Foresight(options.code.runner);
  }

  /** Folds from the cursor on: what the live projections did with all before is in the store. */
  start(): void {
    const { cursor } = this.#options;
    cursor.moveTo(cursor.stored);
    for (const [projectionId, live] of this.#options.tables.liveProjections())
      this.#units.push(...unitsOf(projectionId, live));
    this.#steps.start();
  }

  /** There may be inputs. */
  signal(): void {
    this.#steps.signal();
  }

  /** Commits are on their way to this offset. With nothing else to fold, and no code to be loaded, they are folded meanwhile. */
  foresee(offset: number, commits: (mostEvents: number) => readonly StoredCommit[]): void {
    if (
      this.#steps.running ||
      this.#steps.closed ||
      this.#foresight.pending ||
      offset !== this.#options.cursor.folded ||
      this.#flights.length >= BATCHES_IN_FLIGHT
    )
      return;
    const units = this.#fed();
    if (units.length === 0 || units.some(({ artefactId }) => this.#isLoading(artefactId))) return;
    const foreseen = commits(EVENTS_PER_BATCH);
    if (foreseen.length > 0) {
      const batch = new ProjectionBatch(foreseen);
      this.#foresight.begin(foreseen, units, () => batch.ask(this.#options.code.runner, units, this));
    }
  }

  close(): void {
    this.#steps.close();
    this.#freed?.();
  }

  failed(error: unknown): void {
    this.#options.logger.warn({ err: error }, 'projections could not be folded; trying again');
    for (const unit of this.#units) this.#options.code.runner.forget(unit.id);
  }

  async step(): Promise<boolean> {
    while (this.#isBehind && !this.#steps.closed) await this.#oneAcked();
    const { section } = this.#options.tables;
    if (section.isFull) await section.untilRoom(() => !this.#steps.closed);
    if (this.#steps.closed) return false;
    if (this.#units.length === 0 && this.#pass()) return true;
    const { cursor } = this.#options;
    const { items: inputs, end: next } = await this.#options.inputs.read(cursor.folded, { bytes: READ_BYTES });
    if (next === cursor.folded || this.#steps.closed) return false;
    const foreseen = this.#foresight.pending ? await this.#foresight.claim(inputs, this.#fed()) : undefined;
    if (this.#steps.closed) return false;
    const control = inputs.findIndex((input) => input.kind === 'control');
    const first = inputs[0];
    if (control === 0 && first?.kind === 'control') {
      while (this.#flights.length > 0) await this.#oneAcked();
      if (first.control.kind === 'ProjectionSwap') await this.#swap(first.control.value, first.offset);
      else if (first.control.kind === 'ProjectionRelease')
        await this.#options.releases.apply(first.control.value, first.offset, this.#units);
      else this.#drop(first.control.value.projectionId);
      this.#options.changes.passed(first.offset);
      cursor.moveTo(first.offset + 1);
      return true;
    }
    const commits = commitsOf(control < 0 ? inputs : inputs.slice(0, control));
    const stop = inputs[control];
    const end = stop?.kind === 'control' ? stop.offset : next;
    if (end <= cursor.folded) throw new InvariantError(`what is to be folded from ${cursor.folded} on ends at ${end}`);
    if (this.#units.length === 0) {
      this.#fly(end, commits).acked = true;
      this.#land();
    } else {
      const count = foreseen?.commits.length ?? takeEvents(commits, EVENTS_PER_BATCH);
      await this.#project(
        commits.slice(0, count),
        count < commits.length ? (commits[count]?.offset ?? end) : end,
        foreseen,
      );
    }
    return true;
  }

  /** As much is on its way into the log as may be. What is folded next would only wait behind it. */
  get #isBehind(): boolean {
    return this.#flights.length >= BATCHES_IN_FLIGHT || (this.#flights.length > 0 && this.#options.changes.isFull);
  }

  /** Without projections, and with no change left of one, commits are passed unread. */
  #pass(): boolean {
    const { inputs, changes, cursor } = this.#options;
    const until =
      this.#flights.length > 0 || changes.lastRecorded() >= cursor.folded
        ? undefined
        : inputs.commitsUntil?.(cursor.folded);
    if (until === undefined || until <= cursor.folded) return false;
    cursor.moveTo(until);
    return true;
  }

  #fly(upTo: number, commits: readonly StoredCommit[]): Flight {
    const flight: Flight = { upTo, inputs: commits.map((commit) => commit.offset), acked: false, made: [] };
    this.#flights.push(flight);
    this.#options.cursor.folded = upTo;
    return flight;
  }

  #land(): void {
    const { changes, cursor } = this.#options;
    for (let flight = this.#flights[0]; flight?.acked; flight = this.#flights[0]) {
      for (const { change, pending } of flight.made.sort((a, b) => a.change.sequence - b.change.sequence))
        this.#store(change, pending);
      for (const input of flight.inputs) changes.passed(input);
      cursor.stored = flight.upTo;
      this.#flights.shift();
    }
    this.#freed?.();
  }

  async #oneAcked(): Promise<void> {
    this.#mustGoOn();
    await new Promise<void>((resolve) => (this.#freed = resolve));
    this.#freed = undefined;
    this.#mustGoOn();
  }

  /** The units of all live projections that have not too many strikes. */
  #fed(): RevisionUnit[] {
    const { code } = this.#options;
    return this.#units.filter(({ id }) => !code.isHalted(id));
  }

  #isLoading(artefactId: string): boolean {
    const loading = this.#options.code.load(artefactId);
    loading?.catch(() => undefined); // whoever needs it asks again
    return loading !== undefined;
  }

  async #project(commits: readonly StoredCommit[], upTo: number, foreseen?: Foreseen): Promise<void> {
    const units = foreseen?.units ?? this.#fed();
    for (const artefactId of new Set(units.map((unit) => unit.artefactId))) await this.#options.code.load(artefactId);
    if (this.#steps.closed) return;
    const batch = new ProjectionBatch(commits);
    const started = performance.now();
    const effects =
      foreseen === undefined
        ? await batch.fold(this.#options.code.runner, units, this)
        : batch.effects(units, await foreseen.given);
    if (this.#steps.closed) return;
    const values = valuesOf(beforeHalt(effects));
    this.#options.observer?.projected?.(batch.events.length, values.length, (performance.now() - started) / 1000);
    const cut = firstDisagreement(this.#options.changes, units, commits, values);
    if (cut === undefined) return eventLoop.slice('projections', () => this.#emitAll(values, upTo, commits));
    // What the log has is what counts. What the code gave behind it rests on another state, and is asked for again.
    const { offset } = cut;
    this.#options.logger.warn(
      { input: offset },
      'the code gave another state than before the restart; the recorded one holds',
    );
    for (const unit of units) this.#options.code.runner.forget(unit.id);
    const through = commits.indexOf(cut) + 1;
    this.#emit(
      values.filter(({ inputOffset }) => inputOffset < offset),
      commits[through]?.offset ?? upTo,
      commits.slice(0, through),
    );
  }

  /** What a batch made, in produces of a bounded size; the changes of one input stay together, so that a reader has all of them or none. */
  #emitAll(values: readonly ChangeValue[], upTo: number, commits: readonly StoredCommit[]): void {
    let [value, commit, bytes] = [0, 0, 0];
    for (const [i, next] of values.entries()) {
      const size = bytesOfValue(next);
      if (bytes + size > PRODUCE_BYTES && i > value && next.inputOffset !== values[i - 1]?.inputOffset) {
        const end = commits.findIndex(({ offset }) => offset === next.inputOffset);
        this.#emit(values.slice(value, i), next.inputOffset, commits.slice(commit, end));
        [value, commit, bytes] = [i, end, 0];
      }
      bytes += size;
    }
    this.#emit(values.slice(value), upTo, commits.slice(commit));
  }

  stateOf(unit: RevisionUnit, key: string): PendingState {
    const pending = this.#pending.get(stateName(unit, key));
    if (pending !== undefined) return pending;
    const row = this.#options.tables.keyState(unit.projectionId, unit.revision, key, unit.classIndex);
    return { state: row?.state ?? null, faulted: row?.fault !== undefined };
  }

  isHalted({ id }: RevisionUnit): boolean {
    return this.#options.code.isHalted(id);
  }

  /** Writes the changes of a batch; those that were accepted before the restart are taken from the record. */
  #emit(values: readonly ChangeValue[], upTo: number, commits: readonly StoredCommit[]): void {
    const flight = this.#fly(upTo, commits);
    const { fresh, recorded } = this.#resume(values, flight.inputs);
    for (const change of recorded)
      flight.made.push({ change, pending: this.#await(change, change.fault !== undefined) });
    if (fresh.length === 0) {
      flight.acked = true;
      this.#land();
      return;
    }
    const pending = fresh.map((value) => this.#await(value, value.fault !== null));
    for (const { fault } of fresh) if (fault !== null) this.#options.observer?.faulted?.('projection');
    this.#options.changes.write(fresh, (acked) => {
      acked.forEach((change, i) => flight.made.push({ change, pending: pending[i] ?? pendingOf(change.state, false) }));
      flight.acked = true;
      this.#land();
    });
  }

  /** The state on which later inputs are folded until it is in the store. */
  #await(change: NamedState, faulted: boolean): PendingState {
    const pending = pendingOf(change.state, faulted);
    this.#pending.set(nameOf(change), pending);
    return pending;
  }

  /** Parts the values in those to be written and those whose change is accepted; accepted changes without a value count too. */
  #resume(values: readonly ChangeValue[], inputs: readonly number[]): { fresh: ChangeValue[]; recorded: Change[] } {
    const { changes, tables, logger, code } = this.#options;
    const fresh: ChangeValue[] = [];
    const recorded = new Set<Change>();
    for (const input of inputs) for (const change of changes.recordedOf(input)) recorded.add(change);
    for (const value of values) {
      const { projectionId, revision, key, inputOffset, inputIndex } = value;
      const change = changes.recorded(value);
      const trimmed = change === undefined ? changes.trimmedChange(value) : undefined;
      if (trimmed !== undefined) {
        recorded.add(trimmed);
        continue;
      }
      const last = tables.lastInput(projectionId);
      if (change === undefined && (last === undefined || inputAfter([inputOffset, inputIndex], last))) {
        fresh.push(value);
        continue;
      }
      if (change !== undefined && change.key === key && sameState(change.state, value.state)) continue;
      logger.warn(
        { projectionId, key, input: inputOffset },
        'the projection gave another state than before the restart: its code does not depend on its events alone',
      );
      code.runner.forget(revisionUnit(projectionId, revision));
    }
    return { fresh, recorded: [...recorded] };
  }

  #store(change: Change, pending: PendingState | undefined): void {
    const { tables } = this.#options;
    const name = nameOf(change);
    if (this.#pending.get(name) === pending) this.#pending.delete(name);
    storeChange(tables, this.#units, change);
  }

  /** Each state of the revision is notified once, of a redeploy those that differ; then it is the live one. */
  async #swap(swap: ProjectionSwapValue, offset: number): Promise<void> {
    const { tables, builds, definitions, code } = this.#options;
    const { projectionId, revision } = swap;
    const before = tables.liveProjection(projectionId);
    if (!definitions.projectionExists(projectionId) || (before !== undefined && before.revision >= revision)) {
      builds.forget(projectionId, revision);
      return;
    }
    await builds.finish(projectionId, swap, offset);
    this.#units = [...this.#units.filter((unit) => unit.projectionId !== projectionId), ...unitsOf(projectionId, swap)];
    const plan = {
      tables,
      swap,
      before,
      offset,
      slice: this.#options.slice ?? SLICE,
      mustGoOn: () => this.#mustGoOn(),
    };
    const changed = await new TellingSwap(plan, (values) => this.#tellAll(values)).run();
    const kept =
      before !== undefined && code.isHalted(revisionUnit(projectionId, before.revision))
        ? 0
        : this.#options.keptRevisions;
    goLive(tables, swap, before, offset, changed, kept);
    this.#options.observer?.swapped?.(swap.cause);
    this.#options.reads.livesChanged();
    builds.forget(projectionId, revision);
    if (before !== undefined) this.#options.code.runner.forget(revisionUnit(projectionId, before.revision));
  }

  async #tellAll(values: readonly ChangeValue[]): Promise<void> {
    const { changesPerProduce = CHANGES_PER_PRODUCE } = this.#options;
    for (let at = 0; at < values.length; at += changesPerProduce)
      await this.#emitSwap(values.slice(at, at + changesPerProduce));
  }

  #mustGoOn(): void {
    if (this.#steps.closed) throw new Error('the tenant is closed');
  }

  async #emitSwap(values: readonly ChangeValue[]): Promise<void> {
    const { changes, tables } = this.#options;
    const fresh: ChangeValue[] = [];
    for (const value of values) {
      const { projectionId, inputOffset, inputIndex } = value;
      const change = changes.recorded(value) ?? changes.trimmedChange(value);
      const last = tables.lastInput(projectionId);
      if (change !== undefined) this.#store(change, undefined);
      else if (last === undefined || inputAfter([inputOffset, inputIndex], last)) fresh.push(value);
      // Else it was accepted, and stored with its chunk.
    }
    if (fresh.length === 0) return;
    await new Promise<void>((resolve) => {
      changes.write(fresh, (acked) => {
        for (const change of acked) this.#store(change, undefined);
        resolve();
      });
    });
  }

  #drop(projectionId: string): void {
    const { tables, code, builds } = this.#options;
    for (const unit of this.#units) if (unit.projectionId === projectionId) code.runner.forget(unit.id);
    this.#units = this.#units.filter((unit) => unit.projectionId !== projectionId);
    builds.forget(projectionId);
    tables.dropProjection(projectionId);
  }
}

/** Numbered a projection each: which others are there, and in what order, may differ after a restart. */
function valuesOf(effects: readonly Effect<RevisionUnit>[]): ChangeValue[] {
  const values: ChangeValue[] = [];
  const indices = new Map<string, number>();
  let last: StoredCommit | undefined;
  for (const effect of effects) {
    const { commit, unit, key } = effect;
    const { projectionId, revision, className } = unit;
    if (commit !== last) indices.clear();
    last = commit;
    const index = indices.get(projectionId) ?? 0;
    indices.set(projectionId, index + 1);
    values.push(
      changeOfRow({ projectionId, revision, className, key }, [commit.offset, index], null, rowAfter(effect)),
    );
  }
  return values;
}
