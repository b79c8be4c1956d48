// What the jail costs at the start of a process, from the spawn until it takes requests: in pairs, one without and one with it. And what
// any start costs the one that starts it, by its memory, where it forks itself and where a small process does.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HostProcess } from '../../src/code-host/dotnet/host-process.js';
import { forkServer } from '../../src/jail/fork-server.js';
import { describeJail, type Jail } from '../../src/jail/jail.js';
import { jailOf, launchOf } from '../../src/jail/launch.js';
import { ROOT } from '../support/service.js';
import { median, report } from './load.js';

const PAIRS = 20;
const HEAP_BYTES = 128 * 1024 * 1024;
const options = {
  dotnet: 'dotnet',
  searchPath: process.env['PATH'] ?? '',
  assembliesDir: join(ROOT, 'dist', 'dotnet'),
};
const jail = jailOf(options);
const workDir = mkdtempSync(join(tmpdir(), 'statefold-bench-'));

async function start(within: Jail): Promise<number> {
  const began = performance.now();
  const runner = new HostProcess(
    launchOf('runner', { ...options, jail: within }, HEAP_BYTES, ['100000', '67108864', '1048576']),
    workDir,
    { onFrame: () => undefined, onEnd: () => undefined },
  );
  if (!(await runner.ready)) throw new Error('the runner did not start');
  const took = performance.now() - began;
  runner.kill('done');
  await runner.ended;
  return took;
}

const MIB = 1024 * 1024;
const PAGE = 4096;
/** Processor time of this process while it starts one, and writes to all of its memory once, milliseconds. */
async function startCost(memory: readonly Buffer[], started: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await started();
  for (const part of memory) for (let at = 0; at < part.length; at += PAGE) part[at] = 1;
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

async function starts(): Promise<void> {
  const memory: Buffer[] = [];
  const fork = { command: '/bin/true', args: [], cwd: workDir, env: {}, pipes: [] };
  const bySmallOne = async (): Promise<unknown> => (await forkServer.fork(fork)).exited;
  const byItself = (): Promise<unknown> => once(spawn('/bin/true', { env: {}, stdio: 'ignore' }), 'exit');
  await bySmallOne();
  for (const mebibytes of [0, 500]) {
    while (memory.length < mebibytes) memory.push(Buffer.alloc(MIB, 1));
    const pairs: [number, number][] = [];
    for (let pair = 0; pair < PAIRS; pair++)
      pairs.push([await startCost(memory, bySmallOne), await startCost(memory, byItself)]);
    const [ours, theirs] = [median(pairs.map(([a]) => a)), median(pairs.map(([, b]) => b))];
    report(
      `a start by a process of ${mebibytes} MiB more, and its memory written`,
      `${ours.toFixed(1)} ms`,
      `where it forks itself ${theirs.toFixed(1)} ms`,
      theirs / ours,
    );
  }
}

try {
  await starts();
  if (jail.kind === 'refused') console.log(describeJail(jail));
  else {
    const [without, within]: [number[], number[]] = [[], []];
    // The first of each reads from the disk.
    for (let pair = -1; pair < PAIRS; pair++) {
      const [bare, jailed] = [await start({ kind: 'none' }), await start(jail)];
      if (pair < 0) continue;
      without.push(bare);
      within.push(jailed);
    }
    const ms = (n: number): string => `${n.toFixed(1)} ms`;
    report(
      'start of a runner in the jail',
      ms(median(within)),
      `without ${ms(median(without))}: ${ms(median(within.map((took, pair) => took - (without[pair] as number))))} more`,
      median(within) / median(without),
      'goal at most 100 ms more',
    );
  }
} finally {
  rmSync(workDir, { recursive: true, force: true });
}
