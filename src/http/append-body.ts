import type { AppendCommand, ExpectedVersion, NewEvent } from '../core/event.js';
import { StatefoldError, type FieldError } from '../core/errors.js';
import { JsonReader, KnownKeys, UNKNOWN_KEY } from '../core/json-scanner.js';
import { isAggregateType, isName, MAX_AGGREGATE_ID, MAX_EVENT_TYPE } from '../core/names.js';

/** What a body says of an append; `data` and `metadata` are slices of it, as sent. */
export type AppendBody = Omit<AppendCommand, 'commandId' | 'keyed' | 'requestHash'>;

export interface BodyLimits {
  readonly maxDepth: number;
  readonly maxEvents: number;
}

const MAX_CORRELATION_ID = 256;
/** A body with more faults than this is told the first ones. */
const MAX_ERRORS = 100;

const APPEND = new KnownKeys([
  'aggregateId',
  'aggregateType',
  'eventType',
  'data',
  'events',
  'expectedVersion',
  'correlationId',
  'causationId',
  'metadata',
]);
const EVENT = new KnownKeys(['eventType', 'data']);

/**
 * Reads the body of `POST /events` (`batch` false) or `POST /events/batch`. Members that it doesn't know are passed over; of a
 * member that comes twice the last counts.
 * @throws JsonError where it isn't JSON; StatefoldError INVALID_REQUEST with every fault and its place
 */
export function parseAppendBody(body: Buffer, batch: boolean, limits: BodyLimits): AppendBody {
  const reader = new JsonReader(body, limits);
  const faults = new Faults();
  if (reader.peek() !== 'object') {
    reader.skip();
    reader.finish();
    throw faults.add('', 'must be an object').error();
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
  reader.enterObject();
  for (let key = reader.nextMember(APPEND); key !== undefined; key = reader.nextMember(APPEND)) {
    // A repeated member replaces the first, with its faults.
    if (key !== UNKNOWN_KEY) faults.forget(key);
    if (key === 'events' && batch) {
      events = readEvents(reader, body, limits.maxEvents, faults);
      continue;
    }
    reader.skip();
    switch (key) {
      case 'aggregateId':
        aggregateId = readName(reader, key, MAX_AGGREGATE_ID, faults);
        break;
      case 'aggregateType':
        aggregateType = readAggregateType(reader, faults);
        break;
      case 'expectedVersion':
        expectedVersion = readExpectedVersion(reader, body, faults);
        break;
      case 'correlationId':
        correlationId = readName(reader, key, MAX_CORRELATION_ID, faults);
        break;
      case 'causationId':
        causationId = readName(reader, key, MAX_CORRELATION_ID, faults);
        break;
      case 'metadata':
        metadata = readObject(reader, body, key, faults);
        break;
      case 'eventType':
        if (!batch) eventType = readName(reader, key, MAX_EVENT_TYPE, faults);
        break;
      case 'data':
        if (!batch) data = readObject(reader, body, key, faults);
        break;
      case 'events':
      case UNKNOWN_KEY:
        break;
    }
  }
  reader.finish();
  if (aggregateId === undefined) faults.missing('aggregateId');
  if (batch) {
    if (events === undefined) faults.missing('events');
  } else {
    if (eventType === undefined) faults.missing('eventType');
    if (data === undefined) faults.missing('data');
    if (eventType !== undefined && data !== undefined) events = [{ eventType, data }];
  }
  if (faults.any || aggregateId === undefined || events === undefined) throw faults.error();
  return {
    aggregateId,
    aggregateType,
    expectedVersion: expectedVersion ?? 'any',
    correlationId,
    causationId,
    metadata,
    events,
  };
}

function readEvents(reader: JsonReader, body: Buffer, maxEvents: number, faults: Faults): NewEvent[] {
  const events: NewEvent[] = [];
  if (reader.peek() !== 'array') {
    reader.skip();
    faults.add('events', 'must be an array');
    return events;
  }
  let count = 0;
  reader.enterArray();
  while (reader.nextElement()) {
    const place = `events/${count++}`;
    if (count > maxEvents) {
      reader.skip();
    } else if (reader.peek() !== 'object') {
      reader.skip();
      faults.add(place, 'must be an object');
    } else {
      const event = readEvent(reader, body, place, faults);
      if (event !== undefined) events.push(event);
    }
  }
  if (count === 0) faults.add('events', 'must have at least one event');
  if (count > maxEvents) faults.add('events', `must have at most ${maxEvents} events, and has ${count}`);
  return events;
}

function readEvent(reader: JsonReader, body: Buffer, place: string, faults: Faults): NewEvent | undefined {
  let eventType: string | undefined;
  let data: Buffer | undefined;
  reader.enterObject();
  for (let key = reader.nextMember(EVENT); key !== undefined; key = reader.nextMember(EVENT)) {
    if (key !== UNKNOWN_KEY) faults.forget(`${place}/${key}`);
    reader.skip();
    if (key === 'eventType') eventType = readName(reader, `${place}/eventType`, MAX_EVENT_TYPE, faults);
    else if (key === 'data') data = readObject(reader, body, `${place}/data`, faults);
  }
  if (eventType === undefined) faults.missing(`${place}/eventType`);
  if (data === undefined) faults.missing(`${place}/data`);
  return eventType === undefined || data === undefined ? undefined : { eventType, data };
}

function readName(reader: JsonReader, place: string, max: number, faults: Faults): string | undefined {
  const text = reader.kind === 'string' ? reader.string() : undefined;
  if (text !== undefined && isName(text, max)) return text;
  faults.add(
    place,
    text === undefined ? 'must be a string' : `must have 1 to ${max} characters, none of them a control character`,
  );
  return undefined;
}

function readAggregateType(reader: JsonReader, faults: Faults): string | undefined {
  const text = reader.kind === 'string' ? reader.string() : undefined;
  if (text !== undefined && isAggregateType(text)) return text;
  faults.add(
    'aggregateType',
    text === undefined ? 'must be a string' : 'must have 1 to 128 characters of A-Z, a-z, 0-9, _, . and -',
  );
  return undefined;
}

function readExpectedVersion(reader: JsonReader, body: Buffer, faults: Faults): ExpectedVersion | undefined {
  if (reader.kind === 'number') {
    const value = Number(body.toString('latin1', reader.start, reader.end));
    if (Number.isSafeInteger(value) && value >= 0) return value;
  } else if (reader.kind === 'string') {
    const word = reader.string();
    if (word === 'any' || word === 'none' || word === 'exists') return word;
  }
  faults.add('expectedVersion', 'must be an integer of at least 0, or one of "any", "none", "exists"');
  return undefined;
}

function readObject(reader: JsonReader, body: Buffer, place: string, faults: Faults): Buffer | undefined {
  if (reader.kind === 'object') return body.subarray(reader.start, reader.end);
  faults.add(place, 'must be an object');
  return undefined;
}

/** What is wrong with a body, by place. */
class Faults {
  readonly #byPlace = new Map<string, string>();

  get any(): boolean {
    return this.#byPlace.size > 0;
  }

  add(place: string, message: string): this {
    if (this.#byPlace.size < MAX_ERRORS) this.#byPlace.set(place, message);
    return this;
  }

  missing(place: string): void {
    if (!this.#byPlace.has(place)) this.add(place, 'is required');
  }

  forget(place: string): void {
    if (this.#byPlace.size === 0) return;
    for (const known of this.#byPlace.keys())
      if (known === place || known.startsWith(`${place}/`)) this.#byPlace.delete(known);
  }

  error(): StatefoldError {
    const errors: FieldError[] = [...this.#byPlace].map(([place, message]) => ({
      pointer: place === '' ? '' : `/${place}`,
      message,
    }));
    const first = errors[0];
    const what = first === undefined ? '' : `: ${first.pointer === '' ? 'the body' : first.pointer} ${first.message}`;
    return new StatefoldError(
      'INVALID_REQUEST',
      `The body is invalid${what}${errors.length > 1 ? `, and ${errors.length - 1} more` : ''}.`,
      { errors },
    );
  }
}
