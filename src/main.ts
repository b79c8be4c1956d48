#!/usr/bin/env node
import { runCommandLine } from './app/cli-tools.js';
import type { ServeOptions } from './cli/io.js';

/** Most commands ask a running service, and don't wait until the code of one is loaded. */
async function serve(options: ServeOptions): Promise<void> {
  const service = await import('./app/serve.js');
  await service.serve(options).catch(service.fail);
}

const { env, stdin, stdout, stderr } = process;
const code = await runCommandLine(process.argv.slice(2), { env, stdin, stdout, stderr, serve });
if (code !== 0) process.exitCode = code;
