import {
  eventCount,
  withId,
  type AggregateCommit,
  type EventSpan,
  type StoredCommit,
  type TransactionCommit,
} from '../../core/event.js';
import { uuidText } from '../../core/ids.js';
import { ERASED_BASE, type CommitValue, type TransactionPartValue, type TransactionValue } from '../../core/records.js';
import { CommitView } from './commit-records.js';

type Events = AggregateCommit['events'];

/** A commit as it was read: its events are made when somebody wants them. */
class CommitOfView implements AggregateCommit {
  readonly #value: CommitView;
  #events: Events | undefined;

  constructor(
    readonly offset: number,
    value: CommitView,
  ) {
    this.#value = value;
  }

  get aggregateId(): string {
    return this.#value.aggregateId;
  }

  get aggregateType(): string {
    return this.#value.aggregateType;
  }

  get baseVersion(): number {
    return this.#value.baseVersion;
  }

  get timestamp(): number {
    return this.#value.timestamp;
  }

  at(offset: number): CommitOfView {
    return new CommitOfView(offset, this.#value);
  }

  /** Of `events`. */
  get eventCount(): number {
    return this.#value.eventCount;
  }

  /** That it holds in memory, about. */
  get bytes(): number {
    return this.#value.byteLength;
  }

  get commandId(): string {
    return this.#value.commandId;
  }

  get correlationId(): string | undefined {
    return this.#value.correlationId ?? undefined;
  }

  get causationId(): string | undefined {
    return this.#value.causationId ?? undefined;
  }

  get metadata(): Buffer | undefined {
    return this.#value.metadata ?? undefined;
  }

  get events(): Events {
    return (this.#events ??= this.#value.eventsById());
  }

  spanOf(index: number, span: EventSpan): boolean {
    return this.#value.spanOf(index, span);
  }
}

/** The same commit under another offset: its place in an order of several partitions. */
export const commitAt = (commit: StoredCommit, offset: number): StoredCommit => {
  if (commit.parts !== undefined)
    return { ...commit, offset, parts: commit.parts.map((part) => ({ ...part, offset })) };
  return commit instanceof CommitOfView ? commit.at(offset) : { ...commit, offset };
};

/** Tells the type of each event of a commit, which need not be decoded for it. */
export function eachEventType(value: CommitValue, tell: (eventType: string) => void): void {
  if (value instanceof CommitView) value.eachType(tell);
  else for (const { eventType } of value.events) tell(eventType);
}

/** The commit of an accepted record. */
export function storedCommit(offset: number, value: CommitValue, eventIds?: readonly string[]): AggregateCommit {
  if (value instanceof CommitView && eventIds === undefined) return new CommitOfView(offset, value);
  return {
    offset,
    commandId: value.commandId,
    aggregateId: value.aggregateId,
    aggregateType: value.aggregateType,
    baseVersion: value.baseVersion,
    timestamp: value.timestamp,
    correlationId: value.correlationId ?? undefined,
    causationId: value.causationId ?? undefined,
    metadata: value.metadata ?? undefined,
    events: value.events.map((event, i) => withId(event, eventIds?.[i] ?? uuidText(event.eventId))),
  };
}

/** The commit of an accepted transaction; `eventIds` of each part, where they were made already. */
export function storedTransaction(
  offset: number,
  value: TransactionValue,
  eventIds?: readonly (readonly string[])[],
): TransactionCommit {
  const { timestamp } = value;
  const part = (of: TransactionPartValue, p: number): AggregateCommit => storedPart(offset, value, of, eventIds?.[p]);
  if (value.parts.every(({ baseVersion }) => baseVersion !== ERASED_BASE)) {
    return { offset, timestamp, parts: value.parts.map(part), eventCount: eventCount(value.parts) };
  }
  const parts: AggregateCommit[] = [];
  let first = 0;
  value.parts.forEach((of, p) => {
    if (of.baseVersion !== ERASED_BASE) parts.push({ ...part(of, p), first });
    first += of.events.length;
  });
  return { offset, timestamp, parts, eventCount: first };
}

/** Written out: parts of one event come by the thousand, and spreads took longer than all else of them. */
const storedPart = (
  offset: number,
  value: TransactionValue,
  part: TransactionPartValue,
  eventIds: readonly string[] | undefined,
): AggregateCommit => ({
  offset,
  commandId: value.commandId,
  aggregateId: part.aggregateId,
  aggregateType: part.aggregateType,
  baseVersion: part.baseVersion,
  timestamp: value.timestamp,
  correlationId: value.correlationId ?? undefined,
  causationId: value.causationId ?? undefined,
  metadata: value.metadata ?? undefined,
  events: part.events.map((event, i) => withId(event, eventIds?.[i] ?? uuidText(event.eventId))),
});
