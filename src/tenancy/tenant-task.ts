import type { Runner } from '../code-host/code-host.js';
import { NotOwnerError } from '../core/errors.js';
import type { AppendCommand, AppendResult } from '../core/event.js';
import { EMPTY_FENCE } from '../core/fence.js';
import { FencedPartition } from '../log/journal/fenced-partition.js';
import type { SinkSource } from '../read-store/sink-source.js';
import { ChangesWriter } from '../projections/changes-writer.js';
import { commitsPage } from '../aggregates/commit-reader.js';
import type { AggregateSource, TenantInspection } from './inspection-source.js';
import type { Control } from '../aggregates/events-writer.js';
import { KeyReleases } from '../projections/key-releases.js';
import { ProjectionBuilds, type BuildTarget } from '../projections/projection-builds.js';
import { ProjectionFollower } from '../projections/standby-projections.js';
import { Projector } from '../projections/projector.js';
import { ProjectionReads } from '../projections/projection-reads.js';
import type { BoundReducer } from '../aggregates/reducers.js';
import { codeLoader } from '../code-host/runner-code.js';
import type { FoldedSoFar } from '../snapshots/snapshots.js';
import { PartitionTables, type Checkpoint } from '../store/partition-tables.js';
import type { TenantTaskOptions } from './task-options.js';
import { NEXT, type TaskStatus } from './task-status.js';
import type {
  AggregateHome,
  AggregateRelease,
  AggregateReleaseQuery,
  AggregatesPage,
  AggregatesQuery,
  AggregateState,
  AggregateTypeSummary,
  CatchUp,
  ChangeFeed,
  EventsPage,
  EventsQuery,
  ProjectionLife,
  ProjectionState,
  ProjectionStatesPage,
  ProjectionStatesQuery,
  Tenant,
} from './tenant.js';
import { MergedInput, SoleInput, type TenantInput } from './tenant-input.js';
import { TaskFaults } from './tenant-faults.js';
import { RELEASE_WAIT_MS, TAIL_BYTES, TenantPartition } from '../aggregates/tenant-partition.js';
import { mergedAggregates, summedCatchUps, summedTypes } from './tenant-sums.js';
import { changesTopic, tenantTopics } from '../log/topics.js';

export type { TaskObserver, TenantDefinitions, TenantTaskOptions } from './task-options.js';

const DAY_MS = 24 * 3_600_000;
/** Well within the retention, whatever a topic's segments add to it. */
const claimEveryMs = (retentionMs: number): number => Math.min(DAY_MS, Math.max(1000, retentionMs / 4));

/**
 * A tenant: the first partition of its events, its projections and changes, over the fenced log and the local store; of the other
 * partitions, where it has any, those that this process owns, and copies. As a standby it folds what the owner writes and runs no
 * code of the tenant, answers nothing, and can take over within milliseconds.
 */
export class TenantTask implements Tenant, SinkSource {
  readonly tenantId: string;
  readonly faults: TaskFaults;
  readonly #options: TenantTaskOptions;
  readonly #tables: PartitionTables;
  /** The first partition of the events; mostly there is no other. */
  readonly #first: TenantPartition;
  readonly #input: TenantInput;
  readonly #changes: FencedPartition<Parameters<ChangesWriter['judge']>[0]>;
  readonly #feed: ChangesWriter;
  readonly #builds: ProjectionBuilds;
  readonly #projector: Projector;
  readonly #follower: ProjectionFollower;
  readonly #reads: ProjectionReads;
  readonly #runner: Runner;
  readonly #advanced = new Set<() => void>();
  #advancing = false;
  #claimRepeater: NodeJS.Timeout | undefined;
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
    this.#first = new TenantPartition({
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
      barrier: () => this.#barrier(),
      onFolded: () => this.#input.folded(),
      ...(options.partitions === undefined && {
        onUnderWay: (offset, commits) => this.#projector.foresee(offset, commits),
      }),
    });
    const input = {
      task: options,
      tables,
      first: this.#first,
      home: this.#home(),
      from: checkpoint.order,
      onAdvanced: () => this.#advance(),
      onStopped,
    };
    this.#input = options.partitions === undefined ? new SoleInput(input) : new MergedInput(input, options.partitions);
    this.#feed = new ChangesWriter({
      ...{ log, ref: changesRef, codec: codecs.changes, tables, tailBytes, logger, onStopped },
      start: checkpoint.changes.position,
      position: () => this.#changes.fence.position,
      inputs: () => this.#input.end,
      kick: () => this.#changes.kick(),
      // An owner has what it was acknowledged.
      barrier: () => (this.#status === 'FOLLOWING' ? this.#changes.barrier() : Promise.resolve()),
      onChange: (change, input) => this.#follower.recorded(change, input),
    });
    this.#changes = new FencedPartition({
      ...{ log, owner, logger, ref: changesRef, codec: codecs.changes, handler: this.#feed, from: checkpoint.changes },
      epochs: { current: () => this.#first.epoch, next: () => this.#first.nextEpoch() },
      observer: {
        // Who comes back after retention took the claim knows of it from its store.
        claimed: () => this.#status === 'RUNNING' && this.#saveClaim(),
        produced: (records, seconds) => observer?.produced?.('changes', records, seconds),
        voided: () => observer?.voided?.(),
      },
    });
    this.#reads = new ProjectionReads({ tables, mustServe: () => this.#mustServe() });
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
        swapped: (cause) => observer?.swapped?.(cause),
      },
    });
    this.faults = new TaskFaults({
      tables,
      releases,
      halted: code.halted,
      partitions: () => this.#input.all(),
      propose,
      mustServe: () => this.#mustServe(),
      waitMs: RELEASE_WAIT_MS,
    });
    this.#follower = new ProjectionFollower({
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
      const { events, changes } = this.#checkpoint;
      tables.setCheckpoint(this.#checkpoint);
      if (this.#status === 'RUNNING')
        log.reportPositions([
          { of: this.#first.ref, position: events.position },
          { of: changesRef, position: changes.position },
        ]);
    });
  }

  get #checkpoint(): Checkpoint {
    const [events, changes, order] = [this.#first.fence, this.#changes.fence, this.#input.checkpoint];
    const settled = this.#feed.settledInputs;
    const more = { ...(order !== undefined && { order }), ...(settled !== undefined && { settled }) };
    return { events, changes, projected: this.#projected, ...more };
  }

  #saveClaim(): void {
    this.#tables.setCheckpoint(this.#checkpoint);
    void this.#tables.section.flush();
  }

  /** Writes the claim of the changes once more: retention takes it with what is as old. Asked for by itself while this serves. */
  repeatClaim(): Promise<void> {
    return this.#changes.repeatClaim();
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
    return this.#served ? this.#projector.acked : this.#follower.position;
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
    if (trimmedBefore === undefined) this.#follower.start();
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
    this.#follower.close();
    this.#projector.start(this.#follower.position);
    this.#served = true;
    this.#become('RUNNING');
    this.#saveClaim();
    // A claim that fails is repeated with what is written next; one that comes too late only makes cursors expire early.
    const repeat = (): void => void this.repeatClaim().catch(() => undefined);
    this.#claimRepeater = setInterval(repeat, claimEveryMs(this.#options.changesRetentionMs)).unref();
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
    clearInterval(this.#claimRepeater);
    await this.#first.close();
    this.#input.close();
    this.#follower.close();
    this.#projector.close();
    this.#builds.close();
    await this.#changes.close();
    await this.#tables.section.close();
    if (this.#status !== 'CLOSED') this.#become('CLOSED');
  }

  async append(command: AppendCommand): Promise<AppendResult> {
    return this.#input.home(command.aggregateId).append(command);
  }

  async listEvents(query: EventsQuery): Promise<EventsPage> {
    return this.#input.home(query.aggregateId).listEvents(query);
  }

  async aggregateState(aggregateType: string, aggregateId: string): Promise<AggregateState> {
    return this.#input.home(aggregateId).aggregateState(aggregateType, aggregateId);
  }

  async releaseAggregate(query: AggregateReleaseQuery): Promise<AggregateRelease> {
    return this.#input.home(query.aggregateId).releaseAggregate(query);
  }

  /** Aggregates and keys that stand at a fault, of what this process owns. */
  get faulted(): { readonly aggregates: number; readonly keys: number } {
    return this.#status === 'RUNNING'
      ? { aggregates: this.#first.faulted, keys: this.#tables.faults.allKeys() }
      : { aggregates: 0, keys: 0 };
  }

  /** What serves the aggregates of the first partition. */
  #home(): AggregateHome {
    const { reads } = this.#first;
    return {
      append: (command) =>
        this.#status === 'FOLLOWING' ? Promise.reject(new NotOwnerError()) : this.#first.append(command),
      listEvents: (query) => reads.listEvents(query),
      aggregateState: (aggregateType, aggregateId) => reads.aggregateState(aggregateType, aggregateId),
      releaseAggregate: (query) =>
        this.#status === 'FOLLOWING' ? Promise.reject(new NotOwnerError()) : this.#first.releaseAggregate(query),
    };
  }

  async listAggregates(query: AggregatesQuery): Promise<AggregatesPage> {
    return mergedAggregates(
      await Promise.all((await this.#input.all()).map(({ reads }) => reads.listAggregates(query))),
      query.limit,
    );
  }

  async aggregateTypes(): Promise<readonly AggregateTypeSummary[]> {
    return summedTypes(await Promise.all((await this.#input.all()).map(({ reads }) => reads.aggregateTypes())));
  }

  projectionStates(query: ProjectionStatesQuery): Promise<ProjectionStatesPage> {
    return this.#reads.projectionStates(query);
  }

  projectionState(projectionId: string, key: string): Promise<readonly ProjectionState[]> {
    return this.#reads.projectionState(projectionId, key);
  }

  readonly catchUp = (aggregateType: string): CatchUp | undefined =>
    summedCatchUps(this.#input.here.map((partition) => partition.catchUp(aggregateType)));

  readonly keptGenerations = (aggregateType: string): readonly number[] => this.#first.keptGenerations(aggregateType);

  projectionBuild(projectionId: string): CatchUp | undefined {
    return this.#builds.progress(projectionId);
  }

  readonly projectionLife = (projectionId: string): ProjectionLife => this.#builds.life(projectionId);

  readonly readCommits: SinkSource['readCommits'] = async (from, maxBytes) =>
    commitsPage(await this.#input.reader.read(from, maxBytes));

  async readChanges(from: number, maxBytes: number): ReturnType<SinkSource['readChanges']> {
    const { changes, next } = await this.#feed.readAll(from, maxBytes);
    return {
      changes: changes.filter(({ projectionId }) => this.#options.definitions.projectionExists(projectionId)),
      next,
    };
  }

  async aggregateStates(
    aggregateIds: readonly string[],
    through: number,
    lastOnly?: boolean,
  ): ReturnType<SinkSource['aggregateStates']> {
    // A place in the order is no offset of a partition: its aggregates are folded as far as there is anything.
    const offset = this.#options.partitions === undefined ? through : Infinity;
    return (
      await Promise.all(
        (await this.#input.spread(aggregateIds)).map(([{ reads }, ids]) =>
          reads.aggregateStates(ids, offset, lastOnly),
        ),
      )
    ).flat();
  }

  readonly commitsEnd = (): number => (this.#options.partitions === undefined ? this.#first.position : 0);

  statesThrough(): number {
    const through = Math.min(...this.#input.here.map(({ statesThrough }) => statesThrough));
    return this.#options.partitions === undefined || through === Infinity ? through : 0;
  }

  readonly statesRevision = (): number => this.#first.statesRevision();

  onAdvance(listener: () => void): () => void {
    this.#advanced.add(listener);
    const unsubscribe = this.#feed.subscribeQuietly(listener);
    return () => {
      this.#advanced.delete(listener);
      unsubscribe();
    };
  }

  #barrier(): Promise<void> {
    return this.#status === 'FOLLOWING' ? Promise.reject(new NotOwnerError()) : this.#first.barrier();
  }

  #mustServe(): void {
    if (this.#status !== 'RUNNING') throw new NotOwnerError();
  }

  #advance(): void {
    if (this.#advancing) return;
    this.#advancing = true;
    queueMicrotask(() => {
      this.#advancing = false;
      if (this.#status === 'FOLLOWING') this.#follower.signal();
      if (this.#status !== 'RUNNING') return;
      this.#projector.signal();
      for (const listener of this.#advanced) listener();
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
