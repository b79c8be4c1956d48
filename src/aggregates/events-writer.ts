import { headAfter, headAfterPart, judgeCommit, judgeErase, judgeTransaction } from '../core/append-rules.js';
import type { Clock } from '../core/clock.js';
import { background } from '../core/background.js';
import { UNBOUNDED, type Hold, type TenantBudget } from '../core/budget.js';
import { NotOwnerError, StatefoldError } from '../core/errors.js';
import type { AppendCommand, StoredCommit, TransactionCommand, TransactionCommit } from '../core/event.js';
import { ERASED_BASE, type Control, type EventsBody, type TransactionValue } from '../core/records.js';
import type { FenceState } from '../core/fence.js';
import type { Logger } from '../core/logger.js';
import { commitInput, controlInput } from '../feed/inputs.js';
import type { BodyCodec, RecordCodec } from '../log/codec/codec.js';
import { commitBytes, storedCommitBytes, storedControlBytes, transactionBytes } from '../log/codec/commit-bytes.js';
import { EventsLog } from '../log/journal/events-log.js';
import { FencedPartition, type PartitionObserver } from '../log/journal/fenced-partition.js';
import { appendBytes, AppendTooLargeError, type Log, type PartitionRef } from '../log/log.js';
import { AggregateHistory } from './aggregate-history.js';
import { CommitFeed } from './commit-feed.js';
import {
  AppendDraft,
  ControlDraft,
  draftsFor,
  EraseDraft,
  eventsOfDraft,
  PendingAppend,
  PendingErase,
  pendingOf,
  PendingTransaction,
  TransactionDraft,
  type Accepted,
} from './pending-writes.js';
import { OF_TENANT, WriteQueue } from './write-queue.js';
import type { Draft, Folded, PartitionHandler } from '../log/journal/partition-handler.js';
import { eachEventType, storedCommit, storedTransaction } from '../log/codec/commit-of-view.js';
import type { ErasureRow, PartitionTables } from '../store/partition-tables.js';
import type { StoredBytes } from '../store/stored-bytes.js';

/** Called with what the fold of a partition's events finds, at once, in the order of the log. */
export interface EventsListener {
  committed(commit: StoredCommit): void;
  controlled(control: Control, offset: number): void;
  /** A void record is of an aggregate that was erased: it is to go too. */
  straggled(aggregateId: string): void;
  /** As `PartitionHandler.underWay`. */
  underWay(offset: number, commits: CommitsUnderWay): void;
  /** Nothing more is folded. */
  stopped(error: Error): void;
}

/** Commits that are on their way into the log: all of them, or none where they have more events than are wanted. */
export type CommitsUnderWay = (mostEvents: number) => readonly StoredCommit[];

export interface EventsWriterOptions {
  readonly log: Log;
  readonly ref: PartitionRef;
  /** How many partitions the tenant's events have. */
  readonly partitionCount: number;
  readonly codec: RecordCodec<EventsBody> & BodyCodec<EventsBody>;
  /** Id of this process, new at each start. */
  readonly owner: string;
  readonly logger: Logger;
  readonly tables: PartitionTables;
  /** How far the tables are folded. */
  readonly from: FenceState;
  readonly tailBytes: number;
  readonly clock: Clock;
  /** Offsets for which keyed commands are remembered. */
  readonly window: number;
  readonly limits: {
    readonly queued: number;
    readonly produceBytes: number;
    readonly produceRecords: number;
  };
  /** Before it refuses or reads, the owner waits for a write of its own. */
  readonly strictReads: boolean;
  /** The tenant's budget; without it nothing is bounded. */
  readonly budget?: TenantBudget | undefined;
  /** Asked of each append and transaction that would be written, but of no import; without it nothing is bounded. */
  readonly storage?: Pick<StorageRoom, 'refusal'> | undefined;
  readonly listener: EventsListener;
  readonly observer?: WriterObserver | undefined;
}

/** What a tenant stores in all, and whether it may store more. */
export interface StorageRoom {
  readonly usage: number;
  /** Why the tenant may store no more; undefined: it may. */
  readonly refusal: StatefoldError | undefined;
  /** Counts a partition from now on, until the result is called. */
  add(part: StoredBytes): () => void;
}

/**
 * What records cost that are encoded, or folded, in one turn while several tenants ask, as `costOf` has it. The answers of appends go out
 * behind the slice in which they were folded, and take longer than it does.
 */
const AT_ONCE = { encoded: 84, folded: 38 };

export interface WriterObserver {
  produced?(topic: 'events', records: number, seconds: number): void;
  voided?(): void;
}

/** A partition of a tenant's events. Its owner decides what waits against the fold, writes it, and answers when it is acknowledged. */
export class EventsWriter implements PartitionHandler<EventsBody>, PartitionObserver {
  /** All records that count, for those who read them in order. */
  readonly inputs: CommitFeed;
  /** The commits by aggregate. */
  readonly history: AggregateHistory;
  /** The log as who reads the partition sees it. */
  readonly log: EventsLog;
  /** How far it is folded, whose it is, and how it is taken. */
  readonly partition: Pick<
    FencedPartition<EventsBody>,
    'fence' | 'status' | 'position' | 'epoch' | 'nextEpoch' | 'open' | 'claim' | 'caughtUp'
  >;
  readonly #options: EventsWriterOptions;
  readonly #partition: FencedPartition<EventsBody>;
  /** How many bytes the records of one produce may have. */
  readonly #room: number;
  readonly #queue: WriteQueue;
  readonly #hold: Hold;
  readonly #budget: TenantBudget;
  /** Appends that wait for room in the local store: all for the same, so that none overtakes another. */
  #later = 0;
  #untilRoom: Promise<boolean> | undefined;
  #stopped: Error | undefined;

  constructor(options: EventsWriterOptions) {
    this.#options = options;
    const { ref, codec, owner, logger, from, tables, tailBytes, strictReads: strict } = options;
    const log = (this.log = new EventsLog(options.log, ref, options.partitionCount));
    this.#budget = options.budget ?? UNBOUNDED.tenant('');
    this.#hold = this.#budget.hold('appends');
    this.#room = log.maxAppendBytes - appendBytes([]);
    this.#partition = new FencedPartition({
      log,
      ref,
      codec,
      owner,
      logger,
      from,
      strict,
      handler: this,
      observer: this,
    });
    this.partition = this.#partition;
    this.inputs = new CommitFeed({
      log,
      ref,
      codec,
      tailBytes,
      tails: options.budget?.process.caches.tails,
      start: from.position,
      voids: tables.voids('events'),
      folded: this.#partition,
      erasures: tables,
    });
    this.history = new AggregateHistory(this.inputs, tables);
    const { clock, window, limits, storage } = options;
    const { history } = this;
    this.#queue = new WriteQueue({
      ...{ tables, history, partition: this.#partition, clock, window, limits, room: this.#room, storage },
    });
  }

  /** What waits is answered UNAVAILABLE. */
  async close(): Promise<void> {
    await this.#partition.close();
    this.inputs.close();
  }

  /** Resolves when the commit is acknowledged and folded. Rejects with the refusal, or UNAVAILABLE. */
  append(command: AppendCommand): Promise<Accepted> {
    return this.#take(command, commitBytes(command));
  }

  /** As `append`; the whole transaction is stored, or nothing of it. */
  transact(command: TransactionCommand): Promise<Accepted<TransactionCommit>> {
    return this.#take(command, transactionBytes(command));
  }

  #take(command: AppendCommand, bytes: number): Promise<Accepted>;
  #take(command: TransactionCommand, bytes: number): Promise<Accepted<TransactionCommit>>;
  #take(command: AppendCommand | TransactionCommand, bytes: number): Promise<Accepted<StoredCommit>> {
    if (this.#stopped) return Promise.reject(this.#stopped);
    if (bytes > this.#room) return Promise.reject(tooLargeAlone(bytes, this.#room));
    const refusal = this.#refusalOf(bytes);
    if (refusal !== undefined) return Promise.reject(refusal);
    // It goes behind those that wait already: none overtakes another.
    if (this.#later > 0 || this.#options.tables.section.isFull) return this.#appendLater(command, bytes);
    return this.#enqueue(command, bytes);
  }

  #enqueue(command: AppendCommand | TransactionCommand, bytes: number): Promise<Accepted<StoredCommit>> {
    this.#hold.add(bytes);
    return new Promise((resolve, reject) => {
      this.#queue.push(
        'appends' in command
          ? new PendingTransaction(command, bytes, this.#hold, resolve, reject)
          : new PendingAppend(command, bytes, this.#hold, resolve, reject),
      );
    });
  }

  /** Nothing of an append that is refused here is stored. */
  #refusalOf(bytes: number): StatefoldError | undefined {
    if (this.#queue.length + this.#later >= this.#options.limits.queued)
      return this.#budget.refusal('appends', 'tenant');
    const owner = this.#budget.refuses('appends', bytes);
    return owner === undefined ? undefined : this.#budget.refusal('appends', owner);
  }

  /** The local store is being written, which makes room; where it can't be, the append is refused. */
  async #appendLater(command: AppendCommand | TransactionCommand, bytes: number): Promise<Accepted<StoredCommit>> {
    const { section } = this.#options.tables;
    this.#later++;
    this.#hold.add(bytes);
    try {
      this.#untilRoom ??= (
        section.roomSoon(() => this.#stopped === undefined && !section.isFailing) ?? Promise.resolve(true)
      ).finally(() => (this.#untilRoom = undefined));
      // Whoever came first is woken first.
      if (!(await this.#untilRoom))
        throw (
          this.#stopped ??
          new StatefoldError(
            'UNAVAILABLE',
            'the local store of this process takes no writes now (is its disk full?), and memory holds all that it may; send the request again later',
            { retryAfterSeconds: 5 },
          )
        );
    } finally {
      this.#later--;
      this.#hold.sub(bytes);
    }
    if (this.#stopped) throw this.#stopped;
    return this.#enqueue(command, bytes);
  }

  /** Writes a control record; resolves with its offset. */
  propose(control: Control): Promise<number> {
    if (this.#stopped) return Promise.reject(this.#stopped);
    return new Promise((resolve, reject) => {
      this.#queue.push({ control, resolve, reject });
    });
  }

  /**
   * Erases the aggregate behind all that was appended to it before. Resolves when the record is in the log, with how far the erasure is;
   * so too where the aggregate was erased before. Rejects with the refusal (NOT_FOUND), or UNAVAILABLE.
   */
  erase(aggregateId: string, reason: string | undefined): Promise<ErasureRow['status']> {
    if (this.#stopped) return Promise.reject(this.#stopped);
    return new Promise((resolve, reject) => {
      this.#queue.push(new PendingErase(aggregateId, reason ?? null, resolve, reject));
    });
  }

  judge(body: EventsBody): boolean {
    const { tables } = this.#options;
    const { kind, value } = body;
    if (kind === 'Commit')
      return !tables.isErased(value.aggregateId) && judgeCommit(tables.head(value.aggregateId), value);
    if (kind === 'Erase') return judgeErase(tables.isErased(value.aggregateId));
    if (kind === 'Transaction' && tables.hasErasures)
      for (const { aggregateId, baseVersion } of value.parts)
        if (baseVersion !== ERASED_BASE && tables.isErased(aggregateId)) return false;
    return body.kind !== 'Transaction' || judgeTransaction((aggregateId) => tables.head(aggregateId), body.value);
  }

  gather(most: number): Draft<EventsBody>[] {
    return this.#queue.gather(most);
  }

  restoring(end: number | undefined): void {
    this.#options.tables.section.bulk(end !== undefined);
    this.inputs.restoring(end);
  }

  untilRoom(wanted: () => boolean): Promise<boolean> | undefined {
    return this.#options.tables.section.roomSoon(wanted);
  }

  atOnce(step: keyof typeof AT_ONCE, drafts: readonly Draft<EventsBody>[], first: number): number {
    return background.isShared ? draftsFor(AT_ONCE[step], drafts, first) : drafts.length;
  }

  fold(record: Folded<EventsBody>, draft: Draft<EventsBody> | undefined): void {
    const { tables } = this.#options;
    if (!record.accepted) {
      tables.addVoid('events', record.offset);
      this.inputs.addVoid(record.offset);
      if (tables.hasErasures)
        for (const aggregateId of aggregatesIn(record.body))
          if (tables.isErased(aggregateId)) this.#options.listener.straggled(aggregateId);
      return;
    }
    if (record.body.kind === 'Transaction') return this.#foldTransaction(record.offset, record.body.value, draft);
    if (record.body.kind !== 'Commit') {
      const input = controlInput(record.offset, record.body);
      if (input === undefined) this.inputs.passed();
      else this.inputs.push(input);
      this.#foldControl(record.body, record.offset);
      if (draft instanceof ControlDraft) draft.pending.resolve(record.offset);
      if (draft instanceof EraseDraft) draft.pending.resolve('erasing');
      return;
    }
    const { value } = record.body;
    const commit = draft instanceof AppendDraft ? draft.storedAt(record.offset) : storedCommit(record.offset, value);
    const { aggregateId, baseVersion } = value;
    if (baseVersion === 0) tables.addToType(value.aggregateType, aggregateId);
    tables.addCommit(aggregateId, headAfter(value), baseVersion, record.offset);
    if (value.keyed)
      tables.setCommand(aggregateId, value.commandId, { offset: record.offset, requestHash: value.requestHash });
    tables.bytes.addCommit(storedCommitBytes(commit));
    eachEventType(value, (eventType) => tables.eventTypes.add(eventType, value.aggregateType, value.timestamp));
    this.inputs.push(commitInput(commit));
    this.#options.listener.committed(commit);
    if (draft instanceof AppendDraft) draft.pending.resolve({ commit, replayed: false });
  }

  #foldControl(control: Control, offset: number): void {
    const { tables, listener } = this.#options;
    tables.bytes.addCommit(storedControlBytes(control));
    if (control.kind === 'Erase') {
      const { aggregateId, aggregateType, timestamp } = control.value;
      tables.erase(aggregateId, { aggregateType, offset, timestamp });
    } else if (control.kind === 'Erased') tables.erased(control.value.aggregateId);
    else if (control.kind === 'ReducerFault' || control.kind === 'ReducerRelease') {
      const { aggregateId } = control.value;
      // The process that wrote it did not know of the erasure yet.
      const straggled = tables.isErased(aggregateId);
      tables.addControl(aggregateId, offset);
      if (straggled) return listener.straggled(aggregateId);
    }
    listener.controlled(control, offset);
  }

  #foldTransaction(offset: number, value: TransactionValue, draft: Draft<EventsBody> | undefined): void {
    const { tables } = this.#options;
    const own = draft instanceof TransactionDraft ? draft : undefined;
    const commit = own?.body.value === value ? own.storedAt(offset) : storedTransaction(offset, value, own?.eventIds);
    for (const part of value.parts) {
      const { aggregateId, aggregateType, baseVersion } = part;
      if (baseVersion === ERASED_BASE) continue;
      if (baseVersion === 0) tables.addToType(aggregateType, aggregateId);
      tables.addCommit(aggregateId, headAfterPart(part, value), baseVersion, offset);
      for (const { eventType } of part.events) tables.eventTypes.add(eventType, aggregateType, value.timestamp);
    }
    if (value.keyed) tables.setCommand(OF_TENANT, value.commandId, { offset, requestHash: value.requestHash });
    tables.bytes.addCommit(storedCommitBytes(commit));
    this.inputs.push(commitInput(commit));
    this.#options.listener.committed(commit);
    own?.pending.resolve({ commit, replayed: false });
  }

  underWay(drafts: readonly Draft<EventsBody>[], offset: number): void {
    this.#options.listener.underWay(offset, (mostEvents) => {
      const end = drafts.findIndex((draft) => draft instanceof ControlDraft || draft instanceof EraseDraft);
      const commits = drafts.slice(0, end < 0 ? drafts.length : end) as (AppendDraft | TransactionDraft)[];
      if (commits.reduce((sum, draft) => sum + eventsOfDraft(draft), 0) > mostEvents) return [];
      return commits.map((draft, i) => draft.storedAt(offset + i));
    });
  }

  produced(records: number, seconds: number): void {
    this.#queue.produced(seconds);
    this.#options.observer?.produced?.('events', records, seconds);
  }

  voided(): void {
    this.#options.observer?.voided?.();
  }

  undecided(drafts: readonly Draft<EventsBody>[]): void {
    this.#queue.requeue(pendingOf(drafts));
  }

  refused(drafts: readonly Draft<EventsBody>[], error: Error): void {
    const why =
      error instanceof AppendTooLargeError
        ? 'the log takes less at once than the service needs (was a limit of its topic lowered?)'
        : 'the log takes no writes now (is its disk full, or is it away?)';
    const answer = new StatefoldError('UNAVAILABLE', `${why}; nothing was stored, send the request again`, {
      cause: error,
      retryAfterSeconds: 5,
    });
    for (const pending of pendingOf(drafts)) pending.reject(answer);
  }

  stopped(error: Error, drafts: readonly Draft<EventsBody>[]): void {
    const answer =
      error instanceof StatefoldError
        ? error
        : new StatefoldError('UNAVAILABLE', 'the tenant is not served now; send the request again', {
            cause: error,
          });
    for (const pending of pendingOf(drafts)) pending.reject(answer);
    // What waits here, or comes later, was not written, and won't be by this process.
    this.#stopped = answer instanceof NotOwnerError ? answer : new NotOwnerError(answer.message, { cause: answer });
    this.#queue.stop(this.#stopped);
    this.#hold.close();
    this.#options.listener.stopped(error);
  }
}

const tooLargeAlone = (bytes: number, most: number): StatefoldError =>
  new StatefoldError(
    'PAYLOAD_TOO_LARGE',
    `The append has up to ${bytes} bytes in the log, which takes ${most} of one append; send fewer events at a time.`,
  );

/** The aggregates whose events, or faults, the record has. */
export function aggregatesIn(body: EventsBody): readonly string[] {
  switch (body.kind) {
    case 'Commit':
    case 'ReducerFault':
    case 'ReducerRelease':
      return [body.value.aggregateId];
    case 'Transaction':
      return body.value.parts.flatMap(({ aggregateId, baseVersion }) =>
        baseVersion === ERASED_BASE ? [] : [aggregateId],
      );
    default:
      return [];
  }
}
