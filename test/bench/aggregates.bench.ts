// A tenant of very many aggregates: what they take of memory, and how long it is until appends are taken: by a restart, and by a
// takeover on a machine that has nothing, from a snapshot or by folding all. Each in a process of its own.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { LmdbLog } from '../../src/log/embedded/lmdb-log.js';
import { snapshotsTopicSpec } from '../../src/log/topics.js';
import { uuidv7 } from '../../src/core/ids.js';
import { writeSnapshot } from '../../src/snapshots/snapshot-writer.js';
import type { TenantTask } from '../../src/tenancy/tenant-task.js';
import { anonymousBytes } from '../support/holds.js';
import { temporaryDirectory } from '../support/service.js';
import { Machine, TENANT } from '../support/snapshot-world.js';
import { report } from './load.js';

/** BENCH_AGGREGATES=n for a shorter run; measured with a quarter of them too. */
const AGGREGATES = Number(process.env['BENCH_AGGREGATES'] ?? 1_000_000);
const EVENTS_EACH = Number(process.env['BENCH_EVENTS_EACH'] ?? 2);
const IN_FLIGHT = 2000;
/** Appended after a start, each to an aggregate of its own: what is looked up then is in memory. */
const TOUCHED = 20_000;
const GOAL_BYTES = 300 * 1024 * 1024;
const HERE = fileURLToPath(import.meta.url);

type Role = 'fill' | 'restart' | 'fold' | 'restore';
interface Result {
  /** Until appends are taken; of `fill`, appends a second. */
  readonly serving: number;
  /** Of memory that no file backs: when appends are taken, and after some of them; over what the process had before. */
  readonly opened: number;
  readonly used: number;
  /** Of the snapshot that `fill` wrote, ms. */
  readonly snapshot: number;
}

function append(task: TenantTask, aggregate: number): Promise<unknown> {
  return task.first.append({
    commandId: uuidv7(),
    keyed: false,
    requestHash: Buffer.alloc(0),
    aggregateId: `account-${aggregate}`,
    aggregateType: 'account',
    expectedVersion: 'any',
    correlationId: undefined,
    causationId: undefined,
    metadata: undefined,
    events: [{ eventType: 'Paid', data: Buffer.from(`{"cents":${aggregate % 5000},"city":"city ${aggregate % 40}"}`) }],
  });
}

async function appended(task: TenantTask, count: number, aggregateOf: (i: number) => number): Promise<void> {
  let next = 0;
  await Promise.all(
    Array.from({ length: IN_FLIGHT }, async () => {
      while (next < count) await append(task, aggregateOf(next++));
    }),
  );
}

async function play(role: Role, directory: string, aggregates: number): Promise<Result> {
  const cleanups: (() => unknown)[] = [];
  const context = { after: (cleanup: () => unknown): void => void cleanups.push(cleanup) } as unknown as Parameters<
    typeof temporaryDirectory
  >[0];
  const log = new LmdbLog({ path: join(directory, 'log') });
  const machine = new Machine(
    context,
    undefined,
    role === 'fill' || role === 'restart' ? join(directory, 'machine') : undefined,
  );
  try {
    const before = anonymousBytes();
    const started = performance.now();
    if (role === 'restore') await machine.snapshots(log).restore(TENANT);
    const task = await machine.open(log);
    let serving = performance.now() - started;
    const opened = anonymousBytes() - before;
    let snapshot = 0;
    if (role === 'fill') {
      await appended(task, EVENTS_EACH * aggregates, (i) => i % aggregates);
      serving = (EVENTS_EACH * aggregates) / ((performance.now() - started) / 1000);
    } else await appended(task, Math.min(TOUCHED, aggregates), (i) => (i * 7919) % aggregates);
    const used = anonymousBytes() - before;
    if (role === 'fill') {
      await machine.closeTask();
      const from = performance.now();
      await log.ensureTopics([snapshotsTopicSpec(TENANT)]);
      await writeSnapshot(log, machine.archive, TENANT, () => false);
      snapshot = performance.now() - from;
    }
    return { serving, opened, used, snapshot };
  } finally {
    await machine.close();
    await log.close();
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  }
}

async function inProcess(role: Role, directory: string, aggregates: number): Promise<Result> {
  const child = spawn(process.execPath, [HERE, role, directory, String(aggregates)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0) throw new Error(`${role} ended with ${code}`);
  return JSON.parse(text) as Result;
}

async function measure(aggregates: number): Promise<void> {
  const cleanups: (() => unknown)[] = [];
  const context = { after: (cleanup: () => unknown): void => void cleanups.push(cleanup) } as unknown as Parameters<
    typeof temporaryDirectory
  >[0];
  const directory = temporaryDirectory(context);
  const seconds = (ms: number): string => `${(ms / 1000).toFixed(2)} s`;
  const mib = (bytes: number): string => `${(bytes / 1024 / 1024).toFixed(0)} MiB`;
  const perMillion = (bytes: number): string => `${mib((bytes * 1_000_000) / aggregates)} a million aggregates`;
  const goal = aggregates < 1_000_000 ? undefined : `< ${mib(GOAL_BYTES)}`;
  try {
    const filled = await inProcess('fill', directory, aggregates);
    report(
      `${aggregates.toLocaleString('en')} aggregates with ${EVENTS_EACH} events each`,
      `${Math.round(filled.serving).toLocaleString('en')} appends/s`,
      `a snapshot of them: ${seconds(filled.snapshot)}`,
    );
    report('  memory when they were appended', mib(filled.used), perMillion(filled.used), undefined, goal);
    for (const [role, name] of [
      ['restart', 'a restart'],
      ['fold', 'a takeover, folding all events'],
      ['restore', 'a takeover from the snapshot'],
    ] as const) {
      const { serving, opened, used } = await inProcess(role, directory, aggregates);
      report(
        `  ${name}, until appends are taken`,
        seconds(serving),
        `memory ${mib(opened)}, and ${mib(used)} after ${TOUCHED.toLocaleString('en')} appends`,
        undefined,
        goal,
      );
    }
  } finally {
    for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  }
}

const [, , role, directory, aggregates] = process.argv;
if (role !== undefined && directory !== undefined)
  process.stdout.write(JSON.stringify(await play(role as Role, directory, Number(aggregates))));
else for (const count of [AGGREGATES / 4, AGGREGATES]) await measure(Math.round(count));
