import {
  decideAppend,
  headAfter,
  isRemembered,
  judgeCommit,
  type Head,
  type RememberedCommand,
} from '../core/append-rules.js';
import type { Clock } from '../core/clock.js';
import { UNBOUNDED, type Hold, type TenantBudget } from '../core/budget.js';
import { NotOwnerError, StatefoldError } from '../core/errors.js';
import { withId, type AppendCommand, type StoredCommit } from '../core/event.js';
import { uuidText, writeUuidv7 } from '../core/ids.js';
import type { CommitValue, Control, EventsBody } from '../core/records.js';
import type { FenceState } from '../core/fence.js';
import type { Logger } from '../core/logger.js';
import { controlInput } from '../feed/inputs.js';
import type { RecordCodec } from '../log/codec/codec.js';
import { commitBytes, storedCommitBytes } from '../log/codec/commit-bytes.js';
import { FencedPartition, type PartitionObserver } from '../log/journal/fenced-partition.js';
import { appendBytes, type Log, type PartitionRef } from '../log/log.js';
import { AggregateHistory } from './aggregate-history.js';
import { CommitFeed } from './commit-feed.js';
import type { Draft, Folded, PartitionHandler } from '../log/journal/partition-handler.js';
import { storedCommit } from '../log/codec/commit-of-view.js';
import type { PartitionTables } from '../store/partition-tables.js';
import type { StoredBytes } from '../store/stored-bytes.js';

export interface Accepted {
  readonly commit: StoredCommit;
  /** Answered before: the command was repeated. */
  readonly replayed: boolean;
}

/** An append that waits for its answer. Its bytes are held until it has one, on whatever way it comes to it. */
class PendingAppend {
  constructor(
    readonly command: AppendCommand,
    readonly bytes: number,
    private readonly hold: Hold,
    private readonly answer: (accepted: Accepted) => void,
    private readonly refuse: (error: Error) => void,
  ) {}

  resolve(accepted: Accepted): void {
    this.hold.sub(this.bytes);
    this.answer(accepted);
  }

  reject(error: Error): void {
    this.hold.sub(this.bytes);
    this.refuse(error);
  }
}
interface PendingControl {
  readonly control: Control;
  resolve(offset: number): void;
  reject(error: Error): void;
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
  readonly #options: EventsWriterOptions;
  readonly #partition: FencedPartition<EventsBody>;
  /** Of the records of one produce. */
  readonly #room: number;
  #queue: (PendingAppend | PendingControl)[] = [];
  readonly #hold: Hold;
  readonly #budget: TenantBudget;
  /** Appends that wait for room in the local store. */
  #later = 0;
  /** Aggregates of which refusals are being judged, and how many: what could be stored waits behind them, or it would overtake them. */
  readonly #judged = new Map<string, number>();
  #stopped: Error | undefined;

  constructor(options: EventsWriterOptions) {
    this.#options = options;
    const { log, ref, codec, owner, logger, from, tables, tailBytes, strictReads: strict } = options;
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
      start: from.position,
      voids: tables.voids('events'),
      folded: this.#partition,
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
  close(): Promise<void> {
    return this.#partition.close();
  }

  /** Resolves when the commit is acknowledged and folded. Rejects with the refusal, or UNAVAILABLE. */
  append(command: AppendCommand): Promise<Accepted> {
    if (this.#stopped) return Promise.reject(this.#stopped);
    const bytes = commitBytes(command);
    if (bytes > this.#room) return Promise.reject(tooLargeAlone(bytes, this.#room));
    const refusal = this.#refusalOf(bytes);
    if (refusal !== undefined) return Promise.reject(refusal);
    // Behind those that wait already: none overtakes another.
    if (this.#later > 0 || this.#options.tables.section.isFull) return this.#appendLater(command, bytes);
    return this.#enqueue(command, bytes);
  }

  #enqueue(command: AppendCommand, bytes: number): Promise<Accepted> {
    this.#hold.add(bytes);
    return new Promise((resolve, reject) => {
      this.#queue.push(new PendingAppend(command, bytes, this.#hold, resolve, reject));
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
  async #appendLater(command: AppendCommand, bytes: number): Promise<Accepted> {
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

  judge(body: EventsBody): boolean {
    return body.kind !== 'Commit' || judgeCommit(this.#options.tables.head(body.value.aggregateId), body.value);
  }

  gather(): Draft<EventsBody>[] {
    const { limits } = this.#options;
    const drafts: Draft<EventsBody>[] = [];
    const refused: PendingAppend[] = [];
    const left: (PendingAppend | PendingControl)[] = [];
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
        bytes + ('control' in pending ? CONTROL_BYTES : pending.bytes) > this.#room;
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
      const decision = decideAppend(
        command,
        ahead ?? this.#options.tables.head(aggregateId),
        this.#known(command),
        this.#options.clock.now(),
      );
      if (decision.kind === 'write' && held.size > 0 && held.has(aggregateId)) {
        left.push(pending);
        stuck.add(aggregateId);
        continue;
      }
      const full = decision.kind === 'write' ? this.#options.storage?.refusal : undefined;
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

  /** Refusals are answered from a fold that has reached the log's end as of the request. */
  async #refuse(refused: readonly PendingAppend[]): Promise<void> {
    for (const { command } of refused)
      this.#judged.set(command.aggregateId, (this.#judged.get(command.aggregateId) ?? 0) + 1);
    try {
      await this.#partition.caughtUp();
    } catch (error) {
      for (const pending of refused) pending.reject(this.#stopped ?? (error as Error));
      return;
    } finally {
      for (const { command } of refused) {
        const left = (this.#judged.get(command.aggregateId) ?? 1) - 1;
        if (left === 0) this.#judged.delete(command.aggregateId);
        else this.#judged.set(command.aggregateId, left);
      }
      if (this.#queue.length > 0) this.#partition.kick();
    }
    const again = refused.filter((pending) => {
      const { command } = pending;
      const decision = decideAppend(
        command,
        this.#options.tables.head(command.aggregateId),
        this.#known(command),
        this.#options.clock.now(),
      );
      if (decision.kind === 'refuse') pending.reject(decision.error);
      return decision.kind !== 'refuse';
    });
    if (again.length > 0) this.#requeue(again);
  }

  #requeue(pending: readonly (PendingAppend | PendingControl)[]): void {
    if (this.#stopped) {
      for (const one of pending) one.reject(this.#stopped);
      return;
    }
    this.#queue.unshift(...pending);
    this.#partition.kick();
  }

  #known(command: AppendCommand): RememberedCommand | undefined {
    if (!command.keyed) return undefined;
    const known = this.#options.tables.command(command.aggregateId, command.commandId);
    return known !== undefined && isRemembered(known, this.#partition.position, this.#options.window)
      ? known
      : undefined;
  }

  async #replay(pending: PendingAppend, command: RememberedCommand): Promise<void> {
    try {
      pending.resolve({ commit: await this.history.readCommit(command.offset), replayed: true });
    } catch (error) {
      pending.reject(
        error instanceof StatefoldError
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
      return;
    }
    if (record.body.kind !== 'Commit') {
      const input = controlInput(record.offset, record.body);
      if (input === undefined) this.inputs.passed();
      else this.inputs.push(input);
      this.#options.listener.controlled(record.body, record.offset);
      if (draft instanceof ControlDraft) draft.pending.resolve(record.offset);
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
    this.inputs.push({ kind: 'commit', commit });
    this.#options.listener.committed(commit);
    if (draft instanceof AppendDraft) draft.pending.resolve({ commit, replayed: false });
  }

  underWay(drafts: readonly Draft<EventsBody>[], offset: number): void {
    this.#options.listener.underWay(offset, (mostEvents) => {
      const end = drafts.findIndex((draft) => !(draft instanceof AppendDraft));
      const appends = drafts.slice(0, end < 0 ? drafts.length : end) as AppendDraft[];
      if (appends.reduce((sum, { eventIds }) => sum + eventIds.length, 0) > mostEvents) return [];
      return appends.map(({ body, eventIds }, i) => storedCommit(offset + i, body.value as CommitValue, eventIds));
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

const pendingOf = (drafts: readonly Draft<EventsBody>[]): (PendingAppend | PendingControl)[] =>
  drafts
    .filter(
      (draft): draft is AppendDraft | ControlDraft => draft instanceof AppendDraft || draft instanceof ControlDraft,
    )
    .map((draft) => draft.pending);

function draftOf(
  pending: PendingAppend,
  decision: { readonly aggregateType: string; readonly baseVersion: number; readonly timestamp: number },
): AppendDraft {
  const { command } = pending;
  const ids = Buffer.allocUnsafeSlow(16 * command.events.length);
  const eventIds: string[] = [];
  const events = command.events.map((event, i) => {
    writeUuidv7(ids, 16 * i, decision.timestamp);
    eventIds.push(uuidText(ids, 16 * i));
    return withId(event, ids.subarray(16 * i, 16 * i + 16));
  });
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
