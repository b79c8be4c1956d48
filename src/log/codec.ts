import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import avro from 'avsc';
import { InvariantError } from '../core/errors.js';
import type { CatalogBody, ChangesBody, ClaimBody, EventsBody, Fence } from '../core/records.js';

/** Bytes of a fenced record: Avro in the Confluent wire format (0, schema id as 4 bytes big endian, Avro binary). */
export interface RecordCodec<B> {
  encode(fence: Fence, body: B | ClaimBody): Buffer;
  /** Undefined: not a record of ours, void for every reader. @throws InvariantError on a wrong checksum. */
  decode(value: Buffer): { readonly fence: Fence; readonly body: B | ClaimBody } | undefined;
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

export class AvroRecordCodec<B extends { readonly kind: string; readonly value: object }> implements RecordCodec<B> {
  readonly #type: avro.Type;
  readonly #schemaId: number;
  #scratch = Buffer.allocUnsafeSlow(64 * 1024);

  constructor(schema: object, schemaId: number) {
    this.#type = avro.Type.forSchema(withBytes(schema) as avro.Schema);
    this.#schemaId = schemaId;
  }

  encode(fence: Fence, body: B | ClaimBody): Buffer {
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
    const value = Buffer.from(this.#scratch.subarray(0, end));
    value[0] = 0;
    value.writeUInt32BE(this.#schemaId, 1);
    value.writeUInt32BE(crc32(value.subarray(CHECKSUM_END)), WIRE_HEADER);
    return value;
  }

  decode(value: Buffer): { fence: Fence; body: B | ClaimBody } | undefined {
    if (value.length <= CHECKSUM_END || value[0] !== 0 || value.readUInt32BE(1) !== this.#schemaId) return undefined;
    if (value.readUInt32BE(WIRE_HEADER) !== crc32(value.subarray(CHECKSUM_END)))
      throw new InvariantError('a record of the log has a wrong checksum: the log is damaged');
    const { value: record } = this.#type.decode(value, WIRE_HEADER) as { value: AvroRecord };
    const { epoch, owner, recordId, expectedOffset, previous } = record;
    const [branch = ''] = Object.keys(record.body);
    const body = { kind: branch.slice(NAMESPACE.length), value: record.body[branch] } as unknown as B | ClaimBody;
    return { fence: { epoch, owner, recordId, expectedOffset, previous }, body };
  }
}

export interface Codecs {
  readonly events: RecordCodec<EventsBody>;
  readonly changes: RecordCodec<ChangesBody>;
  readonly catalog: RecordCodec<CatalogBody>;
}

/** Reads the Avro schemas of the topics from `directory` (`schemas/avro`); ids as the schema registry gave them. */
export function loadCodecs(directory: string, schemaIds = { events: 1, changes: 2, catalog: 3 }): Codecs {
  const schema = (name: string): object => JSON.parse(readFileSync(join(directory, `${name}.avsc`), 'utf8')) as object;
  return {
    events: new AvroRecordCodec<EventsBody>(schema('events'), schemaIds.events),
    changes: new AvroRecordCodec<ChangesBody>(schema('changes'), schemaIds.changes),
    catalog: new AvroRecordCodec<CatalogBody>(schema('catalog'), schemaIds.catalog),
  };
}
