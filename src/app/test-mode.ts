import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import type { Clock } from '../core/clock.js';
import { StartupError } from '../core/startup-error.js';

/** What is there was made by somebody else, and would be removed. @throws StartupError */
export function requireNothingToKeep(dataDirectory: string): void {
  if (existsSync(dataDirectory) && readdirSync(dataDirectory).length > 0)
    throw new StartupError(
      `TEST_MODE removes its data when it ends, and ${dataDirectory} is not empty: set STATEFOLD_DATA_DIR to a folder that is missing or empty.`,
    );
}

/**
 * A clock that stands at the time in the file, which is read each time it is asked: what is appended after a test has written the file has
 * the new time, whatever was under way. @throws StartupError where the file holds something else than a time
 */
export function openTestClock(path: string): Clock {
  const clock = {
    now: (): number => {
      let text = '';
      try {
        text = readFileSync(path, 'utf8').trim();
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      }
      if (text === '') return Date.now();
      const time = Date.parse(text);
      if (Number.isNaN(time) || time < 0)
        throw new StartupError(
          `The file ${path} of TEST_CLOCK holds '${text.slice(0, 40)}': write a time in ISO 8601 from 1970 on, like 2026-03-01T12:00:00.000Z, or nothing.`,
        );
      return time;
    },
  };
  clock.now();
  return clock;
}

/** Calls `end` once the process that started this one has ended, or has closed its end of standard input. */
export function endWithStandardInput(end: () => void): void {
  process.stdin.on('end', end).on('close', end).on('error', end).resume();
}

/** What the service has made since it started: the directory was empty. */
export const removeTestData = (dataDirectory: string, clock: string | undefined): void => {
  for (const path of clock === undefined ? [dataDirectory] : [dataDirectory, clock])
    rmSync(path, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
};
