import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, realpathSync, rmSync, statSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { dirname, join } from 'node:path';
import { StartupError } from '../../core/startup-error.js';

/** Another live process has the data directory. */
export class DirectoryInUseError extends StartupError {
  override readonly name = 'DirectoryInUseError';
}

/** Level by level: Node's own way goes round for ever under a folder that can't hold another one (`/proc`). */
function makeDirectory(path: string): void {
  const make = (): void => void mkdirSync(path, { mode: 0o700 });
  try {
    make();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' && statSync(path).isDirectory()) return;
    const above = dirname(path);
    if (code !== 'ENOENT' || above === path || existsSync(above)) throw error;
    makeDirectory(above);
    make();
  }
}

/**
 * Takes a data directory for this process until it ends, however it ends: a listening socket, which the kernel closes with its
 * process. On Linux it has a name but no file, so that nothing stale is left by a kill; elsewhere a file that is taken over
 * when nobody answers on it.
 * @throws DirectoryInUseError naming the process that has it
 */
export async function lockDirectory(directory: string): Promise<{ release(): Promise<void> }> {
  // Nobody else has any business in there: not even the names of its files are to be seen.
  makeDirectory(directory);
  const name = createHash('sha256').update(realpathSync(directory)).digest('hex').slice(0, 32);
  const abstract = process.platform === 'linux';
  const path = abstract ? `\0statefold-${name}` : join(directory, 'lock');
  const server = createServer((socket) => socket.end(String(process.pid)));
  server.unref();
  try {
    await listen(server, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    const holder = await holderOf(path);
    if (holder !== undefined || abstract)
      throw new DirectoryInUseError(
        `${directory} is in use by another Statefold${holder === undefined ? '' : ` (process ${holder})`}: stop that one first, or choose another STATEFOLD_DATA_DIR.`,
      );
    rmSync(path, { force: true });
    await listen(server, path);
  }
  return { release: () => new Promise((resolve) => server.close(() => resolve())) };
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/** The process id that the holder answers; undefined when nobody does. */
function holderOf(path: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect(path);
    let text = '';
    const done = (): void => {
      socket.destroy();
      resolve(/^\d+$/.test(text) ? text : undefined);
    };
    socket.setTimeout(1000, done);
    socket.on('data', (chunk) => (text += chunk.toString()));
    socket.on('error', done);
    socket.on('end', done);
  });
}
