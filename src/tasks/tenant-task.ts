import type { Runner } from '../code-host/code-host.js';
import { NotOwnerError } from '../core/errors.js';
import type { AppendCommand, AppendResult, Fault, StoredCommit } from '../core/event.js';
import { EMPTY_FENCE } from '../core/fence.js';
import { FencedPartition } from '../log/fenced-partition.js';
import type { SinkSource } from '../read-store/sink-source.js';
import { ChangesWriter } from './changes-writer.js';
import { CommitReader } from './commit-reader.js';
import { EventsWriter } from './events-writer.js';
import { ProjectionBuilds, type BuildTarget } from './projection-builds.js';
import { ProjectionFollower } from './projection-follower.js';
import { Projector } from './projector.js';
import { ReducerCatchUps } from './reducer-catch-ups.js';
import { Reducers, type BoundReducer } from './reducers.js';
import type { FoldedSoFar } from './snapshots/snapshots.js';
import { PartitionTables } from './store/partition-tables.js';
import type { TenantTaskOptions } from './task-options.js';
import { NEXT, type TaskStatus } from './task-status.js';
import type {
  AggregatesPage,
  AggregatesQuery,
  AggregateState,
  AggregateTypeSummary,
  CatchUp,
  ChangeFeed,
  EventsPage,
  EventsQuery,
  ProjectionState,
  ProjectionStatesPage,
  ProjectionStatesQuery,
  Tenant,
} from './tenant.js';
import { TenantReads } from './tenant-reads.js';
import { eventsTopic, changesTopic, tenantTopics } from './topics.js';

export type { TaskObserver, TenantDefinitions, TenantTaskOptions } from './task-options.js';
const TAIL_BYTES = 8 * 1024 * 1024;
const QUEUE = { queued: 20_000, queuedBytes: 64 * 1024 * 1024, produceBytes: 4 * 1024 * 1024, produceRecords: 2000 };

/**
 * One tenant partition: its writer, reducers, projections and changes, over the fenced log and the local store. As a standby it
 * folds what the owner writes and runs no code of the tenant, answers nothing, and can take over within milliseconds.
 */
export class TenantTask implements Tenant, SinkSource {
  readonly tenantId: string;
  readonly #options: TenantTaskOptions;
  readonly #tables: PartitionTables;
  readonly #events: FencedPartition<Parameters<EventsWriter['judge']>[0]>;
  readonly #changes: FencedPartition<Parameters<ChangesWriter['judge']>[0]>;
  readonly #writer: EventsWriter;
  readonly #feed: ChangesWriter;
  readonly #reader: CommitReader;
  readonly #reducers: Reducers;
  readonly #catchUps: ReducerCatchUps;
  readonly #builds: ProjectionBuilds;
  readonly #projector: Projector;
  readonly #follower: ProjectionFollower;
  readonly #reads: TenantReads;
  readonly #runner: Runner;
  readonly #bound = new Map<string, BoundReducer>();
  readonly #loading = new Map<string, Promise<void>>();
  readonly #advanced = new Set<() => void>();
  #advancing = false;
  /** The projector has taken over from the follower. */
  #served = false;
  #promoting: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  #status: TaskStatus = 'CREATED';

  constructor(options: TenantTaskOptions) {
    this.#options = options;
    this.tenantId = options.tenantId;
    const { log, codecs, owner, clock, logger, definitions, tenantId, observer, tailBytes = TAIL_BYTES } = options;
    const tables = new PartitionTables(options.store.section(tenantId));
    this.#tables = tables;
    const checkpoint = tables.checkpoint() ?? { events: EMPTY_FENCE, changes: EMPTY_FENCE, projected: 0 };
    const onStopped = (error: Error): void => this.#stopped(error);
    const position = (): number => this.#events.fence.position;
    const eventsRef = { topic: eventsTopic(tenantId), partition: 0 };
    const changesRef = { topic: changesTopic(tenantId), partition: 0 };
    this.#runner = options.codeHost.runner(tenantId);
    const ensureLoaded = (artefactId: string): Promise<void> | undefined => this.#ensureLoaded(artefactId);

    this.#reader = new CommitReader({ log, ref: eventsRef, codec: codecs.events, tables, tailBytes, start: checkpoint.events.position, position });
    this.#writer = new EventsWriter({
      tables,
      clock,
      window: options.idempotencyWindow,
      limits: QUEUE,
      position,
      kick: () => this.#events.kick(),
      barrier: () => this.#events.barrier(),
      readCommit: (offset) => this.#reader.readCommit(offset),
      onCommit: (commit) => this.#committed(commit),
      onControl: (control, offset) => {
        this.#reader.push({ kind: 'control', control, offset });
        this.#advance();
      },
      onVoid: (offset) => this.#reader.addVoid(offset),
      onStopped,
    });
    this.#feed = new ChangesWriter({
      ...{ log, ref: changesRef, codec: codecs.changes },
      tables,
      tailBytes,
      start: checkpoint.changes.position,
      logger,
      position: () => this.#changes.fence.position,
      kick: () => this.#changes.kick(),
      // An owner has what it was acknowledged.
      barrier: () => (this.#status === 'FOLLOWING' ? this.#changes.barrier() : Promise.resolve()),
      onChange: (change, input) => this.#follower.recorded(change, input),
      onStopped,
    });
    const shared = { log, owner, logger };
    const watched = (topic: 'events' | 'changes'): { produced(records: number, seconds: number): void; voided(): void } => ({
      produced: (records, seconds) => observer?.produced?.(topic, records, seconds),
      voided: () => observer?.voided?.(),
    });
    this.#events = new FencedPartition({ ...shared, ref: eventsRef, codec: codecs.events, handler: this.#writer, from: checkpoint.events, observer: watched('events') });
    this.#changes = new FencedPartition({ ...shared, ref: changesRef, codec: codecs.changes, handler: this.#feed, from: checkpoint.changes, observer: watched('changes') });
    this.#reducers = new Reducers({
      tables,
      runner: this.#runner,
      boundTo: (type) => this.#bound.get(type),
      ensureLoaded,
      history: (aggregateId, from, to) => this.#reader.history(aggregateId, from, to),
      deadlineMs: options.foldDeadlineMs,
      logger,
      observer: { folded: (events, seconds) => observer?.folded?.(events, seconds) },
    });
    this.#reads = new TenantReads({ tables, reader: this.#reader, reducers: this.#reducers, boundTo: (type) => this.#bound.get(type), barrier: () => this.#barrier(), mustServe: () => this.#mustServe() });
    this.#catchUps = new ReducerCatchUps({ tables, reader: this.#reader, reducers: this.#reducers, position, logger });
    this.#builds = new ProjectionBuilds({
      tables,
      reader: this.#reader,
      runner: this.#runner,
      ensureLoaded,
      propose: (control) => this.#writer.propose(control),
      livePosition: () => this.#projector.position,
      logger,
    });
    this.#projector = new Projector({
      tables,
      reader: this.#reader,
      changes: this.#feed,
      builds: this.#builds,
      runner: this.#runner,
      ensureLoaded,
      exists: (projectionId) => definitions.projectionExists(projectionId),
      logger,
      observer: { projected: (events, changes, seconds) => observer?.projected?.(events, changes, seconds) },
    });
    this.#follower = new ProjectionFollower({ tables, reader: this.#reader, changes: this.#feed, builds: this.#builds, position: checkpoint.projected, logger });
    tables.section.onCheckpoint(() => {
      tables.forgetCommands(this.#events.fence.position - options.idempotencyWindow);
      this.#feed.save();
      const [events, changes] = [this.#events.fence, this.#changes.fence];
      tables.setCheckpoint({ events, changes, projected: this.#projected });
      if (this.#status === 'RUNNING') log.reportPositions([{ of: eventsRef, position: events.position }, { of: changesRef, position: changes.position }]);
    });
  }

  get status(): TaskStatus {
    return this.#status;
  }

  get changes(): ChangeFeed {
    return this.#feed;
  }

  /** What a snapshot would spare the next owner; undefined while this is no owner, who alone writes them. */
  get folded(): FoldedSoFar | undefined {
    return this.#status === 'RUNNING' ? { records: this.#events.fence.position + this.#changes.fence.position, bytes: this.#reader.pushedBytes } : undefined;
  }

  /** Log offsets that the projections have yet to fold. */
  get projectionLag(): number {
    return this.#events.fence.position - this.#projected;
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
    const { log, tenantId, changesRetentionMs, definitions } = this.#options;
    await log.ensureTopics(tenantTopics(tenantId, changesRetentionMs));
    if (!standby) await definitions.refresh?.();
    await this.#events.open({ claim: !standby });
    await this.#changes.open({ claim: !standby });
    const { trimmedBefore } = this.#changes;
    if (trimmedBefore !== undefined) this.#feed.trimmed(trimmedBefore, this.#events.fence.position, definitions.projections().map(({ projectionId }) => projectionId));
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
    await this.#options.definitions.refresh?.();
    await this.#events.claim();
    await this.#changes.claim();
    if (this.#status !== 'FOLLOWING') throw new NotOwnerError();
    this.#serve();
  }

  /** Both partitions are claimed. */
  #serve(): void {
    const { definitions } = this.#options;
    // What the runner holds of an earlier activation may be ahead of what was acknowledged.
    this.#runner.forget();
    this.#follower.close();
    this.#projector.start(this.#follower.position);
    this.#served = true;
    this.#become('RUNNING');
    for (const reducer of definitions.bindings()) this.bind(reducer);
    this.#builds.resume();
    for (const target of definitions.projections()) this.deploy(target);
    for (const [projectionId] of this.#tables.liveProjections()) if (!definitions.projectionExists(projectionId)) this.drop(projectionId);
  }

  /** The reducer folds the type's aggregates from now on; the others catch up in the background. */
  bind(reducer: BoundReducer): void {
    if (this.#status === 'FOLLOWING') return; // a promotion reads the definitions
    this.#bound.set(reducer.aggregateType, reducer);
    this.#catchUps.start(reducer);
    this.#advance();
  }

  deploy(target: BuildTarget): void {
    if (this.#status !== 'FOLLOWING') this.#builds.start(target);
  }

  drop(projectionId: string): void {
    if (this.#status === 'FOLLOWING') return;
    this.#builds.forget(projectionId);
    this.#writer.propose({ kind: 'ProjectionDrop', value: { projectionId } }).catch((error: unknown) => {
      this.#options.logger.warn({ err: error, projectionId }, 'a projection was not dropped; it is when the tenant is activated again');
    });
  }

  /** Flushes and closes; what waits is answered UNAVAILABLE. */
  close(): Promise<void> {
    return (this.#closing ??= this.#shutDown());
  }

  /** A task that stopped by itself comes here too: the section is free for the next one only when this is through. */
  async #shutDown(): Promise<void> {
    if (this.#status === 'RUNNING' || this.#status === 'FOLLOWING') this.#become('SUSPENDED');
    await this.#events.close();
    this.#follower.close();
    this.#projector.close();
    this.#builds.close();
    this.#catchUps.close();
    this.#reducers.close();
    await this.#changes.close();
    await this.#tables.section.close();
    if (this.#status !== 'CLOSED') this.#become('CLOSED');
  }

  async append(command: AppendCommand): Promise<AppendResult> {
    if (this.#status === 'FOLLOWING') throw new NotOwnerError();
    const { commit, replayed } = await this.#writer.append(command);
    const { aggregateId, aggregateType, baseVersion, timestamp, events } = commit;
    const endVersion = baseVersion + events.length;
    const result = { aggregateId, aggregateType, startVersion: baseVersion + 1, endVersion, eventIds: events.map((event) => event.eventId), timestamp };
    if (!this.#bound.has(aggregateType)) return result;
    const answer = replayed ? await this.#reads.stateAt(aggregateId, aggregateType, endVersion) : await this.#reducers.fold(commit);
    return 'status' in answer ? { ...result, stateStatus: answer.status } : { ...result, state: answer.state ?? JSON_NULL };
  }

  listEvents(query: EventsQuery): Promise<EventsPage> {
    return this.#reads.listEvents(query);
  }

  listAggregates(query: AggregatesQuery): Promise<AggregatesPage> {
    return this.#reads.listAggregates(query);
  }

  aggregateTypes(): Promise<readonly AggregateTypeSummary[]> {
    return this.#reads.aggregateTypes();
  }

  aggregateState(aggregateType: string, aggregateId: string): Promise<AggregateState> {
    return this.#reads.aggregateState(aggregateType, aggregateId);
  }

  projectionStates(query: ProjectionStatesQuery): Promise<ProjectionStatesPage> {
    return this.#reads.projectionStates(query);
  }

  projectionState(projectionId: string, key: string): Promise<readonly ProjectionState[]> {
    return this.#reads.projectionState(projectionId, key);
  }

  projectionFaults(projectionId: string): Promise<readonly (Fault & { readonly key: string })[]> {
    return this.#reads.projectionFaults(projectionId);
  }

  catchUp(aggregateType: string): CatchUp | undefined {
    return this.#catchUps.progress(aggregateType);
  }

  projectionBuild(projectionId: string): CatchUp | undefined {
    return this.#builds.progress(projectionId);
  }

  async readCommits(from: number, maxBytes: number): Promise<{ commits: readonly StoredCommit[]; next: number }> {
    const { inputs, next } = await this.#reader.read(from, maxBytes);
    return { commits: inputs.flatMap((input) => (input.kind === 'commit' ? [input.commit] : [])), next };
  }

  readChanges(from: number, maxBytes: number): ReturnType<SinkSource['readChanges']> {
    return this.#feed.readAll(from, maxBytes);
  }

  aggregateStates(aggregateIds: readonly string[], through: number): ReturnType<SinkSource['aggregateStates']> {
    return this.#reads.aggregateStates(aggregateIds, through);
  }

  statesRevision(): number {
    let revision = 0;
    for (const { generation } of this.#bound.values()) revision += generation;
    return revision;
  }

  onAdvance(listener: () => void): () => void {
    this.#advanced.add(listener);
    const unsubscribe = this.#feed.subscribeQuietly(listener);
    return () => {
      this.#advanced.delete(listener);
      unsubscribe();
    };
  }

  #barrier(): Promise<void> {
    return this.#status === 'FOLLOWING' ? Promise.reject(new NotOwnerError()) : this.#events.barrier();
  }

  #mustServe(): void {
    if (this.#status !== 'RUNNING') throw new NotOwnerError();
  }

  #committed(commit: StoredCommit): void {
    this.#reader.push({ kind: 'commit', commit });
    if (this.#status === 'RUNNING') this.#options.observer?.appended?.(commit.events.length);
    this.#advance();
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

  #ensureLoaded(artefactId: string): Promise<void> | undefined {
    if (this.#runner.has(artefactId)) return undefined;
    let loading = this.#loading.get(artefactId);
    if (loading === undefined) {
      loading = this.#options.definitions
        .assembly(artefactId)
        .then((assembly) => this.#runner.load(artefactId, assembly))
        .finally(() => this.#loading.delete(artefactId));
      this.#loading.set(artefactId, loading);
    }
    return loading;
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

const JSON_NULL = Buffer.from('null');
