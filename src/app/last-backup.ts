import { readFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { DATA_FILES } from '../config/data-files.js';
import { writeDurably } from './durable-file.js';

/** Milliseconds since the epoch; undefined: it was never backed up, or what is noted can't be read. */
export function lastBackupOf(dataDirectory: string): number | undefined {
  try {
    const time = Date.parse(readFileSync(join(dataDirectory, DATA_FILES.lastBackup), 'utf8').trim());
    return Number.isNaN(time) ? undefined : time;
  } catch {
    return undefined;
  }
}

/** Notes that a backup, which is whole now, was taken at `takenAt` (ISO 8601). @throws the error of the system */
export async function noteBackup(dataDirectory: string, takenAt: string): Promise<void> {
  const noted = lastBackupOf(dataDirectory);
  // One that began later may be through before this one; a time that has not come yet is of a clock that was wrong.
  if (noted !== undefined && noted > Date.parse(takenAt) && noted <= Date.now()) return;
  // The service, as another user, is to read what root has written.
  const owner = process.getuid?.() === 0 ? await stat(dataDirectory) : undefined;
  await writeDurably(dataDirectory, DATA_FILES.lastBackup, `${takenAt}\n`, owner);
}
