import type {
  AppendCommand,
  ExpectedVersion,
  NewEvent,
  TransactionAppend as AppendOfTransaction,
  TransactionCommand,
} from '../core/event.js';
import { StatefoldError, type FieldError } from '../core/errors.js';
import { JsonReader, KnownKeys, UNKNOWN_KEY } from '../core/json-scanner.js';
import { isAddressable, isAggregateType, isName, MAX_AGGREGATE_ID, MAX_EVENT_TYPE } from '../core/names.js';
import {
  Append,
  AppendBatch,
  BatchEvent,
  BulkLine,
  MAX_TRANSACTION_AGGREGATES,
  Transaction,
  TransactionAppend,
} from './append-schema.js';
import { pointerPart, unknownMember } from './nearest-name.js';

/** What a body says of an append; `data` and `metadata` are slices of it, as sent. */
export type AppendBody = Omit<AppendCommand, 'commandId' | 'keyed' | 'requestHash'>;

/** What a body says of a transaction; as of an append. */
export type TransactionBody = Omit<TransactionCommand, 'commandId' | 'keyed' | 'requestHash'>;

/** What a line of a bulk says besides. */
export interface BulkLineBody extends AppendBody {
  readonly idempotencyKey: string | undefined;
  /** The line without its `idempotencyKey`: what `POST /events` would be sent with the key in a header. */
  readonly keyless: Buffer;
}

export interface BodyLimits {
  readonly maxDepth: number;
  readonly maxEvents: number;
}

const MAX_CORRELATION_ID = 256;
/** A body with more violations than this is told the first ones. */
const MAX_ERRORS = 100;

const SINGLE = Append.keyof().options;
const BATCH = AppendBatch.keyof().options;
const EVENT = BatchEvent.keyof().options;
const BULK = BulkLine.keyof().options;
type Member = (typeof SINGLE)[number] | (typeof BATCH)[number] | (typeof BULK)[number];
const SINGLE_KEYS: KnownKeys<Member> = new KnownKeys<Member>(SINGLE);
const BATCH_KEYS: KnownKeys<Member> = new KnownKeys<Member>(BATCH);
const BULK_KEYS: KnownKeys<Member> = new KnownKeys<Member>(BULK);
const EVENT_KEYS = new KnownKeys(EVENT);
const TRANSACTION = Transaction.keyof().options;
const TRANSACTION_KEYS = new KnownKeys(TRANSACTION);
const PART = TransactionAppend.keyof().options;
const PART_KEYS = new KnownKeys(PART);

/** Members that are known, and are refused where they stand: what to do instead. */
const assigned = 'is assigned by the service: leave it out';
const ASSIGNED: Readonly<Record<string, string>> = {
  eventId: assigned,
  timestamp: assigned,
  version: `${assigned}; to have the version checked, send expectedVersion`,
};
const NOT_IN_SINGLE: ReadonlyMap<string, string> = new Map(
  Object.entries({ ...ASSIGNED, events: 'is for POST /events/batch: send the batch there' }),
);
const NOT_IN_BULK: ReadonlyMap<string, string> = new Map(
  Object.entries({ ...ASSIGNED, events: 'is for POST /events/batch: a line has one event' }),
);
const ofEachEvent = 'is of each event: put it into the elements of events';
const NOT_IN_BATCH: ReadonlyMap<string, string> = new Map(
  Object.entries({ ...ASSIGNED, eventType: ofEachEvent, data: ofEachEvent }),
);
const ofTheBatch = 'is of the whole batch: put it beside events';
const NOT_IN_EVENT: ReadonlyMap<string, string> = new Map(
  Object.entries({
    ...ASSIGNED,
    aggregateId: `${ofTheBatch}; events of another aggregate need a request of their own, or POST /events/transaction`,
    aggregateType: ofTheBatch,
    expectedVersion: ofTheBatch,
  }),
);
const ofEachAppend = 'is of each aggregate: put it into the elements of appends';
const NOT_IN_TRANSACTION: ReadonlyMap<string, string> = new Map(
  Object.entries({
    ...ASSIGNED,
    aggregateId: ofEachAppend,
    aggregateType: ofEachAppend,
    expectedVersion: ofEachAppend,
    events: ofEachAppend,
    eventType: 'is of each event: put it into the elements of events, in those of appends',
    data: 'is of each event: put it into the elements of events, in those of appends',
  }),
);
const ofTheTransaction =
  'is of the transaction, or of one event: put it beside appends, or into the elements of events';
const NOT_IN_PART: ReadonlyMap<string, string> = new Map(
  Object.entries({
    ...ASSIGNED,
    eventType: ofEachEvent,
    data: ofEachEvent,
    correlationId: ofTheTransaction,
    causationId: ofTheTransaction,
    metadata: ofTheTransaction,
  }),
);
const ofTheAppend = 'is of the aggregate: put it beside events';
const NOT_IN_EVENT_OF_PART: ReadonlyMap<string, string> = new Map(
  Object.entries({
    ...ASSIGNED,
    aggregateId: `${ofTheAppend}; events of another aggregate need an element of appends of their own`,
    aggregateType: ofTheAppend,
    expectedVersion: ofTheAppend,
  }),
);

/**
 * Reads the body of `POST /events` (`batch` false) or `POST /events/batch`. A member that it doesn't know is a violation: what is
 * misspelt would be dropped without a word, a check of the version above all. Of a member that comes twice the last counts.
 * @throws JsonError where it isn't JSON; StatefoldError INVALID_REQUEST with every violation and its place
 */
export function parseAppendBody(body: Buffer, batch: boolean, limits: BodyLimits): AppendBody {
  return parse(body, batch ? BATCH_FORM : SINGLE_FORM, limits);
}

/** Reads a line of `POST /events/bulk`: a body of `POST /events` with an optional `idempotencyKey`. @throws as `parseAppendBody` */
export const parseBulkLine = (line: Buffer, limits: BodyLimits): BulkLineBody => parse(line, BULK_FORM, limits);

/** What members a body has, and what is said of others. */
interface Form {
  readonly keys: KnownKeys<Member>;
  readonly known: readonly string[];
  readonly misplaced: ReadonlyMap<string, string>;
}
const SINGLE_FORM: Form = { keys: SINGLE_KEYS, known: SINGLE, misplaced: NOT_IN_SINGLE };
const BATCH_FORM: Form = { keys: BATCH_KEYS, known: BATCH, misplaced: NOT_IN_BATCH };
const BULK_FORM: Form = { keys: BULK_KEYS, known: BULK, misplaced: NOT_IN_BULK };

function parse(body: Buffer, form: Form, limits: BodyLimits): BulkLineBody {
  const batch = form === BATCH_FORM;
  const reader = new JsonReader(body, limits);
  const violations = new Violations();
  if (reader.peek() !== 'object') {
    reader.skip();
    reader.finish();
    throw invalidBody([{ pointer: '', message: 'must be an object' }]);
  }
  let aggregateId: string | undefined;
  let aggregateType: string | undefined;
  let expectedVersion: ExpectedVersion | undefined;
  let correlationId: string | undefined;
  let causationId: string | undefined;
  let metadata: Buffer | undefined;
  let eventType: string | undefined;
  let data: Buffer | undefined;
  let events: NewEvent[] | undefined;
  let idempotencyKey: string | undefined;
  let keyless = body;
  reader.enterObject();
  const { keys } = form;
  for (let key = reader.nextMember(keys); key !== undefined; key = reader.nextMember(keys)) {
    if (key === UNKNOWN_KEY) {
      violations.unknown('', reader.string(), form.known, form.misplaced);
      reader.skip();
      continue;
    }
    // A repeated member replaces the first, with its violations.
    violations.forget(key);
    if (key === 'events') {
      events = readEvents(reader, body, limits.maxEvents, violations);
      continue;
    }
    const memberAt = reader.start;
    reader.skip();
    switch (key) {
      case 'idempotencyKey':
        idempotencyKey = readIdempotencyKey(reader, violations);
        keyless = without(body, memberAt, reader.end);
        break;
      case 'aggregateId':
        aggregateId = readName(reader, key, MAX_AGGREGATE_ID, violations);
        break;
      case 'aggregateType':
        aggregateType = readAggregateType(reader, violations);
        break;
      case 'expectedVersion':
        expectedVersion = readExpectedVersion(reader, body, violations);
        break;
      case 'correlationId':
        correlationId = readName(reader, key, MAX_CORRELATION_ID, violations);
        break;
      case 'causationId':
        causationId = readName(reader, key, MAX_CORRELATION_ID, violations);
        break;
      case 'metadata':
        metadata = readObject(reader, body, key, violations);
        break;
      case 'eventType':
        eventType = readName(reader, key, MAX_EVENT_TYPE, violations);
        break;
      case 'data':
        data = readObject(reader, body, key, violations);
        break;
    }
  }
  reader.finish();
  if (aggregateId === undefined) violations.missing('aggregateId');
  if (batch) {
    if (events === undefined) violations.missing('events');
  } else {
    if (eventType === undefined) violations.missing('eventType');
    if (data === undefined) violations.missing('data');
    if (eventType !== undefined && data !== undefined) events = [{ eventType, data }];
  }
  if (violations.any || aggregateId === undefined || events === undefined) throw violations.error();
  return {
    aggregateId,
    aggregateType,
    expectedVersion: expectedVersion ?? 'any',
    correlationId,
    causationId,
    metadata,
    events,
    idempotencyKey,
    keyless,
  };
}

/**
 * Reads the body of `POST /events/transaction`. As strict as that of a batch; the events of all aggregates together are bounded as
 * those of one batch are. @throws as `parseAppendBody`
 */
export function parseTransactionBody(body: Buffer, limits: BodyLimits): TransactionBody {
  const reader = new JsonReader(body, limits);
  const violations = new Violations();
  if (reader.peek() !== 'object') {
    reader.skip();
    reader.finish();
    throw invalidBody([{ pointer: '', message: 'must be an object' }]);
  }
  let appends: AppendOfTransaction[] | undefined;
  let correlationId: string | undefined;
  let causationId: string | undefined;
  let metadata: Buffer | undefined;
  reader.enterObject();
  for (let key = reader.nextMember(TRANSACTION_KEYS); key !== undefined; key = reader.nextMember(TRANSACTION_KEYS)) {
    if (key === UNKNOWN_KEY) {
      violations.unknown('', reader.string(), TRANSACTION, NOT_IN_TRANSACTION);
      reader.skip();
      continue;
    }
    violations.forget(key);
    if (key === 'appends') {
      appends = readAppends(reader, body, limits.maxEvents, violations);
      continue;
    }
    reader.skip();
    switch (key) {
      case 'correlationId':
        correlationId = readName(reader, key, MAX_CORRELATION_ID, violations);
        break;
      case 'causationId':
        causationId = readName(reader, key, MAX_CORRELATION_ID, violations);
        break;
      case 'metadata':
        metadata = readObject(reader, body, key, violations);
        break;
    }
  }
  reader.finish();
  if (appends === undefined) violations.missing('appends');
  if (violations.any || appends === undefined) throw violations.error();
  return { appends, correlationId, causationId, metadata };
}

/** Of what is wrong nothing is in the result. */
function readAppends(
  reader: JsonReader,
  body: Buffer,
  maxEvents: number,
  violations: Violations,
): AppendOfTransaction[] {
  const appends: AppendOfTransaction[] = [];
  if (reader.peek() !== 'array') {
    reader.skip();
    violations.add('appends', 'must be an array');
    return appends;
  }
  const named = new Map<string, string>();
  let count = 0;
  let events = 0;
  reader.enterArray();
  while (reader.nextElement()) {
    const place = `appends/${count++}`;
    if (count > MAX_TRANSACTION_AGGREGATES) {
      reader.skip();
    } else if (reader.peek() !== 'object') {
      reader.skip();
      violations.add(place, 'must be an object');
    } else {
      const append = readTransactionAppend(reader, body, place, maxEvents, violations);
      if (append === undefined) continue;
      events += append.events.length;
      const before = named.get(append.aggregateId);
      if (before === undefined) {
        named.set(append.aggregateId, place);
        appends.push(append);
      } else
        violations.add(
          `${place}/aggregateId`,
          `is named at /${before} already: put all events of an aggregate into one element`,
        );
    }
  }
  if (count === 0) violations.add('appends', 'must have at least one element');
  if (count > MAX_TRANSACTION_AGGREGATES)
    violations.add('appends', `must have at most ${MAX_TRANSACTION_AGGREGATES} elements, and has ${count}`);
  if (events > maxEvents) violations.add('appends', `must have at most ${maxEvents} events in all, and has ${events}`);
  return appends;
}

function readTransactionAppend(
  reader: JsonReader,
  body: Buffer,
  place: string,
  maxEvents: number,
  violations: Violations,
): AppendOfTransaction | undefined {
  let aggregateId: string | undefined;
  let aggregateType: string | undefined;
  let expectedVersion: ExpectedVersion | undefined;
  let events: NewEvent[] | undefined;
  reader.enterObject();
  for (let key = reader.nextMember(PART_KEYS); key !== undefined; key = reader.nextMember(PART_KEYS)) {
    if (key === UNKNOWN_KEY) {
      violations.unknown(`${place}/`, reader.string(), PART, NOT_IN_PART);
      reader.skip();
      continue;
    }
    violations.forget(place, key);
    const at = `${place}/${key}`;
    if (key === 'events') {
      events = readEvents(reader, body, maxEvents, violations, at, NOT_IN_EVENT_OF_PART);
      continue;
    }
    reader.skip();
    switch (key) {
      case 'aggregateId':
        aggregateId = readName(reader, at, MAX_AGGREGATE_ID, violations);
        break;
      case 'aggregateType':
        aggregateType = readAggregateType(reader, violations, at);
        break;
      case 'expectedVersion':
        expectedVersion = readExpectedVersion(reader, body, violations, at);
        break;
    }
  }
  if (aggregateId === undefined) violations.missing(`${place}/aggregateId`);
  if (events === undefined) violations.missing(`${place}/events`);
  if (aggregateId === undefined || events === undefined) return undefined;
  return { aggregateId, aggregateType, expectedVersion: expectedVersion ?? 'any', events };
}

function readIdempotencyKey(reader: JsonReader, violations: Violations): string | undefined {
  const text = reader.kind === 'string' ? reader.string() : undefined;
  if (text !== undefined && isIdempotencyKey(text)) return text;
  violations.add('idempotencyKey', 'must be a string of 1 to 255 printable ASCII characters');
  return undefined;
}

const IDEMPOTENCY_KEY = /^[\x20-\x7e]{1,255}$/;
export const isIdempotencyKey = (text: string): boolean => IDEMPOTENCY_KEY.test(text);

const COMMA = 0x2c;
const BRACE = 0x7b;
/** The object's text without the member from `start` to `end`, and without the comma that stood at it. */
function without(text: Buffer, start: number, end: number): Buffer {
  let before = start - 1;
  while (before > 0 && text[before] !== COMMA && text[before] !== BRACE) before--;
  if (text[before] === COMMA) return Buffer.concat([text.subarray(0, before), text.subarray(end)]);
  // The first one: the comma is behind it, unless it is the only one.
  let after = end;
  while (after < text.length && text[after] !== COMMA && text[after] !== BRACE + 2) after++;
  return Buffer.concat([text.subarray(0, start), text.subarray(text[after] === COMMA ? after + 1 : after)]);
}

function readEvents(
  reader: JsonReader,
  body: Buffer,
  maxEvents: number,
  violations: Violations,
  at = 'events',
  misplaced = NOT_IN_EVENT,
): NewEvent[] {
  const events: NewEvent[] = [];
  if (reader.peek() !== 'array') {
    reader.skip();
    violations.add(at, 'must be an array');
    return events;
  }
  let count = 0;
  reader.enterArray();
  while (reader.nextElement()) {
    const place = `${at}/${count++}`;
    if (count > maxEvents) {
      reader.skip();
    } else if (reader.peek() !== 'object') {
      reader.skip();
      violations.add(place, 'must be an object');
    } else {
      const event = readEvent(reader, body, place, violations, misplaced);
      if (event !== undefined) events.push(event);
    }
  }
  if (count === 0) violations.add(at, 'must have at least one event');
  if (count > maxEvents) violations.add(at, `must have at most ${maxEvents} events, and has ${count}`);
  return events;
}

function readEvent(
  reader: JsonReader,
  body: Buffer,
  place: string,
  violations: Violations,
  misplaced: ReadonlyMap<string, string>,
): NewEvent | undefined {
  let eventType: string | undefined;
  let data: Buffer | undefined;
  let correlationId: string | undefined;
  let causationId: string | undefined;
  let metadata: Buffer | undefined;
  reader.enterObject();
  for (let key = reader.nextMember(EVENT_KEYS); key !== undefined; key = reader.nextMember(EVENT_KEYS)) {
    if (key === UNKNOWN_KEY) {
      violations.unknown(`${place}/`, reader.string(), EVENT, misplaced);
      reader.skip();
      continue;
    }
    violations.forget(place, key);
    reader.skip();
    switch (key) {
      case 'eventType':
        eventType = readName(reader, `${place}/eventType`, MAX_EVENT_TYPE, violations);
        break;
      case 'data':
        data = readObject(reader, body, `${place}/data`, violations);
        break;
      case 'correlationId':
        correlationId = readName(reader, `${place}/correlationId`, MAX_CORRELATION_ID, violations);
        break;
      case 'causationId':
        causationId = readName(reader, `${place}/causationId`, MAX_CORRELATION_ID, violations);
        break;
      case 'metadata':
        metadata = readObject(reader, body, `${place}/metadata`, violations);
        break;
    }
  }
  if (eventType === undefined) violations.missing(`${place}/eventType`);
  if (data === undefined) violations.missing(`${place}/data`);
  if (eventType === undefined || data === undefined) return undefined;
  // Most events have none of their own.
  return correlationId === undefined && causationId === undefined && metadata === undefined
    ? { eventType, data }
    : { eventType, data, correlationId, causationId, metadata };
}

/** What is stored under such an id could be asked for by no client. */
const NOT_ADDRESSABLE = 'must not be . or .., which no path of a URL can hold';

function readName(reader: JsonReader, place: string, max: number, violations: Violations): string | undefined {
  const text = reader.kind === 'string' ? reader.string() : undefined;
  if (text === undefined) violations.add(place, 'must be a string');
  else if (!isName(text, max))
    violations.add(place, `must have 1 to ${max} characters, none of them a control character`);
  else if (!isAddressable(text)) violations.add(place, NOT_ADDRESSABLE);
  else return text;
  return undefined;
}

function readAggregateType(reader: JsonReader, violations: Violations, place = 'aggregateType'): string | undefined {
  const text = reader.kind === 'string' ? reader.string() : undefined;
  if (text === undefined) violations.add(place, 'must be a string');
  else if (!isAggregateType(text)) violations.add(place, 'must have 1 to 128 characters of A-Z, a-z, 0-9, _, . and -');
  else if (!isAddressable(text)) violations.add(place, NOT_ADDRESSABLE);
  else return text;
  return undefined;
}

function readExpectedVersion(
  reader: JsonReader,
  body: Buffer,
  violations: Violations,
  place = 'expectedVersion',
): ExpectedVersion | undefined {
  if (reader.kind === 'number') {
    const value = Number(body.toString('latin1', reader.start, reader.end));
    if (Number.isSafeInteger(value) && value >= 0) return value;
  } else if (reader.kind === 'string') {
    const word = reader.string();
    if (word === 'any' || word === 'none' || word === 'exists') return word;
  }
  violations.add(place, 'must be an integer of at least 0, or one of "any", "none", "exists"');
  return undefined;
}

function readObject(reader: JsonReader, body: Buffer, place: string, violations: Violations): Buffer | undefined {
  if (reader.kind === 'object') return body.subarray(reader.start, reader.end);
  violations.add(place, 'must be an object');
  return undefined;
}

/** The place itself, and those that it lies in. */
function* upwards(place: string): Generator<string> {
  yield place;
  for (let end = place.lastIndexOf('/'); end > 0; end = place.lastIndexOf('/', end - 1)) yield place.slice(0, end);
}

/** What is wrong with a body, by place. */
class Violations {
  /** Made with the first: nearly all bodies have none. */
  #byPlace: Map<string, string> | undefined;
  /** The places at or under each place that has any: a body may repeat a member a hundred thousand times. */
  #under: Map<string, Set<string>> | undefined;

  get any(): boolean {
    return this.#count > 0;
  }

  get #count(): number {
    return this.#byPlace?.size ?? 0;
  }

  add(place: string, message: string): void {
    if (this.#count >= MAX_ERRORS) return;
    (this.#byPlace ??= new Map<string, string>()).set(place, message);
    const places = (this.#under ??= new Map<string, Set<string>>());
    for (const above of upwards(place)) {
      const under = places.get(above);
      if (under === undefined) places.set(above, new Set([place]));
      else under.add(place);
    }
  }

  missing(place: string): void {
    if (this.#byPlace?.has(place) !== true) this.add(place, 'is required');
  }

  /** A member that has no business there: `misplaced` has what to say of those that are known elsewhere. */
  unknown(before: string, name: string, known: readonly string[], misplaced: ReadonlyMap<string, string>): void {
    if (this.#count >= MAX_ERRORS) return;
    const place = `${before}${pointerPart(name)}`;
    if (this.#byPlace?.has(place) !== true) this.add(place, misplaced.get(name) ?? unknownMember(name, known));
  }

  forget(parent: string, member?: string): void {
    const places = this.#under;
    // As with nearly all bodies: there is nothing to forget.
    if (places === undefined) return;
    const place = member === undefined ? parent : `${parent}/${member}`;
    for (const known of places.get(place) ?? []) {
      this.#byPlace?.delete(known);
      for (const above of upwards(known)) {
        const under = places.get(above);
        under?.delete(known);
        if (under?.size === 0) places.delete(above);
      }
    }
  }

  error(): StatefoldError {
    return invalidBody([...(this.#byPlace ?? [])].map(([place, message]) => ({ pointer: `/${place}`, message })));
  }
}

function invalidBody(errors: readonly FieldError[]): StatefoldError {
  const [first] = errors;
  const what = first === undefined ? '' : `: ${first.pointer === '' ? 'the body' : first.pointer} ${first.message}`;
  return new StatefoldError(
    'INVALID_REQUEST',
    `The body is invalid${what}${errors.length > 1 ? `, and ${errors.length - 1} more.` : what.endsWith('?') ? '' : '.'}`,
    { errors },
  );
}
