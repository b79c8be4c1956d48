import {
  decideAppend,
  decideTransaction,
  gone,
  headAfter,
  headAfterPart,
  isRemembered,
  judgeCommit,
  judgeErase,
  judgeTransaction,
  type AppendDecision,
  type Head,
  type RememberedCommand,
  type TransactionDecision,
} from '../core/append-rules.js';
import type { Clock } from '../core/clock.js';
import { UNBOUNDED, type Hold, type TenantBudget } from '../core/budget.js';
import { InvariantError, NotOwnerError, StatefoldError } from '../core/errors.js';
import { tracing, type Span } from '../core/tracing.js';
import {
  withId,
  type AggregateCommit,
  type AppendCommand,
  type NewEvent,
  type StoredCommit,
  type TransactionCommand,
  type TransactionCommit,
} from '../core/event.js';
import { uuidText, writeUuidv7 } from '../core/ids.js';
import {
  ERASED_BASE,
  type CommitEventValue,
  type CommitValue,
  type Control,
  type EraseValue,
  type EventsBody,
  type TransactionValue,
} from '../core/records.js';
import type { FenceState } from '../core/fence.js';
import type { Logger } from '../core/logger.js';
import { controlInput } from '../feed/inputs.js';
import type { RecordCodec } from '../log/codec/codec.js';
import { commitBytes, storedCommitBytes, transactionBytes } from '../log/codec/commit-bytes.js';
import { EventsLog } from '../log/journal/events-log.js';
import { FencedPartition, type PartitionObserver } from '../log/journal/fenced-partition.js';
import { appendBytes, type Log, type PartitionRef } from '../log/log.js';
import { AggregateHistory } from './aggregate-history.js';
import { CommitFeed } from './commit-feed.js';
import type { Draft, Folded, PartitionHandler } from '../log/journal/partition-handler.js';
import { eachEventType, storedCommit, storedTransaction } from '../log/codec/commit-of-view.js';
import type { ErasureRow, PartitionTables } from '../store/partition-tables.js';
import type { StoredBytes } from '../store/stored-bytes.js';

export interface Accepted<C extends StoredCommit = AggregateCommit> {
  readonly commit: C;
  /** Answered before: the command was repeated. */
  readonly replayed: boolean;
}

/** An append, or a transaction, that waits for its answer. Its bytes are held until it has one, on whatever way it comes to it. */
class Pending<T extends AppendCommand | TransactionCommand, C extends StoredCommit> {
  /** Of the request that appends; undefined: there are no traces. */
  readonly span: Span | undefined;

  constructor(
    readonly command: T,
    readonly bytes: number,
    private readonly hold: Hold,
    private readonly answer: (accepted: Accepted<C>) => void,
    private readonly refuse: (error: Error) => void,
  ) {
    const { tracer } = tracing;
    if (tracer === undefined) return;
    this.span = tracer.begin('append', {
      parent: tracer.current,
      attributes: { 'statefold.correlation_id': command.correlationId },
    });
  }

  resolve(accepted: Accepted<C>): void {
    this.hold.sub(this.bytes);
    if (this.span !== undefined) {
      if (accepted.replayed) this.span.set({ 'statefold.replayed': true });
      this.span.end();
    }
    this.answer(accepted);
  }

  reject(error: Error): void {
    this.hold.sub(this.bytes);
    this.span?.fail(error);
    this.span?.end();
    this.refuse(error);
  }
}
class PendingAppend extends Pending<AppendCommand, AggregateCommit> {}
class PendingTransaction extends Pending<TransactionCommand, TransactionCommit> {}
interface PendingControl {
  readonly control: Control;
  resolve(offset: number): void;
  reject(error: Error): void;
}
/** An erasure that was asked for, and is in the log no sooner than what was appended to the aggregate before. */
class PendingErase {
  constructor(
    readonly aggregateId: string,
    readonly reason: string | null,
    readonly resolve: (status: ErasureRow['status']) => void,
    readonly reject: (error: Error) => void,
  ) {}
}
type Waiting = PendingAppend | PendingTransaction | PendingErase | PendingControl;
/** Refused only when all that was acknowledged before is folded. */
type Refusable = PendingAppend | PendingTransaction | PendingErase;

/** As whose its idempotency keys are remembered: no aggregate has this id. So the keys of transactions are the tenant's. */
const OF_TENANT = '';
const scopeOf = (command: AppendCommand | TransactionCommand): string =>
  'appends' in command ? OF_TENANT : command.aggregateId;

/** What a produce is gathered of, and what is left of what waits. */
interface Gathering {
  /** Of the aggregates that it writes. */
  readonly heads: Map<string, Head>;
  /** Of the keyed commands that it writes. */
  readonly keyed: Set<string>;
  /** Aggregates behind whose refusals nothing is written yet. */
  readonly held: Set<string>;
  /** Aggregates of which something was left. */
  readonly stuck: Set<string>;
  readonly left: Waiting[];
  readonly refused: Refusable[];
}

/** A control record takes at most so many: names, and the message of a fault. */
const CONTROL_BYTES = 64 * 1024;

class AppendDraft implements Draft<EventsBody> {
  constructor(
    readonly body: EventsBody,
    readonly keyPrefix: string,
    readonly pending: PendingAppend,
    readonly eventIds: readonly string[],
  ) {}

  get span(): Span | undefined {
    return this.pending.span;
  }
}
class TransactionDraft implements Draft<EventsBody> {
  constructor(
    readonly body: { readonly kind: 'Transaction'; readonly value: TransactionValue },
    readonly keyPrefix: string,
    readonly pending: PendingTransaction,
    /** Of each part. */
    readonly eventIds: readonly (readonly string[])[],
  ) {}

  get span(): Span | undefined {
    return this.pending.span;
  }
}
class EraseDraft implements Draft<EventsBody> {
  constructor(
    readonly body: { readonly kind: 'Erase'; readonly value: EraseValue },
    readonly keyPrefix: string,
    readonly pending: PendingErase,
  ) {}
}
class ControlDraft implements Draft<EventsBody> {
  constructor(
    readonly body: Control,
    readonly keyPrefix: string,
    readonly pending: PendingControl,
  ) {}
}

/** Told of what the fold of a partition's events finds, on the turn on which it does, in the order of the log. */
export interface EventsListener {
  committed(commit: StoredCommit): void;
  controlled(control: Control, offset: number): void;
  /** A record that does not count is of an aggregate that was erased: it is to go too. */
  straggled(aggregateId: string): void;
  /** As `PartitionHandler.underWay`: all of the commits, or none where they have more events than are wanted. */
  underWay(offset: number, commits: CommitsUnderWay): void;
  /** Nothing more is folded. */
  stopped(error: Error): void;
}

/** Commits that are on their way into the log: all of them, or none where they have more events than are wanted. */
export type CommitsUnderWay = (mostEvents: number) => readonly StoredCommit[];

export interface EventsWriterOptions {
  readonly log: Log;
  readonly ref: PartitionRef;
  /** Of how many partitions the tenant's events are. */
  readonly partitionCount: number;
  readonly codec: RecordCodec<EventsBody>;
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
  /** Refusals and reads wait for a write of the owner's own. */
  readonly strictReads: boolean;
  /** Of the tenant; without it nothing is bounded. */
  readonly budget?: TenantBudget | undefined;
  /** Asked before each write; without it nothing is bounded. */
  readonly storage?: Pick<StorageRoom, 'refusal'> | undefined;
  readonly listener: EventsListener;
  readonly observer?: WriterObserver | undefined;
}

/** What a tenant stores in all, and whether it may store more. */
export interface StorageRoom {
  readonly usage: number;
  /** Why it may not. */
  readonly refusal: StatefoldError | undefined;
  /** Counts a partition from now on; ended by the function that it gives. */
  add(part: StoredBytes): () => void;
}

export interface WriterObserver {
  produced?(topic: 'events', records: number, seconds: number): void;
  voided?(): void;
}

/** A partition of a tenant's events: what waits is decided against the fold, written by its owner, and answered when it is acknowledged. */
export class EventsWriter implements PartitionHandler<EventsBody>, PartitionObserver {
  /** All that counts, for those who read it in order. */
  readonly inputs: CommitFeed;
  /** The same by aggregate. */
  readonly history: AggregateHistory;
  /** The log as who reads the partition sees it. */
  readonly log: EventsLog;
  readonly #options: EventsWriterOptions;
  readonly #partition: FencedPartition<EventsBody>;
  /** Of the records of one produce. */
  readonly #room: number;
  #queue: Waiting[] = [];
  readonly #hold: Hold;
  readonly #budget: TenantBudget;
  /** Appends that wait for room in the local store. */
  #later = 0;
  /** Aggregates of which refusals are being judged, and how many: what could be stored waits behind them, or it would overtake them. */
  readonly #judged = new Map<string, number>();
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
  }

  /** How far it is folded, and whose it is. */
  get fence(): FenceState {
    return this.#partition.fence;
  }

  /** Of this process's last claim. */
  get epoch(): number {
    return this.#partition.epoch;
  }

  /** Claims the partition once more; resolves with the epoch. @throws StatefoldError UNAVAILABLE when it is not this process's any more */
  nextEpoch(): Promise<number> {
    return this.#partition.nextEpoch();
  }

  open({ claim }: { readonly claim: boolean }): Promise<void> {
    return this.#partition.open({ claim });
  }

  /** Takes a partition that was opened without a claim. */
  claim(): Promise<void> {
    return this.#partition.claim();
  }

  /** Resolves when all that was acknowledged before the call is folded here. */
  caughtUp(): Promise<void> {
    return this.#partition.caughtUp();
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

  /** Likewise; all of it is stored, or nothing. */
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
    // Behind those that wait already: none overtakes another.
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
      this.#partition.kick();
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
      // Whoever came first is woken first.
      const room = section.roomSoon(() => this.#stopped === undefined && !section.isFailing) ?? Promise.resolve(true);
      if (!(await room))
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
      this.#partition.kick();
    });
  }

  /**
   * Erases the aggregate behind all that was appended to it before. Resolves when that is in the log, with how far it is; again, for one
   * that was erased before, too. Rejects with the refusal (NOT_FOUND), or UNAVAILABLE.
   */
  erase(aggregateId: string, reason: string | undefined): Promise<ErasureRow['status']> {
    if (this.#stopped) return Promise.reject(this.#stopped);
    return new Promise((resolve, reject) => {
      this.#queue.push(new PendingErase(aggregateId, reason ?? null, resolve, reject));
      this.#partition.kick();
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

  gather(): Draft<EventsBody>[] {
    const { limits } = this.#options;
    const drafts: Draft<EventsBody>[] = [];
    const refused: Refusable[] = [];
    const left: Waiting[] = [];
    const heads = new Map<string, Head>();
    const keyed = new Set<string>();
    // Each aggregate's are written in the order of their arrival: nothing is written behind what may yet be, and what is left keeps
    // back all behind it.
    const held = new Set(this.#judged.keys());
    const stuck = new Set<string>();
    let bytes = 0;
    let isFull = false;
    for (const pending of this.#queue) {
      // What finds no room holds back what is behind it, also where that would be small enough.
      isFull ||=
        drafts.length >= limits.produceRecords ||
        bytes >= limits.produceBytes ||
        bytes + ('bytes' in pending ? pending.bytes : CONTROL_BYTES) > this.#room;
      if (isFull) {
        left.push(pending);
        continue;
      }
      if ('control' in pending) {
        const { control } = pending;
        drafts.push(
          new ControlDraft(
            control,
            `${control.kind}:${'projectionId' in control.value ? control.value.projectionId : control.value.aggregateId}`,
            pending,
          ),
        );
        bytes += CONTROL_BYTES;
        continue;
      }
      if (pending instanceof PendingErase) {
        const draft = this.#gatherErase(pending, { heads, keyed, held, stuck, left, refused });
        if (draft === undefined) continue;
        drafts.push(draft);
        bytes += CONTROL_BYTES;
        continue;
      }
      if (pending instanceof PendingTransaction) {
        const draft = this.#gatherTransaction(pending, { heads, keyed, held, stuck, left, refused });
        if (draft === undefined) continue;
        drafts.push(draft);
        bytes += pending.bytes;
        continue;
      }
      const { command } = pending;
      const { aggregateId } = command;
      if (stuck.size > 0 && stuck.has(aggregateId)) {
        left.push(pending);
        continue;
      }
      const ahead = heads.get(aggregateId);
      const name = command.keyed ? `${aggregateId}\u0000${command.commandId}` : '';
      if (command.keyed && keyed.has(name)) {
        left.push(pending); // a repeat of one that is being written: answered from it
        continue;
      }
      const decision = this.#decide(command, ahead);
      if (decision.kind === 'write' && held.size > 0 && held.has(aggregateId)) {
        left.push(pending);
        stuck.add(aggregateId);
        continue;
      }
      const full =
        decision.kind === 'write' && command.given === undefined ? this.#options.storage?.refusal : undefined;
      if (full !== undefined) pending.reject(full);
      else if (decision.kind === 'write') {
        const draft = draftOf(pending, decision);
        const { value } = draft.body as { value: CommitValue };
        heads.set(aggregateId, headAfter(value));
        if (command.keyed) keyed.add(name);
        drafts.push(draft);
        bytes += pending.bytes;
      } else if (ahead !== undefined) {
        left.push(pending); // a refusal waits for the acknowledgement of what it was decided on
        stuck.add(aggregateId);
        continue;
      } else if (decision.kind === 'replay') void this.#replay(pending, decision.command);
      else {
        refused.push(pending);
        held.add(aggregateId);
      }
    }
    this.#queue = left;
    if (refused.length > 0) void this.#refuse(refused);
    return drafts;
  }

  /** Behind all that waits before it; what comes later waits for it, and is refused. */
  #gatherErase(pending: PendingErase, { heads, held, stuck, left, refused }: Gathering): EraseDraft | undefined {
    const { aggregateId, reason } = pending;
    const known = this.#options.tables.erasure(aggregateId);
    if (known !== undefined) {
      pending.resolve(known.status);
      return undefined;
    }
    if (stuck.has(aggregateId) || held.has(aggregateId) || heads.has(aggregateId)) {
      left.push(pending);
      stuck.add(aggregateId);
      return undefined;
    }
    const head = this.#head(aggregateId);
    if (head === undefined) {
      refused.push(pending);
      held.add(aggregateId);
      return undefined;
    }
    stuck.add(aggregateId);
    const value = { aggregateId, aggregateType: head.type, timestamp: Math.max(this.#now, head.timestamp), reason };
    return new EraseDraft({ kind: 'Erase', value }, `Erase:${aggregateId}`, pending);
  }

  /** As an append, of each of its aggregates: it waits for all that waits before it, and all that comes later waits for it. */
  #gatherTransaction(
    pending: PendingTransaction,
    { heads, keyed, held, stuck, left, refused }: Gathering,
  ): TransactionDraft | undefined {
    const { command } = pending;
    const ids = command.appends.map(({ aggregateId }) => aggregateId);
    const leave = (): undefined => {
      left.push(pending);
      for (const id of ids) stuck.add(id);
      return undefined;
    };
    if (stuck.size > 0 && ids.some((id) => stuck.has(id))) return leave();
    const name = `${OF_TENANT}\u0000${command.commandId}`;
    if (command.keyed && keyed.has(name)) {
      left.push(pending);
      return undefined;
    }
    const decision = this.#decideTransaction(command, heads);
    if (decision.kind === 'write' && held.size > 0 && ids.some((id) => held.has(id))) return leave();
    const full = decision.kind === 'write' ? this.#options.storage?.refusal : undefined;
    if (full !== undefined) pending.reject(full);
    else if (decision.kind === 'write') {
      const draft = transactionDraftOf(pending, decision);
      const { value } = draft.body;
      for (const part of value.parts) heads.set(part.aggregateId, headAfterPart(part, value));
      if (command.keyed) keyed.add(name);
      return draft;
    } else if (ids.some((id) => heads.has(id))) return leave();
    else if (decision.kind === 'replay') void this.#replay(pending, decision.command);
    else {
      refused.push(pending);
      for (const id of ids) held.add(id);
    }
    return undefined;
  }

  /** On what is stored, and the heads of what is being written. */
  #decide(command: AppendCommand, head: Head | undefined): AppendDecision {
    const isErased = this.#options.tables.isErased(command.aggregateId);
    return decideAppend(command, head ?? this.#head(command.aggregateId), this.#known(command), this.#now, isErased);
  }

  #decideTransaction(command: TransactionCommand, heads?: ReadonlyMap<string, Head>): TransactionDecision {
    return decideTransaction(
      command,
      (aggregateId) => heads?.get(aggregateId) ?? this.#head(aggregateId),
      this.#known(command),
      this.#now,
      (aggregateId) => this.#options.tables.isErased(aggregateId),
    );
  }

  #head(aggregateId: string): Head | undefined {
    return this.#options.tables.head(aggregateId);
  }

  get #now(): number {
    return this.#options.clock.now();
  }

  /** Refusals are answered from a fold that has reached the log's end as of the request. */
  async #refuse(refused: readonly Refusable[]): Promise<void> {
    const judged = refused.flatMap((pending) =>
      pending instanceof PendingErase ? [pending.aggregateId] : aggregatesOf(pending.command),
    );
    for (const aggregateId of judged) this.#judged.set(aggregateId, (this.#judged.get(aggregateId) ?? 0) + 1);
    try {
      await this.#partition.caughtUp();
    } catch (error) {
      for (const pending of refused) pending.reject(this.#stopped ?? (error as Error));
      return;
    } finally {
      for (const aggregateId of judged) {
        const left = (this.#judged.get(aggregateId) ?? 1) - 1;
        if (left === 0) this.#judged.delete(aggregateId);
        else this.#judged.set(aggregateId, left);
      }
      if (this.#queue.length > 0) this.#partition.kick();
    }
    const again = refused.filter((pending) => {
      if (pending instanceof PendingErase) {
        const { aggregateId } = pending;
        const isMissing = !this.#options.tables.isErased(aggregateId) && this.#head(aggregateId) === undefined;
        if (isMissing) pending.reject(new StatefoldError('NOT_FOUND', `there is no aggregate '${aggregateId}'`));
        return !isMissing;
      }
      const decision =
        pending instanceof PendingTransaction
          ? this.#decideTransaction(pending.command)
          : this.#decide(pending.command, undefined);
      if (decision.kind === 'refuse') pending.reject(decision.error);
      return decision.kind !== 'refuse';
    });
    if (again.length > 0) this.#requeue(again);
  }

  #requeue(pending: readonly Waiting[]): void {
    if (this.#stopped) {
      for (const one of pending) one.reject(this.#stopped);
      return;
    }
    this.#queue.unshift(...pending);
    this.#partition.kick();
  }

  #known(command: AppendCommand | TransactionCommand): RememberedCommand | undefined {
    if (!command.keyed) return undefined;
    const known = this.#options.tables.command(scopeOf(command), command.commandId);
    return known !== undefined && isRemembered(known, this.#partition.position, this.#options.window)
      ? known
      : undefined;
  }

  async #replay(pending: PendingAppend | PendingTransaction, command: RememberedCommand): Promise<void> {
    const erased = (): string | undefined =>
      aggregatesOf(pending.command).find((aggregateId) => this.#options.tables.isErased(aggregateId));
    try {
      const commit = await this.history.readCommit(command.offset);
      const aggregateId = erased();
      if (aggregateId !== undefined) throw gone(aggregateId);
      if (pending instanceof PendingTransaction) pending.resolve({ commit: ofTransaction(commit), replayed: true });
      else pending.resolve({ commit: ofAppend(commit), replayed: true });
    } catch (error) {
      const aggregateId = erased();
      pending.reject(
        aggregateId !== undefined
          ? // While it was read.
            gone(aggregateId)
          : error instanceof StatefoldError
            ? error
            : new StatefoldError('UNAVAILABLE', 'the answer to the request could not be read now; send it again', {
                cause: error,
              }),
      );
    }
  }

  restoring(end: number | undefined): void {
    this.#options.tables.section.bulk(end !== undefined);
    this.inputs.restoring(end);
  }

  untilRoom(wanted: () => boolean): Promise<boolean> | undefined {
    return this.#options.tables.section.roomSoon(wanted);
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
    const commit = storedCommit(record.offset, value, draft instanceof AppendDraft ? draft.eventIds : undefined);
    const { aggregateId, baseVersion } = value;
    if (baseVersion === 0) tables.addToType(value.aggregateType, aggregateId);
    tables.addCommit(aggregateId, headAfter(value), baseVersion, record.offset);
    if (value.keyed)
      tables.setCommand(aggregateId, value.commandId, { offset: record.offset, requestHash: value.requestHash });
    tables.bytes.addCommit(storedCommitBytes(commit));
    eachEventType(value, (eventType) => tables.eventTypes.add(eventType, value.aggregateType, value.timestamp));
    this.inputs.push({ kind: 'commit', commit });
    this.#options.listener.committed(commit);
    if (draft instanceof AppendDraft) draft.pending.resolve({ commit, replayed: false });
  }

  #foldControl(control: Control, offset: number): void {
    const { tables, listener } = this.#options;
    if (control.kind === 'Erase') {
      const { aggregateId, aggregateType, timestamp } = control.value;
      tables.erase(aggregateId, { aggregateType, offset, timestamp });
    } else if (control.kind === 'Erased') tables.erased(control.value.aggregateId);
    else if (control.kind === 'ReducerFault' || control.kind === 'ReducerRelease') {
      const { aggregateId } = control.value;
      // A process that knew nothing of the erasure yet wrote it.
      if (tables.isErased(aggregateId)) {
        tables.addControl(aggregateId, offset);
        return listener.straggled(aggregateId);
      }
      tables.addControl(aggregateId, offset);
    }
    listener.controlled(control, offset);
  }

  #foldTransaction(offset: number, value: TransactionValue, draft: Draft<EventsBody> | undefined): void {
    const { tables } = this.#options;
    const own = draft instanceof TransactionDraft ? draft : undefined;
    const commit = storedTransaction(offset, value, own?.eventIds);
    for (const part of value.parts) {
      const { aggregateId, aggregateType, baseVersion } = part;
      if (baseVersion === ERASED_BASE) continue;
      if (baseVersion === 0) tables.addToType(aggregateType, aggregateId);
      tables.addCommit(aggregateId, headAfterPart(part, value), baseVersion, offset);
      for (const { eventType } of part.events) tables.eventTypes.add(eventType, aggregateType, value.timestamp);
    }
    if (value.keyed) tables.setCommand(OF_TENANT, value.commandId, { offset, requestHash: value.requestHash });
    tables.bytes.addCommit(storedCommitBytes(commit));
    this.inputs.push({ kind: 'commit', commit });
    this.#options.listener.committed(commit);
    own?.pending.resolve({ commit, replayed: false });
  }

  underWay(drafts: readonly Draft<EventsBody>[], offset: number): void {
    this.#options.listener.underWay(offset, (mostEvents) => {
      const end = drafts.findIndex((draft) => draft instanceof ControlDraft || draft instanceof EraseDraft);
      const commits = drafts.slice(0, end < 0 ? drafts.length : end) as (AppendDraft | TransactionDraft)[];
      if (commits.reduce((sum, draft) => sum + eventsOfDraft(draft), 0) > mostEvents) return [];
      return commits.map((draft, i) =>
        draft instanceof TransactionDraft
          ? storedTransaction(offset + i, draft.body.value, draft.eventIds)
          : storedCommit(offset + i, draft.body.value as CommitValue, draft.eventIds),
      );
    });
  }

  produced(records: number, seconds: number): void {
    this.#options.observer?.produced?.('events', records, seconds);
  }

  voided(): void {
    this.#options.observer?.voided?.();
  }

  undecided(drafts: readonly Draft<EventsBody>[]): void {
    this.#requeue(pendingOf(drafts));
  }

  refused(drafts: readonly Draft<EventsBody>[], error: Error): void {
    const answer = new StatefoldError(
      'UNAVAILABLE',
      'the log takes no writes now (is the disk full?); nothing was stored, send the request again',
      { cause: error, retryAfterSeconds: 5 },
    );
    for (const pending of pendingOf(drafts)) pending.reject(answer);
  }

  stopped(error: Error, drafts: readonly Draft<EventsBody>[]): void {
    const answer =
      error instanceof StatefoldError
        ? error
        : new StatefoldError('UNAVAILABLE', 'the tenant is not served now; send the request again', {
            cause: error,
            retryable: true,
          });
    for (const pending of pendingOf(drafts)) pending.reject(answer);
    // What waits here, or comes later, was not written, and won't be by this process.
    this.#stopped = answer instanceof NotOwnerError ? answer : new NotOwnerError(answer.message, { cause: answer });
    for (const pending of this.#queue.splice(0)) pending.reject(this.#stopped);
    this.#hold.close();
    this.#options.listener.stopped(error);
  }
}

const tooLargeAlone = (bytes: number, most: number): StatefoldError =>
  new StatefoldError(
    'PAYLOAD_TOO_LARGE',
    `The append has up to ${bytes} bytes in the log, which takes ${most} of one append; send fewer events at a time.`,
  );

const pendingOf = (drafts: readonly Draft<EventsBody>[]): Waiting[] =>
  drafts
    .filter(
      (draft): draft is AppendDraft | TransactionDraft | EraseDraft | ControlDraft =>
        draft instanceof AppendDraft ||
        draft instanceof TransactionDraft ||
        draft instanceof EraseDraft ||
        draft instanceof ControlDraft,
    )
    .map((draft) => draft.pending);

const aggregatesOf = (command: AppendCommand | TransactionCommand): readonly string[] =>
  'appends' in command ? command.appends.map(({ aggregateId }) => aggregateId) : [command.aggregateId];

/** Of whose events, or faults, the record is. */
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

const eventsOfDraft = (draft: AppendDraft | TransactionDraft): number =>
  draft instanceof TransactionDraft ? draft.eventIds.reduce((sum, ids) => sum + ids.length, 0) : draft.eventIds.length;

/** A key of an aggregate names its appends, a key of the tenant its transactions. */
function ofAppend(commit: StoredCommit): AggregateCommit {
  if (commit.parts !== undefined) throw new InvariantError(`an append was looked for at offset ${commit.offset}`);
  return commit;
}
function ofTransaction(commit: StoredCommit): TransactionCommit {
  if (commit.parts === undefined) throw new InvariantError(`a transaction was looked for at offset ${commit.offset}`);
  return commit;
}

/** The events under ids of their own. */
function withIds(
  of: readonly NewEvent[],
  timestamp: number,
): { readonly events: readonly CommitEventValue[]; readonly eventIds: readonly string[] } {
  const ids = Buffer.allocUnsafeSlow(16 * of.length);
  const eventIds: string[] = [];
  const events = of.map((event, i) => {
    writeUuidv7(ids, 16 * i, timestamp);
    eventIds.push(uuidText(ids, 16 * i));
    return withId(event, ids.subarray(16 * i, 16 * i + 16));
  });
  return { events, eventIds };
}

function withGivenIds(of: readonly NewEvent[], ids: readonly Buffer[]): ReturnType<typeof withIds> {
  if (ids.length !== of.length) throw new InvariantError('an import has not one id for each of its events');
  return { events: of.map((event, i) => withId(event, ids[i] as Buffer)), eventIds: ids.map((id) => uuidText(id, 0)) };
}

function transactionDraftOf(
  pending: PendingTransaction,
  { parts: decided, timestamp }: Extract<TransactionDecision, { kind: 'write' }>,
): TransactionDraft {
  const { command } = pending;
  const made = command.appends.map(({ events }) => withIds(events, timestamp));
  const parts = command.appends.map(({ aggregateId }, i) => ({
    aggregateId,
    aggregateType: decided[i]?.aggregateType ?? '',
    baseVersion: decided[i]?.baseVersion ?? 0,
    events: made[i]?.events ?? [],
  }));
  const [first] = parts;
  return new TransactionDraft(
    {
      kind: 'Transaction',
      value: {
        commandId: command.commandId,
        keyed: command.keyed,
        requestHash: command.requestHash,
        timestamp,
        correlationId: command.correlationId ?? null,
        causationId: command.causationId ?? null,
        metadata: command.metadata ?? null,
        parts,
      },
    },
    `${first?.aggregateId ?? ''}@${first?.baseVersion ?? 0}`,
    pending,
    made.map(({ eventIds }) => eventIds),
  );
}

function draftOf(
  pending: PendingAppend,
  decision: { readonly aggregateType: string; readonly baseVersion: number; readonly timestamp: number },
): AppendDraft {
  const { command } = pending;
  const { events, eventIds } =
    command.given === undefined
      ? withIds(command.events, decision.timestamp)
      : withGivenIds(command.events, command.given.eventIds);
  const value: CommitValue = {
    commandId: command.commandId,
    keyed: command.keyed,
    requestHash: command.requestHash,
    aggregateId: command.aggregateId,
    aggregateType: decision.aggregateType,
    baseVersion: decision.baseVersion,
    timestamp: decision.timestamp,
    correlationId: command.correlationId ?? null,
    causationId: command.causationId ?? null,
    metadata: command.metadata ?? null,
    events,
  };
  return new AppendDraft(
    { kind: 'Commit', value },
    `${command.aggregateId}@${decision.baseVersion}`,
    pending,
    eventIds,
  );
}
