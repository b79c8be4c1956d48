import { linkSync, openSync, closeSync, readFileSync, rmSync, writeSync, fsyncSync } from 'node:fs';
import { dirname } from 'node:path';
import { makeFolder } from './private-folder.js';
import { StartupError } from './startup-error.js';

/**
 * The secret text in `path`, made by `make` and kept with mode 0600 when there is none. Of two processes that make it at the
 * same time one wins and both read the same; a crash leaves the whole text or none.
 * @throws StartupError when the file is empty, which no run of ours leaves behind
 */
export function readOrMakeSecret(path: string, make: () => string): string {
  return read(path) ?? create(path, make());
}

function read(path: string): string | undefined {
  let text: string;
  try {
    text = readFileSync(path, 'utf8').trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  if (text === '')
    throw new StartupError(`${path} is empty: restore it from a backup, or remove it to have a new secret made.`);
  return text;
}

function create(path: string, text: string): string {
  makeFolder(dirname(path));
  const draft = `${path}.${process.pid}`;
  rmSync(draft, { force: true });
  const file = openSync(draft, 'wx', 0o600);
  try {
    writeSync(file, `${text}\n`);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  try {
    linkSync(draft, path);
    return text;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return readOrMakeSecret(path, () => text);
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}
