import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * The schemas of the log's records, each in `<name>.avsc`. Records of the topics `….<name>` are written with it. `events2` and
 * `changes2` are second versions, `events3` is a third one, `events4` a fourth: a record that the versions before can't hold is written with it, so that
 * readers who know those alone stop at such a record, and at no other one.
 */
export type SchemaName = 'events' | 'changes' | 'catalog' | 'order' | 'events2' | 'changes2' | 'events3' | 'events4';

/** The ids that stand before the records, as a schema registry gave them. */
export type SchemaIds = Readonly<Record<SchemaName, number>>;

/** Without a registry of the cluster's own. They never change: they are in the log. */
export const BUILT_IN_SCHEMA_IDS: SchemaIds = {
  events: 1,
  changes: 2,
  catalog: 3,
  order: 4,
  events2: 5,
  changes2: 6,
  events3: 7,
  events4: 8,
};

export interface TopicSchema {
  readonly name: SchemaName;
  /** Namespace and name of its record, e.g. `dev.statefold.EventsRecord`: the subject under which a registry keeps it (RecordNameStrategy). */
  readonly recordName: string;
  readonly schema: object;
  /** `schema` as one line of JSON, as registries are sent it. */
  readonly text: string;
}

/** Reads the Avro schemas of the topics from `directory` (`schemas/avro`). */
export function readSchemas(directory: string): Readonly<Record<SchemaName, TopicSchema>> {
  const read = (name: SchemaName): TopicSchema => {
    const schema = JSON.parse(readFileSync(join(directory, `${name}.avsc`), 'utf8')) as {
      readonly name: string;
      readonly namespace: string;
    };
    return { name, recordName: `${schema.namespace}.${schema.name}`, schema, text: JSON.stringify(schema) };
  };
  return {
    events: read('events'),
    changes: read('changes'),
    catalog: read('catalog'),
    order: read('order'),
    events2: read('events2'),
    changes2: read('changes2'),
    events3: read('events3'),
    events4: read('events4'),
  };
}

/** The versions of a topic's schema, the first one first. */
export const versionsOf = (name: SchemaName): readonly SchemaName[] =>
  VERSIONS.find((versions) => versions.includes(name)) ?? [name];

const VERSIONS: readonly (readonly SchemaName[])[] = [
  ['events', 'events2', 'events3', 'events4'],
  ['changes', 'changes2'],
];

const OWN_NAMES = new Set([
  'null',
  'boolean',
  'int',
  'long',
  'float',
  'double',
  'bytes',
  'string',
  'record',
  'enum',
  'fixed',
  'array',
  'map',
  'error',
]);

/** An Avro schema with full names and no shorthand left: two spellings of one schema are then deeply equal (the order of members aside). */
export function canonicalSchema(schema: unknown, namespace = ''): unknown {
  if (typeof schema === 'string') return OWN_NAMES.has(schema) ? schema : fullName(schema, namespace);
  if (Array.isArray(schema)) return schema.map((branch) => canonicalSchema(branch, namespace));
  if (typeof schema !== 'object' || schema === null) return schema;
  const { namespace: own, ...rest } = schema as Readonly<Record<string, unknown>>;
  const copy: Record<string, unknown> = { ...rest };
  let inner = namespace;
  if (typeof rest['name'] === 'string') {
    const name = fullName(rest['name'], typeof own === 'string' ? own : namespace);
    copy['name'] = name;
    inner = name.slice(0, Math.max(0, name.lastIndexOf('.')));
  }
  for (const member of ['type', 'items', 'values'])
    if (member in rest) copy[member] = canonicalSchema(rest[member], inner);
  if (Array.isArray(rest['fields']))
    copy['fields'] = rest['fields'].map((field: unknown) =>
      typeof field === 'object' && field !== null && 'type' in field
        ? { ...field, type: canonicalSchema(field.type, inner) }
        : field,
    );
  // {"type": "long"} is "long"; {"type": {…}} is {…}.
  return Object.keys(copy).length === 1 && 'type' in copy ? copy['type'] : copy;
}

const fullName = (name: string, namespace: string): string =>
  name.includes('.') || namespace === '' ? name : `${namespace}.${name}`;
