import type { TenantCode } from '../code-host/tenant-code.js';
import type { ProjectionCursor } from './projection-cursor.js';
import type { Change, SwapCause } from '../core/change.js';
import { InvariantError } from '../core/errors.js';
import { eventLoop } from '../core/event-loop.js';
import type { Logger } from '../core/logger.js';
import { chunksOf } from '../core/parts.js';
import type { ChangeValue, ProjectionControl, ProjectionSwapValue } from '../core/records.js';
import { revisionUnit } from '../core/ids.js';
import type { ChangesWriter } from './changes-writer.js';
import { commitsOf, inputOffset, type InputFeed } from '../feed/inputs.js';
import { Foresight, type Foreseen } from './foresight.js';
import type { KeyReleases } from './key-releases.js';
import { Rates } from '../core/rates.js';
import { inSlices, nextTurn } from '../core/slices.js';
import { BatchSize } from './batch-size.js';
import { logHas } from './log-has.js';
import { PartedInput } from './parted-input.js';
import { portionsOf, portionsOfInput, PRODUCE, type Portion, type PortionBounds } from './portions.js';
import { ProjectionBatch, valuesOf, type FoldedKeys } from './projection-fold.js';
import type { ProjectionBuilds } from './projection-builds.js';
import { FollowingSwap, goLive, TellingSwap } from './projection-swap.js';
import {
  beforeHalt,
  firstDisagreement,
  inUnitOrder,
  nameOf,
  pendingState,
  sameRow,
  sameState,
  storeChange,
  storeNewer,
  stateName,
  unitOf,
  unitsOf,
  type NamedState,
  type PendingState,
  type RevisionUnit,
} from './projection-unit.js';
import { eventsIn, takeEvents, type StoredCommit } from '../core/event.js';
import { FOLD_READ_BYTES } from '../core/reads.js';
import { SLICE, StorePace, type SliceBounds } from '../jobs/sliced-job.js';
import { Steps, type SteppedWork } from '../jobs/steps.js';
import type { ProjectionReads } from './projection-reads.js';
import { withRecorded } from './recorded-inputs.js';
import { inSequence } from './recorded-order.js';
import type { PartitionTables } from '../store/partition-tables.js';
import { ToldOfSwap } from './told-of-swap.js';

export interface ProjectorOptions {
  /** Told when a revision went live. */
  readonly reads: Pick<ProjectionReads, 'livesChanged'>;
  readonly tables: PartitionTables;
  readonly inputs: InputFeed;
  readonly changes: ChangesWriter;
  readonly builds: ProjectionBuilds;
  readonly releases: KeyReleases;
  /**
   * A halted revision is not fed any more. Its number never is again, since its states have a gap from there on. So it is with one whose
   * code is not kept any more: whoever folds history again comes to it, and to the one that took its place.
   */
  readonly code: TenantCode;
  readonly cursor: ProjectionCursor;
  /** A swap of a projection that was deleted is passed over. */
  readonly definitions: { projectionExists(projectionId: string): boolean };
  /** Of a projection so many former revisions keep their states. */
  readonly keptRevisions: number;
  readonly tenantId: string;
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

/**
 * Inputs that are folded and whose changes may be on the way. What they did is put in the store in their order, when all of it is
 * acknowledged. Of an input whose changes come in parts each is a flight of its own, and the last one passes it.
 */
interface Flight {
  readonly upTo: number;
  readonly inputs: readonly number[];
  /** More is to come of the input at `upTo`. */
  readonly half: boolean;
  /** Of the inputs. */
  readonly events: number;
  acked: boolean;
  readonly made: Made[];
}
interface Made {
  /** Whose change it is: where retention took some, sequences do not tell the order of inputs. */
  readonly input: number;
  readonly change: Change;
  readonly pending: PendingState;
}

const inOrder = (a: Made, b: Made): number => a.input - b.input || a.change.sequence - b.change.sequence;

const EVENTS_PER_BATCH = 256;
const BATCHES_IN_FLIGHT = 8;
/** Of changes that a batch made, taken on at a time. */
const CHANGES_PER_PIECE = 2000;

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
  /** The last step failed: what it had begun to write is waited for, and gone on from. */
  #interrupted = false;
  /** Some of the changes of the input at the cursor are in the store, and not yet all. */
  #half = false;
  #onWhole: (() => void)[] = [];
  readonly #bounds: PortionBounds;
  readonly #batchSize = new BatchSize(EVENTS_PER_BATCH);
  /** Of the events that each live projection has worked off here. */
  #rates = new Rates(performance.now());
  /** Projections of which the log has other states than their code gave since the start. */
  readonly #disagreed = new Set<string>();

  constructor(options: ProjectorOptions) {
    this.#options = options;
    this.#bounds = { ...PRODUCE, changes: options.changesPerProduce ?? PRODUCE.changes };
    this.#foresight = new Foresight(options.code.runner);
  }

  /** Folds from the cursor on: what the live projections did with all before is in the store. */
  start(): void {
    const { cursor } = this.#options;
    cursor.moveTo(cursor.stored);
    this.#rates = new Rates(performance.now());
    const lives = this.#options.tables.liveProjections();
    this.#units = inUnitOrder(lives.flatMap(([projectionId, live]) => unitsOf(projectionId, live)));
    // What an owner before, or this process as a standby, was stopped in the middle of: it need not be at the cursor itself.
    this.#setHalf(this.#options.changes.hasParts(cursor.stored));
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
    const foreseen = commits(this.#batchSize.events(units.length));
    if (foreseen.length > 0) {
      const batch = new ProjectionBatch(foreseen);
      this.#foresight.begin(foreseen, units, () => batch.ask(this.#options.code.runner, units, this));
    }
  }

  close(): void {
    this.#steps.close();
    this.#freed?.();
    this.#setHalf(false);
  }

  /** Undefined: what is in the store is of whole inputs. Else it resolves when that may be so. */
  whole(): Promise<void> | undefined {
    return this.#half && !this.#steps.closed ? new Promise((resolve) => this.#onWhole.push(resolve)) : undefined;
  }

  eventsPerSecond(projectionId: string): number | undefined {
    return this.#rates.of(projectionId, performance.now());
  }

  #setHalf(half: boolean): void {
    this.#half = half;
    if (!half) for (const resolve of this.#onWhole.splice(0)) resolve();
  }

  failed(error: unknown, again: boolean): void {
    const { tenantId, logger } = this.#options;
    if (!again) logger.warn({ err: error, tenantId }, 'projections could not be folded; trying again');
    for (const unit of this.#units) this.#options.code.runner.forget(unit.id);
    this.#interrupted = true;
  }

  async step(): Promise<boolean> {
    if (this.#interrupted) await this.#allAcked();
    this.#interrupted = false;
    while (this.#isBehind && !this.#steps.closed) await this.#oneAcked();
    const { section } = this.#options.tables;
    if (section.isFull) await section.untilRoom(() => !this.#steps.closed);
    if (this.#steps.closed) return false;
    if (this.#units.length === 0 && this.#pass()) return true;
    const { cursor } = this.#options;
    const from = cursor.folded;
    const { items, end: next } = await this.#options.inputs.read(from, { bytes: FOLD_READ_BYTES });
    if (next === from || this.#steps.closed) return false;
    const inputs = withRecorded(items, from, next, this.#options.changes);
    const foreseen = this.#foresight.pending ? await this.#foresight.claim(inputs, this.#fed()) : undefined;
    if (this.#steps.closed) return false;
    const control = inputs.findIndex((input) => input.kind === 'control' || input.kind === 'erased');
    const first = inputs[0];
    if (first?.kind === 'erased') {
      // What it was told of before is in the store: its states have it, and what comes has not.
      await this.#allAcked();
      this.#options.builds.markErased();
      this.#passControl(first.offset);
      return true;
    }
    if (control === 0 && first?.kind === 'control') {
      await this.#allAcked();
      await this.#control(first.control, first.offset);
      return true;
    }
    let commits = commitsOf(control < 0 ? inputs : inputs.slice(0, control));
    const stop = inputs[control];
    let end = stop === undefined ? next : inputOffset(stop);
    if (end <= cursor.folded) throw new InvariantError(`what is to be folded from ${cursor.folded} on ends at ${end}`);
    const parted = this.#firstParted(commits);
    if (parted === 0) {
      await this.#goOn(commits[0] as StoredCommit, commits[1]?.offset ?? end);
      return true;
    }
    if (parted > 0) [commits, end] = [commits.slice(0, parted), commits[parted]?.offset ?? end];
    if (this.#units.length === 0) {
      this.#fly(end, commits).acked = true;
      this.#land();
    } else {
      const count = foreseen?.commits.length ?? takeEvents(commits, this.#batchSize.events(this.#units.length));
      await this.#project(
        commits.slice(0, count),
        count < commits.length ? (commits[count]?.offset ?? end) : end,
        foreseen,
      );
    }
    return true;
  }

  /** Each is passed on the turn on which what it came to is in the store. */
  async #control(control: ProjectionControl, offset: number): Promise<void> {
    const pass = (): void => this.#passControl(offset);
    if (control.kind === 'ProjectionSwap') return this.#swap(control.value, offset, pass);
    if (control.kind === 'ProjectionRelease')
      return this.#options.releases.apply(control.value, offset, this.#units, pass);
    this.#drop(control.value.projectionId);
    pass();
  }

  #passControl(offset: number): void {
    this.#options.changes.passed(offset);
    this.#options.cursor.moveTo(offset + 1);
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

  /** Some changes of it are in the log, and it was not passed: an owner was stopped between its parts, or before its next checkpoint. */
  #firstParted(commits: readonly StoredCommit[]): number {
    const { changes } = this.#options;
    if (this.#units.length === 0 || (commits[0]?.offset ?? Infinity) > changes.lastRecorded()) return -1;
    return commits.findIndex(({ offset }) => changes.parts(offset) !== undefined);
  }

  /** Takes what the log has of the input's changes, and writes the rest: what the code gives for what comes behind them. */
  async #goOn(commit: StoredCommit, upTo: number): Promise<void> {
    await this.#allAcked();
    const { changes } = this.#options;
    const units = this.#fed();
    if (!(await this.#loads(units))) return;
    const input = new PartedInput(this.#options, commit, this.#units, units, this);
    // Of readers that compare what is stored with a fold of their own, none does before the input is passed.
    this.#setHalf(true);
    const { told, fresh } = await input.rest(() => this.#steps.closed);
    if (this.#steps.closed) return;
    if (told.length > 0) return this.#writeBehind(told, fresh, upTo, commit);
    if (fresh.length > 0) return this.#writePortions(portionsOfInput(fresh, this.#bounds), upTo, [commit]);
    changes.passed(commit.offset);
    this.#options.cursor.moveTo(upTo);
    this.#setHalf(false);
  }

  /** Where retention took some changes of an input, what was told comes to the store with what was not, in one moment: the log does not say how far it is. */
  #writeBehind(told: readonly Change[], fresh: readonly ChangeValue[], upTo: number, commit: StoredCommit): void {
    const flight = this.#fly(upTo, [commit]);
    for (const change of told) flight.made.push(this.#madeOf(commit.offset, change));
    const parts = [...portionsOfInput(fresh, this.#bounds)];
    let open = parts.length;
    const done = (): void => {
      if (open > 0) return;
      flight.acked = true;
      this.#land();
    };
    for (const { values } of parts) this.#writeFresh(values, flight, () => (open--, done()));
    done();
  }

  #fly(upTo: number, commits: readonly StoredCommit[], half = false): Flight {
    const inputs = commits.map((commit) => commit.offset);
    const events = commits.reduce((sum, commit) => sum + eventsIn(commit), 0);
    const flight: Flight = { upTo, inputs, half, events, acked: false, made: [] };
    this.#flights.push(flight);
    this.#options.cursor.folded = upTo;
    return flight;
  }

  #land(): void {
    const { changes, cursor } = this.#options;
    for (let flight = this.#flights[0]; flight?.acked; flight = this.#flights[0]) {
      for (const { change, pending } of flight.made.sort(inOrder)) this.#store(change, pending);
      for (const input of flight.inputs) changes.passed(input);
      cursor.stored = flight.upTo;
      this.#workedOff(flight.events);
      // What has no commit says nothing of the one behind it.
      if (flight.half || (this.#half && flight.inputs.length > 0)) this.#setHalf(flight.half);
      this.#flights.shift();
    }
    this.#freed?.();
  }

  /** By each projection once, however many classes it has: those of one follow each other. */
  #workedOff(events: number): void {
    if (events === 0) return;
    const now = performance.now();
    const fed = this.#fed();
    for (const [i, { projectionId }] of fed.entries())
      if (projectionId !== fed[i - 1]?.projectionId) this.#rates.add(projectionId, events, now);
  }

  async #allAcked(): Promise<void> {
    while (this.#flights.length > 0) await this.#oneAcked();
  }

  async #oneAcked(): Promise<void> {
    this.#mustGoOn();
    await new Promise<void>((resolve) => (this.#freed = resolve));
    this.#freed = undefined;
    this.#mustGoOn();
  }

  /** The units of all live projections that have not too many strikes, and whose code is kept. */
  #fed(): RevisionUnit[] {
    const { code } = this.#options;
    return this.#units.filter(({ id, artefactId }) => !code.isHalted(id) && !code.isForgotten(artefactId));
  }

  /** False: the code of some is not kept any more, and others are to be fed. */
  async #loads(units: readonly RevisionUnit[]): Promise<boolean> {
    const { code } = this.#options;
    for (const artefactId of new Set(units.map((unit) => unit.artefactId)))
      if (!(await code.loads(artefactId))) return false;
    return true;
  }

  #isLoading(artefactId: string): boolean {
    const loading = this.#options.code.load(artefactId);
    loading?.catch(() => undefined); // whoever needs it asks again
    return loading !== undefined;
  }

  async #project(commits: readonly StoredCommit[], upTo: number, foreseen?: Foreseen): Promise<void> {
    const units = foreseen?.units ?? this.#fed();
    if (!(await this.#loads(units)) || this.#steps.closed) return;
    const batch = new ProjectionBatch(commits);
    const started = performance.now();
    const given = await (foreseen?.given ?? batch.ask(this.#options.code.runner, units, this));
    if (this.#steps.closed) return;
    this.#batchSize.made(batch.events.length, given);
    const seconds = (performance.now() - started) / 1000;
    // Where code was halted, what counts of it is known at the end of the batch alone.
    const halted = given.some(({ outcome }) => outcome === 'halted');
    const told = given.reduce((sum, { outcome }) => (outcome === 'parked' || outcome === 'halted' ? sum : sum + 1), 0);
    this.#options.observer?.projected?.(batch.events.length, told, seconds);
    const pieces = [...batch.pieces(given, halted ? Infinity : CHANGES_PER_PIECE)];
    for (const [i, { commits: some, changes }] of pieces.entries()) {
      const end = pieces[i + 1]?.commits[0]?.offset ?? upTo;
      const values = await inSlices(valuesOf(beforeHalt(await inSlices(batch.effects(units, changes)))));
      if (this.#steps.closed || !(await this.#writeBatch(values, end, some, units))) return;
    }
  }

  /** False: the log has something else of these inputs, and what comes behind is to be folded anew. */
  async #writeBatch(
    values: readonly ChangeValue[],
    upTo: number,
    commits: readonly StoredCommit[],
    units: readonly RevisionUnit[],
  ): Promise<boolean> {
    const { changes, code } = this.#options;
    const disagreement = firstDisagreement(changes, units, commits, values);
    if (disagreement === undefined) {
      // What was accepted before this version wrote parts, or is told, is whole.
      const last = changes.lastRecorded();
      const mayBe = (input: number): boolean => input > last && !changes.isTrimmed(input);
      await this.#writePortions(portionsOf(values, this.#bounds, mayBe), upTo, commits);
      return true;
    }
    // What the log has is what counts. What the code gave behind it rests on another state, and is asked for again.
    const { commit: cut, projectionId } = disagreement;
    const { offset } = cut;
    this.#disagrees(projectionId, offset);
    for (const unit of units) code.runner.forget(unit.id);
    const endIndex = commits.indexOf(cut) + 1;
    this.#writePortion(
      values.filter(({ inputOffset }) => inputOffset < offset),
      commits[endIndex]?.offset ?? upTo,
      commits.slice(0, endIndex),
    );
    return false;
  }

  /** Writes what a batch made, portion by portion: between them others have their turn. */
  async #writePortions(
    portions: Iterator<Portion, void>,
    upTo: number,
    commits: readonly StoredCommit[],
  ): Promise<void> {
    let flown = 0;
    let begun = false;
    let portion = portions.next().value;
    if (portion === undefined) return this.#writePortion([], upTo, commits);
    while (portion !== undefined) {
      if (begun) await this.#room();
      begun = true;
      if (this.#steps.closed) return;
      const { values, part }: Portion = portion;
      portion = portions.next().value;
      const end = portion?.values[0]?.inputOffset;
      const endIndex = end === undefined ? commits.length : commits.findIndex(({ offset }) => offset === end);
      const from = flown;
      eventLoop.slice('projections', () =>
        this.#writePortion(values, end ?? upTo, commits.slice(from, endIndex), part),
      );
      flown = endIndex;
    }
  }

  /** Others have their turn, and what was written before comes through. */
  async #room(): Promise<void> {
    await nextTurn();
    while (this.#isBehind && !this.#steps.closed) await this.#oneAcked();
    await this.#options.tables.section.room();
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

  /** Writes changes that go in one produce; those that were accepted before the restart are taken from the log. */
  #writePortion(
    values: readonly ChangeValue[],
    upTo: number,
    commits: readonly StoredCommit[],
    part?: { readonly last: boolean },
  ): void {
    const flight = this.#fly(upTo, commits, part?.last === false);
    const { fresh, taken } = this.#parted(values, part === undefined ? flight.inputs : []);
    for (const [change, input] of taken) flight.made.push(this.#madeOf(input, change));
    const acked = (): void => {
      flight.acked = true;
      this.#land();
    };
    if (fresh.length === 0) acked();
    else this.#writeFresh(fresh, flight, acked);
  }

  /** The log has none of them yet. */
  #writeFresh(values: readonly ChangeValue[], { made }: Flight, done: () => void): void {
    const pending = values.map((value) => this.#await(value, value.fault !== null));
    for (const { fault } of values) if (fault !== null) this.#options.observer?.faulted?.('projection');
    this.#options.changes.write(values, (acked) => {
      acked.forEach((change, i) =>
        made.push({
          input: values[i]?.inputOffset ?? 0,
          change,
          pending: pending[i] ?? pendingState(change.state, false),
        }),
      );
      done();
    });
  }

  /** A change that was told before. */
  #madeOf(input: number, change: Change): Made {
    return { input, change, pending: this.#await(change, change.fault !== undefined) };
  }

  /** The state on which later inputs are folded until it is in the store. */
  #await(change: NamedState, faulted: boolean): PendingState {
    const pending = pendingState(change.state, faulted);
    this.#pending.set(nameOf(change), pending);
    return pending;
  }

  /** Parts the values in those to be written and the changes that the log has instead; accepted changes without a value count too. */
  #parted(
    values: readonly ChangeValue[],
    inputs: readonly number[],
  ): { readonly fresh: readonly ChangeValue[]; readonly taken: Iterable<readonly [change: Change, input: number]> } {
    const { changes, tables } = this.#options;
    const taken = new Map<Change, number>();
    for (const input of inputs) for (const change of changes.recordedOf(input)) taken.set(change, input);
    const { fresh, recorded, trimmed, passed } = logHas(values, changes, tables);
    for (const { value, change } of trimmed) taken.set(change, value.inputOffset);
    for (const { value, change } of recorded)
      if (change.key !== value.key || !sameState(change.state, value.state)) this.#valueDisagrees(value);
    for (const value of passed) this.#valueDisagrees(value);
    return { fresh, taken };
  }

  #valueDisagrees({ projectionId, revision, inputOffset }: ChangeValue): void {
    this.#disagrees(projectionId, inputOffset);
    this.#options.code.runner.forget(revisionUnit(projectionId, revision));
  }

  /** Of each projection once: whatever made the first state another one makes all that rest on it, too. */
  #disagrees(projectionId: string, input: number): void {
    if (this.#disagreed.has(projectionId)) return;
    this.#disagreed.add(projectionId);
    const { tables, logger, tenantId } = this.#options;
    const about = { tenantId, projectionId, input };
    if (tables.hasErasures)
      logger.info(
        about,
        'a projection gives another state than it told before: events of aggregates that were erased since are gone, or else its code does not depend on its events alone. What was told holds until the projection is built again',
      );
    else
      logger.warn(
        about,
        'a projection gives another state than before the restart: its code does not depend on its events alone. The recorded one holds',
      );
  }

  #store(change: Change, pending: PendingState | undefined): void {
    const { tables } = this.#options;
    const name = nameOf(change);
    if (this.#pending.get(name) === pending) this.#pending.delete(name);
    storeChange(tables, this.#units, change);
  }

  /** Each state of the revision is notified once, of a redeploy those that differ; then it is the live one. */
  async #swap(swap: ProjectionSwapValue, offset: number, pass: () => void): Promise<void> {
    const { tables, builds, definitions, code, changes } = this.#options;
    const { projectionId, revision } = swap;
    const before = tables.liveProjection(projectionId);
    if (!definitions.projectionExists(projectionId) || (before !== undefined && before.revision >= revision)) {
      builds.forget(projectionId, revision);
      return pass();
    }
    // The one before it was left out: it is not known here how the states of the two differ.
    const isBehindGap = before === undefined && swap.cause !== 'build';
    const isForgotten = !(await code.loads(swap.artefactId));
    const isTold = !isBehindGap && (isForgotten || tables.hasErasures) && this.#isWhole(offset);
    if (isTold || isForgotten) builds.forget(projectionId, revision);
    else await builds.finish(projectionId, swap, offset);
    const others = this.#units.filter((unit) => unit.projectionId !== projectionId);
    if (isForgotten && !isTold) {
      if (changes.isPassed(offset)) this.#leaveOut(projectionId, others);
      return pass();
    }
    this.#units = inUnitOrder([...others, ...unitsOf(projectionId, swap)]);
    const plan = {
      tables,
      swap,
      before,
      offset,
      slice: this.#options.slice ?? SLICE,
      mustGoOn: () => this.#mustGoOn(),
    };
    const made = isTold
      ? new FollowingSwap(plan, (past) => changes.recordedPast(offset, past))
      : new TellingSwap(
          plan,
          (values) => (isBehindGap && changes.isPassed(offset) ? this.#storeSwap(values) : this.#writeSwap(values)),
          await ToldOfSwap.of(projectionId, offset, changes, tables),
        );
    const changed = await made.run();
    if (tables.hasErasures || isBehindGap) await this.#storeTold(projectionId, offset);
    const kept =
      before !== undefined &&
      (code.isHalted(revisionUnit(projectionId, before.revision)) || code.isForgotten(before.artefactId))
        ? 0
        : this.#options.keptRevisions;
    goLive(tables, swap, before, offset, changed, kept);
    // On this turn: a checkpoint between would say that what is live is not yet.
    pass();
    this.#options.observer?.swapped?.(swap.cause);
    this.#options.reads.livesChanged();
    builds.forget(projectionId, revision);
    if (before !== undefined) this.#options.code.runner.forget(revisionUnit(projectionId, before.revision));
  }

  /**
   * All that the swap told is there. Of what was erased since its code knows nothing, and where that is not kept it can't be asked: then
   * what was told holds, and a key of which nothing was told is as it was.
   */
  #isWhole(offset: number): boolean {
    const { changes } = this.#options;
    return changes.lastRecorded() > offset && !changes.isTrimmed(offset);
  }

  /**
   * A revision went live here whose code is not kept any more: there are no states of it, and those of the one before are not live. One whose
   * code is kept took its place since, and comes to all states by itself.
   */
  #leaveOut(projectionId: string, others: RevisionUnit[]): void {
    const { tables, reads } = this.#options;
    const before = tables.liveProjection(projectionId);
    if (before === undefined) return;
    this.#units = others;
    tables.setLiveProjection(projectionId, undefined);
    tables.dropRevision(projectionId, before.revision);
    reads.livesChanged();
  }

  /** Where other keys are told now than then, since something was erased, say, what was told holds, for each key. */
  async #storeTold(projectionId: string, offset: number): Promise<void> {
    const { tables, changes } = this.#options;
    const { rows } = this.#options.slice ?? SLICE;
    const pace = new StorePace(tables.section, { isAwaited: () => true, mustGoOn: () => this.#mustGoOn() });
    const turned = (): Promise<boolean> => pace.next().then(() => true);
    for await (const change of inSequence(changes, offset, rows, turned)) {
      if (change.projectionId !== projectionId) continue;
      this.#markIfOther(change);
      storeNewer(tables, this.#units, change);
    }
  }

  /** What was told of a swap takes the place of what was built here: where that is another, it may have what was erased. */
  #markIfOther(change: Change): void {
    const { tables, builds } = this.#options;
    const unit = tables.hasErasures ? unitOf(this.#units, change) : undefined;
    if (unit === undefined) return;
    const { projectionId, revision, classIndex } = unit;
    if (!sameRow(tables.keyState(projectionId, revision, change.key, classIndex), change))
      builds.markHolding(projectionId, revision);
  }

  /** What differs was told when the swap was carried out: inputs behind it were come to. */
  #storeSwap(values: readonly ChangeValue[]): Promise<void> {
    for (const value of values) this.#store(this.#options.changes.droppedChange(value), undefined);
    return Promise.resolve();
  }

  async #writeSwap(values: readonly ChangeValue[]): Promise<void> {
    const produces = [...chunksOf(values, this.#bounds.changes)];
    await Promise.all(produces.map((some) => this.#writeOfSwap(some)));
  }

  #mustGoOn(): void {
    if (this.#steps.closed) throw new Error('the tenant is closed');
  }

  async #writeOfSwap(values: readonly ChangeValue[]): Promise<void> {
    const { changes, tables } = this.#options;
    // Those that were passed are in the store: they were put there with their portion.
    const { fresh, recorded, trimmed } = logHas(values, changes, tables);
    for (const { change } of recorded) {
      this.#markIfOther(change);
      this.#store(change, undefined);
    }
    for (const { change } of trimmed) this.#store(change, undefined);
    if (fresh.length === 0) return;
    await new Promise<void>((resolve) => {
      const acked = (made: readonly Change[]): void => {
        for (const change of made) this.#store(change, undefined);
        resolve();
      };
      changes.write(fresh, acked, 'control');
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
