import { crc32 } from 'node:zlib';
import avro from 'avsc';
import { InvariantError } from '../../core/errors.js';
import type {
  CatalogBody,
  ChangesBody,
  ClaimBody,
  CommitValue,
  EventsBody,
  Fence,
  OrderBody,
  TransactionPartValue,
  TransactionValue,
} from '../../core/records.js';
import { CommitRecords, contextsOf, hasContexts, inContexts, type EventContext } from './commit-records.js';
import { BUILT_IN_SCHEMA_IDS, readSchemas, type SchemaIds, type SchemaName } from './schemas.js';

/** Bytes of a fenced record: Avro in the Confluent wire format (0, schema id as 4 bytes big endian, Avro binary). */
export interface RecordCodec<B> {
  encode(fence: Fence, body: B | ClaimBody): Buffer;
  /**
   * Undefined: not a record of ours, void for every reader.
   * @throws InvariantError on a wrong checksum; UnknownSchemaError on a record of ours under an id that this process doesn't know
   */
  decode(value: Buffer): { readonly fence: Fence; readonly body: B | ClaimBody } | undefined;
}

/** Reads records of which it is known already that they count, and so needs nothing of their fences. */
export interface BodyCodec<B> {
  /** As `RecordCodec.decode` */
  decodeBody(value: Buffer): B | ClaimBody | undefined;
}

/**
 * A record of ours whose schema this process doesn't know: written by a newer version of the service, or with the ids of another
 * schema registry. It may count for readers who know it, so it is never taken for void here: the reader stops.
 */
export class UnknownSchemaError extends InvariantError {
  override readonly name = 'UnknownSchemaError';

  constructor(id: number, known: readonly number[]) {
    super(
      `a record of the log has the schema id ${id}, this process knows ${known.join(', ')}: the log was begun with another schema registry (set SCHEMA_REGISTRY_URL as before, or restore its schemas under their ids), or a newer version of the service writes to it`,
    );
  }
}

/** Fields that hold JSON text. Avro's string and bytes are the same on the wire: readers see text, we keep the bytes as sent. */
const TEXT_FIELDS = new Set(['data', 'metadata', 'state', 'fault', 'requestHash']);
const NAMESPACE = 'dev.statefold.';
const WIRE_HEADER = 5;
const CHECKSUM_END = WIRE_HEADER + 4;
const ZERO = Buffer.alloc(4);

interface AvroRecord {
  readonly epoch: number;
  readonly owner: string;
  readonly recordId: string;
  readonly expectedOffset: number;
  readonly previous: string;
  readonly body: Readonly<Record<string, object>>;
}

function withBytes(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withBytes);
  if (typeof schema !== 'object' || schema === null) return schema;
  const copy: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(schema)) copy[name] = withBytes(value);
  if (typeof copy['name'] === 'string' && TEXT_FIELDS.has(copy['name'])) {
    const asBytes = (type: unknown): unknown => (type === 'string' ? 'bytes' : type);
    copy['type'] = Array.isArray(copy['type']) ? copy['type'].map(asBytes) : asBytes(copy['type']);
  }
  if (copy['logicalType'] === 'timestamp-millis') return 'long';
  return copy;
}

const typeOf = (schema: object): avro.Type => avro.Type.forSchema(withBytes(schema) as avro.Schema);

export interface AvroRecordCodecOptions {
  readonly schema: object;
  /** What new records are written with. */
  readonly schemaId: number;
  /** Other ids of the topic's records, which another codec reads: for the error alone. */
  readonly alsoKnown?: readonly number[];
  /** Earlier schemas of the same topic by their ids: their records are read as if written with `schema`, new fields by their defaults. */
  readonly earlier?: ReadonlyMap<number, object>;
}

/** What is read and written most, by code of its own that gives the same as Avro's; undefined where Avro's is to do it. */
interface QuickRecords<B> {
  /** A whole record, whose fields start at `at`. */
  read(value: Buffer, at: number): { readonly fence: Fence; readonly body: B | ClaimBody } | undefined;
  readBody(value: Buffer, at: number): B | ClaimBody | undefined;
  /** The fields, after so many bytes. */
  write(fence: Fence, body: B | ClaimBody, before: number): Buffer | undefined;
}

export class AvroRecordCodec<B extends { readonly kind: string; readonly value: object }>
  implements RecordCodec<B>, BodyCodec<B>
{
  readonly #type: avro.Type;
  readonly #schemaId: number;
  readonly #earlier: ReadonlyMap<number, avro.Resolver>;
  readonly #quick: QuickRecords<B> | undefined;
  readonly #alsoKnown: readonly number[];
  #scratch = Buffer.allocUnsafeSlow(64 * 1024);

  constructor(
    { schema, schemaId, alsoKnown = [], earlier = new Map() }: AvroRecordCodecOptions,
    quick?: QuickRecords<B>,
  ) {
    this.#alsoKnown = alsoKnown;
    this.#quick = quick;
    this.#type = typeOf(schema);
    this.#schemaId = schemaId;
    this.#earlier = new Map([...earlier].map(([id, written]) => [id, this.#type.createResolver(typeOf(written))]));
  }

  encode(fence: Fence, body: B | ClaimBody): Buffer {
    const value = this.#quick?.write(fence, body, CHECKSUM_END) ?? this.#encode(fence, body);
    value[0] = 0;
    value.writeUInt32BE(this.#schemaId, 1);
    value.writeUInt32BE(crc32(value.subarray(CHECKSUM_END)), WIRE_HEADER);
    return value;
  }

  #encode(fence: Fence, body: B | ClaimBody): Buffer {
    const record = {
      checksum: ZERO,
      epoch: fence.epoch,
      owner: fence.owner,
      recordId: fence.recordId,
      expectedOffset: fence.expectedOffset,
      previous: fence.previous,
      body: { [NAMESPACE + body.kind]: body.value },
    };
    let end = this.#type.encode(record, this.#scratch, WIRE_HEADER);
    if (end < 0) {
      this.#scratch = Buffer.allocUnsafeSlow(2 * (this.#scratch.length - end));
      end = this.#type.encode(record, this.#scratch, WIRE_HEADER);
    }
    return Buffer.from(this.#scratch.subarray(0, end));
  }

  decode(value: Buffer): { readonly fence: Fence; readonly body: B | ClaimBody } | undefined {
    const id = this.#schemaIdOf(value);
    if (id === undefined) return undefined;
    return (id === this.#schemaId ? this.#quick?.read(value, CHECKSUM_END) : undefined) ?? this.#decode(value, id);
  }

  decodeBody(value: Buffer): B | ClaimBody | undefined {
    const id = this.#schemaIdOf(value);
    if (id === undefined) return undefined;
    return (
      (id === this.#schemaId ? this.#quick?.readBody(value, CHECKSUM_END) : undefined) ?? this.#decode(value, id).body
    );
  }

  /** Of a record of ours that is whole; undefined: none of ours. */
  #schemaIdOf(value: Buffer): number | undefined {
    if (value.length <= CHECKSUM_END || value[0] !== 0) return undefined;
    const id = value.readUInt32BE(1);
    const known = id === this.#schemaId || this.#earlier.has(id);
    const whole = value.readUInt32BE(WIRE_HEADER) === crc32(value.subarray(CHECKSUM_END));
    if (!known) {
      // Whose checksum is right at this place was written by this service; anyone else's bytes are no record.
      if (whole) throw new UnknownSchemaError(id, [this.#schemaId, ...this.#alsoKnown, ...this.#earlier.keys()]);
      return undefined;
    }
    if (!whole) throw new InvariantError('a record of the log has a wrong checksum: the log is damaged');
    return id;
  }

  #decode(value: Buffer, id: number): { readonly fence: Fence; readonly body: B | ClaimBody } {
    const resolver = this.#earlier.get(id);
    const { value: record } = this.#type.decode(value, WIRE_HEADER, resolver) as { value: AvroRecord };
    const { epoch, owner, recordId, expectedOffset, previous } = record;
    const [branch = ''] = Object.keys(record.body);
    const body = { kind: branch.slice(NAMESPACE.length), value: record.body[branch] } as unknown as B | ClaimBody;
    return { fence: { epoch, owner, recordId, expectedOffset, previous }, body };
  }
}

/**
 * Writes a record of the events topic by the earliest version of its schema that can hold it: a transaction by the third, an erasure by
 * the fourth. Reads all four.
 */
class EventsCodec implements RecordCodec<EventsBody>, BodyCodec<EventsBody> {
  readonly #first: RecordCodec<EventsBody> & BodyCodec<EventsBody>;
  readonly #second: RecordCodec<EventsBody>;
  readonly #secondId: number;
  readonly #third: RecordCodec<EventsBody>;
  readonly #thirdId: number;
  readonly #fourth: RecordCodec<EventsBody>;
  readonly #fourthId: number;

  constructor(
    first: object,
    second: object,
    third: object,
    fourth: object,
    ids: Pick<SchemaIds, 'events' | 'events2' | 'events3' | 'events4'>,
  ) {
    this.#first = new AvroRecordCodec<EventsBody>(
      { schema: first, schemaId: ids.events, alsoKnown: [ids.events2, ids.events3, ids.events4] },
      new CommitRecords(),
    );
    this.#second = new AvroRecordCodec<EventsBody>({ schema: second, schemaId: ids.events2 }, new CommitRecords(true));
    this.#secondId = ids.events2;
    this.#third = new AvroRecordCodec<EventsBody>({ schema: third, schemaId: ids.events3 });
    this.#thirdId = ids.events3;
    this.#fourth = new AvroRecordCodec<EventsBody>({ schema: fourth, schemaId: ids.events4 });
    this.#fourthId = ids.events4;
  }

  encode(fence: Fence, body: EventsBody | ClaimBody): Buffer {
    if (body.kind === 'Transaction')
      return this.#third.encode(fence, {
        kind: 'Transaction',
        value: { ...body.value, parts: body.value.parts.map(partInAvro) },
      });
    if (body.kind === 'Erase' || body.kind === 'Erased') return this.#fourth.encode(fence, body);
    return body.kind === 'Commit' && hasContexts(body.value)
      ? this.#second.encode(fence, body)
      : this.#first.encode(fence, body);
  }

  decode(value: Buffer): ReturnType<RecordCodec<EventsBody>['decode']> {
    const id = value.length <= CHECKSUM_END || value[0] !== 0 ? 0 : value.readUInt32BE(1);
    if (id === this.#thirdId) return this.#decodeThird(value);
    if (id === this.#fourthId) return this.#fourth.decode(value);
    if (id !== this.#secondId) return this.#first.decode(value);
    return this.#decodeSecond(value);
  }

  decodeBody(value: Buffer): EventsBody | ClaimBody | undefined {
    const id = value.length <= CHECKSUM_END || value[0] !== 0 ? 0 : value.readUInt32BE(1);
    const isOfFirst = id !== this.#secondId && id !== this.#thirdId && id !== this.#fourthId;
    return isOfFirst ? this.#first.decodeBody(value) : this.decode(value)?.body;
  }

  #decodeSecond(value: Buffer): ReturnType<RecordCodec<EventsBody>['decode']> {
    const record = this.#second.decode(value);
    if (record?.body.kind !== 'Commit' || !('contexts' in record.body.value)) return record;
    const { contexts, ...commit } = record.body.value as CommitValue & { readonly contexts: readonly EventContext[] };
    return { ...record, body: { kind: 'Commit', value: { ...commit, events: inContexts(commit.events, contexts) } } };
  }

  #decodeThird(value: Buffer): ReturnType<RecordCodec<EventsBody>['decode']> {
    const record = this.#third.decode(value);
    if (record?.body.kind !== 'Transaction') return record;
    const transaction: TransactionValue = record.body.value;
    const parts = (transaction.parts as readonly PartInAvro[]).map(
      ({ aggregateId, aggregateType, baseVersion, events, contexts }) => ({
        aggregateId,
        aggregateType,
        baseVersion,
        events: inContexts(events, contexts),
      }),
    );
    return { ...record, body: { kind: 'Transaction', value: { ...transaction, parts } } };
  }
}

/** A part of a transaction as its schema has it. */
type PartInAvro = TransactionPartValue & { readonly contexts: readonly EventContext[] };

/** Written out: a spread takes as long as the encoding of a part with one event. */
const partInAvro = (part: TransactionPartValue): PartInAvro => ({
  aggregateId: part.aggregateId,
  aggregateType: part.aggregateType,
  baseVersion: part.baseVersion,
  events: part.events,
  contexts: hasContexts(part) ? contextsOf(part) : [],
});

/** Records of the changes topic: of the first version of its schema, and of the second those of inputs whose changes come in parts. */
class ChangesCodec implements RecordCodec<ChangesBody>, BodyCodec<ChangesBody> {
  readonly #first: RecordCodec<ChangesBody>;
  readonly #second: RecordCodec<ChangesBody>;
  readonly #secondId: number;

  constructor(first: object, second: object, ids: Pick<SchemaIds, 'changes' | 'changes2'>) {
    this.#first = new AvroRecordCodec<ChangesBody>({
      schema: first,
      schemaId: ids.changes,
      alsoKnown: [ids.changes2],
    });
    this.#second = new AvroRecordCodec<ChangesBody>({ schema: second, schemaId: ids.changes2 });
    this.#secondId = ids.changes2;
  }

  encode(fence: Fence, body: ChangesBody | ClaimBody): Buffer {
    return body.kind === 'Change' && body.value.last !== undefined
      ? this.#second.encode(fence, body)
      : this.#first.encode(fence, body);
  }

  decode(value: Buffer): ReturnType<RecordCodec<ChangesBody>['decode']> {
    const second = value.length > CHECKSUM_END && value[0] === 0 && value.readUInt32BE(1) === this.#secondId;
    return second ? this.#second.decode(value) : this.#first.decode(value);
  }

  decodeBody(value: Buffer): ChangesBody | ClaimBody | undefined {
    return this.decode(value)?.body;
  }
}

export interface Codecs {
  readonly events: RecordCodec<EventsBody> & BodyCodec<EventsBody>;
  readonly changes: RecordCodec<ChangesBody> & BodyCodec<ChangesBody>;
  readonly catalog: RecordCodec<CatalogBody>;
  readonly order: RecordCodec<OrderBody>;
}

/** Reads the Avro schemas of the topics from `directory` (`schemas/avro`). */
export function loadCodecs(directory: string, ids: SchemaIds = BUILT_IN_SCHEMA_IDS): Codecs {
  const schemas = readSchemas(directory);
  const codec = <B extends { readonly kind: string; readonly value: object }>(name: SchemaName): RecordCodec<B> =>
    new AvroRecordCodec<B>({ schema: schemas[name].schema, schemaId: ids[name] });
  const events = new EventsCodec(
    schemas.events.schema,
    schemas.events2.schema,
    schemas.events3.schema,
    schemas.events4.schema,
    ids,
  );
  return {
    events,
    changes: new ChangesCodec(schemas.changes.schema, schemas.changes2.schema, ids),
    catalog: codec<CatalogBody>('catalog'),
    order: codec<OrderBody>('order'),
  };
}
