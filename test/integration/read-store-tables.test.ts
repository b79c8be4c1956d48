// The tables as the settings want them: how long rows are kept, and on which servers.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { KeptDays } from '../../src/read-store/clickhouse/table-definitions.js';
import { TableDefinitions, TABLES } from '../../src/read-store/clickhouse/table-definitions.js';
import type { ClickHouseReadStore } from '../../src/read-store/clickhouse/clickhouse-read-store.js';
import type { EventRow, NotificationRow } from '../../src/read-store/read-store.js';
import { until, openStore, SCHEMAS, startEngine, suiteCleanUp } from './read-store-fixture.js';

const DAY_MS = 24 * 60 * 60 * 1000;
const state = Buffer.from('{}');

const event = (version: number, days: number): EventRow => ({
  tenant: 't',
  aggregate_type: 'a',
  aggregate_id: 'a-1',
  version,
  event_id: `e${version}`,
  event_type: 'Happened',
  timestamp: Date.now() - days * DAY_MS,
  correlation_id: '',
  causation_id: '',
  data: state,
  metadata: null,
  log_offset: version,
});
const notification = (sequence: number, days: number): NotificationRow => ({
  tenant: 't',
  projection_id: 'p',
  class_name: 'P',
  key: 'k',
  state,
  sequence,
  last_modified: Date.now() - days * DAY_MS,
  aggregate_id: 'a-1',
  aggregate_type: 'a',
  version: sequence,
  event_id: `e${sequence}`,
  cause: '',
});

describe('the tables of the read store', () => {
  const cleanUp = suiteCleanUp();

  it('drop rows that are older than the settings say, and keep states; another setting holds for tables that are there', async () => {
    const engine = startEngine(cleanUp);
    const opened: ClickHouseReadStore[] = [];
    const open = async (keptDays: KeptDays): Promise<ClickHouseReadStore> => {
      const store = openStore(cleanUp, engine, { keptDays });
      opened.push(store);
      await until('the engine is there', () => store.ping());
      await store.ensureSchema();
      return store;
    };
    const numbers = async (store: ClickHouseReadStore, sql: string): Promise<number[]> => {
      let text = '';
      for await (const chunk of await store.query(sql, 'TSV')) text += String(chunk);
      return text.trim().split('\n').filter(Boolean).map(Number);
    };
    const left = async (store: ClickHouseReadStore): Promise<readonly (readonly number[])[]> => {
      for (const table of ['events', 'notifications'])
        await numbers(store, `OPTIMIZE TABLE ${table} FINAL SETTINGS optimize_skip_merged_partitions = 0`);
      return [
        await numbers(store, 'SELECT version FROM events ORDER BY version'),
        await numbers(store, 'SELECT sequence FROM notifications ORDER BY sequence'),
      ];
    };
    const ever = await open({});
    await ever.insert({ table: 'events', rows: [event(1, 100), event(2, 20), event(3, 0)] });
    await ever.insert({
      table: 'notifications',
      rows: [notification(1, 100), notification(2, 20), notification(3, 0)],
    });
    assert.deepEqual(await left(ever), [
      [1, 2, 3],
      [1, 2, 3],
    ]);

    const notifications = await open({ notifications: 30 });
    assert.deepEqual(await left(notifications), [
      [1, 2, 3],
      [2, 3],
    ]);

    const both = await open({ events: 30, notifications: 10 });
    await both.ensureSchema();
    assert.deepEqual(await left(both), [[2, 3], [3]]);

    const again = await open({});
    await again.insert({ table: 'events', rows: [event(4, 200)] });
    assert.deepEqual(await left(again), [[2, 3, 4], [3]]);
    assert.deepEqual(await numbers(again, "SELECT count() FROM system.tables WHERE engine_full LIKE '% TTL %'"), [0]);
    await again.insert({
      table: 'projection_states',
      rows: [{ tenant: 't', projection_id: 'p', class_name: 'P', key: 'k', state, sequence: 1, last_modified: 0 }],
    });
    assert.deepEqual(await numbers(again, 'SELECT count() FROM projection_states FINAL'), [1]);
  });

  it('of an earlier version get the columns that they lack, with the rows that they have; of another type they are refused', async () => {
    const store = openStore(cleanUp, startEngine(cleanUp));
    const run = async (sql: string): Promise<string> => {
      let text = '';
      for await (const chunk of await store.query(sql, 'TSV')) text += String(chunk);
      return text.trim();
    };
    await until('the engine is there', () => store.ping());
    await store.ensureSchema();
    const wanted = await run('SELECT name, type, default_expression FROM system.columns WHERE table = $$events$$');
    await run(
      'ALTER TABLE events DROP COLUMN causation_id, DROP COLUMN metadata, ADD COLUMN of_the_next UInt8 DEFAULT 7',
    );
    await run(`INSERT INTO events (tenant, aggregate_id, version, data_raw) VALUES ('t', 'a-1', 1, '{"n":1}')`);
    await store.ensureSchema();
    await store.insert({ table: 'events', rows: [event(2, 0)] });
    const rows = 'SELECT version, causation_id, metadata, of_the_next FROM events ORDER BY version';
    assert.equal(await run(rows), '1\t\t{}\t7\n2\t\t{}\t7');
    await run('ALTER TABLE events DROP COLUMN of_the_next');
    const now = await run('SELECT name, type, default_expression FROM system.columns WHERE table = $$events$$');
    assert.equal(now, wanted);

    await run(
      'ALTER TABLE events MODIFY COLUMN log_offset UInt64 DEFAULT 0, MODIFY COLUMN correlation_id Nullable(String)',
    );
    await assert.rejects(store.ensureSchema(), {
      message: /events is of another version: the column correlation_id is Nullable\(String\), and should be String/,
    });
  });

  it('are replicas on a cluster, in statements that ClickHouse reads', async () => {
    const definitions = new TableDefinitions({
      directory: SCHEMAS,
      cluster: 'analysts',
      keptDays: { events: 30, notifications: 7 },
    });
    const store = openStore(cleanUp, startEngine(cleanUp));
    await until('the engine is there', () => store.ping());
    await store.ensureSchema();
    const changed = definitions.changeOfTtl('events', 'ReplicatedReplacingMergeTree(log_offset) ORDER BY (tenant)');
    assert.equal(
      changed,
      'ALTER TABLE events ON CLUSTER `analysts` MODIFY TTL toDateTime(timestamp) + toIntervalDay(30)',
    );
    const statements = [
      definitions.createDatabase().replace('{name:Identifier}', 'statefold'),
      ...TABLES.map((table) => definitions.create(table)),
      changed,
    ];
    for (const [i, statement] of statements.entries()) {
      let read = '';
      const query = `SELECT formatQuerySingleLine('${statement.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}')`;
      for await (const chunk of await store.query(query, 'TSVRaw')) read += String(chunk);
      assert.match(read, / ON CLUSTER analysts\s/);
      if (i > 0 && i <= TABLES.length)
        assert.match(read, /ENGINE = ReplicatedReplacingMergeTree\((log_offset|sequence)\) /);
      assert.equal(/ TTL /.test(read), / (events|notifications) ON /.test(read), read);
    }
  });

  it('on one server are as they were', () => {
    const definitions = new TableDefinitions({ directory: SCHEMAS });
    for (const table of TABLES) {
      assert.match(definitions.create(table), new RegExp(`^CREATE TABLE IF NOT EXISTS ${table}\n`));
      assert.doesNotMatch(definitions.create(table), /TTL|Replicated|ON CLUSTER/);
      assert.equal(
        definitions.changeOfTtl(table, 'ReplacingMergeTree ORDER BY (tenant) SETTINGS index_granularity = 8192'),
        undefined,
      );
    }
    const engine =
      'ReplacingMergeTree(log_offset) ORDER BY tenant TTL toDateTime(timestamp) + toIntervalDay(7) SETTINGS a = 1';
    assert.equal(definitions.changeOfTtl('events', engine), 'ALTER TABLE events REMOVE TTL');
  });
});
