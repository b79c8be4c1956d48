import { DAY_MS } from '../../core/clock.js';
import { StatefoldError } from '../../core/errors.js';
import { inContext, type NewEvent } from '../../core/event.js';
import { JsonError, JsonReader, KnownKeys, scanJson, UNKNOWN_KEY } from '../../core/json-scanner.js';
import { isAggregateType, isName, MAX_AGGREGATE_ID, MAX_EVENT_TYPE } from '../../core/names.js';
import { unknownMember } from '../nearest-name.js';

/** An event as an import has it: what an append is given, and what the service assigns otherwise. */
export interface ImportedEvent {
  /** Of 16 bytes. */
  readonly eventId: Buffer;
  readonly aggregateId: string;
  readonly aggregateType: string | undefined;
  readonly version: number;
  /** Milliseconds since the epoch. */
  readonly timestamp: number;
  /** With its context of its own. */
  readonly event: NewEvent;
}

const ATTRIBUTES = [
  'specversion',
  'id',
  'source',
  'type',
  'subject',
  'time',
  'datacontenttype',
  'aggregatetype',
  'aggregateversion',
  'correlationid',
  'causationid',
  'metadata',
  'position',
  'data',
] as const;
type Attribute = (typeof ATTRIBUTES)[number];
const KEYS: KnownKeys<Attribute> = new KnownKeys<Attribute>(ATTRIBUTES);
const REQUIRED: readonly Attribute[] = [
  'specversion',
  'id',
  'source',
  'type',
  'subject',
  'time',
  'aggregateversion',
  'data',
];

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const TIME = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.\d{1,3})?(?:Z|[+-](\d\d):(\d\d))$/;
const JSON_TYPE = /^application\/json(?:\s*;\s*charset=utf-8)?$/i;
const MAX_CORRELATION_ID = 256;
/** Clocks differ; but whatever is appended later would have to wait for such a time, or bear it too. */
const AHEAD_MS = DAY_MS;

const fault = (attribute: string, message: string): StatefoldError =>
  new StatefoldError('INVALID_REQUEST', `${attribute} ${message}`);

/**
 * Reads a line of an import: one CloudEvent in structured JSON. All that it says is kept, so an attribute that could not be kept is
 * refused. @throws JsonError where it isn't JSON; StatefoldError INVALID_REQUEST with the first attribute that is not as it must be
 */
export function parseCloudEvent(line: Buffer, maxDepth: number, now: number): ImportedEvent {
  const reader = new JsonReader(line, { maxDepth: maxDepth + 1 });
  if (reader.peek() !== 'object') throw fault('the line', 'must be a JSON object: one CloudEvent');
  const found = new Map<Attribute, string>();
  let data: Buffer | undefined;
  let version = 0;
  reader.enterObject();
  for (let key = reader.nextMember(KEYS); key !== undefined; key = reader.nextMember(KEYS)) {
    if (key === UNKNOWN_KEY) throw unknown(reader.string());
    reader.skip();
    if (found.has(key)) throw fault(key, 'is there twice');
    if (key === 'data') {
      if (reader.kind !== 'object') throw fault(key, 'must be an object');
      data = line.subarray(reader.start, reader.end);
      found.set(key, '');
    } else if (key === 'aggregateversion') {
      version = reader.kind === 'number' ? Number(line.toString('latin1', reader.start, reader.end)) : Number.NaN;
      if (!Number.isSafeInteger(version) || version < 1) throw fault(key, 'must be a whole number of at least 1');
      found.set(key, '');
    } else {
      if (reader.kind !== 'string') throw fault(key, 'must be a string');
      found.set(key, reader.string());
    }
  }
  reader.finish();
  for (const attribute of REQUIRED) if (!found.has(attribute)) throw fault(attribute, 'is missing');
  const of = (attribute: Attribute): string => found.get(attribute) ?? '';
  if (of('specversion') !== '1.0') throw fault('specversion', 'must be "1.0"');
  if (of('source') === '') throw fault('source', 'must not be empty');
  if (!UUID.test(of('id')))
    throw fault('id', 'must be a UUID in small letters, like 0190f2d3-7c1e-7a55-9c3f-1d2e3f4a5b6c');
  const type = named('type', of('type'), MAX_EVENT_TYPE);
  const aggregateId = named('subject', of('subject'), MAX_AGGREGATE_ID);
  const contentType = found.get('datacontenttype');
  if (contentType !== undefined && !JSON_TYPE.test(contentType))
    throw fault('datacontenttype', 'must be "application/json"');
  const aggregateType = found.get('aggregatetype');
  if (aggregateType !== undefined && !isAggregateType(aggregateType))
    throw fault('aggregatetype', 'must have 1 to 128 characters of A-Z, a-z, 0-9, _, . and -');
  const correlationId = optionalName('correlationid', found);
  const causationId = optionalName('causationid', found);
  const metadata = metadataOf(found.get('metadata'), maxDepth);
  const event = { eventType: type, data: data ?? Buffer.alloc(0) };
  return {
    eventId: Buffer.from(of('id').replaceAll('-', ''), 'hex'),
    aggregateId,
    aggregateType,
    version,
    timestamp: timeOf(of('time'), now),
    event: inContext(event, { correlationId, causationId, metadata }),
  };
}

function unknown(name: string): StatefoldError {
  if (name === 'data_base64') return fault(name, 'is not taken: data must be a JSON object');
  return fault(
    `'${name}'`,
    `${unknownMember(name, ATTRIBUTES)}; an import keeps nothing else: put it into metadata, or leave it out`,
  );
}

function named(attribute: Attribute, text: string, max: number): string {
  if (!isName(text, max)) throw fault(attribute, `must have 1 to ${max} characters, none of them a control character`);
  return text;
}

function optionalName(attribute: Attribute, found: ReadonlyMap<Attribute, string>): string | undefined {
  const text = found.get(attribute);
  return text === undefined ? undefined : named(attribute, text, MAX_CORRELATION_ID);
}

function timeOf(text: string, now: number): number {
  const parts = TIME.exec(text);
  if (parts === null) throw fault('time', 'must be a time like 2026-01-31T09:30:00.123Z, with milliseconds at most');
  if (!isRealTime(parts.slice(1).map((part) => Number(part ?? 0))))
    throw fault('time', `is ${text}, which no calendar or clock has`);
  const time = Date.parse(text);
  if (time < 0) throw fault('time', 'must be in 1970 or later');
  if (time > now + AHEAD_MS) throw fault('time', `is more than a day ahead of this service's clock`);
  return time;
}

/** Where a day is not in its month, `Date.parse` takes one of the next month, and it takes an hour 24 for midnight. */
function isRealTime([
  year = 0,
  month = 0,
  day = 0,
  hour = 0,
  minute = 0,
  second = 0,
  offsetHour = 0,
  offsetMinute = 0,
]: readonly number[]): boolean {
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  return (
    date.getUTCMonth() === month - 1 &&
    date.getUTCDate() === day &&
    [hour, offsetHour].every((hours) => hours <= 23) &&
    [minute, second, offsetMinute].every((sixtieths) => sixtieths <= 59)
  );
}

function metadataOf(text: string | undefined, maxDepth: number): Buffer | undefined {
  if (text === undefined) return undefined;
  const bytes = Buffer.from(text, 'utf8');
  try {
    scanJson(bytes, { maxDepth });
    if (bytes.toString('latin1').trimStart().startsWith('{')) return bytes;
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
  }
  throw fault('metadata', 'must be the text of a JSON object');
}
