import type { ServeOptions } from '../cli/io.js';
import { describeMisspelt, misspeltSettings } from '../config/misspelt.js';
import { findProjectRoot } from '../config/project-root.js';
import { readSettings } from '../config/settings.js';
import { createLogger } from '../telemetry/logger.js';
import { Metrics } from '../telemetry/metrics.js';
import { startService } from './service.js';
import { describeStartFailure } from './start-failure.js';
import { endWithStandardInput, removeTestData } from './test-mode.js';
import { welcome } from './welcome.js';
import { unwritableOutput } from '../cli/writer.js';

/** Runs the service until SIGINT or SIGTERM; resolves when it serves. */
export async function serve({ unsafeNoSandbox }: ServeOptions): Promise<void> {
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
    void service.close().then(() => {
      if (settings.testMode) removeTestData(settings.dataDirectory, settings.testClock);
      process.exit();
    });
  };
  if (settings.testMode) endWithStandardInput(end);
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
    if (error) {
      // Whoever started it is told neither its address nor its key: the next start shows that.
      process.stderr.write(`${unwritableOutput(error).message}\n`);
      process.exitCode = 1;
      end();
    } else if (service.newApiKey !== undefined) service.keyWasShown();
  });
}

/** What is left of a start that failed must not keep the process. */
export function fail(error: unknown, directory?: string): never {
  process.stderr.write(`${describeStartFailure(error, directory)}\n`);
  process.exit(1);
}
