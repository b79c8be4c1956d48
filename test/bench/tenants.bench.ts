// A thousand tenants on one Kafka: what making them takes, what they cost while nobody uses them, how soon one is there that
// was cold, and what appends over all of them cost beside appends to one.
import { readFileSync } from 'node:fs';
import { processorMsOf } from '../../src/jail/process-usage.js';
import { childrenOf } from '../support/load-world.js';
import { AS_ADMIN, API_KEY, startService, temporaryDirectory, type Service } from '../support/service.js';
import { brokersOfThisRun } from './brokers.js';
import { median, PLAIN_SINGLE, quantile, report, runLoad, type Load } from './load.js';

/** BENCH_TENANTS=n for a shorter run. */
const TENANTS = Number(process.env['BENCH_TENANTS'] ?? 1000);
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 3);
const QUIET_MS = 10_000;
const HEAP = ['-Xms2g', '-Xmx2g'];
const PREFIX = `tenants${process.pid}`;

const cleanups: (() => Promise<unknown> | void)[] = [];
const context = { after: (cleanup: () => void): void => void cleanups.push(cleanup) } as unknown as Parameters<
  typeof startService
>[0];
const shown = TENANTS.toLocaleString('en');
const ms = (value: number): string => `${value.toFixed(value < 10 ? 2 : 0)} ms`;

/** Seconds of processor time of the process so far. */
const cpuOf = (pid: number): number => (processorMsOf(pid) ?? NaN) / 1000;

const residentMiB = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024;

/** Runs the work over the items, so many at a time; gives how long each took, milliseconds. */
async function timed<T>(items: readonly T[], atATime: number, work: (item: T) => Promise<void>): Promise<number[]> {
  const times: number[] = [];
  let next = 0;
  await Promise.all(
    Array.from({ length: atATime }, async () => {
      for (let item = items[next++]; item !== undefined; item = items[next++]) {
        const started = performance.now();
        await work(item);
        times.push(performance.now() - started);
      }
    }),
  );
  return times;
}

async function make(service: Service): Promise<readonly string[]> {
  const keys: string[] = [];
  const started = performance.now();
  const times = await timed(
    Array.from({ length: TENANTS }, (_, i) => `many-${i}`),
    8,
    async (tenantId) => {
      const answer = await service.post('/admin/tenants', { tenantId, name: 'bench' }, AS_ADMIN);
      if (answer.status !== 201) throw new Error(answer.text);
      keys.push(answer.json<{ apiKey: string }>().apiKey);
    },
  );
  report(
    `${shown} tenants made, 8 at a time`,
    `${((performance.now() - started) / 1000).toFixed(1)} s`,
    `p99 ${ms(quantile(times, 0.99))}`,
  );
  return keys;
}

/** The share of one core that the process takes while nobody asks for anything. */
async function quiet(pid: number): Promise<number> {
  const before = cpuOf(pid);
  const started = performance.now();
  await new Promise((resolve) => setTimeout(resolve, QUIET_MS));
  return (cpuOf(pid) - before) / ((performance.now() - started) / 1000);
}

const firstAppend =
  (service: Service) =>
  async (key: string): Promise<void> => {
    const answer = await service.post(
      '/events',
      { aggregateId: 'plain-first', eventType: 'Counted', data: { amount: 1 } },
      { key },
    );
    if (answer.status !== 201) throw new Error(answer.text);
  };

async function measure(brokers: readonly string[]): Promise<void> {
  const dataDirectory = temporaryDirectory(context);
  const options = { dataDirectory, env: { KAFKA_BROKERS: brokers.join(','), KAFKA_TOPIC_PREFIX: PREFIX } };
  let service = await startService(context, { readStore: true, ...options });
  const alone = residentMiB(service.pid);
  const keys = await make(service);
  const activation = await timed(keys, 16, firstAppend(service));
  report(
    '  first append to each, 16 at a time, p50 / p99',
    `${ms(quantile(activation, 0.5))} / ${ms(quantile(activation, 0.99))}`,
    'topics made, partition claimed, appended',
  );
  report(
    '  memory with all of them open',
    `${residentMiB(service.pid).toFixed(0)} MiB`,
    `before ${alone.toFixed(0)} MiB`,
  );
  report('  one core, while all are open and nobody asks', `${(100 * (await quiet(service.pid))).toFixed(1)} %`, '');

  const load: Load = {
    port: Number(new URL(service.url).port),
    path: '/events',
    keys,
    bodies: PLAIN_SINGLE,
    aggregates: 1000,
    clients: 64,
    durationMs: 4000,
    first: 0,
  };
  // Each round is of warm code.
  await runLoad(load);
  const over: number[][] = [];
  for (let i = 0; i < ROUNDS; i++)
    over.push([(await runLoad(load)).perSecond, (await runLoad({ ...load, keys: [API_KEY] })).perSecond]);
  const [all = 0, one = 0] = [median(over.map(([a = 0]) => a)), median(over.map(([, b = 0]) => b))];
  report(
    `  single appends over ${shown} tenants, 64 clients`,
    `${Math.round(all).toLocaleString('en')}/s`,
    `1 tenant ${Math.round(one).toLocaleString('en')}/s`,
    median(over.map(([a = 0, b = 1]) => a / b)),
  );

  await service.stop();
  const started = performance.now();
  service = await startService(context, { readStore: true, ...options });
  report(
    `  start of a process that serves all of them`,
    ms(performance.now() - started),
    'to its first answer; none is opened yet',
  );
  await quiet(service.pid); // the read store comes up
  report(
    '  one core, while none is open',
    `${(100 * (await quiet(service.pid))).toFixed(1)} %`,
    `${childrenOf(service.pid).length} children, ${residentMiB(service.pid).toFixed(0)} MiB`,
  );
  const again = await timed(keys, 16, firstAppend(service));
  report(
    '  first append to each after the start, p50 / p99',
    `${ms(quantile(again, 0.5))} / ${ms(quantile(again, 0.99))}`,
    'a tail read, partition claimed, appended',
  );
  await service.stop();
}

try {
  const brokers = await brokersOfThisRun(cleanups, HEAP);
  if (brokers === undefined)
    process.stdout.write('not run: neither KAFKA_HOME (a Kafka release) nor KAFKA_BROKERS (one that runs) is set\n');
  else await measure(brokers);
} finally {
  for (const cleanup of cleanups.reverse()) await cleanup();
}
