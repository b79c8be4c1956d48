// A takeover by a machine that has nothing: all events folded, beside a snapshot and the tail. And what writing snapshots costs appends.
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { KafkaLog } from '../../src/log/kafka/kafka-log.js';
import type { Log } from '../../src/log/log.js';
import type { Manifest } from '../../src/snapshots/snapshot-format.js';
import { writeSnapshot } from '../../src/snapshots/snapshot-writer.js';
import type { TenantDefinitions } from '../../src/tenancy/task-options.js';
import type { TenantTask } from '../../src/tenancy/tenant-task.js';
import { snapshotsTopicSpec } from '../../src/log/topics.js';
import { temporaryDirectory, until } from '../support/service.js';
import { append, bank, Machine, TENANT } from '../support/snapshot-world.js';
import { brokersOfThisRun } from './brokers.js';
import { median, report } from './load.js';

/** BENCH_EVENTS=n for a shorter run. */
const EVENTS = Number(process.env['BENCH_EVENTS'] ?? 1_000_000);
const TAIL = EVENTS / 20;
const IN_FLIGHT = 2000;
const ROUNDS = 7;
const ROUND_MS = 4000;

const cleanups: (() => unknown)[] = [];
const context = { after: (cleanup: () => unknown): void => void cleanups.push(cleanup) } as unknown as Parameters<
  typeof temporaryDirectory
>[0];
const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;
const folded = (task: TenantTask): Promise<void> => until(() => task.projectionLag === 0, 3_600_000);

async function fill(task: TenantTask, from: number, to: number): Promise<void> {
  let next = from;
  await Promise.all(
    Array.from({ length: IN_FLIGHT }, async () => {
      // Commits of one event.
      while (next < to) await append(task, 3 * next++);
    }),
  );
  await folded(task);
}

/** How long until appends are taken, and until all is folded; and how long the event loop stood still at most, milliseconds. */
async function takeover(
  log: Log,
  definitions: TenantDefinitions,
  restore: boolean,
): Promise<{ serving: number; folded: number; stall: number }> {
  const machine = new Machine(context, definitions);
  const started = performance.now();
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  if (restore) await machine.snapshots(log).restore(TENANT);
  const stall = delay.max / 1e6;
  const task = await machine.open(log);
  const serving = performance.now() - started;
  await folded(task);
  const result = { serving, folded: performance.now() - started, stall };
  await machine.close();
  return result;
}

/** Appends a second of 64 clients while snapshots are written one after the other, over what they are without. */
async function cost(log: Log, machine: Machine, task: TenantTask): Promise<void> {
  let n = 0;
  const load = async (): Promise<{ rate: number; stall: number }> => {
    const delay = monitorEventLoopDelay({ resolution: 1 });
    delay.enable();
    const [from, started] = [n, performance.now()];
    await Promise.all(
      Array.from({ length: 64 }, async () => {
        while (performance.now() - started < ROUND_MS) await append(task, 3 * n++);
      }),
    );
    return { rate: (n - from) / ((performance.now() - started) / 1000), stall: delay.max / 1e6 };
  };
  await load();
  const rounds: { alone: number; beside: number; stall: number; stallAlone: number; share: number }[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const alone = await load();
    let over = false;
    let written = 0;
    const writing = (async () => {
      for (; !over; written++) await writeSnapshot(log, machine.archive, TENANT, () => over).catch(() => undefined);
    })();
    const beside = await load();
    over = true;
    await writing;
    rounds.push({
      alone: alone.rate,
      beside: beside.rate,
      stall: beside.stall,
      stallAlone: alone.stall,
      share: beside.rate / alone.rate,
    });
  }
  const rate = (rates: number[]): string => `${Math.round(median(rates)).toLocaleString('en')}/s`;
  report(
    '  appends while a snapshot is always being written',
    rate(rounds.map(({ beside }) => beside)),
    `without ${rate(rounds.map(({ alone }) => alone))}`,
    median(rounds.map(({ share }) => share)),
  );
  report(
    '  longest stall of the event loop in such a round',
    `${median(rounds.map(({ stall }) => stall)).toFixed(1)} ms`,
    `without ${median(rounds.map(({ stallAlone }) => stallAlone)).toFixed(1)} ms`,
  );
}

async function on(name: string, log: Log): Promise<void> {
  const definitions = await bank(context);
  const machine = new Machine(context, definitions);
  const task = await machine.open(log);
  await log.ensureTopics([snapshotsTopicSpec(TENANT)]);
  await fill(task, 0, EVENTS - TAIL);
  await new Promise((resolve) => setTimeout(resolve, 2000)); // the local store is written behind
  const started = performance.now();
  const manifest: Manifest = await writeSnapshot(log, machine.archive, TENANT, () => false);
  const took = performance.now() - started;
  const mib = (bytes: number): string => `${(bytes / 1024 / 1024).toFixed(0)} MiB`;
  report(
    `${name}: a snapshot of ${(EVENTS - TAIL).toLocaleString('en')} events`,
    seconds(took),
    `${manifest.entries.toLocaleString('en')} entries, ${mib(manifest.bytes)}, ${manifest.chunks} chunks`,
  );
  await fill(task, EVENTS - TAIL, EVENTS);
  await machine.closeTask();
  const all = await takeover(log, definitions, false);
  const short = await takeover(log, definitions, true);
  report(
    '  takeover until appends are taken',
    seconds(short.serving),
    `all ${EVENTS.toLocaleString('en')} events folded: ${seconds(all.serving)}`,
    all.serving / short.serving,
  );
  report(
    '  takeover until projections are folded',
    seconds(short.folded),
    `likewise: ${seconds(all.folded)}`,
    all.folded / short.folded,
  );
  report('  longest stall of the event loop while it is loaded', `${short.stall.toFixed(1)} ms`, '');
  await cost(log, machine, await machine.open(log));
  await machine.close();
}

async function cleanUp(): Promise<void> {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
}
// A broker would outlive the run.
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => void cleanUp().finally(() => process.exit(1)));

try {
  const embedded = new LmdbLog({ path: join(temporaryDirectory(context), 'log') });
  cleanups.push(() => embedded.close());
  await on('embedded log', embedded);
  const brokers = await brokersOfThisRun(cleanups);
  if (brokers === undefined)
    process.stdout.write(
      'Kafka: not run, neither KAFKA_HOME (a Kafka release) nor KAFKA_BROKERS (one that runs) is set\n',
    );
  else {
    const kafka = new KafkaLog({ brokers, prefix: `bench-${Date.now().toString(36)}` });
    cleanups.push(() => kafka.close());
    await on('Kafka', kafka);
  }
} finally {
  await cleanUp();
}
