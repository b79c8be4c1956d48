import { createRequire } from 'node:module';
import { pino, type DestinationStream } from 'pino';
import type { Logger } from '../core/logger.js';

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent';

export interface LoggerOptions {
  readonly level: LogLevel;
  /** Lines for people rather than JSON; plain JSON where pino-pretty, a development dependency, is not installed. */
  readonly pretty?: boolean;
  /** Where the lines go; standard output by default. */
  readonly destination?: DestinationStream;
}

/** Members that hold keys or secrets in clear, wherever a careless call logs the object around them. */
const SECRETS = [
  'apiKey',
  'adminKey',
  'masterKey',
  'password',
  'secret',
  'secrets',
  'key.apiKey',
  'headers["x-api-key"]',
  'headers["x-admin-key"]',
  'headers.authorization',
  'headers.cookie',
];

/** One JSON object a line: `level` as a word, `time` in ISO 8601, `msg`, and the fields of the call; errors under `err` with type, message and stack. */
export function createLogger({ level, pretty = false, destination }: LoggerOptions): Logger {
  const stream = destination ?? (pretty ? prettyStream() : undefined);
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: SECRETS.flatMap((path) => [path, `*.${path}`, `*.*.${path}`]), censor: '[redacted]' },
    },
    stream ?? pino.destination({ dest: 1, sync: true }),
  );
}

function prettyStream(): DestinationStream | undefined {
  try {
    const load = createRequire(import.meta.url)('pino-pretty') as (options: object) => DestinationStream;
    return load({ sync: true, colorize: true, translateTime: 'SYS:HH:MM:ss.l', singleLine: true });
  } catch {
    return undefined;
  }
}
