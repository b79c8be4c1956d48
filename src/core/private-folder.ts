import { chmodSync, existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';

const FOLDER = 0o700;
const FILE = 0o600;

/** Makes the folder, open to this user alone; one that is there is closed to others. */
export function makePrivateFolder(path: string): void {
  makeFolder(path, FOLDER);
  close(path, FOLDER);
}

/**
 * Makes the folder and those above it, where they are not there. Level by level: Node's own way goes round for ever under a folder
 * that can't hold another one (`/proc`). @throws the error of the system
 */
export function makeFolder(path: string, mode?: number): void {
  const make = (): void => void mkdirSync(path, { mode });
  try {
    make();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' && statSync(path).isDirectory()) return;
    const above = dirname(path);
    if (code !== 'ENOENT' || above === path || existsSync(above)) throw error;
    makeFolder(above, mode);
    make();
  }
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
