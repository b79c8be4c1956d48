import { spawn, type ChildProcess, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { dirname, join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { compiledOnce, programOf } from './service.js';

export interface CliOutcome {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** What `npx statefold` runs: as it is shipped, or as compiled beside the test. */
const PROGRAM = pathToFileURL(
  programOf(join(dirname(fileURLToPath(import.meta.url)), '..', '..', 'src', 'app', 'cli-tools.js')),
).href;
/** For `node -e`: the command line with the arguments behind it. */
export const SCRIPT = `
const { runCommandLine } = await import(${JSON.stringify(PROGRAM)});
process.exitCode = await runCommandLine(process.argv.slice(1), { env: process.env, stdin: process.stdin, stdout: process.stdout, stderr: process.stderr });`;

/** What the command line has of this process's environment, and these. */
export const environmentOf = (env: Readonly<Record<string, string>>): Record<string, string> => ({
  PATH: process.env['PATH'] ?? '',
  HOME: process.env['HOME'] ?? '',
  ...compiledOnce,
  ...env,
});

/** The command line in a process of its own, without a terminal. */
export function spawnStatefold(
  env: Readonly<Record<string, string>>,
  cwd: string,
  ...args: string[]
): ChildProcessByStdio<null, Readable, Readable> {
  const child = spawned(env, cwd, 'ignore', args);
  return child as ChildProcessByStdio<null, Readable, Readable>;
}

/** The same, with a standard input to write to. */
export const spawnStatefoldFed = (
  env: Readonly<Record<string, string>>,
  cwd: string,
  ...args: string[]
): ChildProcessByStdio<Writable, Readable, Readable> =>
  spawned(env, cwd, 'pipe', args) as ChildProcessByStdio<Writable, Readable, Readable>;

function spawned(
  env: Readonly<Record<string, string>>,
  cwd: string,
  stdin: 'ignore' | 'pipe',
  args: readonly string[],
): ChildProcess {
  return spawn(process.execPath, ['--input-type=module', '-e', SCRIPT, '--', ...args], {
    cwd,
    env: environmentOf(env),
    stdio: [stdin, 'pipe', 'pipe'],
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
