import type { Runner } from '../code-host/code-host.js';
import type { AppendCommand, AppendResult, StoredCommit } from '../core/event.js';
import type { FenceState } from '../core/fence.js';
import { FencedPartition } from '../log/journal/fenced-partition.js';
import type { PartitionRef } from '../log/log.js';
import { AggregateReads } from './aggregate-reads.js';
import { AggregateReleases } from './aggregate-releases.js';
import { CommitReader } from './commit-reader.js';
import { EventsWriter, isReducerControl, type Control } from './events-writer.js';
import type { AggregateSource } from '../tenancy/inspection-source.js';
import { ReducerCatchUps } from './reducer-catch-ups.js';
import { ReducerFaults } from './reducer-faults.js';
import { Reducers, type BoundReducer } from './reducers.js';
import { KeptStates } from '../store/kept-states.js';
import type { PartitionTables } from '../store/partition-tables.js';
import type { TenantTaskOptions } from '../tenancy/task-options.js';
import type { AggregateRelease, AggregateReleaseQuery, CatchUp } from '../tenancy/tenant.js';
import { eventsTopic } from '../log/topics.js';

export interface TenantPartitionOptions {
  readonly task: TenantTaskOptions;
  readonly partition: number;
  /** Of how many: they share what memory a tenant may take. */
  readonly partitionCount: number;
  readonly tables: PartitionTables;
  readonly runner: Runner;
  readonly ensureLoaded: (artefactId: string) => Promise<void> | undefined;
  /** How far the tables are folded. */
  readonly from: FenceState;
  /** Resolves when all that was acknowledged before the call is folded; rejects where nobody may ask. */
  readonly barrier: () => Promise<void>;
  /** A record that counts was folded. */
  readonly onFolded: () => void;
  /** Commits are on their way to this offset, if nothing goes wrong. */
  readonly onUnderWay?: (offset: number, commits: (mostEvents: number) => readonly StoredCommit[]) => void;
  readonly onStopped: (error: Error) => void;
}

export const TAIL_BYTES = 8 * 1024 * 1024;
/** Of each of several partitions at least. */
const LEAST_TAIL_BYTES = 512 * 1024;
const QUEUE = { queued: 20_000, queuedBytes: 64 * 1024 * 1024, produceBytes: 4 * 1024 * 1024, produceRecords: 2000 };
/** An answer to a retry or a skip says what came of it, if that is known by then. */
export const RELEASE_WAIT_MS = 5000;
const JSON_NULL = Buffer.from('null');

/** One partition of a tenant's events with all that belongs to it alone: its writer, the aggregates in it, and their reducers. */
export class TenantPartition {
  readonly ref: PartitionRef;
  readonly reader: CommitReader;
  readonly reads: AggregateReads;
  readonly source: AggregateSource;
  readonly #options: TenantPartitionOptions;
  readonly #events: FencedPartition<Parameters<EventsWriter['judge']>[0]>;
  readonly #writer: EventsWriter;
  readonly #reducers: Reducers;
  readonly #catchUps: ReducerCatchUps;
  readonly #kept: KeptStates;
  readonly #faults: ReducerFaults;
  readonly #releases: AggregateReleases;
  readonly #bound = new Map<string, BoundReducer>();
  /** This process serves the partition, which counts its appends. */
  #serving = false;

  constructor(options: TenantPartitionOptions) {
    this.#options = options;
    const { tables, from, runner, ensureLoaded, onFolded, onStopped } = options;
    const {
      tenantId,
      log,
      codecs,
      owner,
      clock,
      logger,
      observer,
      tailBytes = Math.max(TAIL_BYTES / options.partitionCount, LEAST_TAIL_BYTES),
    } = options.task;
    const ref = (this.ref = { topic: eventsTopic(tenantId), partition: options.partition });
    const position = (): number => this.position;
    this.reader = new CommitReader({
      log,
      ref,
      codec: codecs.events,
      tables,
      tailBytes,
      start: from.position,
      position,
    });
    this.#writer = new EventsWriter({
      tables,
      clock,
      window: options.task.idempotencyWindow,
      limits: QUEUE,
      position,
      kick: () => this.#events.kick(),
      barrier: () => this.barrier(),
      readCommit: (offset) => this.reader.readCommit(offset),
      onCommit: (commit) => {
        this.reader.push({ kind: 'commit', commit });
        if (this.#serving) observer?.appended?.(commit.events.length);
        onFolded();
      },
      onControl: (control, offset) => {
        if (isReducerControl(control)) this.#faults.fold(control);
        if (control.kind === 'ReducerRelease')
          this.reader.push({ kind: 'release', aggregateId: control.value.aggregateId, offset });
        else if (!isReducerControl(control)) this.reader.push({ kind: 'control', control, offset });
        onFolded();
      },
      onUnderWay: options.onUnderWay,
      onRestoring: (end) => this.reader.restoring(end),
      onVoid: (offset) => this.reader.addVoid(offset),
      onStopped,
    });
    this.#events = new FencedPartition({
      log,
      owner,
      logger,
      ref,
      codec: codecs.events,
      handler: this.#writer,
      from,
      strict: options.task.strictReads === true,
      observer: {
        produced: (records, seconds) => observer?.produced?.('events', records, seconds),
        voided: () => observer?.voided?.(),
      },
    });
    const boundTo = (type: string): BoundReducer | undefined => this.#bound.get(type);
    this.#faults = new ReducerFaults({
      tables,
      propose: (control) => (this.#serving ? this.propose(control) : undefined),
      logger,
    });
    const halted = (artefactId: string): boolean => options.task.definitions.halted?.(artefactId) === true;
    const kept = (this.#kept = new KeptStates(tables.section, options.task.keptRevisions ?? 1));
    this.#reducers = new Reducers({
      ...{ tables, kept },
      runner,
      boundTo,
      ensureLoaded,
      halted,
      history: (aggregateId, first, last) => this.reader.history(aggregateId, first, last),
      deadlineMs: options.task.foldDeadlineMs,
      faults: this.#faults,
      logger,
      observer: {
        folded: (events, seconds) => observer?.folded?.(events, seconds),
        faulted: (kind) => observer?.faulted?.(kind),
      },
    });
    this.reads = new AggregateReads({
      tables,
      reader: this.reader,
      reducers: this.#reducers,
      boundTo,
      barrier: options.barrier,
    });
    this.#releases = new AggregateReleases({
      ...{
        reads: this.reads,
        faults: this.#faults,
        boundTo,
        halted,
        propose: (control) => this.propose(control),
        waitMs: RELEASE_WAIT_MS,
      },
      observer: { released: (kind, mode, outcome) => observer?.released?.(kind, mode, outcome) },
    });
    this.source = {
      barrier: options.barrier,
      head: (aggregateId) => tables.head(aggregateId),
      history: (aggregateId, first, last) => this.reader.history(aggregateId, first, last),
      bound: boundTo,
      stored: (aggregateId, aggregateType) => this.reads.row(aggregateId, aggregateType),
      marks: (aggregateId, code) => this.#faults.marks(aggregateId, code),
      aggregatesOfType: (aggregateType, after) => tables.aggregatesOfType(aggregateType, after),
      typeCount: (aggregateType) => tables.typeCount(aggregateType),
    };
    this.#catchUps = new ReducerCatchUps({
      tables,
      kept,
      reader: this.reader,
      reducers: this.#reducers,
      position,
      halted,
      onProgress: onFolded,
      logger,
    });
  }

  /** How far it is folded, and whose it is. */
  get fence(): FenceState {
    return this.#events.fence;
  }

  get position(): number {
    return this.#events.fence.position;
  }

  /** Of this process's last claim. */
  get epoch(): number {
    return this.#events.epoch;
  }

  /** Begins the next epoch of the owner; resolves with it. @throws StatefoldError UNAVAILABLE when it is not the owner's any more */
  nextEpoch(): Promise<number> {
    return this.#events.nextEpoch();
  }

  open({ claim }: { readonly claim: boolean }): Promise<void> {
    return this.#events.open({ claim });
  }

  /** Takes a partition that was opened without a claim. */
  claim(): Promise<void> {
    return this.#events.claim();
  }

  barrier(): Promise<void> {
    return this.#events.barrier();
  }

  /** The claim holds: what is folded from now on is of this process. */
  serve(): void {
    this.#serving = true;
  }

  /** The reducer folds the type's aggregates from now on; the others catch up in the background. */
  bind(reducer: BoundReducer): void {
    this.#bound.set(reducer.aggregateType, reducer);
    this.#catchUps.start(reducer);
  }

  async append(command: AppendCommand): Promise<AppendResult> {
    const { commit, replayed } = await this.#writer.append(command);
    const { aggregateId, aggregateType, baseVersion, timestamp, events } = commit;
    const endVersion = baseVersion + events.length;
    const result = {
      aggregateId,
      aggregateType,
      startVersion: baseVersion + 1,
      endVersion,
      eventIds: events.map((event) => event.eventId),
      timestamp,
    };
    if (!this.#bound.has(aggregateType)) return result;
    const answer = replayed
      ? await this.reads.stateAt(aggregateId, aggregateType, endVersion)
      : await this.#reducers.fold(commit);
    return 'status' in answer
      ? { ...result, stateStatus: answer.status }
      : { ...result, state: answer.state ?? JSON_NULL };
  }

  /** For the owner. */
  releaseAggregate(query: AggregateReleaseQuery): Promise<AggregateRelease> {
    return this.#releases.release(query);
  }

  /** Aggregates that stand at a fault, as far as they were folded. */
  get faulted(): number {
    return this.#options.tables.faults.allAggregates();
  }

  /** Writes a record of the tenant's order that is no commit; resolves with its offset. */
  propose(control: Control): Promise<number> {
    return this.#writer.propose(control);
  }

  /** Former bindings of the type whose states are there. */
  keptGenerations(aggregateType: string): readonly number[] {
    return this.#kept.generations(aggregateType);
  }

  catchUp(aggregateType: string): CatchUp | undefined {
    return this.#catchUps.progress(aggregateType);
  }

  /** Below this offset no catch-up has states to fold. */
  get statesThrough(): number {
    return this.#catchUps.through;
  }

  statesRevision(): number {
    let revision = 0;
    for (const { generation } of this.#bound.values()) revision += generation;
    return revision;
  }

  /** Before each checkpoint. */
  forgetCommands(): void {
    this.#options.tables.forgetCommands(this.position - this.#options.task.idempotencyWindow);
  }

  /** Ends the writing and the folding; what waits is answered UNAVAILABLE. */
  async close(): Promise<void> {
    await this.#events.close();
    this.#catchUps.close();
    this.#reducers.close();
    this.#faults.close();
  }
}
