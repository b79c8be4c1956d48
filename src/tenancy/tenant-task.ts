import type { Runner } from '../code-host/code-host.js';
import { NotOwnerError } from '../core/errors.js';
import { EMPTY_FENCE } from '../core/fence.js';
import { FencedPartition } from '../log/journal/fenced-partition.js';
import { ChangesWriter } from '../projections/changes-writer.js';
import type { AggregateSource } from '../aggregates/aggregate-source.js';
import type { TenantInspection } from './inspection.js';
import type { Control } from '../core/records.js';
import { KeyReleases } from '../projections/key-releases.js';
import { ProjectionBuilds, type BuildTarget } from '../projections/projection-builds.js';
import { StandbyProjections } from '../projections/standby-projections.js';
import { Projector } from '../projections/projector.js';
import { ProjectionReads } from '../projections/projection-reads.js';
import type { BoundReducer } from '../aggregates/reducers.js';
import { codeLoader } from '../code-host/runner-code.js';
import type { FoldedSoFar } from '../snapshots/snapshots.js';
import { PartitionTables } from '../store/partition-tables.js';
import type { TenantTaskOptions } from './task-options.js';
import { NEXT, type TaskStatus } from './task-status.js';
import type { ChangeFeed } from '../feed/changes.js';
import type { Tenant } from './tenant.js';
import { MergedInput, SoleInput, type TenantInput } from './tenant-input.js';
import { TenantFaults } from './faults.js';
import { RELEASE_WAIT_MS, TAIL_BYTES, AggregatePartition } from '../aggregates/partition.js';
import type { AggregateHome } from '../aggregates/aggregates.js';
import { TenantAggregates } from './tenant-aggregates.js';
import { TenantSink } from './tenant-sink.js';
import { changesTopic, tenantTopics } from '../log/topics.js';

export type { TaskObserver, TenantDefinitions, TenantTaskOptions } from './task-options.js';

/**
 * A tenant: the first partition of its events, its projections and changes, over the fenced log and the local store; of the other
 * partitions, where it has any, those that this process owns, and copies. As a standby it folds what the owner writes and runs no
 * code of the tenant, answers nothing, and can take over within milliseconds.
 */
export class TenantTask implements Tenant {
  readonly tenantId: string;
  readonly aggregates: TenantAggregates;
  readonly projections: ProjectionReads;
  readonly faults: TenantFaults;
  readonly sink: TenantSink;
  readonly #options: TenantTaskOptions;
  readonly #tables: PartitionTables;
  /** The first partition of the events; mostly there is no other. */
  readonly #first: AggregatePartition;
  readonly #input: TenantInput;
  readonly #changes: FencedPartition<Parameters<ChangesWriter['judge']>[0]>;
  readonly #feed: ChangesWriter;
  readonly #builds: ProjectionBuilds;
  readonly #projector: Projector;
  readonly #standby: StandbyProjections;
  readonly #runner: Runner;
  #advancing = false;
  /** The projector has taken over from the follower. */
  #served = false;
  #promoting: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  #status: TaskStatus = 'CREATED';

  constructor(options: TenantTaskOptions) {
    this.#options = options;
    this.tenantId = options.tenantId;
    const {
      log,
      codecs,
      owner,
      logger,
      definitions,
      tenantId,
      observer,
      tailBytes = TAIL_BYTES,
      keptRevisions = 1,
    } = options;
    const tables = new PartitionTables(options.store.section(tenantId));
    this.#tables = tables;
    const checkpoint = tables.checkpoint() ?? { events: EMPTY_FENCE, changes: EMPTY_FENCE, projected: 0 };
    const onStopped = (error: Error): void => this.#stopped(error);
    const changesRef = { topic: changesTopic(tenantId), partition: 0 };
    this.#runner = options.codeHost.runner(tenantId);
    const ensureLoaded = codeLoader(this.#runner, (artefactId) => definitions.assembly(artefactId));
    this.#first = new AggregatePartition({
      ...{
        task: options,
        partition: 0,
        partitionCount: options.partitions?.count ?? 1,
        tables,
        runner: this.#runner,
        ensureLoaded,
        onStopped,
      },
      from: checkpoint.events,
      onFolded: () => this.#input.folded(),
      ...(options.partitions === undefined && {
        onUnderWay: (offset, commits) => this.#projector.foresee(offset, commits),
      }),
    });
    const input = {
      task: options,
      tables,
      first: this.#first,
      from: checkpoint.order,
      onAdvanced: () => this.#advance(),
      onStopped,
    };
    this.#input = options.partitions === undefined ? new SoleInput(input) : new MergedInput(input, options.partitions);
    this.#feed = new ChangesWriter({
      ...{ log, ref: changesRef, codec: codecs.changes, tables, tailBytes, logger, onStopped },
      start: checkpoint.changes.position,
      position: () => this.#changes.fence.position,
      kick: () => this.#changes.kick(),
      // An owner has what it was acknowledged.
      barrier: () => (this.#status === 'FOLLOWING' ? this.#changes.barrier() : Promise.resolve()),
      onChange: (change, input) => this.#standby.recorded(change, input),
    });
    this.#changes = new FencedPartition({
      ...{ log, owner, logger, ref: changesRef, codec: codecs.changes, handler: this.#feed, from: checkpoint.changes },
      observer: {
        produced: (records, seconds) => observer?.produced?.('changes', records, seconds),
        voided: () => observer?.voided?.(),
      },
    });
    const { reader } = this.#input;
    const code = {
      tables,
      reader,
      runner: this.#runner,
      changesAProduce: options.changesAProduce,
      ensureLoaded,
      halted: (unitId: string) => definitions.halted?.(unitId) === true,
    };
    const propose = (control: Control): Promise<number> => this.#first.propose(control);
    this.#builds = new ProjectionBuilds({
      ...code,
      propose,
      livePosition: () => this.#projector.position,
      settledTo: () => this.#projector.acked,
      logger,
    });
    this.projections = new ProjectionReads({ tables, builds: this.#builds, mustServe: () => this.#mustServe() });
    const releases = new KeyReleases({
      ...code,
      changes: this.#feed,
      observer: { released: (kind, mode, outcome) => observer?.released?.(kind, mode, outcome) },
    });
    this.#projector = new Projector({
      ...{ ...code, changes: this.#feed, builds: this.#builds, releases, keptRevisions, logger },
      exists: (projectionId) => definitions.projectionExists(projectionId),
      observer: {
        projected: (events, changes, seconds) => observer?.projected?.(events, changes, seconds),
        faulted: (kind) => observer?.faulted?.(kind),
        swapped: (cause) => {
          observer?.swapped?.(cause);
          this.projections.livesChanged();
        },
      },
    });
    this.aggregates = new TenantAggregates(this.#input);
    this.sink = new TenantSink(tenantId, this.#input, this.#feed, definitions);
    this.faults = new TenantFaults({
      tables,
      releases,
      halted: code.halted,
      partitions: () => this.#input.all(),
      propose,
      mustServe: () => this.#mustServe(),
      waitMs: RELEASE_WAIT_MS,
    });
    this.#standby = new StandbyProjections({
      ...code,
      changes: this.#feed,
      builds: this.#builds,
      position: checkpoint.projected,
      keptRevisions,
      logger,
    });
    tables.section.onCheckpoint(() => {
      this.#first.forgetCommands();
      this.#feed.save();
      const [events, changes, order] = [this.#first.fence, this.#changes.fence, this.#input.checkpoint];
      tables.setCheckpoint({ events, changes, projected: this.#projected, ...(order === undefined ? {} : { order }) });
      if (this.#status === 'RUNNING')
        log.reportPositions([
          { of: this.#first.ref, position: events.position },
          { of: changesRef, position: changes.position },
        ]);
    });
  }

  /** Of the local store. */
  get section(): string {
    return this.tenantId;
  }

  /** What it holds, for those who fold it again. */
  get inspection(): TenantInspection {
    const tables = this.#tables;
    return {
      tenantId: this.tenantId,
      aggregates: async () => (await this.#input.all()).map(({ source }) => source),
      projections: {
        reader: this.#input.reader,
        position: () => this.#projected,
        live: (projectionId) => tables.liveProjection(projectionId),
        row: (projectionId, revision, key, classIndex) => tables.keyState(projectionId, revision, key, classIndex),
        rows: (projectionId, revision, after) => tables.keyStates(projectionId, revision, '', after),
      },
    };
  }

  /** What serves the aggregates in the first partition. */
  get home(): AggregateHome {
    return this.#first;
  }

  /** Of the aggregates in the first partition. */
  get source(): AggregateSource {
    return this.#first.source;
  }

  get status(): TaskStatus {
    return this.#status;
  }

  get changes(): ChangeFeed {
    return this.#feed;
  }

  /** What a snapshot would spare the next owner; undefined while this is no owner, who alone writes them. */
  get folded(): FoldedSoFar | undefined {
    return this.#status === 'RUNNING'
      ? { records: this.#first.position + this.#changes.fence.position, bytes: this.#first.reader.pushedBytes }
      : undefined;
  }

  /** Log offsets that the projections have yet to fold. */
  get projectionLag(): number {
    return this.#input.end + this.#input.unplaced - this.#projected;
  }

  /** All changes of inputs below are in the store. */
  get #projected(): number {
    return this.#served ? this.#projector.acked : this.#standby.position;
  }

  /** Nothing waits for an answer, a change or a push: the task may be closed when it has been unused for a while. */
  get idle(): boolean {
    return this.projectionLag === 0 && this.#feed.subscribers === 0 && this.#tables.builds().length === 0;
  }

  async open({ standby = false }: { readonly standby?: boolean } = {}): Promise<void> {
    this.#become('RESTORING');
    const { log, tenantId, changesRetentionMs, definitions, partitions } = this.#options;
    await log.ensureTopics(tenantTopics(tenantId, changesRetentionMs, partitions?.count));
    await this.#first.open({ claim: !standby });
    await this.#changes.open({ claim: !standby });
    if (!standby) await definitions.refresh?.(); // after the claims: what a former owner halted is known from here on
    await this.#input.open();
    if (!standby) await this.#input.lead();
    const { trimmedBefore } = this.#changes;
    if (trimmedBefore !== undefined)
      this.#feed.trimmed(
        trimmedBefore,
        this.#input.end,
        definitions.projections().map(({ projectionId }) => projectionId),
      );
    if (!standby) return this.#serve();
    this.#become('FOLLOWING');
    // States whose changes were dropped can't be had from records: a promotion folds them by the code.
    if (trimmedBefore === undefined) this.#standby.start();
  }

  /** A standby takes the tenant; resolves when it serves. @throws StatefoldError UNAVAILABLE when it stopped, or is being closed */
  promote(): Promise<void> {
    return (this.#promoting ??= this.#promote());
  }

  async #promote(): Promise<void> {
    await this.#first.claim();
    await this.#changes.claim();
    await this.#options.definitions.refresh?.();
    await this.#input.lead();
    if (this.#status !== 'FOLLOWING') throw new NotOwnerError();
    this.#serve();
  }

  /** Both the first partition of the events and the changes are claimed. */
  #serve(): void {
    const { definitions } = this.#options;
    // What the runner holds of an earlier activation may be ahead of what was acknowledged.
    this.#runner.forget();
    this.#standby.close();
    this.#projector.start(this.#standby.position);
    this.#served = true;
    this.#become('RUNNING');
    this.#first.serve();
    for (const reducer of definitions.bindings()) this.bind(reducer);
    this.#builds.resume();
    const targets = definitions.projections();
    for (const [projectionId] of this.#tables.builds())
      this.cancelBuild(projectionId, targets.find((target) => target.projectionId === projectionId)?.revision ?? 0);
    for (const target of targets) this.deploy(target);
    for (const [projectionId] of this.#tables.liveProjections())
      if (!definitions.projectionExists(projectionId)) this.drop(projectionId);
  }

  /** The reducer folds the type's aggregates from now on; the others catch up in the background. */
  bind(reducer: BoundReducer): void {
    if (this.#status === 'FOLLOWING') return; // a promotion reads the definitions
    this.#first.bind(reducer);
    this.#advance();
  }

  deploy(target: BuildTarget): void {
    if (this.#status !== 'FOLLOWING') this.#builds.start(target);
  }

  /** Ends the build of a revision past this one, unless its swap may be in the log. */
  cancelBuild(projectionId: string, above: number): void {
    if (this.#status !== 'FOLLOWING') this.#builds.cancel(projectionId, above);
  }

  drop(projectionId: string): void {
    if (this.#status === 'FOLLOWING') return;
    this.#builds.forget(projectionId);
    this.#first.propose({ kind: 'ProjectionDrop', value: { projectionId } }).catch((error: unknown) => {
      this.#options.logger.warn(
        { err: error, projectionId },
        'a projection was not dropped; it is when the tenant is activated again',
      );
    });
  }

  /** Flushes and closes; what waits is answered UNAVAILABLE. */
  close(): Promise<void> {
    return (this.#closing ??= this.#shutDown());
  }

  /** A task that stopped by itself comes here too: the section is free for the next one only when this is through. */
  async #shutDown(): Promise<void> {
    if (this.#status === 'RUNNING' || this.#status === 'FOLLOWING') this.#become('SUSPENDED');
    await this.#first.close();
    this.#input.close();
    this.#standby.close();
    this.#projector.close();
    this.#builds.close();
    await this.#changes.close();
    await this.#tables.section.close();
    if (this.#status !== 'CLOSED') this.#become('CLOSED');
    this.projections.livesChanged();
  }

  /** Aggregates and keys that stand at a fault, of what this process owns. */
  get faulted(): { readonly aggregates: number; readonly keys: number } {
    return this.#status === 'RUNNING'
      ? { aggregates: this.#first.faulted, keys: this.#tables.faults.allKeys() }
      : { aggregates: 0, keys: 0 };
  }

  #mustServe(): void {
    if (this.#status !== 'RUNNING') throw new NotOwnerError();
  }

  #advance(): void {
    if (this.#advancing) return;
    this.#advancing = true;
    queueMicrotask(() => {
      this.#advancing = false;
      if (this.#status === 'FOLLOWING') this.#standby.signal();
      if (this.#status !== 'RUNNING') return;
      this.#projector.signal();
      this.sink.advanced();
    });
  }

  #become(status: TaskStatus): void {
    if (!NEXT[this.#status].includes(status)) throw new Error(`a task does not go from ${this.#status} to ${status}`);
    this.#status = status;
  }

  #stopped(error: Error): void {
    if (this.#status === 'SUSPENDED' || this.#status === 'CLOSED') return;
    this.#status = 'CLOSED';
    this.#options.onStopped(error);
  }
}
