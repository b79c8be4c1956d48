#!/usr/bin/env node
import { runCommandLine } from './app/cli-tools.js';
import type { ServeOptions } from './cli/io.js';
import { describeMisspelt, misspeltSettings } from './config/misspelt.js';
import { findProjectRoot } from './config/project-root.js';
import { readSettings } from './config/settings.js';
import { startService } from './app/service.js';
import { describeStartFailure } from './app/start-failure.js';
import { createLogger } from './telemetry/logger.js';
import { Metrics } from './telemetry/metrics.js';
import { welcome } from './app/welcome.js';

/** Runs the service until SIGINT or SIGTERM; resolves when it serves. */
async function serve({ unsafeNoSandbox }: ServeOptions): Promise<void> {
  const settings = readSettings({ ...process.env, ...(unsafeNoSandbox && { UNSAFE_NO_SANDBOX: 'true' }) });
  const terminal = process.stdout.isTTY;
  const logger = createLogger({ level: settings.logLevel, pretty: terminal });
  const misspelt = misspeltSettings(process.env);
  for (const setting of misspelt)
    logger.warn(
      { variable: setting.given, ...(setting.meant !== undefined && { nearest: setting.meant }) },
      describeMisspelt(setting),
    );
  const service = await startService({ settings, logger, metrics: new Metrics() }).catch((error: unknown) => {
    logger.debug({ err: error }, 'the start failed');
    return fail(error, settings.dataDirectory);
  });
  let closing = false;
  const end = (): void => {
    if (closing) return;
    closing = true;
    void service.close().then(() => process.exit());
  };
  process.on('SIGINT', end);
  process.on('SIGTERM', end);
  const text = welcome({
    service,
    settings,
    root: findProjectRoot(),
    directory: process.cwd(),
    warnings: terminal ? misspelt.map(describeMisspelt) : [],
  });
  process.stdout.write(`${text}\n`, (error) => {
    if (!error && service.newApiKey !== undefined) service.keyWasShown();
  });
}

/** What is left of a start that failed must not keep the process. */
function fail(error: unknown, directory?: string): never {
  process.stderr.write(`${describeStartFailure(error, directory)}\n`);
  process.exit(1);
}

const { env, stdin, stdout, stderr } = process;
const code = await runCommandLine(process.argv.slice(2), { env, stdin, stdout, stderr, serve }).catch(
  (error: unknown) => fail(error),
);
if (code !== 0) process.exitCode = code;
