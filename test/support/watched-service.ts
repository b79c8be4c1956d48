// The real service, which tells how long its event loop was held, in time of a processor: at SIGUSR2 it says one line of JSON,
// `{"held":{…}}`, of the time since the last one. At SIGURG it collects its garbage and says what is left, `{"live":…}`, bytes. All else
// is as in `src/main.ts serve`, but for what WATCHED_LEAK has it keep of each append, bytes.
import { createHistogram } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { startService } from '../../src/app/service.js';
import { EventLoopHolds } from '../../src/core/event-loop.js';
import { readSettings } from '../../src/config/settings.js';
import { AppendReader } from '../../src/http/append-reader.js';
import { createLogger } from '../../src/telemetry/logger.js';
import { Metrics } from '../../src/telemetry/metrics.js';
import { threadClock, watchHolds } from './holds.js';

/** Milliseconds. Of turns of the event loop: on a busy machine much waits for a turn, and one has the work of many. */
export interface Held {
  readonly p50: number;
  readonly p99: number;
  readonly p999: number;
  readonly max: number;
  /** Of the slices of work that the service marks as such. */
  readonly slice: { readonly p999: number; readonly max: number };
}

/** Of all slices, as the service's own metric has them, but in time of a processor. */
function watchSlices() {
  const clock = threadClock();
  const slices = createHistogram({ highest: 600_000_000 });
  const { slice } = Object.getOwnPropertyDescriptors(EventLoopHolds.prototype);
  EventLoopHolds.prototype.slice = function <T>(...args: [kind: never, work: () => T]): T {
    const began = clock.now();
    try {
      return slice.value?.apply(this, args) as T;
    } finally {
      slices.record(Math.max(1, Math.round((clock.now() - began) * 1000)));
    }
  };
  return slices;
}

/** Collects what nobody holds, buffers too. */
function collector(): () => void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  // What buffers had is freed behind the collection that found them, by the next one at the latest.
  return () => [collect, collect].forEach((go) => go());
}

/** Keeps so many bytes of each append for ever, as a fault of the service would. */
function leak(bytes: number): void {
  const kept: Buffer[] = [];
  const { parse } = Object.getOwnPropertyDescriptors(AppendReader.prototype);
  AppendReader.prototype.parse = function (...args) {
    kept.push(Buffer.allocUnsafeSlow(bytes));
    return parse.value?.apply(this, args) as ReturnType<AppendReader['parse']>;
  };
}

async function serve(): Promise<void> {
  const settings = readSettings(process.env);
  const holds = watchHolds();
  const slices = watchSlices();
  const collect = collector();
  const leaked = Number(process.env['WATCHED_LEAK'] ?? 0);
  if (leaked > 0) leak(leaked);
  const service = await startService({
    settings,
    logger: createLogger({ level: settings.logLevel }),
    metrics: new Metrics(),
  });
  process.on('SIGTERM', () => void service.close().then(() => process.exit()));
  process.on('SIGUSR2', () => {
    const rounded = (ms: number): number => Math.round(ms * 10) / 10;
    const at = (percentage: number): number => rounded(holds.percentile(percentage));
    const slice = { p999: rounded(slices.percentile(99.9) / 1000), max: rounded(slices.max / 1000) };
    const held: Held = { p50: at(50), p99: at(99), p999: at(99.9), max: rounded(holds.longest()), slice };
    holds.reset();
    slices.reset();
    process.stdout.write(`${JSON.stringify({ held })}\n`);
  });
  process.on('SIGURG', () => {
    collect();
    const { heapUsed, external } = process.memoryUsage();
    process.stdout.write(`${JSON.stringify({ live: heapUsed + external })}\n`);
  });
  process.stdout.write(`Statefold listens on ${service.url}\n`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await serve();
