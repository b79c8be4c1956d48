import { chmodSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

const FOLDER = 0o700;
const FILE = 0o600;

/** Makes the folder, open to this user alone; one that is there is closed to others. */
export function makePrivateFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: FOLDER });
  close(path, FOLDER);
}

/** Closes the files of the folder to others, whoever made them so. */
export function makeFilesPrivate(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true }))
    if (entry.isFile()) close(join(folder, entry.name), FILE);
}

function close(path: string, mode: number): void {
  try {
    if ((statSync(path).mode & 0o777 & ~mode) !== 0) chmodSync(path, mode);
  } catch (error) {
    // Another user's, or a file system without modes: who made it so has to know.
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'EPERM' && code !== 'EROFS' && code !== 'ENOTSUP' && code !== 'ENOENT') throw error;
  }
}
