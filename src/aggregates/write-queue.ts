import {
  decideAppend,
  decideTransaction,
  gone,
  headAfter,
  headAfterPart,
  isRemembered,
  type AppendDecision,
  type Head,
  type RememberedCommand,
  type TransactionDecision,
} from '../core/append-rules.js';
import { background } from '../core/background.js';
import type { Clock } from '../core/clock.js';
import { InvariantError, StatefoldError } from '../core/errors.js';
import { Tally } from '../core/tally.js';
import type {
  AggregateCommit,
  AppendCommand,
  StoredCommit,
  TransactionCommand,
  TransactionCommit,
} from '../core/event.js';
import type { EventsBody } from '../core/records.js';
import type { FencedPartition } from '../log/journal/fenced-partition.js';
import type { Draft } from '../log/journal/partition-handler.js';
import type { PartitionTables } from '../store/partition-tables.js';
import type { AggregateHistory } from './aggregate-history.js';
import {
  aggregatesOf,
  controlDraftOf,
  costOf,
  draftOf,
  EraseDraft,
  PendingAppend,
  PendingErase,
  PendingTransaction,
  transactionDraftOf,
  type AppendDraft,
  type TransactionDraft,
  type Waiting,
} from './pending-writes.js';

/** What may be refused, once all that was acknowledged before is folded. */
type Refusable = PendingAppend | PendingTransaction | PendingErase;

/** In place of an aggregate's id, for the idempotency keys of transactions, which are the tenant's: no aggregate has this id. */
export const OF_TENANT = '';
const scopeOf = (command: AppendCommand | TransactionCommand): string =>
  'appends' in command ? OF_TENANT : command.aggregateId;

/** What one produce takes of what waits, and what it leaves. */
interface Gathering {
  /** Heads of the aggregates that the produce writes. */
  readonly heads: Map<string, Head>;
  /** Names of the keyed commands that the produce writes. */
  readonly keyed: Set<string>;
  /** Aggregates with a refusal that is not certain yet: what is behind it waits, so as not to overtake it. */
  readonly held: Set<string>;
  /** Aggregates of which something was left: all behind it is left too, so that each aggregate's are written as they arrived. */
  readonly stuck: Set<string>;
  readonly left: Waiting[];
  readonly refused: Refusable[];
}

/**
 * What one produce costs while several tenants ask, some half a millisecond to gather it and as much to encode it: the event loop is held by
 * what is gathered at once, and those of others wait, for its transaction too. The rest goes with the next one.
 */
const AMONG_TENANTS = 200;
/** It grows where the log is far: by as much as the last produce took longer than this, milliseconds, up to so many times. */
const NEAR_MS = 3;
const FAR = 24;
/** The most that a control record takes: names, and the message of a fault. */
const CONTROL_BYTES = 64 * 1024;

export interface WriteQueueOptions {
  readonly tables: PartitionTables;
  readonly history: Pick<AggregateHistory, 'readCommit'>;
  readonly partition: Pick<FencedPartition<EventsBody>, 'caughtUp' | 'kick' | 'position'>;
  readonly clock: Clock;
  /** Offsets for which keyed commands are remembered. */
  readonly window: number;
  readonly limits: { readonly produceBytes: number; readonly produceRecords: number };
  /** How many bytes the records of one produce may have. */
  readonly room: number;
  /** Asked of each append and transaction that would be written, but of no import; without it nothing is bounded. */
  readonly storage?: { readonly refusal: StatefoldError | undefined } | undefined;
}

/** What waits to be written to a partition, in the order of arrival. It decides each against the fold, and refuses or answers what can't be written. */
export class WriteQueue {
  readonly #options: WriteQueueOptions;
  #queue: Waiting[] = [];
  /** How many refusals are being judged of an aggregate: what is behind them waits, so as not to overtake them. */
  readonly #judged = new Tally();
  #stopped: Error | undefined;
  /** How many times as much as of a log that is near one produce has, while several tenants ask. */
  #far = 1;

  constructor(options: WriteQueueOptions) {
    this.#options = options;
  }

  get length(): number {
    return this.#queue.length;
  }

  push(pending: Waiting): void {
    this.#queue.push(pending);
    this.#options.partition.kick();
  }

  /** What waits here, or comes back later, was not written, and won't be by this process. */
  stop(error: Error): void {
    this.#stopped = error;
    for (const pending of this.#queue.splice(0)) pending.reject(error);
  }

  /** The next produce, of at most so many bytes, or of one record: what may be written now, in its order. A refusal is answered once it is certain. */
  gather(mostBytes = Infinity): Draft<EventsBody>[] {
    const { limits, tables } = this.#options;
    const room = Math.min(this.#options.room, mostBytes);
    tables.forgetHeads();
    const drafts: Draft<EventsBody>[] = [];
    const gathering: Gathering = {
      heads: new Map(),
      keyed: new Set(),
      held: new Set(this.#judged.counts.keys()),
      stuck: new Set(),
      left: [],
      refused: [],
    };
    const { left, refused } = gathering;
    let bytes = 0;
    let isFull = false;
    const most = background.isShared ? AMONG_TENANTS * this.#far : Infinity;
    let cost = 0;
    for (const pending of this.#queue) {
      const bytesOf = 'bytes' in pending ? pending.bytes : CONTROL_BYTES;
      // What finds no room holds back all behind it, also what would be small enough.
      isFull ||=
        drafts.length >= limits.produceRecords ||
        bytes >= limits.produceBytes ||
        (drafts.length > 0 && bytes + bytesOf > room) ||
        cost >= most;
      if (isFull) {
        left.push(pending);
        continue;
      }
      const before = left.length;
      const draft = this.#gather(pending, gathering);
      // What is refused or answered costs something, too.
      if (left.length === before) cost += costOf(pending);
      if (draft === undefined) continue;
      drafts.push(draft);
      bytes += bytesOf;
    }
    this.#queue = left;
    if (refused.length > 0) void this.#refuse(refused);
    // All that was decided was refused or answered, and nothing is written behind which the rest would come. Others have their turn first.
    if (isFull && drafts.length === 0) this.#options.partition.kick({ later: true });
    if (drafts.length === 0) tables.forgetHeads();
    return drafts;
  }

  /** A produce was taken by the log, after so long. */
  produced(seconds: number): void {
    this.#far = Math.min(FAR, Math.max(1, (1000 * seconds) / NEAR_MS));
  }

  /** Undefined: it is not written now; it was left, refused or answered. */
  #gather(pending: Waiting, gathering: Gathering): Draft<EventsBody> | undefined {
    if (pending instanceof PendingAppend) return this.#gatherAppend(pending, gathering);
    if (pending instanceof PendingTransaction) return this.#gatherTransaction(pending, gathering);
    if (pending instanceof PendingErase) return this.#gatherErase(pending, gathering);
    return controlDraftOf(pending);
  }

  #gatherAppend(
    pending: PendingAppend,
    { heads, keyed, held, stuck, left, refused }: Gathering,
  ): AppendDraft | undefined {
    const { command } = pending;
    const { aggregateId } = command;
    const leave = (): undefined => {
      left.push(pending);
      stuck.add(aggregateId);
    };
    if (stuck.size > 0 && stuck.has(aggregateId)) return leave();
    const ahead = heads.get(aggregateId);
    const name = command.keyed ? `${aggregateId}\u0000${command.commandId}` : '';
    if (command.keyed && keyed.has(name)) {
      left.push(pending); // it repeats one that is being written, and is answered from that
      return undefined;
    }
    const decision = this.#decide(command, ahead);
    if (decision.kind === 'write') {
      if (held.size > 0 && held.has(aggregateId)) return leave();
      const refusal = command.given === undefined ? this.#options.storage?.refusal : undefined;
      if (refusal !== undefined) {
        pending.reject(refusal);
        return undefined;
      }
      const draft = draftOf(pending, decision);
      heads.set(aggregateId, headAfter(draft.body.value));
      if (command.keyed) keyed.add(name);
      return draft;
    }
    // A refusal waits until what it was decided on is acknowledged.
    if (ahead !== undefined) return leave();
    if (decision.kind === 'replay') void this.#replay(pending, decision.command);
    else {
      refused.push(pending);
      held.add(aggregateId);
    }
    return undefined;
  }

  /** An erasure is written behind all that waits before it; what comes later waits for it, and is refused. */
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

  /** As an append to each of its aggregates: it waits for what is before it of any of them, and what is behind waits for it. */
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
    const refusal = decision.kind === 'write' ? this.#options.storage?.refusal : undefined;
    if (refusal !== undefined) pending.reject(refusal);
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

  /** Decides on what is stored; `head` is of what is being written. */
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
    return this.#options.tables.headToWrite(aggregateId);
  }

  get #now(): number {
    return this.#options.clock.now();
  }

  /** Decides refusals again, once the fold has reached the end that the log has now, and answers them. */
  async #refuse(refused: readonly Refusable[]): Promise<void> {
    const judged = refused.flatMap((pending) =>
      pending instanceof PendingErase ? [pending.aggregateId] : aggregatesOf(pending.command),
    );
    for (const aggregateId of judged) this.#judged.add(aggregateId, 1);
    try {
      await this.#options.partition.caughtUp();
    } catch (error) {
      for (const pending of refused) pending.reject(this.#stopped ?? (error as Error));
      return;
    } finally {
      for (const aggregateId of judged) this.#judged.add(aggregateId, -1);
      if (this.#queue.length > 0) this.#options.partition.kick({ later: true });
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
    this.#options.tables.forgetHeads();
    if (again.length > 0) this.requeue(again);
  }

  /** Puts what was gathered and not written, or refused too early, first in the queue. */
  requeue(pending: readonly Waiting[]): void {
    if (this.#stopped) {
      for (const one of pending) one.reject(this.#stopped);
      return;
    }
    this.#queue.unshift(...pending);
    this.#options.partition.kick();
  }

  #known(command: AppendCommand | TransactionCommand): RememberedCommand | undefined {
    if (!command.keyed) return undefined;
    const known = this.#options.tables.command(scopeOf(command), command.commandId);
    return known !== undefined && isRemembered(known, this.#options.partition.position, this.#options.window)
      ? known
      : undefined;
  }

  async #replay(pending: PendingAppend | PendingTransaction, command: RememberedCommand): Promise<void> {
    const erased = (): string | undefined =>
      aggregatesOf(pending.command).find((aggregateId) => this.#options.tables.isErased(aggregateId));
    try {
      const commit = await this.#options.history.readCommit(command.offset);
      const aggregateId = erased();
      if (aggregateId !== undefined) throw gone(aggregateId);
      if (pending instanceof PendingTransaction) pending.resolve({ commit: ofTransaction(commit), replayed: true });
      else pending.resolve({ commit: ofAppend(commit), replayed: true });
    } catch (error) {
      const aggregateId = erased();
      pending.reject(
        aggregateId !== undefined
          ? // It was erased while it was read.
            gone(aggregateId)
          : error instanceof StatefoldError
            ? error
            : new StatefoldError('UNAVAILABLE', 'the answer to the request could not be read now; send it again', {
                cause: error,
              }),
      );
    }
  }
}

/** A key of an aggregate names its appends, a key of the tenant its transactions. */
function ofAppend(commit: StoredCommit): AggregateCommit {
  if (commit.parts !== undefined) throw new InvariantError(`an append was looked for at offset ${commit.offset}`);
  return commit;
}
function ofTransaction(commit: StoredCommit): TransactionCommit {
  if (commit.parts === undefined) throw new InvariantError(`a transaction was looked for at offset ${commit.offset}`);
  return commit;
}
