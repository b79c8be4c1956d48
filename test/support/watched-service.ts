// The real service, which tells how long its event loop was held, in time of a processor: at SIGUSR2 it says one line of JSON,
// `{"held":{…}}`, of the time since the last one. All else is as in `src/main.ts serve`.
import { fileURLToPath } from 'node:url';
import { startService } from '../../src/app/service.js';
import { readSettings } from '../../src/config/settings.js';
import { createLogger } from '../../src/telemetry/logger.js';
import { Metrics } from '../../src/telemetry/metrics.js';
import { watchHolds } from './holds.js';

/** Milliseconds. */
export interface Held {
  readonly p50: number;
  readonly p99: number;
  readonly p999: number;
  readonly max: number;
}

async function serve(): Promise<void> {
  const settings = readSettings(process.env);
  const holds = watchHolds();
  const service = await startService({
    settings,
    logger: createLogger({ level: settings.logLevel }),
    metrics: new Metrics(),
  });
  process.on('SIGTERM', () => void service.close().then(() => process.exit()));
  process.on('SIGUSR2', () => {
    const at = (percentage: number): number => Math.round(holds.percentile(percentage) * 10) / 10;
    const max = Math.round(holds.longest() * 10) / 10;
    const held: Held = { p50: at(50), p99: at(99), p999: at(99.9), max };
    holds.reset();
    process.stdout.write(`${JSON.stringify({ held })}\n`);
  });
  process.stdout.write(`Statefold listens on ${service.url}\n`);
}

/** The compiled entry, for whoever starts it. */
export const WATCHED_SERVICE = fileURLToPath(import.meta.url);

if (process.argv[1] === WATCHED_SERVICE) await serve();
