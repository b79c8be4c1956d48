import { InvariantError, type StatefoldError } from './errors.js';

/** What a version check may ask of the aggregate: an exact version (0: it must not exist), or a condition. */
export type ExpectedVersion = number | 'any' | 'none' | 'exists';

/**
 * One event of an append, before it has a version. `data` and `metadata` are JSON objects exactly as the client sent them (UTF-8).
 * What it has of its own besides `data` goes before that of the append.
 */
export interface NewEvent {
  readonly eventType: string;
  readonly data: Buffer;
  readonly correlationId?: string | undefined;
  readonly causationId?: string | undefined;
  readonly metadata?: Buffer | undefined;
}

/** What an event may have of its own. */
type OwnContext = Omit<NewEvent, 'eventType' | 'data'>;

/** The event has an id or metadata of its own, which few have. */
export const hasContext = ({ correlationId, causationId, metadata }: OwnContext): boolean =>
  correlationId !== undefined || causationId !== undefined || metadata !== undefined;

// Written out: a spread of an event takes 2 µs, fifty times as long, and as many bytes as the rest of a line of a bulk.

/** The event with what is to be its own, if anything is. */
export function inContext(event: NewEvent, context: OwnContext): NewEvent {
  if (!hasContext(context)) return event;
  const { eventType, data } = event;
  const { correlationId, causationId, metadata } = context;
  return { eventType, data, correlationId, causationId, metadata };
}

export type EventWithId<Id> = NewEvent & { readonly eventId: Id };

/** The event under its id, with what it has of its own; the many that have nothing get no members for it. */
export function withId<Id>(event: NewEvent, eventId: Id, context: OwnContext = event): EventWithId<Id> {
  const { eventType, data } = event;
  if (!hasContext(context)) return { eventId, eventType, data };
  const { correlationId, causationId, metadata } = context;
  return { eventId, eventType, data, correlationId, causationId, metadata };
}

/** One append as the edge hands it over; ids, types and JSON are already validated. */
export interface AppendCommand {
  /** Identity of the command: the client's Idempotency-Key, else made at the edge. */
  readonly commandId: string;
  /** The id is remembered: the client gave it, or an edge that may have to send the command again. */
  readonly keyed: boolean;
  /** SHA-256 of method, path and body; compared when a keyed command is repeated. Empty when not keyed. */
  readonly requestHash: Buffer;
  readonly aggregateId: string;
  /** Undefined: the stored type of the aggregate, else inferred from the id. */
  readonly aggregateType: string | undefined;
  readonly expectedVersion: ExpectedVersion;
  readonly correlationId: string | undefined;
  readonly causationId: string | undefined;
  /** JSON object as sent, or undefined. Of every event of the append that has none of its own; so are the ids above. */
  readonly metadata: Buffer | undefined;
  readonly events: readonly NewEvent[];
  /** The place of `events` in the body that they came in, as a JSON pointer without its first slash; undefined: the body is of one event. */
  readonly eventsAt?: string | undefined;
  /** Why its events don't fit the schemas of their types; it is refused for it unless it was stored before. */
  readonly unfit?: StatefoldError | undefined;
  /** An import has them from elsewhere; undefined: they are made here. */
  readonly given?: GivenEvents | undefined;
}

/** What events had where they were stored first, and keep. No quota is asked for them. */
export interface GivenEvents {
  /** Of 16 bytes each, in the order of the events. */
  readonly eventIds: readonly Buffer[];
  /** Milliseconds since the epoch, of all of them. */
  readonly timestamp: number;
}

/** What a transaction is to add to one of its aggregates. */
export type TransactionAppend = Pick<AppendCommand, 'aggregateId' | 'aggregateType' | 'expectedVersion' | 'events'>;

/** Appends to several aggregates, all or none. */
export interface TransactionCommand extends Pick<
  AppendCommand,
  'commandId' | 'keyed' | 'requestHash' | 'correlationId' | 'causationId' | 'metadata' | 'unfit'
> {
  /** No aggregate is there twice. */
  readonly appends: readonly TransactionAppend[];
}

/** Of appends that go together, how many events they have. */
export const eventCount = (appends: readonly { readonly events: readonly unknown[] }[]): number =>
  appends.reduce((sum, { events }) => sum + events.length, 0);

/** Why a 201 carries no `state` though a reducer is bound. */
export type StateStatus = 'deadline' | 'faulted' | 'superseded' | 'unavailable';

export interface AppendResult {
  readonly aggregateId: string;
  readonly aggregateType: string;
  /** Version of the first and of the last event. */
  readonly startVersion: number;
  readonly endVersion: number;
  /** One a event, in order. */
  readonly eventIds: readonly string[];
  /** Milliseconds since the epoch. */
  readonly timestamp: number;
  /** Of the last event in the tenant's feed; undefined: its place in the tenant's order was not known in time. */
  readonly position?: number | undefined;
  /** JSON text of the state at exactly `endVersion` (`null` as JSON where the reducer gave none); absent when no reducer is bound or `stateStatus` says why. */
  readonly state?: Buffer | undefined;
  readonly stateStatus?: StateStatus | undefined;
}

/** Of one aggregate of a transaction; times and the position are the transaction's. */
export type TransactedAppend = Omit<AppendResult, 'timestamp' | 'position'>;

export interface TransactionResult extends Pick<AppendResult, 'timestamp' | 'position'> {
  /** In the order of the command. */
  readonly appends: readonly TransactedAppend[];
}

/** An accepted event as every reader sees it. */
export interface StoredEvent {
  readonly eventId: string;
  readonly aggregateId: string;
  readonly aggregateType: string;
  readonly eventType: string;
  readonly version: number;
  /** Milliseconds since the epoch, never decreasing within an aggregate. */
  readonly timestamp: number;
  readonly correlationId: string | undefined;
  readonly causationId: string | undefined;
  readonly data: Buffer;
  readonly metadata: Buffer | undefined;
}

/** An event within its commit. What it has not of its own is the commit's. */
export interface CommitEvent extends NewEvent {
  readonly eventId: string;
}

/** No commit has more events: the positions of a tenant's events rest on it, so it may never be another number. */
export const MAX_COMMIT_EVENTS = 2 ** 17;

/**
 * Where an event lies in the bytes of its record, for who only copies it: to make the event costs more. One serves many: it is filled
 * anew for each, and let go so that it does not keep all that was read with the record.
 */
export class EventSpan {
  bytes: Buffer = NO_BYTES;
  /** Of the 16 bytes of its id. */
  idAt = 0;
  eventType = '';
  /** Of its JSON, the end exclusive. */
  dataAt = 0;
  dataEnd = 0;

  letGo(): void {
    this.bytes = NO_BYTES;
  }
}

const NO_BYTES = Buffer.alloc(0);

/** What an accepted commit added to one aggregate: all of it, or a transaction's part. With the place in the log that makes it so. */
export interface AggregateCommit {
  readonly offset: number;
  readonly commandId: string;
  readonly aggregateId: string;
  readonly aggregateType: string;
  readonly baseVersion: number;
  readonly timestamp: number;
  readonly correlationId: string | undefined;
  readonly causationId: string | undefined;
  readonly metadata: Buffer | undefined;
  readonly events: readonly CommitEvent[];
  /** Of `events`, and the bytes that all of it takes, where they are known without decoding them. */
  readonly eventCount?: number;
  readonly bytes?: number;
  /** Of a transaction's part: how many events of other aggregates come before its first one, where some of those were erased. */
  readonly first?: number;
  readonly parts?: undefined;
  /** Fills the span with the event at the index; false: it is in `events` alone, or has an id or metadata of its own. */
  spanOf?(index: number, span: EventSpan): boolean;
}

/** An accepted commit over several aggregates: one record of the log. */
export interface TransactionCommit {
  readonly offset: number;
  readonly timestamp: number;
  /** Of as many aggregates, in the order of the transaction; each is of the same offset and time. Those that were erased are left out. */
  readonly parts: readonly AggregateCommit[];
  /** Of all parts, those that were erased too: what is behind them stays where it is. */
  readonly eventCount: number;
  readonly bytes?: number;
}

/** A commit that the fold accepted: a record of the log, whose events are all there for every reader, or none of them. */
export type StoredCommit = AggregateCommit | TransactionCommit;

/** What it added to each of its aggregates, mostly one. */
export const partsOf = (commit: StoredCommit): readonly AggregateCommit[] =>
  commit.parts === undefined ? [commit] : commit.parts;

/** Of `OrderedState.logOffset`: rows of a newer binding win over those of an older one, whatever their offsets. */
export const GENERATION_STRIDE = 2 ** 40;

/** The state of an aggregate with its place among all that were stored for it. */
export interface OrderedState {
  readonly aggregateId: string;
  readonly aggregateType: string;
  readonly version: number;
  readonly state: Buffer | null;
  readonly lastModified: number;
  /** By binding generation, then by commit offset. */
  readonly logOffset: number;
}

/** Where tenant code stopped: the state stays at the last good version until a retry, a skip or a new artefact. */
export interface Fault {
  readonly eventId: string;
  readonly aggregateId: string;
  readonly version: number;
  /** Absent in faults that were recorded before it was known. */
  readonly eventType?: string;
  readonly className: string;
  readonly message: string;
  /** Of the tenant's own sources, where the code threw. */
  readonly file: string | null;
  readonly line: number | null;
  /** ISO 8601 UTC. */
  readonly at: string;
  /** The process of the code was stopped, or ended, on the event: running it again may end otherwise. */
  readonly stopped?: true;
  /** Of a projection's: the place of the event in the tenant's order. Not for clients. */
  readonly place?: number;
}

/** What clients are told of a fault. */
export const faultForClients = ({ place: _place, ...fault }: Fault): Omit<Fault, 'place'> => fault;

/** Many that follow each other have one time, or in turns that of an event and that of now. */
let lastTimestamp = { of: 0, text: new Date(0).toISOString() };
let timestampBefore = lastTimestamp;

/** `YYYY-MM-DDTHH:mm:ss.sssZ`. */
export function isoTimestamp(milliseconds: number): string {
  if (milliseconds === lastTimestamp.of) return lastTimestamp.text;
  const next =
    milliseconds === timestampBefore.of
      ? timestampBefore
      : { of: milliseconds, text: new Date(milliseconds).toISOString() };
  timestampBefore = lastTimestamp;
  lastTimestamp = next;
  return next.text;
}

/** The events of a commit in their order: of a transaction one aggregate's after the other's. */
export function* eventsOf(commit: StoredCommit): Generator<StoredEvent> {
  for (const part of partsOf(commit)) for (let at = 0; at < part.events.length; at++) yield eventAt(part, at);
}

/** Tells them, for the ways that all events go: what a generator leaves behind for the collector, for each, is half of what the event takes. */
export function eachEvent(commit: StoredCommit, tell: (event: StoredEvent) => void): void {
  for (const part of partsOf(commit)) for (let at = 0; at < part.events.length; at++) tell(eventAt(part, at));
}

/** The event at the index of a commit. */
function eventAt(commit: AggregateCommit, index: number): StoredEvent {
  const event = commit.events[index];
  if (event === undefined) throw new InvariantError(`the commit at ${commit.offset} has no event ${index}`);
  return {
    eventId: event.eventId,
    aggregateId: commit.aggregateId,
    aggregateType: commit.aggregateType,
    eventType: event.eventType,
    version: commit.baseVersion + index + 1,
    timestamp: commit.timestamp,
    correlationId: event.correlationId ?? commit.correlationId,
    causationId: event.causationId ?? commit.causationId,
    data: event.data,
    metadata: event.metadata ?? commit.metadata,
  };
}

/** The commit without the parts of aggregates that were erased; undefined where nothing is left of it. */
export function withoutErased(
  commit: StoredCommit,
  isErased: (aggregateId: string) => boolean,
): StoredCommit | undefined {
  if (commit.parts === undefined) return isErased(commit.aggregateId) ? undefined : commit;
  const { parts } = commit;
  if (!parts.some(({ aggregateId }) => isErased(aggregateId))) return commit;
  let before = 0;
  const left: AggregateCommit[] = [];
  for (const part of parts) {
    const first = part.first ?? before;
    before = first + part.events.length;
    if (!isErased(part.aggregateId)) left.push({ ...part, first });
  }
  return left.length === 0 ? undefined : { ...commit, parts: left };
}

export const eventsIn = (commit: StoredCommit): number =>
  commit.parts === undefined ? (commit.eventCount ?? commit.events.length) : commit.eventCount;

/** By which one commit is told from any other. */
export const firstEventId = (commit: StoredCommit): string | undefined =>
  (commit.parts === undefined ? commit : commit.parts[0])?.events[0]?.eventId;

/** The first commits with about `count` events; at least one. */
export function takeEvents(commits: readonly StoredCommit[], count: number): number {
  let events = 0;
  for (const [i, commit] of commits.entries()) {
    events += eventsIn(commit);
    if (events >= count) return i + 1;
  }
  return commits.length;
}
