import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { fileURLToPath, pathToFileURL } from 'node:url';

export interface CliOutcome {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** What `npx statefold` runs, as compiled beside the test. */
const PROGRAM = pathToFileURL(
  join(dirname(fileURLToPath(import.meta.url)), '..', '..', 'src', 'app', 'cli-tools.js'),
).href;
const SCRIPT = `
const { runCommandLine } = await import(${JSON.stringify(PROGRAM)});
process.exitCode = await runCommandLine(process.argv.slice(1), { env: process.env, stdin: process.stdin, stdout: process.stdout, stderr: process.stderr });`;

/** The command line in a process of its own, without a terminal. */
export function spawnStatefold(
  env: Readonly<Record<string, string>>,
  cwd: string,
  ...args: string[]
): ChildProcessByStdio<null, Readable, Readable> {
  const base = { PATH: process.env['PATH'], HOME: process.env['HOME'] };
  return spawn(process.execPath, ['--input-type=module', '-e', SCRIPT, '--', ...args], {
    cwd,
    env: { ...base, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

/** Runs a command to its end. */
export async function statefold(
  env: Readonly<Record<string, string>>,
  cwd: string,
  ...args: string[]
): Promise<CliOutcome> {
  const child = spawnStatefold(env, cwd, ...args);
  const [out, err, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close') as Promise<[number]>,
  ]);
  return { code, out, err };
}
