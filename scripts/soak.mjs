// `npm run soak`: real processes under load for SOAK_MINUTES (4), then what must hold: flat memory, a free event loop, no lag, nothing
// lost. `SOAK_AGGREGATES=1000000 SOAK_TENANTS=1000 SOAK_PROJECTIONS=100 SOAK_MINUTES=60` is the full size; with KAFKA_HOME or
// KAFKA_BROKERS on Kafka.
import { join } from 'node:path';
import { fail, ROOT, run, setup } from './setup.mjs';

await setup().catch(fail);
await run('soak', process.execPath, ['--max-old-space-size=8192', join(ROOT, 'dist', 'test', 'soak', 'soak.js')]).catch(
  fail,
);
