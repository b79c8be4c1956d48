#!/usr/bin/env node
// `npx statefold …`: builds what is missing, then runs one command. `serve` is the service itself.
import { fail, setup } from './setup.mjs';

const serve = async () => {
  await import('./start.mjs');
};

if (process.argv[2] === 'serve') {
  process.argv.splice(2, 1);
  await serve();
} else {
  // These run tenants' code themselves.
  await setup({ dotnet: ['test', 'deploy'].some((command) => process.argv.includes(command)) }).catch(fail);
  const { runCommandLine } = await import('../dist/src/app/cli-tools.js');
  process.exitCode = await runCommandLine(process.argv.slice(2), {
    env: process.env,
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
  });
}
