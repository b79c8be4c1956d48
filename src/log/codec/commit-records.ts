import { InvariantError } from '../../core/errors.js';
import { hasContext, withId, type AggregateCommit, type EventSpan, type EventWithId } from '../../core/event.js';
import { uuidText } from '../../core/ids.js';
import type { ClaimBody, CommitEventValue, CommitValue, EventsBody, Fence } from '../../core/records.js';
import { AvroBytes, RecurringText } from './avro-bytes.js';
import { AvroWriter } from './avro-writer.js';

/** The branch of `body` in `events.avsc`. */
const COMMIT = 1;
const UUID_BYTES = 16;

type Events = CommitValue['events'];
/** From one commit to the next, too. */
const EVENT_TYPES = new RecurringText();
type StoredEvents = AggregateCommit['events'];
const NOTHING = Buffer.alloc(0);
/** Of the commit one of whose events is looked for. */
const SPANNED = new AvroBytes(NOTHING);

/** A commit as its record has it. What only some readers look at is decoded when they do: a fold over history asks for little. */
export class CommitView implements CommitValue {
  readonly #bytes: Buffer;
  /** Places of the command's id, of the correlation's, and of the first event. */
  readonly #commandAt: number;
  readonly #correlationAt: number;
  readonly #eventsAt: number;
  readonly #withContexts: boolean;
  /** It has an id or metadata of its own. */
  readonly #hasContext: boolean;
  #events: Events | undefined;
  /** The event that a span is likely to be asked for next, and its place: they are asked for in their order. */
  #nextIndex = 0;
  #nextAt: number;

  constructor(
    bytes: Buffer,
    commandAt: number,
    correlationAt: number,
    eventsAt: number,
    readonly keyed: boolean,
    readonly aggregateId: string,
    readonly aggregateType: string,
    readonly baseVersion: number,
    readonly timestamp: number,
    readonly eventCount: number,
    /** It is written with the second version of the schema. */
    withContexts: boolean,
    hasContext: boolean,
  ) {
    this.#withContexts = withContexts;
    this.#hasContext = hasContext;
    this.#bytes = bytes;
    this.#commandAt = commandAt;
    this.#correlationAt = correlationAt;
    this.#eventsAt = eventsAt;
    this.#nextAt = eventsAt;
  }

  /** Of the record. */
  get byteLength(): number {
    return this.#bytes.length;
  }

  get commandId(): string {
    return this.#from(this.#commandAt).text();
  }

  get requestHash(): Buffer {
    const from = this.#from(this.#commandAt);
    from.skip();
    from.at++;
    return Buffer.from(from.view()); // remembered for long, without the record
  }

  get correlationId(): string | null {
    if (!this.#hasContext) return null;
    return this.#from(this.#correlationAt).nullableText();
  }

  get causationId(): string | null {
    if (!this.#hasContext) return null;
    const from = this.#from(this.#correlationAt);
    from.skipNullable();
    return from.nullableText();
  }

  get metadata(): Buffer | null {
    if (!this.#hasContext) return null;
    const from = this.#from(this.#correlationAt);
    from.skipNullable();
    from.skipNullable();
    return from.nullableView();
  }

  get events(): Events {
    return (this.#events ??= this.#decodeEvents());
  }

  /** `events` under their ids as text, made in one go: nobody else may want them in another form. */
  eventsById(): StoredEvents {
    const from = this.#from(this.#eventsAt);
    // Most commits have one event: an array that grows would have room for many.
    if (this.eventCount === 1) return this.#ended([this.#eventById(from)], from);
    const events: StoredEvents[number][] = [];
    for (let i = 0; i < this.eventCount; i++) events.push(this.#eventById(from));
    return this.#ended(events, from);
  }

  #eventById(from: AvroBytes): StoredEvents[number] {
    const idAt = from.at;
    from.skipBytes(UUID_BYTES);
    return { eventId: uuidText(this.#bytes, idAt), eventType: EVENT_TYPES.read(from), data: from.view() };
  }

  /** Where the event at the index lies; false: it may have an id or metadata of its own, which lie elsewhere. */
  spanOf(index: number, span: EventSpan): boolean {
    if (this.#withContexts) return false;
    const from = SPANNED;
    from.bytes = this.#bytes;
    let at = index < this.#nextIndex ? 0 : this.#nextIndex;
    from.at = at === 0 ? this.#eventsAt : this.#nextAt;
    for (; at < index; at++) {
      from.skipBytes(UUID_BYTES);
      from.skip();
      from.skip();
    }
    span.bytes = this.#bytes;
    span.idAt = from.at;
    from.skipBytes(UUID_BYTES);
    span.eventType = EVENT_TYPES.read(from);
    const length = from.long();
    span.dataAt = from.at;
    from.skipBytes(length);
    span.dataEnd = from.at;
    this.#nextIndex = index + 1;
    this.#nextAt = from.at;
    if (this.#nextIndex === this.eventCount) this.#requireEnd(from);
    from.bytes = NOTHING;
    return true;
  }

  /** The types of its events, in their order, without making the events. */
  eachType(tell: (eventType: string) => void): void {
    if (this.#events !== undefined) return this.#events.forEach(({ eventType }) => tell(eventType));
    const from = this.#from(this.#eventsAt);
    for (let i = 0; i < this.eventCount; i++) {
      from.skipBytes(UUID_BYTES);
      tell(EVENT_TYPES.read(from));
      from.skip();
    }
  }

  /** All of it, decoded. */
  plain(): CommitValue {
    return {
      commandId: this.commandId,
      keyed: this.keyed,
      requestHash: this.requestHash,
      aggregateId: this.aggregateId,
      aggregateType: this.aggregateType,
      baseVersion: this.baseVersion,
      timestamp: this.timestamp,
      correlationId: this.correlationId,
      causationId: this.causationId,
      metadata: this.metadata,
      events: this.events,
    };
  }

  #from(at: number): AvroBytes {
    const from = new AvroBytes(this.#bytes);
    from.at = at;
    return from;
  }

  #decodeEvents(): Events {
    const from = this.#from(this.#eventsAt);
    const events: Events[number][] = [];
    for (let i = 0; i < this.eventCount; i++)
      events.push({ eventId: from.fixed(UUID_BYTES), eventType: EVENT_TYPES.read(from), data: from.view() });
    return this.#ended(events, from);
  }

  /** Behind the last event. */
  #ended<Id>(events: readonly EventWithId<Id>[], from: AvroBytes): readonly EventWithId<Id>[] {
    this.#requireEnd(from);
    return this.#withContexts ? inContexts(events, contextsFrom(from)) : events;
  }

  #requireEnd(from: AvroBytes): void {
    if (this.eventCount > 0 && from.long() !== 0)
      throw new InvariantError('a commit of the log has more events than it says');
  }
}

/** Of a commit of the second version: what its events have of their own, in their order. */
export interface EventContext {
  readonly correlationId: string | null;
  readonly causationId: string | null;
  readonly metadata: Buffer | null;
}

/** An event of the commit has an id or metadata of its own. */
export const hasContexts = ({ events }: Pick<CommitValue, 'events'>): boolean => events.some(hasContext);

export const contextsOf = ({ events }: Pick<CommitValue, 'events'>): readonly EventContext[] =>
  events.map(({ correlationId = null, causationId = null, metadata = null }) => ({
    correlationId,
    causationId,
    metadata,
  }));

/** The events, each with what is its own. */
export function inContexts<Id>(
  events: readonly EventWithId<Id>[],
  contexts: readonly EventContext[],
): readonly EventWithId<Id>[] {
  if (contexts.length === 0) return events;
  if (contexts.length !== events.length)
    throw new InvariantError('a commit of the log has not one context for each of its events');
  return events.map((event, i) => {
    const { correlationId, causationId, metadata } = contexts[i] as EventContext;
    const context = {
      correlationId: correlationId ?? undefined,
      causationId: causationId ?? undefined,
      metadata: metadata ?? undefined,
    };
    return withId(event, event.eventId, context);
  });
}

function contextsFrom(from: AvroBytes): EventContext[] {
  const contexts: EventContext[] = [];
  for (let count = from.long(); count !== 0; count = from.long()) {
    if (count < 0) from.long(); // a block with its size: another writer's
    for (let i = Math.abs(count); i > 0; i--)
      contexts.push({
        correlationId: from.nullableText(),
        causationId: from.nullableText(),
        metadata: from.nullableView(),
      });
  }
  return contexts;
}

function writeId(writer: AvroWriter, eventId: Buffer): void {
  if (eventId.length !== UUID_BYTES) throw new InvariantError('the id of an event is no UUID');
  writer.fixed(eventId);
}

interface CommitBody {
  readonly kind: 'Commit';
  readonly value: CommitValue;
}

/** Reads and writes records of the events topic, most of which are commits of one owner after each other. */
export class CommitRecords {
  /** It is of the second version of the schema. */
  readonly #withContexts: boolean;
  readonly #writer = new AvroWriter();
  readonly #from = new AvroBytes(NOTHING);
  readonly #owner = new RecurringText();
  readonly #type = new RecurringText();
  readonly #previous = new RecurringText();

  constructor(withContexts = false) {
    this.#withContexts = withContexts;
  }

  /** A whole record whose fields start at `at`; undefined: no commit, or not in the form in which we write it. @throws InvariantError */
  read(bytes: Buffer, at: number): { readonly fence: Fence; readonly body: CommitBody } | undefined {
    const from = this.#begin(bytes, at);
    const epoch = from.long();
    const owner = this.#owner.read(from);
    const length = from.long();
    const recordIdAt = from.at;
    from.skipBytes(length);
    const recordId = bytes.toString('utf8', recordIdAt, from.at);
    const expectedOffset = from.long();
    const previous = this.#previous.read(from);
    const body = this.#body(from);
    if (body === undefined) return undefined;
    this.#previous.expect(recordId, bytes, recordIdAt, length);
    return { fence: { epoch, owner, recordId, expectedOffset, previous }, body };
  }

  /** As `read`, for who knows already that the record counts. */
  readBody(bytes: Buffer, at: number): CommitBody | undefined {
    const from = this.#begin(bytes, at);
    from.long();
    from.skip();
    from.skip();
    from.long();
    from.skip();
    return this.#body(from);
  }

  #begin(bytes: Buffer, at: number): AvroBytes {
    const from = this.#from;
    from.bytes = bytes;
    from.at = at;
    return from;
  }

  /** Behind the fence. */
  #body(from: AvroBytes): CommitBody | undefined {
    const { bytes } = from;
    if (from.long() !== COMMIT) return undefined;
    const commandAt = from.at;
    from.skip();
    const keyed = bytes[from.at++] === 1;
    from.skip();
    const aggregateId = from.text();
    const aggregateType = this.#type.read(from);
    const baseVersion = from.long();
    const timestamp = from.long();
    const correlationAt = from.at;
    for (let i = 0; i < 3; i++) from.skipNullable();
    // Each that is null is one byte.
    const hasContext = from.at > correlationAt + 3;
    const count = from.long();
    if (count < 0) return undefined; // blocks with their sizes: another writer's
    const value = new CommitView(
      bytes,
      commandAt,
      correlationAt,
      from.at,
      keyed,
      aggregateId,
      aggregateType,
      baseVersion,
      timestamp,
      count,
      this.#withContexts,
      hasContext,
    );
    return { kind: 'Commit', value };
  }

  /** The record of a commit, with room for so many bytes before its fields; undefined of anything else. */
  write(fence: Fence, body: EventsBody | ClaimBody, before: number): Buffer | undefined {
    if (body.kind !== 'Commit') return undefined;
    const { value } = body;
    const writer = this.#writer;
    writer.begin(before);
    writer.long(fence.epoch);
    writer.text(fence.owner);
    writer.text(fence.recordId);
    writer.long(fence.expectedOffset);
    writer.text(fence.previous);
    writer.long(COMMIT);
    writer.text(value.commandId);
    writer.byte(value.keyed ? 1 : 0);
    writer.blob(value.requestHash);
    writer.text(value.aggregateId);
    writer.text(value.aggregateType);
    writer.long(value.baseVersion);
    writer.long(value.timestamp);
    writer.nullableText(value.correlationId);
    writer.nullableText(value.causationId);
    writer.nullableBlob(value.metadata);
    const { events, eventIds } = value;
    if (eventIds !== undefined && eventIds.length !== UUID_BYTES * events.length)
      throw new InvariantError('a commit has not one id for each of its events');
    if (events.length > 0) writer.long(events.length);
    for (let i = 0; i < events.length; i++) {
      const event = events[i] as CommitEventValue;
      if (eventIds !== undefined) writer.part(eventIds, UUID_BYTES * i, UUID_BYTES * (i + 1));
      else writeId(writer, event.eventId);
      writer.text(event.eventType);
      writer.blob(event.data);
    }
    writer.byte(0);
    if (this.#withContexts) {
      if (events.length > 0) writer.long(events.length);
      for (const { correlationId, causationId, metadata } of events) {
        writer.nullableText(correlationId ?? null);
        writer.nullableText(causationId ?? null);
        writer.nullableBlob(metadata ?? null);
      }
      writer.byte(0);
    }
    return writer.take();
  }
}
