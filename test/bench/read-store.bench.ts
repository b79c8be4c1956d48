/**
 * Rows a second through the store's own path (RowBinary over HTTP into the child, the JSON column derived there) ÷ the same
 * rows as JSONEachRow inserted into chdb in this process, into the same table. Side by side, alternating, in one run.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Session } from 'chdb';
import { silentLogger } from '../../src/core/logger.js';
import { ClickHouseReadStore } from '../../src/read-store/clickhouse/clickhouse-read-store.js';
import { EmbeddedEngine } from '../../src/read-store/embedded/embedded-engine.js';
import type { EventRow } from '../../src/read-store/read-store.js';

const ROWS = 10_000;
const BLOCKS = 10;
const schemas = join(process.cwd(), 'schemas', 'clickhouse');
const directory = mkdtempSync(join(tmpdir(), 'statefold-bench-'));
const flights = JSON.parse(
  readFileSync(join(process.cwd(), 'node_modules', 'vega-datasets', 'data', 'flights-20k.json'), 'utf8'),
) as { origin: string; destination: string }[];

const rows: EventRow[] = flights.slice(0, ROWS).map((flight, i) => ({
  tenant: 'default',
  aggregate_type: 'route',
  aggregate_id: `route-${flight.origin}-${flight.destination}`,
  version: i + 1,
  event_id: `0199aaaa-bbbb-7ccc-8ddd-${String(i).padStart(12, '0')}`,
  event_type: 'flown',
  timestamp: 1_700_000_000_000 + i,
  correlation_id: '',
  causation_id: '',
  data: Buffer.from(JSON.stringify(flight)),
  metadata: null,
  log_offset: i,
}));
const lines = Buffer.from(
  rows
    .map(
      ({ data, metadata, ...row }) =>
        `${JSON.stringify({ ...row, data_raw: data.toString(), metadata_raw: metadata })}\n`,
    )
    .join(''),
);

const engine = new EmbeddedEngine({
  directory: join(directory, 'child'),
  port: 0,
  password: undefined,
  memoryLimitBytes: 1024 ** 3,
  logger: silentLogger,
});
engine.start();
await engine.ready(60_000);
const store = new ClickHouseReadStore({
  endpoint: () => engine.endpoint(),
  schemaDirectory: schemas,
  logger: silentLogger,
});
await store.ensureSchema();
const session = new Session(join(directory, 'raw'));
await session.queryAsync(readFileSync(join(schemas, 'events.sql'), 'utf8'));

const spent = { store: 0, raw: 0 };
const timed = async (what: 'store' | 'raw', work: () => Promise<unknown>, counts: boolean): Promise<void> => {
  const started = performance.now();
  await work();
  if (counts) spent[what] += performance.now() - started;
};
for (let block = -2; block < BLOCKS; block++) {
  await timed('store', () => store.insert({ table: 'events', rows }), block >= 0);
  await timed('raw', () => session.insert({ table: 'events', values: lines, format: 'JSONEachRow' }), block >= 0);
}
const memory = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${engine.pid ?? 0}/status`, 'utf8'))?.[1] ?? 0) / 1024;
const rate = (milliseconds: number): string => Math.round((ROWS * BLOCKS * 1000) / milliseconds).toLocaleString('en');
console.log(
  `rows a second into ClickHouse: ${rate(spent.store)} over HTTP, ${rate(spent.raw)} raw in process: ratio ${(spent.raw / spent.store).toFixed(2)}; the child holds ${memory.toFixed(0)} MiB`,
);
session.close();
await store.close();
await engine.stop();
rmSync(directory, { recursive: true, force: true });
