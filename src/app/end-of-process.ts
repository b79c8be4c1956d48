import type { Logger } from '../core/logger.js';

/**
 * For what no work of this process can put right: it ends with exit code 1, as if it were told to, and whoever supervises it starts it
 * again. Others take over meanwhile.
 */
export function endProcess(logger: Logger, error: Error, why: string): void {
  logger.error({ err: error }, `${why}; the process ends`);
  process.exitCode = 1;
  process.kill(process.pid, 'SIGTERM');
}

/**
 * For what can not be closed either: a data file whose writes never end. At once, which leaves all as a kill would, and loses nothing that
 * was acknowledged.
 */
export function abandonProcess(logger: Logger, error: Error, why: string): never {
  logger.error({ err: error }, `${why}; the process ends`);
  process.exit(1);
}
