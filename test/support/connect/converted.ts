// A record of ours as Confluent's Avro converter hands it to Connect, in the JSON that Connect's own converter reads: a union of
// records is a structure with an optional field a record, `fixed` is bytes, `timestamp-millis` Connect's Timestamp.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import avro from 'avsc';
import { BUILT_IN_SCHEMA_IDS, versionsOf } from '../../../src/log/codec/schemas.js';
import { ROOT } from '../service.js';

type Schema =
  | string
  | Schema[]
  | { type: Schema; name?: string; fields?: { name: string; type: Schema }[]; items?: Schema; logicalType?: string };
interface ConnectSchema {
  readonly type: string;
  readonly optional: boolean;
  readonly name?: string;
  readonly version?: number;
  readonly field?: string;
  readonly fields?: readonly ConnectSchema[];
  readonly items?: ConnectSchema;
}

const SIMPLE: Readonly<Record<string, string>> = {
  string: 'string',
  bytes: 'bytes',
  fixed: 'bytes',
  int: 'int32',
  long: 'int64',
  boolean: 'boolean',
};
const WIRE_HEADER = 5;

function connectSchema(schema: Schema, optional = false): ConnectSchema {
  if (typeof schema === 'string') return { type: SIMPLE[schema] ?? fail(schema), optional };
  if (Array.isArray(schema)) {
    const branches = schema.filter((branch) => branch !== 'null');
    const [only] = branches;
    if (branches.length === 1 && only !== undefined) return connectSchema(only, true);
    return {
      type: 'struct',
      optional,
      name: 'io.confluent.connect.avro.Union',
      fields: branches.map((branch) => ({ ...connectSchema(branch, true), field: nameOf(branch) })),
    };
  }
  if (schema.logicalType === 'timestamp-millis')
    return { type: 'int64', optional, name: 'org.apache.kafka.connect.data.Timestamp', version: 1 };
  if (schema.type === 'record')
    return {
      type: 'struct',
      optional,
      name: `dev.statefold.${nameOf(schema)}`,
      fields: (schema.fields ?? []).map(({ name, type }) => ({ ...connectSchema(type), field: name })),
    };
  if (schema.type === 'array') return { type: 'array', optional, items: connectSchema(schema.items ?? fail(schema)) };
  return connectSchema(schema.type, optional);
}

function connectValue(schema: Schema, value: unknown): unknown {
  if (Array.isArray(schema)) {
    const records = schema.filter((branch) => branch !== 'null');
    if (value === null) return null;
    const [only] = records;
    if (records.length === 1 && only !== undefined)
      return connectValue(only, typeof value === 'object' ? Object.values(value)[0] : value);
    const [branch, inner] = Object.entries(value as object)[0] as [string, unknown];
    return Object.fromEntries(
      records.map((record) => [
        nameOf(record),
        `dev.statefold.${nameOf(record)}` === branch ? connectValue(record, inner) : null,
      ]),
    );
  }
  if (Buffer.isBuffer(value)) return value.toString('base64');
  if (typeof schema === 'string') return value;
  if (schema.type === 'record')
    return Object.fromEntries(
      (schema.fields ?? []).map(({ name, type }) => [
        name,
        connectValue(type, (value as Record<string, unknown>)[name]),
      ]),
    );
  if (schema.type === 'array')
    return (value as unknown[]).map((item) => connectValue(schema.items ?? fail(schema), item));
  return value;
}

/** A named type is written once, and meant by its name from then on: Connect has no such references. */
function inlined(schema: Schema, named = new Map<string, Schema>()): Schema {
  if (typeof schema === 'string') return named.get(schema) ?? schema;
  if (Array.isArray(schema)) return schema.map((branch) => inlined(branch, named));
  const whole = {
    ...schema,
    type: inlined(schema.type, named),
    ...(schema.items !== undefined && { items: inlined(schema.items, named) }),
    ...(schema.fields !== undefined && {
      fields: schema.fields.map((field) => ({ ...field, type: inlined(field.type, named) })),
    }),
  };
  if (schema.name !== undefined) named.set(schema.name, whole);
  return whole;
}

const nameOf = (schema: Schema): string =>
  (typeof schema === 'object' && !Array.isArray(schema) ? schema.name : undefined) ?? fail(schema);

function fail(schema: Schema): never {
  throw new Error(`no rule for ${JSON.stringify(schema)}`);
}

/** Turns values of a topic (`events`, `changes`) in the wire format into what Connect's JsonConverter reads. */
export function converter(name: 'events' | 'changes'): (value: Buffer) => Buffer {
  const versions = new Map(
    versionsOf(name).map((version) => {
      const written = JSON.parse(readFileSync(join(ROOT, 'schemas', 'avro', `${version}.avsc`), 'utf8')) as Schema;
      const type = avro.Type.forSchema(written as avro.Schema, { wrapUnions: true });
      const schema = inlined(written);
      return [BUILT_IN_SCHEMA_IDS[version], { schema, type, connect: connectSchema(schema) }];
    }),
  );
  return (value) => {
    const id = value.readUInt32BE(1);
    const { schema, type, connect } = versions.get(id) ?? fail(`schema ${id}`);
    return Buffer.from(
      JSON.stringify({ schema: connect, payload: connectValue(schema, type.fromBuffer(value.subarray(WIRE_HEADER))) }),
    );
  };
}
