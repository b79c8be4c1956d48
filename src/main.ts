#!/usr/bin/env node
import { parseArgs } from 'node:util';
import { readSettings } from './config/settings.js';
import { StartupError } from './core/startup-error.js';
import { UnknownSchemaError } from './log/codec/codec.js';
import { startService } from './app/service.js';
import { createLogger } from './telemetry/logger.js';
import { Metrics } from './telemetry/metrics.js';

/** Runs the service until SIGINT or SIGTERM. */
async function serve(unsafe: boolean): Promise<void> {
  const settings = readSettings({ ...process.env, ...(unsafe && { UNSAFE_NO_SANDBOX: 'true' }) });
  const logger = createLogger({ level: settings.logLevel, pretty: process.stdout.isTTY });
  const service = await startService({ settings, logger, metrics: new Metrics() });
  let closing = false;
  const end = (): void => {
    if (closing) return;
    closing = true;
    void service.close().then(() => process.exit());
  };
  process.on('SIGINT', end);
  process.on('SIGTERM', end);
  say(welcome(service));
}

function welcome({ url, jailed, newApiKey, fixedKeyRevoked }: Awaited<ReturnType<typeof startService>>): string {
  const lines = [`Statefold listens on ${url}`, jailed];
  if (newApiKey !== undefined) lines.push('', `API key of tenant default (shown only now): ${newApiKey}`);
  if (fixedKeyRevoked) lines.push('', 'The key in STATEFOLD_API_KEY was revoked, and stays so: choose another.');
  const key = newApiKey ?? '$KEY';
  lines.push(
    '',
    'Next, in another terminal:',
    `  curl ${url}/events -H 'X-API-Key: ${key}' -H 'Content-Type: application/json' \\`,
    `    -d '{"aggregateId":"account-1","eventType":"Opened","data":{"owner":"Ada"}}'`,
    '',
  );
  return lines.join('\n');
}

const say = (text: string): void => void process.stdout.write(`${text}\n`);

try {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    strict: false,
    options: { 'unsafe-no-sandbox': { type: 'boolean' } },
  });
  if (positionals[0] === 'serve') await serve(values['unsafe-no-sandbox'] === true);
} catch (error) {
  if (!(error instanceof StartupError || error instanceof UnknownSchemaError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
