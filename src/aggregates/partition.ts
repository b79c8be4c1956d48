import type { TenantCode } from '../code-host/tenant-code.js';
import type { Head } from '../core/append-rules.js';
import type { TenantBudget } from '../core/budget.js';
import type { Clock } from '../core/clock.js';
import { NotOwnerError, type StatefoldError } from '../core/errors.js';
import {
  eventsIn,
  type AggregateCommit,
  type AppendCommand,
  type AppendResult,
  type GivenEvents,
  type NewEvent,
  type StoredCommit,
  type TransactionCommand,
  type TransactionResult,
  type TransactionCommit,
} from '../core/event.js';
import type { FenceState } from '../core/fence.js';
import type { Progress } from '../core/progress.js';
import { Rates } from '../core/rates.js';
import { isReducerControl, type Control, type ReleaseMode } from '../core/records.js';
import { positionOfPlace } from '../feed/feed-item.js';
import type { InputFeed } from '../feed/inputs.js';
import { Signal } from '../feed/signal.js';
import type { Codecs } from '../log/codec/codec.js';
import { commitBytes, transactionBytes } from '../log/codec/commit-bytes.js';
import type { EpochSource } from '../log/journal/fenced-partition.js';
import type { TenantLog } from '../log/journal/tenant-log.js';
import { PRODUCE_BYTES, type PartitionRef } from '../log/log.js';
import { Sweeper } from '../jobs/sweeper.js';
import { storedAs } from '../core/slots.js';
import { eventsTopic } from '../log/topics.js';
import type { EventTypeCounts } from '../store/event-type-counts.js';
import type { Code, ReducerMarks } from '../store/fault-tables.js';
import { KeptStates } from '../store/kept-states.js';
import type { PartitionTables, ReducerState } from '../store/partition-tables.js';
import { AggregateReads, type AnsweringPartition } from './aggregate-reads.js';
import { AggregateReleases } from './aggregate-releases.js';
import type { AggregateSource } from './aggregate-source.js';
import type {
  AggregateHome,
  AggregateRelease,
  AggregateReleaseQuery,
  AggregateState,
  Erasure,
  EventsPage,
  EventsQuery,
} from './aggregates.js';
import { Bindings, type BoundReducer } from './bindings.js';
import {
  EventsWriter,
  type CommitsUnderWay,
  type EventsListener,
  type StorageRoom,
  type WriterObserver,
} from './events-writer.js';
import type { Accepted } from './pending-writes.js';
import { Intake } from './intake.js';
import { Erasures } from './erasures.js';
import { ReducerCatchUps, type CatchUpListener } from './reducer-catch-ups.js';
import { ReducerFaults, type OwnedPartition } from './reducer-faults.js';
import type { FoldAnswer, ShedListener } from './reducer-turns.js';
import { Reducers, type ReducersObserver } from './reducers.js';

export interface AggregateObserver extends ReducersObserver, WriterObserver {
  appended?(events: number): void;
  released?(kind: 'reducer', mode: ReleaseMode, outcome: AggregateRelease['outcome']): void;
}

/** What the partitions of a tenant have in common. */
export interface PartitionSetting extends TenantLog {
  readonly codecs: Pick<Codecs, 'events'>;
  readonly clock: Clock;
  /** Log offsets for which keyed commands are remembered. */
  readonly idempotencyWindow: number;
  readonly foldDeadlineMs: number;
  /** Before it refuses or reads, the owner waits for a write of its own, rather than ask the partition's leader. */
  readonly strictReads?: boolean;
  /** How many former reducers of an aggregate keep their states; 1 unless given. */
  readonly keptRevisions?: number;
  /** What may be held of the tenant in memory; without it nothing is bounded. */
  readonly budget?: TenantBudget;
  /** What the tenant may store; without it nothing is bounded. */
  readonly storage?: StorageRoom | undefined;
  /** Asked of each append before it is decided; without it every event fits. */
  readonly schemas?: EventChecks | undefined;
  readonly observer?: AggregateObserver;
}

/** Events of one aggregate that are to be appended. */
export interface EventsToCheck {
  readonly events: readonly NewEvent[];
  /** Where they are in the request's body, as a JSON pointer without its first slash; undefined: the body is the one event. */
  readonly eventsAt?: string | undefined;
}

/** Holds events that are to be appended against the schemas of their types. All forms of appends ask it. */
export interface EventChecks {
  /**
   * Why they don't fit (SCHEMA_VIOLATION); undefined: they do, or their types have no schemas. A promise where the tenant's checks take
   * long; those are answered in the order in which they were asked. @throws StatefoldError RATE_LIMITED where too many wait
   */
  unfit(appends: readonly EventsToCheck[]): StatefoldError | undefined | Promise<StatefoldError | undefined>;
}

/** Called at once with what the fold of a partition finds. Who reads its records, or states, subscribes to those. */
export interface PartitionListener {
  /** Commits are on their way to this offset, if nothing goes wrong. */
  underWay(offset: number, commits: CommitsUnderWay): void;
  /** The partition is another's, or broken: nothing more is folded. */
  stopped(error: Error): void;
}

export interface AggregatePartitionOptions {
  readonly setting: PartitionSetting;
  readonly partition: number;
  /** How many partitions there are: they share the tenant's memory. */
  readonly partitionCount: number;
  readonly tables: PartitionTables;
  readonly code: TenantCode;
  /** How far the tables are folded. */
  readonly from: FenceState;
  /** The tenant's order, where it has several partitions. Without it offsets are places. */
  readonly places?: Places | undefined;
  readonly listener: PartitionListener;
}

/** The places of records in the one order of a tenant of several partitions. */
export interface Places {
  /** The place of the partition's record at the offset: a promise while it has none, undefined where it gets none in time. Never rejects. */
  placeOf(partition: number, offset: number): number | Promise<number | undefined>;
}

export const TAIL_BYTES = 8 * 1024 * 1024;
/** The least for each of several partitions. */
const LEAST_TAIL_BYTES = 512 * 1024;
const QUEUE = { queued: 20_000, produceBytes: PRODUCE_BYTES, produceRecords: 2000 };
/** How long the answer to a retry or a skip waits for what comes of it. */
export const RELEASE_WAIT_MS = 5000;
const JSON_NULL = Buffer.from('null');

/** The feed's position of the last event of the commit at the place. */
const endOfCommit = (place: number, commit: StoredCommit): number => positionOfPlace(place, eventsIn(commit) - 1);

/** Written out, since each append has one: a spread takes longer than what it saves to write. */
function answerOf(commit: AggregateCommit, answer: FoldAnswer | undefined, position: number | undefined): AppendResult {
  const { aggregateId, aggregateType, baseVersion, events, timestamp } = commit;
  const isFolded = answer !== undefined && 'state' in answer;
  return {
    aggregateId,
    aggregateType,
    startVersion: baseVersion + 1,
    endVersion: baseVersion + events.length,
    eventIds: events.map(({ eventId }) => eventId),
    timestamp,
    position,
    state: isFolded ? (answer.state ?? JSON_NULL) : undefined,
    stateStatus: answer === undefined || isFolded ? undefined : answer.status,
  };
}

/** One partition of a tenant's events with all that belongs to it alone: its writer, the aggregates in it, and their reducers. */
export class AggregatePartition
  implements
    AggregateHome,
    AggregateSource,
    AnsweringPartition,
    OwnedPartition,
    EventsListener,
    CatchUpListener,
    ShedListener,
    EpochSource
{
  readonly ref: PartitionRef;
  readonly reads: AggregateReads;
  /** States changed without a new commit: a catch-up has come further, or another reducer is bound. */
  readonly states = new Signal();
  readonly #options: AggregatePartitionOptions;
  readonly #writer: EventsWriter;
  readonly #intake = new Intake();
  readonly #bindings = new Bindings();
  readonly #kept: KeptStates;
  readonly #faults: ReducerFaults;
  readonly #reducers: Reducers;
  readonly #releases: AggregateReleases;
  readonly #catchUps: ReducerCatchUps;
  readonly #erasures: Erasures;
  readonly #erasedRows: Sweeper;
  /** Events a second of each aggregate type, by the events' times: so a standby, which folds them too, has the same. */
  readonly #rates: Rates;
  /** This process serves the partition, and counts its appends. */
  #owned = false;
  #isRead = false;

  constructor(options: AggregatePartitionOptions) {
    this.#options = options;
    const { setting, partition, partitionCount, tables, code, from } = options;
    const { log, codecs, owner, clock, logger, observer } = setting;
    this.ref = { topic: eventsTopic(storedAs(setting)), partition };
    this.#writer = new EventsWriter({
      log,
      ref: this.ref,
      partitionCount,
      codec: codecs.events,
      owner,
      logger,
      tables,
      from,
      tailBytes: setting.tailBytes ?? Math.max(TAIL_BYTES / partitionCount, LEAST_TAIL_BYTES),
      clock,
      window: setting.idempotencyWindow,
      storage: setting.storage,
      limits: QUEUE,
      strictReads: setting.strictReads === true,
      budget: setting.budget,
      listener: this,
      observer,
    });
    this.#rates = new Rates(clock.now());
    const { inputs, history } = this.#writer;
    const bindings = this.#bindings;
    const kept = new KeptStates(tables, setting.keptRevisions ?? 1);
    const faults = new ReducerFaults({ tables, partition: this, logger });
    const deadlineMs = setting.foldDeadlineMs;
    const { budget } = setting;
    const reducers = new Reducers({
      ...{ tables, kept, code, bindings, history, faults, deadlineMs, budget, logger, observer },
      listener: this,
    });
    const reads = new AggregateReads({ tables, history, reducers, bindings, partition: this });
    const waitMs = RELEASE_WAIT_MS;
    this.#kept = kept;
    this.#faults = faults;
    this.#reducers = reducers;
    this.reads = reads;
    this.#releases = new AggregateReleases({ reads, faults, bindings, code, partition: this, waitMs, observer });
    this.#erasedRows = new Sweeper({
      drops: tables.erasedRows,
      section: tables.section,
      logger,
    });
    this.#erasures = new Erasures({
      ...{ ref: this.ref, log: this.#writer.log, codec: codecs.events, tables, clock, partition: this, logger },
    });
    this.#catchUps = new ReducerCatchUps({ tables, kept, inputs, reducers, code, listener: this, budget, logger });
  }

  /** How far the partition is folded, and whose it is. */
  get fence(): FenceState {
    return this.#writer.partition.fence;
  }

  /** The offset of the next record to be folded. */
  get position(): number {
    return this.#writer.partition.position;
  }

  /** The partition's records in their order. */
  get inputs(): InputFeed {
    return this.#writer.inputs;
  }

  /** Bytes of the records folded so far, about. */
  get foldedBytes(): number {
    return this.#writer.inputs.pushedBytes;
  }

  /** The epoch of this process's last claim. */
  get epoch(): number {
    return this.#writer.partition.epoch;
  }

  /** Ends the epoch of this process and begins the next; resolves with it. @throws StatefoldError UNAVAILABLE when it is not the owner any more */
  nextEpoch(): Promise<number> {
    return this.#writer.partition.nextEpoch();
  }

  async open({ claim }: { readonly claim: boolean }): Promise<void> {
    await this.#writer.partition.open({ claim });
    this.#erasedRows.start();
  }

  /** Takes a partition that was opened without a claim. */
  claim(): Promise<void> {
    return this.#writer.partition.claim();
  }

  /**
   * Resolves when all that was acknowledged before the call is folded here. An owner asks the log too: another process may have
   * claimed the partition since, and answered appends. @throws NotOwnerError where one has, UNAVAILABLE while the log is away
   */
  caughtUp(): Promise<void> {
    return this.#writer.partition.caughtUp();
  }

  mustAnswer(): void {
    if (this.#writer.partition.status === 'STOPPED' || !this.#answers) throw new NotOwnerError();
  }

  get #answers(): boolean {
    return this.#owned || this.#isRead;
  }

  async caughtUpAsOwner(): Promise<void> {
    if (!this.#answers) throw new NotOwnerError();
    return this.#writer.partition.caughtUp();
  }

  /** The claim holds: from now on this process answers, and finishes erasures. */
  serve(): void {
    this.#owned = true;
    this.#erasures.start();
  }

  /** Whether the tenant's own task answers from this partition, whoever owns it. */
  readByTenant(read: boolean): void {
    this.#isRead = read;
  }

  get owned(): boolean {
    return this.#owned;
  }

  committed(commit: StoredCommit): void {
    if (commit.parts === undefined) this.#rates.add(commit.aggregateType, eventsIn(commit), commit.timestamp);
    else for (const part of commit.parts) this.#rates.add(part.aggregateType, eventsIn(part), commit.timestamp);
    if (this.#owned) this.#options.setting.observer?.appended?.(eventsIn(commit));
  }

  controlled(control: Control): void {
    if (control.kind === 'Erase') this.#erasures.begin(control.value.aggregateId);
    else if (isReducerControl(control)) this.#faults.fold(control);
  }

  straggled(aggregateId: string): void {
    this.#erasures.straggled(aggregateId);
  }

  underWay(offset: number, commits: CommitsUnderWay): void {
    this.#options.listener.underWay(offset, commits);
  }

  /** A catch-up folds the commit when nothing else waits, or earlier who asks for the state. */
  shed({ aggregateType, offset }: AggregateCommit): void {
    this.#catchUps.behind(aggregateType, offset);
  }

  caughtUpFurther(): void {
    this.states.raise();
  }

  stopped(error: Error): void {
    this.#options.listener.stopped(error);
  }

  /** The reducer folds the type's aggregates from now on; the others catch up in the background. */
  bind(reducer: BoundReducer): void {
    this.#bindings.bind(reducer);
    this.#catchUps.start(reducer);
    this.states.raise();
  }

  async append(command: AppendCommand): Promise<AppendResult> {
    if (!this.#owned) throw new NotOwnerError();
    const { commit, replayed } = await this.#append(command);
    // Reducers fold the commit while its place is not known yet.
    const placed = this.#positionOf(commit);
    const folded = this.#folded(commit, replayed);
    const answer = folded === undefined ? undefined : await folded;
    return answerOf(commit, answer, typeof placed === 'object' ? await placed : placed);
  }

  async #append(command: AppendCommand): Promise<Accepted> {
    const ended = this.#intake.enter();
    try {
      const checked = this.#options.setting.schemas?.unfit([command]);
      // Most checks have ended here: so appends of one turn are queued in their order.
      const unfit = checked instanceof Promise ? await this.#held(checked, commitBytes(command)) : checked;
      return await this.#writer.append(unfit === undefined ? command : { ...command, unfit });
    } finally {
      ended();
    }
  }

  async import(command: AppendCommand & { readonly given: GivenEvents }): Promise<number | undefined> {
    if (!this.#owned) throw new NotOwnerError();
    const { commit } = await this.#writer.append(command);
    // Nobody waits for the states of imported events: a catch-up folds them.
    if (this.#bindings.of(commit.aggregateType) !== undefined) this.shed(commit);
    return this.#positionOf(commit);
  }

  /** Resolves when all appends that came before the call have ended: later ones know what the catalog had at the call. */
  passed(): Promise<void> {
    return this.#intake.passed();
  }

  /** While an append waits for its check its bytes are held. */
  async #held<T>(check: Promise<T>, bytes: number): Promise<T> {
    const hold = this.#options.setting.budget?.hold('appends');
    hold?.add(bytes);
    try {
      return await check;
    } finally {
      hold?.close();
    }
  }

  async transact(command: TransactionCommand): Promise<TransactionResult> {
    if (!this.#owned) throw new NotOwnerError();
    const { commit, replayed } = await this.#transact(command);
    const placed = this.#positionOf(commit);
    const answers = await this.#foldedParts(commit, replayed);
    const position = typeof placed === 'object' ? await placed : placed;
    const appends = commit.parts.map((part, i) => answerOf(part, answers?.[i], undefined));
    return { timestamp: commit.timestamp, position, appends };
  }

  /** Undefined: none of its parts has a reducer, which is what lines of a bulk have mostly. */
  #foldedParts({ parts }: TransactionCommit, replayed: boolean): Promise<(FoldAnswer | undefined)[]> | undefined {
    const folded = parts.map((part) => this.#folded(part, replayed));
    return folded.some((answer) => answer !== undefined)
      ? Promise.all(folded.map(async (answer) => answer))
      : undefined;
  }

  async #transact(command: TransactionCommand): Promise<Accepted<TransactionCommit>> {
    const ended = this.#intake.enter();
    try {
      const checked = this.#options.setting.schemas?.unfit(
        command.appends.map(({ events }, i) => ({ events, eventsAt: `appends/${i}/events` })),
      );
      const unfit = checked instanceof Promise ? await this.#held(checked, transactionBytes(command)) : checked;
      return await this.#writer.transact(unfit === undefined ? command : { ...command, unfit });
    } finally {
      ended();
    }
  }

  /** The feed's position of the commit's last event. */
  #positionOf(commit: StoredCommit): number | undefined | Promise<number | undefined> {
    const { places } = this.#options;
    if (places === undefined) return endOfCommit(commit.offset, commit);
    const place = places.placeOf(this.ref.partition, commit.offset);
    if (typeof place === 'number') return endOfCommit(place, commit);
    return place.then((known) => (known === undefined ? undefined : endOfCommit(known, commit)));
  }

  /** The state at the commit's last version; undefined where no reducer is bound. */
  #folded(commit: AggregateCommit, replayed: boolean): Promise<FoldAnswer> | undefined {
    const { aggregateId, aggregateType, baseVersion, events } = commit;
    if (this.#bindings.of(aggregateType) === undefined) return undefined;
    return replayed
      ? this.reads.stateAt(aggregateId, aggregateType, baseVersion + events.length)
      : this.#reducers.fold(commit);
  }

  /** Resolves when the record is in the log: from then on whoever asks finds nothing of the aggregate. */
  erase(aggregateId: string, reason: string | undefined): Promise<Erasure> {
    if (!this.#owned) return Promise.reject(new NotOwnerError());
    return this.#writer.erase(aggregateId, reason).then((status) => ({ aggregateId, status }));
  }

  events(query: EventsQuery): Promise<EventsPage> {
    return this.reads.events(query);
  }

  state(aggregateType: string, aggregateId: string): Promise<AggregateState> {
    return this.reads.state(aggregateType, aggregateId);
  }

  async release(query: AggregateReleaseQuery): Promise<AggregateRelease> {
    if (!this.#owned) throw new NotOwnerError();
    return this.#releases.release(query);
  }

  /** How many aggregates are faulted, as far as they were folded. */
  get faulted(): number {
    return this.#options.tables.faults.allAggregates();
  }

  /** Writes a record of the tenant's order that is no commit; resolves with its offset. */
  propose(control: Control): Promise<number> {
    return this.#writer.propose(control);
  }

  /** Former bindings of the type whose states are still stored. */
  keptGenerations(aggregateType: string): readonly number[] {
    return this.#kept.generations(aggregateType);
  }

  catchUp(aggregateType: string): Progress | undefined {
    return this.#catchUps.progress(aggregateType);
  }

  /** Events a second of the type's aggregates here, over the last minute; undefined: events of too many types came. */
  eventsPerSecond(aggregateType: string): number | undefined {
    return this.#rates.of(aggregateType, this.#options.setting.clock.now());
  }

  /** Below this offset no catch-up has states to fold. */
  get statesEnd(): number {
    return this.#catchUps.end;
  }

  /** Grows with each binding of a type. */
  get bindingsRevision(): number {
    return this.#bindings.revision;
  }

  head(aggregateId: string): Head | undefined {
    return this.#options.tables.head(aggregateId);
  }

  isErased(aggregateId: string): boolean {
    return this.#options.tables.isErased(aggregateId);
  }

  history(aggregateId: string, first: number, last: number): AsyncGenerator<readonly AggregateCommit[]> {
    return this.#writer.history.commits(aggregateId, first, last);
  }

  bound(aggregateType: string): BoundReducer | undefined {
    return this.#bindings.of(aggregateType);
  }

  stored(aggregateId: string, aggregateType: string): ReducerState | undefined {
    return this.reads.row(aggregateId, aggregateType);
  }

  marks(aggregateId: string, code: Code): ReducerMarks {
    return this.#faults.marks(aggregateId, code);
  }

  aggregatesOfType(aggregateType: string, after: string): Iterable<string> {
    return this.#options.tables.aggregatesOfType(aggregateType, after);
  }

  eventTypes(): EventTypeCounts {
    return this.#options.tables.eventTypes;
  }

  typeCount(aggregateType: string): number {
    return this.#options.tables.typeCount(aggregateType);
  }

  /** Before each checkpoint. */
  forgetCommands(): void {
    this.#options.tables.forgetCommands(this.position - this.#options.setting.idempotencyWindow);
  }

  /** Ends the writing and the folding; what waits is answered UNAVAILABLE. */
  async close(): Promise<void> {
    await this.#writer.close();
    await this.#erasures.close();
    this.#erasedRows.close();
    this.#catchUps.close();
    this.#reducers.close();
    this.#faults.close();
  }
}
