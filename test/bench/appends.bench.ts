// Single appends with a bound reducer, batches, lag to WebSocket, memory: each beside its yardstick in the same run.
import { readFileSync, rmSync } from 'node:fs';
import { open } from 'lmdb';
import { AS_ADMIN, API_KEY, startService, temporaryDirectory, type Service } from '../support/service.js';
import {
  benchTenant,
  BATCH_OF_100,
  median,
  PLAIN_SINGLE,
  quantile,
  report,
  runLoad,
  SINGLE,
  startExpress,
  type Load,
  type LoadResult,
} from './load.js';
import { pushLag } from './push-lag.js';

const COUNTER = `public record Counter(long Total, int Entries);
public class CounterReducer : IReducer<Counter>
{
    public Counter? Apply(Counter? s, Event e) => new((s?.Total ?? 0) + e.Data.GetProperty("amount").GetInt64(), (s?.Entries ?? 0) + 1);
}`;
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 3);
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 3);

const cleanups: (() => void)[] = [];
const context = { after: (cleanup: () => void): void => void cleanups.push(cleanup) } as unknown as Parameters<
  typeof startService
>[0];
const port = (service: Service): number => Number(new URL(service.url).port);
const rate = (n: number): string => `${Math.round(n).toLocaleString('en')}/s`;

async function single(): Promise<void> {
  const service = await startService(context, { readStore: true });
  await service.deploy('reducers', { 'Counter.cs': COUNTER });
  const express = await startExpress();
  const base: Load = {
    port: port(service),
    path: '/events',
    keys: [API_KEY],
    bodies: SINGLE,
    aggregates: 1000,
    clients: 64,
    durationMs: SECONDS * 1000,
    first: 0,
    mustContain: '"state":{',
  };
  let first = 0;
  const ours = async (more: Partial<Load> = {}): Promise<LoadResult> => {
    const result = await runLoad({ ...base, first, ...more });
    first = result.next;
    return result;
  };
  const theirs = (more: Partial<Load> = {}): Promise<LoadResult> => runLoad({ ...base, port: express.port, ...more });
  await ours({ durationMs: 3000 });
  await theirs({ durationMs: 1000 });

  const pairs: [LoadResult, LoadResult][] = [];
  for (let i = 0; i < ROUNDS; i++) pairs.push([await ours(), await theirs()]);
  const [a, b] = [pairs.map(([x]) => x), pairs.map(([, y]) => y)];
  const now = median(a.map((x) => x.perSecond));
  report(
    'single appends with state, 64 clients',
    rate(now),
    `bare express ${rate(median(b.map((x) => x.perSecond)))}`,
    median(pairs.map(([x, y]) => x.perSecond / y.perSecond)),
    'goal 0.75',
  );
  report(
    '  p50 / p99',
    `${median(a.map((x) => x.p50)).toFixed(2)} / ${median(a.map((x) => x.p99)).toFixed(2)} ms`,
    `express ${median(b.map((x) => x.p50)).toFixed(2)} / ${median(b.map((x) => x.p99)).toFixed(2)} ms`,
    median(pairs.map(([x, y]) => x.p50 / y.p50)),
  );

  const many: [LoadResult, LoadResult][] = [];
  await ours({ aggregates: 10_000, durationMs: 2000 });
  for (let i = 0; i < ROUNDS; i++) many.push([await ours({ aggregates: 10_000 }), await ours()]);
  report(
    '  with 10 times the aggregates (10,000)',
    rate(median(many.map(([x]) => x.perSecond))),
    `with 1,000 ${rate(median(many.map(([, y]) => y.perSecond)))}`,
    median(many.map(([x, y]) => x.perSecond / y.perSecond)),
    'goal 0.90',
  );

  const keys = [API_KEY];
  for (let i = 1; i < 10; i++) {
    const apiKey = await benchTenant(service, i);
    keys.push(apiKey);
  }
  const plain: [LoadResult, LoadResult][] = [];
  const loads = { bodies: PLAIN_SINGLE, mustContain: '"version":' };
  await ours({ ...loads, keys, durationMs: 2000 });
  for (let i = 0; i < ROUNDS; i++) plain.push([await ours({ ...loads, keys }), await ours(loads)]);
  report(
    '  over 10 tenants (no reducer)',
    rate(median(plain.map(([x]) => x.perSecond))),
    `1 tenant ${rate(median(plain.map(([, y]) => y.perSecond)))}`,
    median(plain.map(([x, y]) => x.perSecond / y.perSecond)),
    'goal 0.90',
  );
  const { apiKey: wide } = (
    await service.post('/admin/tenants', { tenantId: 'bench-wide', partitions: 4 }, AS_ADMIN)
  ).json<{ apiKey: string }>();
  const parted: [LoadResult, LoadResult][] = [];
  await ours({ ...loads, keys: [wide], durationMs: 2000 });
  for (let i = 0; i < ROUNDS; i++) parted.push([await ours({ ...loads, keys: [wide] }), await ours(loads)]);
  report(
    '  1 tenant of 4 partitions (no reducer)',
    rate(median(parted.map(([x]) => x.perSecond))),
    `of 1 partition ${rate(median(parted.map(([, y]) => y.perSecond)))}`,
    median(parted.map(([x, y]) => x.perSecond / y.perSecond)),
    'goal 0.90',
  );
  await lag(service, express.port);
  express.stop();
  await service.stop();
}

async function lag(service: Service, expressPort: number): Promise<void> {
  const lags = await pushLag(service);
  const express: number[] = [];
  for (let i = 0; i < 400; i++) {
    const from = performance.now();
    await (
      await fetch(`http://127.0.0.1:${expressPort}/events`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: '{"aggregateId":"a"}',
      })
    ).text();
    if (i >= 100) express.push(performance.now() - from);
  }
  report(
    'append to WebSocket push, p50 / p99',
    `${median(lags).toFixed(2)} / ${quantile(lags, 0.99).toFixed(2)} ms`,
    `bare express p50 ${median(express).toFixed(2)} ms`,
    median(lags) / median(express),
  );
}

async function batches(): Promise<void> {
  const service = await startService(context, { readStore: true });
  const load: Load = {
    port: port(service),
    path: '/events/batch',
    keys: [API_KEY],
    bodies: BATCH_OF_100,
    aggregates: 1000,
    clients: 32,
    durationMs: SECONDS * 1000,
    first: 0,
  };
  await runLoad({ ...load, durationMs: 2000 });
  const pairs: [number, number][] = [];
  for (let i = 0; i < ROUNDS; i++)
    pairs.push([
      (await runLoad(load)).perSecond * 100,
      (await rawCommits(Buffer.byteLength(BATCH_OF_100[0] ?? ''))) * 100,
    ]);
  const [ours, raw] = [median(pairs.map(([x]) => x)), median(pairs.map(([, y]) => y))];
  report(
    'batches of 100, 32 clients, events',
    rate(ours),
    `raw lmdb group commit, same bytes ${rate(raw)}`,
    median(pairs.map(([x, y]) => x / y)),
  );
  await service.stop();
}

/** lmdb alone: 32 values of the size in a durable transaction at a time. Values a second. */
async function rawCommits(bytes: number): Promise<number> {
  const path = temporaryDirectory(context);
  const db = open<Buffer, number>({ path, encoding: 'binary', overlappingSync: false });
  const value = Buffer.alloc(bytes, 'x');
  const end = performance.now() + SECONDS * 1000;
  const started = performance.now();
  let written = 0;
  while (performance.now() < end) await Promise.all(Array.from({ length: 32 }, () => db.put(written++, value)));
  const perSecond = written / ((performance.now() - started) / 1000);
  await db.close();
  rmSync(path, { recursive: true, force: true });
  return perSecond;
}

const residentMiB = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024;

async function memory(): Promise<void> {
  const service = await startService(context, { readStore: true });
  const load: Load = {
    port: port(service),
    path: '/events',
    keys: [API_KEY],
    bodies: PLAIN_SINGLE,
    aggregates: 1000,
    clients: 64,
    durationMs: 4000,
    first: 0,
  };
  await runLoad(load);
  const before = residentMiB(service.pid);
  let next = 1_000_000;
  const target = next + 100_000;
  while (next < target)
    next = (await runLoad({ ...load, aggregates: 100_000_000, durationMs: 2000, first: next })).next;
  const grown = residentMiB(service.pid) - before;
  report(
    'memory for 100,000 more aggregates',
    `${grown.toFixed(0)} MiB`,
    `of ${before.toFixed(0)} MiB resident before`,
  );
  await service.stop();
}

try {
  await single();
  await batches();
  await memory();
} finally {
  for (const cleanup of cleanups.reverse()) cleanup();
}
