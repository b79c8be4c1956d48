import { describe, it } from 'node:test';
import { silentLogger } from '../../src/core/logger.js';
import { ClickHouseReadStore } from '../../src/read-store/clickhouse/clickhouse-read-store.js';
import { readStoreContract, type ReadStoreUnderTest } from '../contracts/read-store.contract.js';
import { openStore, SCHEMAS, readyEngine, suiteCleanUp } from './read-store-fixture.js';

const once = (make: () => Promise<ReadStoreUnderTest>): (() => Promise<ReadStoreUnderTest>) => {
  let made: Promise<ReadStoreUnderTest> | undefined;
  return () => (made ??= make());
};

describe('the embedded engine', () => {
  const cleanUp = suiteCleanUp();
  readStoreContract(
    'embedded',
    once(async () => {
      let rejections = 0;
      const engine = await readyEngine(cleanUp);
      const store = openStore(cleanUp, engine, { onRowRejected: () => rejections++ });
      await store.ensureSchema();
      return { store, rejections: () => rejections };
    }),
  );
});

const server = process.env['CLICKHOUSE_URL'];
describe('a ClickHouse server (CLICKHOUSE_URL)', () => {
  if (server === undefined) {
    void it.skip('passes the contract of the read store: CLICKHOUSE_URL is not set');
    return;
  }
  const cleanUp = suiteCleanUp();
  readStoreContract(
    'server',
    once(async () => {
      let rejections = 0;
      const url = new URL(server);
      const endpoint = {
        url: url.origin,
        user: decodeURIComponent(url.username) || 'default',
        password: decodeURIComponent(url.password),
        database: `statefold_test_${Date.now()}`,
      };
      const store = new ClickHouseReadStore({
        endpoint: () => endpoint,
        schemaDirectory: SCHEMAS,
        logger: silentLogger,
        onRowRejected: () => rejections++,
      });
      cleanUp.after(async () => {
        for await (const _ of await store.query(`DROP DATABASE IF EXISTS ${endpoint.database}`, 'TSV'));
        await store.close();
      });
      await store.ensureSchema();
      return { store, rejections: () => rejections };
    }),
  );
});
