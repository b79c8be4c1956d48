#!/usr/bin/env node
// `statefold …`, linked by `npm install -g .` or run in the image: builds what is missing, then runs one command. `serve` is the service itself.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fail, ROOT, setup } from './setup.mjs';

/** These use the C# hosts, or the packages that are built with them. */
const WITH_DOTNET = ['new', 'test', 'deploy'];
// An image has what was built, and nothing to build it from.
const built = !existsSync(join(ROOT, 'src'));

if (process.argv[2] === 'serve') {
  if (built) await import('../dist/program/main.js');
  else {
    process.argv.splice(2, 1);
    await import('./start.mjs');
  }
} else {
  if (!built) await setup({ dotnet: WITH_DOTNET.some((command) => process.argv.includes(command)) }).catch(fail);
  const { runCommandLine } = await import('../dist/program/cli-tools.js');
  process.exitCode = await runCommandLine(process.argv.slice(2), {
    env: process.env,
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
  });
}
