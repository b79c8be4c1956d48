// A hundred tenants' runners on one machine: what a process takes, what starts cost, appends with state while there are fewer places
// than tenants, beside the same load with a place for each; and how long compilations take.
import { join } from 'node:path';
import { PackedSources } from '../../src/code-host/packed-sources.js';
import { DotnetCodeHost } from '../../src/code-host/dotnet/dotnet-code-host.js';
import { silentLogger } from '../../src/core/logger.js';
import { Api } from '../support/api.js';
import { AS_ADMIN, ROOT, startService, temporaryDirectory, type Service } from '../support/service.js';
import { benchTenant, median, quantile, report, runLoad, type LoadResult } from './load.js';

const TENANTS = 100;
const PLACES = 20;
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 8);
/** Appends a second of all tenants together: one process has to keep up with it. */
const PER_SECOND = 40;

const COUNTER = (n: number): string => `public record Counter${n}(long Total, int Entries);
[AggregateType("counter")] public class Counter${n}Reducer : IReducer<Counter${n}>
{
    public Counter${n}? Apply(Counter${n}? s, Event e) => new((s?.Total ?? 0) + e.Data.GetProperty("amount").GetInt64(), (s?.Entries ?? 0) + 1);
}`;
const BODIES = [
  '{"aggregateId":"counter-$AGGREGATE","eventType":"Counted","data":{"amount":7,"note":"a note","reference":"ref-$I"}}',
];

const cleanups: (() => void)[] = [];
const context = { after: (cleanup: () => void): void => void cleanups.push(cleanup) } as unknown as Parameters<
  typeof startService
>[0];
const ms = (n: number): string => (n < 10 ? n.toFixed(1) : String(Math.round(n)));

/** Nine in ten appends are of fifteen tenants, in turn; the others of all. */
const mostlyFew = (keys: readonly string[]): string[] =>
  Array.from({ length: 1000 }, (_, i) => keys[i % 10 === 9 ? Math.floor(i / 10) % keys.length : i % 15] ?? '');

async function figure(service: Service, name: string): Promise<number> {
  const { text } = await service.get('/metrics', AS_ADMIN);
  return Number(new RegExp(`^statefold_${name} (\\S+)$`, 'm').exec(text)?.[1] ?? 0);
}
const starts = (service: Service): Promise<number> =>
  figure(service, 'code_host_process_starts_total\\{role="runner"\\}');

async function tenantsUnder(places: number): Promise<{
  readonly few: LoadResult;
  readonly all: LoadResult;
  readonly bytes: number;
  readonly runners: number;
  readonly startsPerSecond: number;
}> {
  const service = await startService(context, {
    readStore: true,
    env: {
      RUNNERS_MAX: String(places),
      RUNNERS_MEMORY_BYTES: String(16 * 1024 ** 3),
      FOLD_DEADLINE_MS: '60000',
      ANSWER_DEADLINE_MS: '60000',
    },
  });
  const keys: string[] = [];
  for (let i = 0; i < TENANTS; i++) {
    const apiKey = await benchTenant(service, i);
    keys.push(apiKey);
    await new Api(service, apiKey).deployReducer({ 'Counter.cs': COUNTER(i) });
  }
  const base = {
    port: Number(new URL(service.url).port),
    path: '/events',
    bodies: BODIES,
    aggregates: 20,
    clients: 64,
    first: 0,
    mustContain: '"state":{',
  };
  // Each has its process once.
  await runLoad({ ...base, keys, clients: 8, durationMs: SECONDS * 1000 });
  const few = await runLoad({ ...base, keys: mostlyFew(keys), perSecond: PER_SECOND, durationMs: SECONDS * 1000 });
  const [before, began] = [await starts(service), performance.now()];
  // As fast as it goes, each append of the tenant that had none for the longest time.
  const all = await runLoad({ ...base, keys, clients: 8, durationMs: SECONDS * 1000 });
  const startsPerSecond = ((await starts(service)) - before) / ((performance.now() - began) / 1000);
  const [bytes, runners] = [await figure(service, 'runners_resident_bytes'), await figure(service, 'runners')];
  await service.stop();
  return { few, all, bytes, runners, startsPerSecond };
}

async function compilations(): Promise<void> {
  const host = new DotnetCodeHost({
    dotnet: 'dotnet',
    searchPath: process.env['PATH'] ?? '',
    assembliesDir: join(ROOT, 'dist', 'dotnet'),
    workDir: temporaryDirectory(context),
    logger: silentLogger,
  });
  const sources = await PackedSources.pack([
    { path: 'Reducer.cs', text: COUNTER(0) },
    ...Array.from({ length: 9 }, (_, i) => ({
      path: `More${i}.cs`,
      text: `namespace More${i}; public sealed record Line(string Sku, int Count, decimal Price) { public decimal Sum => Count * Price; } public static class Lines { public static decimal Total(IEnumerable<Line> lines) => lines.Where(l => l.Count > 0).Sum(l => l.Sum); }`,
    })),
  ]);
  const times: number[] = [];
  for (let i = 0; i < 21; i++) {
    const began = performance.now();
    const result = await host.compile({ kind: 'reducer', sources });
    if (!result.ok) throw new Error(result.compilationError);
    times.push(performance.now() - began);
  }
  await host.close();
  report(
    'compilation of ten files, the first after a start',
    `${ms(times[0] ?? 0)} ms`,
    'goal 2,000 ms',
    (times[0] ?? 0) / 2000,
    'goal < 1',
  );
  report(
    '  later ones, median / p95',
    `${ms(median(times.slice(1)))} / ${ms(quantile(times.slice(1), 0.95))} ms`,
    'goal 150 ms',
    median(times.slice(1)) / 150,
    'goal < 1',
  );
}

try {
  await compilations();
  const bounded = await tenantsUnder(PLACES);
  const free = await tenantsUnder(TENANTS);
  const pair = ({ p50, p99 }: LoadResult): string => `${ms(p50)} / ${ms(p99)} ms`;
  report(
    `${TENANTS} tenants, memory of a runner`,
    `${Math.round(free.bytes / free.runners / 1024 / 1024)} MiB`,
    `${PLACES} of them ${Math.round(bounded.bytes / 1024 / 1024)} MiB, ${free.runners} of them ${Math.round(free.bytes / 1024 / 1024)} MiB`,
    bounded.bytes / free.bytes,
  );
  report(
    `  ${PER_SECOND} appends/s, 90 % of 15 tenants: p50 / p99`,
    pair(bounded.few),
    `with a place for each ${pair(free.few)}`,
    bounded.few.p50 / free.few.p50,
  );
  report(
    '  each of another tenant, 8 clients: p50 / p99',
    pair(bounded.all),
    `with a place for each ${pair(free.all)}`,
  );
  report(
    '  runners started a second',
    bounded.startsPerSecond.toFixed(1),
    `${Math.round(bounded.all.perSecond)} appends/s`,
  );
} finally {
  for (const cleanup of cleanups.reverse()) cleanup();
}
