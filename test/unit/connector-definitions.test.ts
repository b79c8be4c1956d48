// The definitions of connectors/ against what they stand between: the Avro schemas of the topics and the tables that rows land in.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { ROOT } from '../support/service.js';

interface Definition {
  readonly name: string;
  readonly config: Readonly<Record<string, string>>;
}
interface AvroField {
  readonly name: string;
  readonly type: unknown;
}

const read = (...path: string[]): string => readFileSync(join(ROOT, ...path), 'utf8');

/** What ClickHouse's connector (v1.5.0) says it knows, of its own settings. */
const CLICKHOUSE = new Set([
  'hostname',
  'port',
  'ssl',
  'database',
  'username',
  'password',
  'topic2TableMap',
  'exactlyOnce',
  'ignorePartitionsWhenBatching',
]);
/** Of Kafka Connect itself. */
const CONNECT =
  /^(connector\.class|tasks\.max|topics|key\.converter|value\.converter(\..+)?|predicates(\..+)?|transforms(\..+)?|errors\.(tolerance|retry\.timeout|deadletterqueue\.topic\.name|deadletterqueue\.topic\.replication\.factor|deadletterqueue\.context\.headers\.enable|log\.enable|log\.include\.messages))$/;

/** Paths of a record as Connect flattens it: `body.Commit.aggregateId`. Arrays and optional values are leaves. */
function paths(fields: readonly AvroField[], prefix = ''): string[] {
  return fields.flatMap(({ name, type }) => {
    const records = (Array.isArray(type) ? type : []).filter(
      (branch): branch is { name: string; fields: AvroField[] } =>
        typeof branch === 'object' && branch !== null && 'fields' in branch,
    );
    return records.length === 0
      ? [`${prefix}${name}`]
      : records.flatMap((record) => paths(record.fields, `${prefix}${name}.${record.name}.`));
  });
}

/** The last versions of their schemas, which have all fields of those before. */
const LATEST: Readonly<Record<string, string>> = { events: 'events4', changes: 'changes2' };

for (const kind of ['events', 'changes'])
  describe(`connectors/${kind}.json`, () => {
    const { name, config } = JSON.parse(read('connectors', `${kind}.json`)) as Definition;
    const list = (key: string): string[] => (config[key] ?? '').split(',').filter((item) => item !== '');

    it('has settings that Kafka Connect and the connector know', () => {
      assert.equal(name, `statefold-{{tenant}}-${kind}`);
      for (const key of Object.keys(config)) assert.ok(CLICKHOUSE.has(key) || CONNECT.test(key), key);
      for (const key of CLICKHOUSE) assert.ok(key in config, key);
      for (const transform of list('transforms'))
        assert.match(
          config[`transforms.${transform}.type`] ?? '',
          /^org\.apache\.kafka\.connect\.transforms\.\w+(\$Value)?$/,
        );
    });

    it('takes fields that records have to columns that the table has', () => {
      const known = new Set(
        paths(
          (
            JSON.parse(read('schemas', 'avro', `${LATEST[kind] ?? ''}.avsc`)) as {
              fields: AvroField[];
            }
          ).fields,
        ),
      );
      const included = list('transforms.columns.include');
      for (const path of included) assert.ok(known.has(path), `${path} is no field of ${kind}.avsc`);
      const renames = new Map(list('transforms.columns.renames').map((pair) => pair.split(':') as [string, string]));
      for (const path of renames.keys()) assert.ok(included.includes(path), `${path} is renamed, and left out`);
      const place = Object.entries(config).flatMap(([key, value]) =>
        /^transforms\.place\.\w+\.field$/.test(key) ? value.replace(/!$/, '') : [],
      );
      const landed = [...included.map((path) => renames.get(path) ?? path), ...place].sort();
      const table = read('connectors', 'clickhouse', `${kind}_landed.sql`);
      const columns = [...table.slice(table.indexOf('('), table.indexOf('ENGINE')).matchAll(/^ {4}(\w+) /gm)]
        .map(([, column]) => column ?? '')
        .sort();
      assert.deepEqual(landed, columns);
      assert.ok(
        config['topic2TableMap']?.endsWith(`=statefold_${kind}_landed`) && table.includes(`statefold_${kind}_landed`),
      );
      // What a claim does not have must have a default: the connector writes null into no other column.
      const always = new Set(['epoch', 'owner', ...place]);
      for (const [, column = '', type = ''] of table
        .slice(0, table.indexOf('ENGINE'))
        .matchAll(/^ {4}(\w+) +(.+?),?$/gm))
        assert.ok(always.has(column) || /^Nullable\(| DEFAULT /.test(type), `${column} has no value in a claim`);
    });
  });
