// Bulk appends beside requests of 100 events, over 10,000 aggregates: events a second, and the service's processor time an event.
import { readFileSync } from 'node:fs';
import { API_KEY, startService, type Service } from '../support/service.js';
import { BATCH_OF_100, median, report, runLoad, TRANSACTION_OF_100 } from './load.js';
import { runBulk } from './bulk-load.js';

const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 3);
const SECONDS = Number(process.env['BENCH_SECONDS'] ?? 3);
const AGGREGATES = 10_000;
const cleanups: (() => void)[] = [];
const context = { after: (cleanup: () => void): void => void cleanups.push(cleanup) } as unknown as Parameters<
  typeof startService
>[0];

/** How a producer may send its events. */
interface Way {
  readonly name: string;
  run(clients: number): Promise<Figure>;
}

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
  const requests = (path: string, bodies: readonly string[], events: number, aggregates: number): Way => ({
    run: (clients) =>
      measured(service, async () => {
        const load = { port, path, keys: [API_KEY], bodies, aggregates, clients, durationMs: SECONDS * 1000, first: 0 };
        const { answered, perSecond } = await runLoad(load);
        return { events: answered * events, seconds: answered / perSecond };
      }),
    name: path,
  });
  const batches = requests('/events/batch', BATCH_OF_100, 100, AGGREGATES);
  const transactions = requests('/events/transaction', TRANSACTION_OF_100, 100, AGGREGATES / 100);
  const bulk = (run: number): Way => ({
    run: (clients) =>
      measured(service, () =>
        runBulk({ port, key: API_KEY, aggregates: AGGREGATES, run, clients, durationMs: SECONDS * 1000 }),
      ),
    name: run === 1 ? 'each line of another aggregate' : `${run} lines of one aggregate in a row`,
  });
  for (const way of [batches, transactions, bulk(1)]) await way.run(4);
  for (const clients of [1, 8]) {
    // The same events: a hundred of one aggregate, and one each of a hundred.
    for (const [ours, theirs, goal] of [
      [bulk(100), batches, 'goal 1.50'],
      [bulk(1), transactions, 'goal 1.00'],
      [bulk(1), batches, ''],
    ] as const) {
      const pairs: [Figure, Figure][] = [];
      for (let i = 0; i < ROUNDS; i++) pairs.push([await ours.run(clients), await theirs.run(clients)]);
      const of = (figure: keyof Figure): [number, number] => [
        median(pairs.map(([x]) => x[figure])),
        median(pairs.map(([, y]) => y[figure])),
      ];
      const [a, b] = of('perSecond');
      const ratio = median(pairs.map(([x, y]) => x.perSecond / y.perSecond));
      report(`bulk, ${clients} connections, ${ours.name}`, rate(a), `${theirs.name} ${rate(b)}`, ratio, goal);
      const [c, d] = of('processor');
      const cheaper = median(pairs.map(([x, y]) => y.processor / x.processor));
      report('  processor time an event', micros(c), `${theirs.name} ${micros(d)}`, cheaper);
    }
  }
  report('  memory of the service at the end', `${residentMiB(service).toFixed(0)} MiB`, '');
} finally {
  for (const cleanup of cleanups.reverse()) cleanup();
}
