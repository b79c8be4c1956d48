import type { CodeHost, Runner } from '../code-host/code-host.js';
import type { Clock } from '../core/clock.js';
import type { AppendCommand, AppendResult, Fault, StoredCommit } from '../core/event.js';
import { EMPTY_FENCE } from '../core/fence.js';
import type { Logger } from '../core/logger.js';
import type { Codecs } from '../log/codec.js';
import { FencedPartition } from '../log/fenced-partition.js';
import type { Log } from '../log/log.js';
import type { SinkSource } from '../read-store/sink-source.js';
import { ChangesWriter } from './changes-writer.js';
import { CommitReader } from './commit-reader.js';
import { EventsWriter } from './events-writer.js';
import { ProjectionBuilds, type BuildTarget } from './projection-builds.js';
import { Projector } from './projector.js';
import { ReducerCatchUps } from './reducer-catch-ups.js';
import { Reducers, type BoundReducer } from './reducers.js';
import type { FoldedSoFar } from './snapshots/snapshots.js';
import type { LocalStore } from './store/local-store.js';
import { PartitionTables } from './store/partition-tables.js';
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

/** What the catalog says of a tenant's code. */
export interface TenantDefinitions {
  /** Bindings of the tenant, as of now. */
  bindings(): readonly BoundReducer[];
  /** The newest compiled revision of each projection. */
  projections(): readonly BuildTarget[];
  projectionExists(projectionId: string): boolean;
  assembly(artefactId: string): Promise<Buffer>;
}

export interface TenantTaskOptions {
  readonly tenantId: string;
  readonly log: Log;
  readonly codecs: Codecs;
  readonly store: Pick<LocalStore, 'section'>;
  readonly codeHost: CodeHost;
  readonly definitions: TenantDefinitions;
  readonly owner: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly idempotencyWindow: number;
  readonly changesRetentionMs: number;
  readonly foldDeadlineMs: number;
  readonly tailBytes?: number;
  readonly onStopped: (error: Error) => void;
  readonly observer?: TaskObserver;
}

export interface TaskObserver {
  appended?(events: number): void;
  produced?(topic: 'events' | 'changes', records: number, seconds: number): void;
  folded?(events: number, seconds: number): void;
  projected?(events: number, changes: number, seconds: number): void;
  voided?(): void;
}

/*
 *   CREATED ──open──► RESTORING ──tail folded, claimed──► RUNNING ──close──► SUSPENDED ──flushed──► CLOSED
 *                        └──────────── deposed, or broken ──┴─────────────────────────────────────────▲
 */
export type TaskStatus = 'CREATED' | 'RESTORING' | 'RUNNING' | 'SUSPENDED' | 'CLOSED';
const NEXT: Readonly<Record<TaskStatus, readonly TaskStatus[]>> = {
  CREATED: ['RESTORING', 'CLOSED'],
  RESTORING: ['RUNNING', 'CLOSED'],
  RUNNING: ['SUSPENDED', 'CLOSED'],
  SUSPENDED: ['CLOSED'],
  CLOSED: [],
};

const TAIL_BYTES = 8 * 1024 * 1024;
const QUEUE = { queued: 20_000, queuedBytes: 64 * 1024 * 1024, produceBytes: 4 * 1024 * 1024, produceRecords: 2000 };

/** One tenant partition: its writer, reducers, projections and changes, over the fenced log and the local store. */
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
  readonly #reads: TenantReads;
  readonly #runner: Runner;
  readonly #bound = new Map<string, BoundReducer>();
  readonly #loading = new Map<string, Promise<void>>();
  readonly #advanced = new Set<() => void>();
  #advancing = false;
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
      log,
      ref: changesRef,
      codec: codecs.changes,
      tables,
      tailBytes,
      start: checkpoint.changes.position,
      logger,
      position: () => this.#changes.fence.position,
      kick: () => this.#changes.kick(),
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
    this.#reads = new TenantReads({ tables, reader: this.#reader, reducers: this.#reducers, boundTo: (type) => this.#bound.get(type), barrier: () => this.#events.barrier() });
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
      position: checkpoint.projected,
      logger,
      observer: { projected: (events, changes, seconds) => observer?.projected?.(events, changes, seconds) },
    });
    tables.section.onCheckpoint(() => {
      tables.forgetCommands(this.#events.fence.position - options.idempotencyWindow);
      this.#feed.save();
      tables.setCheckpoint({ events: this.#events.fence, changes: this.#changes.fence, projected: this.#projector.acked });
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
    return this.#events.fence.position - this.#projector.acked;
  }

  /** Nothing waits for an answer, a change or a push: the task may be closed when it has been unused for a while. */
  get idle(): boolean {
    const { position } = this.#events.fence;
    return this.#projector.acked === position && this.#feed.subscribers === 0 && this.#tables.builds().length === 0;
  }

  async open(): Promise<void> {
    this.#become('RESTORING');
    const { log, tenantId, changesRetentionMs, definitions } = this.#options;
    // What the runner holds of an earlier activation may be ahead of what was acknowledged.
    this.#runner.forget();
    await log.ensureTopics(tenantTopics(tenantId, changesRetentionMs));
    await this.#events.open();
    await this.#changes.open();
    const { trimmedBefore } = this.#changes;
    if (trimmedBefore !== undefined) this.#feed.trimmed(trimmedBefore, this.#events.fence.position, definitions.projections().map(({ projectionId }) => projectionId));
    this.#become('RUNNING');
    for (const reducer of definitions.bindings()) this.bind(reducer);
    this.#builds.resume();
    for (const target of definitions.projections()) this.deploy(target);
    for (const [projectionId] of this.#tables.liveProjections()) if (!definitions.projectionExists(projectionId)) this.drop(projectionId);
    this.#projector.signal();
  }

  /** The reducer folds the type's aggregates from now on; the others catch up in the background. */
  bind(reducer: BoundReducer): void {
    this.#bound.set(reducer.aggregateType, reducer);
    this.#catchUps.start(reducer);
    this.#advance();
  }

  deploy(target: BuildTarget): void {
    this.#builds.start(target);
  }

  drop(projectionId: string): void {
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
    if (this.#status === 'RUNNING') this.#become('SUSPENDED');
    await this.#events.close();
    this.#projector.close();
    this.#builds.close();
    this.#catchUps.close();
    this.#reducers.close();
    await this.#changes.close();
    await this.#tables.section.close();
    if (this.#status !== 'CLOSED') this.#become('CLOSED');
  }

  async append(command: AppendCommand): Promise<AppendResult> {
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

  #committed(commit: StoredCommit): void {
    this.#reader.push({ kind: 'commit', commit });
    this.#options.observer?.appended?.(commit.events.length);
    this.#advance();
  }

  #advance(): void {
    if (this.#advancing) return;
    this.#advancing = true;
    queueMicrotask(() => {
      this.#advancing = false;
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
