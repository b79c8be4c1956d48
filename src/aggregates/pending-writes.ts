import type { AppendDecision, TransactionDecision } from '../core/append-rules.js';
import type { Hold } from '../core/budget.js';
import { InvariantError } from '../core/errors.js';
import {
  eventCount,
  type AggregateCommit,
  type AppendCommand,
  type NewEvent,
  type StoredCommit,
  type TransactionCommand,
  type TransactionCommit,
} from '../core/event.js';
import { uuidText, writeUuidv7 } from '../core/ids.js';
import type {
  CommitEventValue,
  CommitValue,
  Control,
  EraseValue,
  EventsBody,
  TransactionValue,
} from '../core/records.js';
import { tracing, type Span } from '../core/tracing.js';
import { storedCommit, storedTransaction } from '../log/codec/commit-of-view.js';
import type { Draft } from '../log/journal/partition-handler.js';
import type { ErasureRow } from '../store/partition-tables.js';

export interface Accepted<C extends StoredCommit = AggregateCommit> {
  readonly commit: C;
  /** The command was repeated, and is answered as before. */
  readonly replayed: boolean;
}

/** An append, or a transaction, that waits for its answer. Its bytes are held until it has one, whatever that is. */
class Pending<T extends AppendCommand | TransactionCommand, C extends StoredCommit> {
  /** The span of the request that appends; undefined: there are no traces. */
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
export class PendingAppend extends Pending<AppendCommand, AggregateCommit> {}
export class PendingTransaction extends Pending<TransactionCommand, TransactionCommit> {}
export interface PendingControl {
  readonly control: Control;
  resolve(offset: number): void;
  reject(error: Error): void;
}
/** An erasure that was asked for. It is written behind all that was appended to the aggregate before. */
export class PendingErase {
  constructor(
    readonly aggregateId: string,
    readonly reason: string | null,
    readonly resolve: (status: ErasureRow['status']) => void,
    readonly reject: (error: Error) => void,
  ) {}
}
export type Waiting = PendingAppend | PendingTransaction | PendingErase | PendingControl;
export class AppendDraft implements Draft<EventsBody> {
  #stored: AggregateCommit | undefined;

  constructor(
    readonly body: { readonly kind: 'Commit'; readonly value: CommitValue },
    readonly keyPrefix: string,
    readonly pending: PendingAppend,
    readonly eventIds: readonly string[],
  ) {}

  /** As it is stored at the offset: the same object to whoever foresees it and to the fold. */
  storedAt(offset: number): AggregateCommit {
    if (this.#stored?.offset !== offset) this.#stored = storedCommit(offset, this.body.value, this.eventIds);
    return this.#stored;
  }

  get span(): Span | undefined {
    return this.pending.span;
  }
}
export class TransactionDraft implements Draft<EventsBody> {
  #stored: TransactionCommit | undefined;

  constructor(
    readonly body: { readonly kind: 'Transaction'; readonly value: TransactionValue },
    readonly keyPrefix: string,
    readonly pending: PendingTransaction,
    /** The ids of each part's events. */
    readonly eventIds: readonly (readonly string[])[],
  ) {}

  /** As it is stored at the offset. */
  storedAt(offset: number): TransactionCommit {
    if (this.#stored?.offset !== offset) this.#stored = storedTransaction(offset, this.body.value, this.eventIds);
    return this.#stored;
  }

  get span(): Span | undefined {
    return this.pending.span;
  }
}
export class EraseDraft implements Draft<EventsBody> {
  constructor(
    readonly body: { readonly kind: 'Erase'; readonly value: EraseValue },
    readonly keyPrefix: string,
    readonly pending: PendingErase,
  ) {}
}
export class ControlDraft implements Draft<EventsBody> {
  constructor(
    readonly body: Control,
    readonly keyPrefix: string,
    readonly pending: PendingControl,
  ) {}
}

export const pendingOf = (drafts: readonly Draft<EventsBody>[]): Waiting[] =>
  drafts
    .filter(
      (draft): draft is AppendDraft | TransactionDraft | EraseDraft | ControlDraft =>
        draft instanceof AppendDraft ||
        draft instanceof TransactionDraft ||
        draft instanceof EraseDraft ||
        draft instanceof ControlDraft,
    )
    .map((draft) => draft.pending);

/** Of a record, beside its events: what it takes to decide it, and to answer it. */
const RECORD_COST = 6;

const eventsOfPending = (pending: Waiting): number => {
  if (pending instanceof PendingAppend) return pending.command.events.length;
  if (pending instanceof PendingTransaction) return eventCount(pending.command.appends);
  return 1;
};

/** What it takes of the event loop to write it, about: as much as so many events of one record, some microseconds each for each step. */
export const costOf = (pending: Waiting): number => RECORD_COST + eventsOfPending(pending);

/** How many of the drafts, from the index on, cost so much together; at least one. */
export function draftsFor(most: number, drafts: readonly Draft<EventsBody>[], first: number): number {
  let count = 0;
  for (let cost = 0; cost < most && first + count < drafts.length; count++) {
    const draft = drafts[first + count];
    cost += draft instanceof AppendDraft || draft instanceof TransactionDraft ? costOf(draft.pending) : RECORD_COST;
  }
  return count;
}

export const aggregatesOf = (command: AppendCommand | TransactionCommand): readonly string[] =>
  'appends' in command ? command.appends.map(({ aggregateId }) => aggregateId) : [command.aggregateId];

export const eventsOfDraft = (draft: AppendDraft | TransactionDraft): number =>
  draft instanceof TransactionDraft ? draft.eventIds.reduce((sum, ids) => sum + ids.length, 0) : draft.eventIds.length;

const ID_BYTES = 16;
const roomForIds = (events: number): Buffer => Buffer.allocUnsafeSlow(ID_BYTES * events);

/** An event with its id, of which a view is made for who asks for it alone. */
class MadeEvent implements CommitEventValue {
  constructor(
    private readonly event: NewEvent,
    private readonly ids: Buffer,
    private readonly at: number,
  ) {}

  get eventId(): Buffer {
    return this.ids.subarray(this.at, this.at + ID_BYTES);
  }

  get eventType(): string {
    return this.event.eventType;
  }

  get data(): Buffer {
    return this.event.data;
  }

  get correlationId(): string | undefined {
    return this.event.correlationId;
  }

  get causationId(): string | undefined {
    return this.event.causationId;
  }

  get metadata(): Buffer | undefined {
    return this.event.metadata;
  }
}

/** The events, with a new id each, which lie in `ids` from `from` on. */
function withIds(
  of: readonly NewEvent[],
  timestamp: number,
  ids = roomForIds(of.length),
  from = 0,
): { readonly events: readonly CommitEventValue[]; readonly eventIds: readonly string[]; readonly ids: Buffer } {
  const placeOf = (i: number): number => ID_BYTES * (from + i);
  // Each as long as it stays: what grows by `push` takes room for sixteen more, and most lists have one.
  const eventIds = of.map((_, i) => {
    writeUuidv7(ids, placeOf(i), timestamp);
    return uuidText(ids, placeOf(i));
  });
  return { events: of.map((event, i) => new MadeEvent(event, ids, placeOf(i))), eventIds, ids };
}

function withGivenIds(of: readonly NewEvent[], given: readonly Buffer[]): ReturnType<typeof withIds> {
  if (given.length !== of.length || given.some(({ length }) => length !== ID_BYTES))
    throw new InvariantError('an import has not one id for each of its events');
  const ids = Buffer.concat(given);
  const events = of.map((event, i) => new MadeEvent(event, ids, ID_BYTES * i));
  return { events, eventIds: given.map((id) => uuidText(id, 0)), ids };
}

export function transactionDraftOf(
  pending: PendingTransaction,
  { parts: decided, timestamp }: Extract<TransactionDecision, { kind: 'write' }>,
): TransactionDraft {
  const { command } = pending;
  // Memory of its own for the ids of each part would cost more than all else of a part with one event.
  const ids = roomForIds(eventCount(command.appends));
  let from = 0;
  const made = command.appends.map(({ events }) => {
    const part = withIds(events, timestamp, ids, from);
    from += events.length;
    return part;
  });
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

export function draftOf(pending: PendingAppend, decision: Extract<AppendDecision, { kind: 'write' }>): AppendDraft {
  const { command } = pending;
  const { events, eventIds, ids } =
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
    eventIds: ids,
  };
  return new AppendDraft(
    { kind: 'Commit', value },
    `${command.aggregateId}@${decision.baseVersion}`,
    pending,
    eventIds,
  );
}

export const controlDraftOf = (pending: PendingControl): ControlDraft => {
  const { kind, value } = pending.control;
  return new ControlDraft(
    pending.control,
    `${kind}:${'projectionId' in value ? value.projectionId : value.aggregateId}`,
    pending,
  );
};
