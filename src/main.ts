#!/usr/bin/env node
import { runCommandLine } from './app/cli-tools.js';
import type { ServeOptions } from './cli/io.js';

/** Most commands ask a running service, and don't wait until the code of one is loaded. */
const serve = async (options: ServeOptions): Promise<void> => (await import('./app/serve.js')).serve(options);

const { env, stdin, stdout, stderr } = process;
const code = await runCommandLine(process.argv.slice(2), { env, stdin, stdout, stderr, serve }).catch(
  async (error: unknown) => (await import('./app/serve.js')).fail(error),
);
if (code !== 0) process.exitCode = code;
