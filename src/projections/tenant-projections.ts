import type { TenantCode } from '../code-host/tenant-code.js';
import type { TenantBudget } from '../core/budget.js';
import type { Change, SwapCause } from '../core/change.js';
import { NotOwnerError } from '../core/errors.js';
import type { StoredCommit } from '../core/event.js';
import type { Control, ReleaseMode } from '../core/records.js';
import type { InputFeed } from '../feed/inputs.js';
import type { SliceBounds } from '../jobs/sliced-job.js';
import { Sweeper } from '../jobs/sweeper.js';
import type { Codecs } from '../log/codec/codec.js';
import type { EpochSource } from '../log/journal/fenced-partition.js';
import type { TenantLog } from '../log/journal/tenant-log.js';
import { storedAs } from '../core/slots.js';
import { changesTopic } from '../log/topics.js';
import type { Checkpoint, KeyState, LiveProjection, PartitionTables } from '../store/partition-tables.js';
import { ChangesWriter, type ChangesListener, type ChangesObserver } from './changes-writer.js';
import { KeyReleases, type ReleaseOutcome } from './key-releases.js';
import { ProjectionBuilds, type BuildTarget } from './projection-builds.js';
import { ProjectionCursor } from './projection-cursor.js';
import { ProjectionReads } from './projection-reads.js';
import type { ProjectionSource } from './projection-source.js';
import { Projector } from './projector.js';
import { StandbyProjections } from './standby-projections.js';

/** What is known of a tenant's projections. */
export interface ProjectionDefinitions {
  /** The newest compiled revision of each. */
  projections(): readonly BuildTarget[];
  projectionExists(projectionId: string): boolean;
}

/** Where control records are written: they stand in the tenant's one order. */
export interface Controls {
  /** Resolves with the record's offset. */
  propose(control: Control): Promise<number>;
}

export interface ProjectionObserver extends ChangesObserver {
  projected?(events: number, changes: number, seconds: number): void;
  faulted?(kind: 'projection'): void;
  /** A revision has become the live one. */
  swapped?(cause: SwapCause): void;
  released?(kind: 'projection', mode: ReleaseMode, outcome: ReleaseOutcome['outcome']): void;
}

/** What a tenant's projections take of the process that has them. */
export interface ProjectionSetting extends TenantLog {
  readonly codecs: Pick<Codecs, 'changes'>;
  readonly definitions: ProjectionDefinitions;
  /** Of each projection so many former revisions keep their states; 1 unless given. */
  readonly keptRevisions?: number;
  /** What may be held of the tenant in memory; without it nothing is bounded. */
  readonly budget?: TenantBudget;
  /** Of a swap, or a release: so many changes go in one produce. */
  readonly changesPerProduce?: number;
  /** Of work over all rows of a projection, so much at a time. */
  readonly slice?: SliceBounds;
  readonly observer?: ProjectionObserver;
}

export interface TenantProjectionsOptions {
  readonly setting: ProjectionSetting;
  readonly tables: PartitionTables;
  readonly code: TenantCode;
  readonly inputs: InputFeed;
  /** Of the tenant's events, which this process claims first. */
  readonly epochs: EpochSource;
  readonly controls: Controls;
  readonly from: Pick<Checkpoint, 'changes' | 'projected' | 'trimmed'>;
  readonly listener: ProjectionsListener;
}

export interface ProjectionsListener {
  /** This process has claimed the changes, first or once more. */
  claimed(): void;
  /** The changes are another's, or broken: nothing more is folded. */
  stopped(error: Error): void;
}

const TAIL_BYTES = 8 * 1024 * 1024;

/**
 * A tenant's projections with all that belongs to them: the changes that they make, the fold that makes them, builds and releases.
 * On a standby they follow what the owner recorded, and no code is run.
 */
export class TenantProjections implements ProjectionSource, ChangesListener {
  readonly changes: ChangesWriter;
  readonly reads: ProjectionReads;
  readonly releases: KeyReleases;
  readonly inputs: InputFeed;
  readonly #options: TenantProjectionsOptions;
  readonly #cursor: ProjectionCursor;
  readonly #builds: ProjectionBuilds;
  readonly #projector: Projector;
  readonly #standby: StandbyProjections;
  readonly #sweeper: Sweeper;
  readonly #unsubscribe: () => void;
  #serving = false;

  constructor(options: TenantProjectionsOptions) {
    this.#options = options;
    const { setting, tables, code, inputs, epochs, controls, from } = options;
    const { log, codecs, owner, logger, observer, definitions, changesPerProduce, slice, keptRevisions = 1 } = setting;
    this.inputs = inputs;
    const cursor = new ProjectionCursor(from.projected);
    const changes = new ChangesWriter({
      log,
      ref: { topic: changesTopic(storedAs(setting)), partition: 0 },
      codec: codecs.changes,
      owner,
      logger,
      tables,
      from,
      epochs,
      tailBytes: setting.tailBytes ?? TAIL_BYTES,
      listener: this,
      budget: setting.budget,
      changesPerProduce,
      observer,
    });
    const builds = new ProjectionBuilds({ tables, inputs, code, controls, cursor, slice, logger });
    const releases = new KeyReleases({ tables, inputs, changes, code, changesPerProduce, observer });
    this.#cursor = cursor;
    this.changes = changes;
    this.#builds = builds;
    this.releases = releases;
    this.reads = new ProjectionReads({
      tables,
      builds,
      projections: this,
      cursor,
      changes,
    });
    this.#projector = new Projector({
      reads: this.reads,
      tables,
      inputs,
      changes,
      builds,
      releases,
      code,
      cursor,
      definitions,
      keptRevisions,
      changesPerProduce,
      slice,
      tenantId: setting.tenantId,
      logger,
      observer,
    });
    this.#standby = new StandbyProjections({
      tables,
      inputs,
      changes,
      builds,
      code,
      cursor,
      keptRevisions,
      slice,
      logger,
    });
    const { drops, section } = tables;
    this.#sweeper = new Sweeper({ drops, section, rowsPerSlice: slice?.rows, logger });
    this.#unsubscribe = inputs.subscribe(() => this.#advanced());
  }

  /** All changes of inputs below are in the store. */
  get storedTo(): number {
    return this.#cursor.stored;
  }

  /** A build is under way, or somebody is told of the changes. */
  get busy(): boolean {
    return this.changes.subscribers > 0 || this.#options.tables.builds().length > 0;
  }

  /** Faulted keys. */
  get faultedKeys(): number {
    const { tables } = this.#options;
    return tables.faults.allKeys((projectionId) => tables.liveProjection(projectionId)?.revision);
  }

  /** @throws NotOwnerError where this process does not serve the tenant, as far as it knows */
  mustServe(): void {
    if (!this.#serving) throw new NotOwnerError();
  }

  eventsPerSecond(projectionId: string): number | undefined {
    return this.#projector.eventsPerSecond(projectionId);
  }

  /**
   * As a standby, when all is folded that was there. Where retention has taken changes of inputs that are not in the store yet, be it
   * in an earlier activation, states can't be had from records: a promotion folds them by the code.
   */
  follow(): void {
    this.#sweeper.start();
    if (this.changes.partition.trimmedBefore === undefined && !this.changes.isTrimmed(this.#cursor.stored))
      this.#standby.start();
  }

  /** All is folded that was there; the inputs end here. Changes that retention has taken are not written again. */
  restored(inputsEnd: number): void {
    const projections = this.#options.setting.definitions.projections();
    const ids = projections.map(({ projectionId }) => projectionId);
    this.changes.restored(inputsEnd, ids);
  }

  /** The changes, and the tenant's events, are claimed: they are folded here from now on. */
  serve(): void {
    this.#standby.close();
    this.#projector.start();
    this.#sweeper.start();
    this.#serving = true;
  }

  /** Brings the builds in line with what is deployed, once the controls can be written. */
  deployAll(): void {
    const { setting, tables } = this.#options;
    this.#builds.resume();
    const targets = setting.definitions.projections();
    for (const [projectionId] of tables.builds())
      this.cancelBuild(projectionId, targets.find((target) => target.projectionId === projectionId)?.revision ?? 0);
    for (const target of targets) this.deploy(target);
    for (const [projectionId] of tables.liveProjections())
      if (!setting.definitions.projectionExists(projectionId)) this.drop(projectionId);
  }

  /** A promotion reads the definitions: a standby is told nothing. */
  deploy(target: BuildTarget): void {
    if (this.#serving) this.#builds.start(target);
  }

  /** Ends the build of a revision past this one, unless its swap may be in the log. */
  cancelBuild(projectionId: string, above: number): void {
    if (this.#serving) this.#builds.cancel(projectionId, above);
  }

  drop(projectionId: string): void {
    if (!this.#serving) return;
    const { controls, setting } = this.#options;
    this.#builds.forget(projectionId);
    controls.propose({ kind: 'ProjectionDrop', value: { projectionId } }).catch((error: unknown) => {
      setting.logger.warn(
        { err: error, projectionId },
        'a projection was not dropped; it is when the tenant is activated again',
      );
    });
  }

  /** Forgets the changes that retention has taken from the log. */
  async expire(): Promise<void> {
    for (const [projectionId] of this.#options.tables.liveProjections()) await this.changes.trim(projectionId);
  }

  /** There may be inputs. Neither of the two goes on before it is started. */
  #advanced(): void {
    if (this.#serving) this.#projector.signal();
    else this.#standby.signal();
  }

  /** Commits are on their way to this place, if nothing goes wrong. */
  foresee(place: number, commits: (mostEvents: number) => readonly StoredCommit[]): void {
    if (this.#serving) this.#projector.foresee(place, commits);
  }

  recorded(change: Change, inputOffset: number): void {
    if (!this.#serving) this.#standby.recorded(change, inputOffset);
  }

  claimed(): void {
    this.#options.listener.claimed();
  }

  stopped(error: Error): void {
    this.#options.listener.stopped(error);
  }

  position(): number {
    return this.#cursor.stored;
  }

  whole(): Promise<void> | undefined {
    return this.#projector.whole();
  }

  live(projectionId: string): LiveProjection | undefined {
    return this.#options.tables.liveProjection(projectionId);
  }

  row(projectionId: string, revision: number, key: string, classIndex: number): KeyState | undefined {
    return this.#options.tables.keyState(projectionId, revision, key, classIndex);
  }

  rows(
    projectionId: string,
    revision: number,
    after?: readonly [key: string, classIndex: number],
  ): Iterable<readonly [key: string, classIndex: number, row: KeyState]> {
    return this.#options.tables.keyStates(projectionId, revision, '', after);
  }

  /** Nothing is answered, and nothing more is folded. */
  suspend(): void {
    this.#serving = false;
    this.#unsubscribe();
    this.reads.livesChanged();
    this.#standby.close();
    this.#projector.close();
    this.#builds.close();
    this.#sweeper.close();
  }

  async close(): Promise<void> {
    this.suspend();
    await this.changes.close();
  }
}
