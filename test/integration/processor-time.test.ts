// What `npm test` says of the processors: time of processes that nobody waited for belongs to the job too.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import type * as scripts from '../../scripts/processor-time.mjs';
import { ROOT, until } from '../support/service.js';

const { JOB, ProcessorTime } = (await import(
  pathToFileURL(join(ROOT, 'scripts', 'processor-time.mjs')).href
)) as typeof scripts;

/** Works for half a second of processor time, says how many it took, and stays. */
const WORKS = `
for (let sum = 0; process.cpuUsage().user < 500_000;) for (let i = 0; i < 1e7; i++) sum += i;
const { user, system } = process.cpuUsage();
console.log((user + system) / 1e6, process.pid);
setInterval(() => undefined, 1_000);`;
/** Does so beside a child of its own, which outlives it. */
const BOTH = `
require('node:child_process').spawn(process.execPath, ['-e', ${JSON.stringify(WORKS)}], { stdio: 'inherit', detached: true });
${WORKS}`;

const skip = existsSync('/proc/self/stat') ? false : 'there is no /proc';

test('processor time of a job', { skip }, async (t) => {
  const time = new ProcessorTime();
  time.look();
  const said: string[] = [];
  const start = (job: string, code: string): ReturnType<typeof spawn> => {
    const child = spawn(process.execPath, ['-e', code], {
      env: { ...process.env, [JOB]: job },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    child.stdout.on('data', (chunk: Buffer) => said.push(...chunk.toString().trim().split('\n')));
    t.after(() => child.kill('SIGKILL'));
    return child;
  };
  const both = start('both', BOTH);
  await until(() => said.length === 2);
  const [first = '', second = ''] = said;
  const other = [first, second].map((line) => Number(line.split(' ')[1])).find((pid) => pid !== both.pid) ?? 0;
  t.after(() => process.kill(other, 'SIGKILL'));
  const took = [first, second].reduce((sum, line) => sum + Number(line.split(' ')[0]), 0);
  time.look();
  const lived = time.of('both') ?? 0;
  // The kernel counts in hundredths, of each process.
  assert.ok(lived >= took - 0.05, `${lived} s of ${took}`);
  both.kill('SIGKILL');
  await once(both, 'exit');
  time.look();
  assert.ok((time.of('both') ?? 0) >= lived, 'what has ended is not forgotten');
  assert.deepEqual(time.running('both'), [other], 'what it left behind is its own');

  const [ran] = time.programs('both');
  assert.deepEqual([ran?.program, ran?.starts], [process.execPath.split('/').at(-1), 1], 'one has ended, one has not');

  const single = start('single', WORKS);
  await until(() => said.length === 3);
  time.look();
  single.kill('SIGKILL');
  await once(single, 'exit');
  time.look();
  const [alone, those] = [time.of('single') ?? 0, time.of('both') ?? 0];
  assert.ok(alone >= Number(said[2]?.split(' ')[0]) - 0.05, `${alone} s`);
  // Each second belongs to one of them: neither is counted for the other, or twice.
  assert.ok(those < took + 1 && alone < Number(said[2]?.split(' ')[0]) + 1, `${those} s and ${alone} s`);
  assert.ok(time.all >= alone + those);
  assert.equal(time.of('nobody'), undefined);
  const of = (job?: string): number => time.programs(job).reduce((sum, { starts }) => sum + starts, 0);
  assert.deepEqual([of('single'), of(), of('nobody')], [1, 2, 0]);
});
