// Bulk appends beside batches of 100, over 10,000 aggregates: events a second, and the service's processor time an event.
import { readFileSync } from 'node:fs';
import { API_KEY, startService, type Service } from '../support/service.js';
import { BATCH_OF_100, median, report, runLoad } from './load.js';
import { runBulk } from './bulk-load.js';

const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 3);
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 3);
const AGGREGATES = 10_000;
const cleanups: (() => void)[] = [];
const context = { after: (cleanup: () => void): void => void cleanups.push(cleanup) } as unknown as Parameters<
  typeof startService
>[0];

interface Figure {
  readonly perSecond: number;
  /** Microseconds. */
  readonly processor: number;
  readonly residentMiB: number;
}

/** User and system time of the process, seconds. */
function processorOf({ pid }: Service): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}
const residentMiB = ({ pid }: Service): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024;

async function measured(service: Service, work: () => Promise<{ events: number; seconds: number }>): Promise<Figure> {
  const before = processorOf(service);
  const { events, seconds } = await work();
  return {
    perSecond: events / seconds,
    processor: ((processorOf(service) - before) / events) * 1e6,
    residentMiB: residentMiB(service),
  };
}

const rate = (n: number): string => `${Math.round(n).toLocaleString('en')}/s`;
const micros = (n: number): string => `${n.toFixed(1)} µs`;

try {
  const service = await startService(context, { readStore: true });
  const port = Number(new URL(service.url).port);
  const batches = (clients: number): Promise<Figure> =>
    measured(service, async () => {
      const { answered, perSecond } = await runLoad({
        port,
        path: '/events/batch',
        keys: [API_KEY],
        bodies: BATCH_OF_100,
        aggregates: AGGREGATES,
        clients,
        durationMs: SECONDS * 1000,
        first: 0,
      });
      return { events: answered * 100, seconds: answered / perSecond };
    });
  const bulks = (clients: number, run: number): Promise<Figure> =>
    measured(service, () =>
      runBulk({ port, key: API_KEY, aggregates: AGGREGATES, run, clients, durationMs: SECONDS * 1000 }),
    );
  await batches(4);
  await bulks(1, 1);
  for (const clients of [1, 8]) {
    for (const run of [1, 100]) {
      const pairs: [Figure, Figure][] = [];
      for (let i = 0; i < ROUNDS; i++) pairs.push([await bulks(clients, run), await batches(clients)]);
      const of = (figure: keyof Figure): [number, number] => [
        median(pairs.map(([x]) => x[figure])),
        median(pairs.map(([, y]) => y[figure])),
      ];
      const what = run === 1 ? 'each line of another aggregate' : `${run} lines of one aggregate in a row`;
      const [a, b] = of('perSecond');
      report(
        `bulk, ${clients} connections, ${what}`,
        rate(a),
        `batches of 100 ${rate(b)}`,
        median(pairs.map(([x, y]) => x.perSecond / y.perSecond)),
        'goal 1.50',
      );
      const [c, d] = of('processor');
      report(
        '  processor time an event',
        micros(c),
        `batches of 100 ${micros(d)}`,
        median(pairs.map(([x, y]) => y.processor / x.processor)),
      );
    }
  }
  report('  memory of the service at the end', `${residentMiB(service).toFixed(0)} MiB`, '');
} finally {
  for (const cleanup of cleanups.reverse()) cleanup();
}
