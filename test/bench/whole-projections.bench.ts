// What is done to a whole projection of many keys: how long it holds the event loop at most, and how much memory it takes meanwhile.
import { ManyKeysWorld, TENANT, wholeLife, type Seat } from '../support/many-keys-world.js';
import { anonymousBytes, watchHolds } from '../support/holds.js';
import { report } from './load.js';

/** BENCH_KEYS=n for a shorter run. */
const KEYS = Number(process.env['BENCH_KEYS'] ?? 1_000_000);
const GOAL_MS = 50;

const cleanups: (() => unknown)[] = [];
const world = new ManyKeysWorld({ after: (cleanup: () => unknown) => void cleanups.push(cleanup) });
const holds = watchHolds();

async function measured(name: string, work: () => Promise<void>): Promise<void> {
  const before = anonymousBytes();
  let peak = before;
  const sampler = setInterval(() => (peak = Math.max(peak, anonymousBytes())), 20);
  const started = performance.now();
  holds.longest();
  await work();
  const longest = holds.longest();
  clearInterval(sampler);
  report(
    `longest hold in ${name} of ${KEYS.toLocaleString('en')} keys`,
    `${longest.toFixed(1)} ms`,
    `${((performance.now() - started) / 1000).toFixed(1)} s, memory grew by ${((peak - before) / 1024 / 1024).toFixed(0)} MiB at most`,
    undefined,
    `< ${GOAL_MS} ms`,
  );
}

try {
  const seat: Seat = await world.open('store');
  world.deploy(seat, 1, 1);
  await measured('the folds', () => world.append(seat, KEYS));
  await seat.untilLive(1);
  await wholeLife(world, seat, measured);
  await measured('the removal of a tenant', async () => {
    await seat.task.close();
    await seat.store.drop(TENANT);
  });
} finally {
  holds.end();
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
}
