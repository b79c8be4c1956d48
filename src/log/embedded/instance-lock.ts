import { hash, randomUUID } from 'node:crypto';
import { closeSync, linkSync, openSync, realpathSync, renameSync, rmSync, statSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { makeFolder } from '../../core/private-folder.js';
import { StartupError } from '../../core/startup-error.js';

/** Another live process has the data directory. */
export class DirectoryInUseError extends StartupError {
  override readonly name = 'DirectoryInUseError';
}

/** In the data directory, where a process has taken it. */
export const LOCK_FILE = 'lock';

/**
 * Takes a data directory for this process until it ends, however it ends: a listening socket, which the kernel closes with its
 * process. It has a file in the directory, which processes of all containers that share a volume meet; one that a kill left is
 * taken over when nobody listens on it. On Linux it has a name of its own besides, of which nothing stale is left, for file systems
 * that hold no sockets.
 * @throws DirectoryInUseError naming the process that has it
 */
export async function lockDirectory(directory: string): Promise<{ release(): Promise<void> }> {
  // Nobody else has any business in there: not even the names of its files are to be seen.
  makeFolder(directory, 0o700);
  const inUse = (holder: string | undefined): DirectoryInUseError =>
    new DirectoryInUseError(
      `${directory} is in use by another Statefold${holder === undefined ? '' : ` (process ${holder})`}: stop that one first, or choose another STATEFOLD_DATA_DIR.`,
    );
  const named = process.platform === 'linux' ? await listenByName(directory, inUse) : undefined;
  try {
    const filed = await listenByFile(directory, inUse).catch((error: unknown) => {
      // Whatever else keeps a file from being made there is told by who writes the next one.
      if (named === undefined || error instanceof DirectoryInUseError) throw error;
      return undefined;
    });
    return {
      release: async () => {
        await filed?.release();
        if (named !== undefined) await closed(named);
      },
    };
  } catch (error) {
    if (named !== undefined) await closed(named);
    throw error;
  }
}

type InUse = (holder: string | undefined) => DirectoryInUseError;

/** The name is of a network namespace: processes of another one do not see it. */
async function listenByName(directory: string, inUse: InUse): Promise<Server> {
  const name = hash('sha256', realpathSync(directory), 'hex').slice(0, 32);
  const path = `\0statefold-${name}`;
  const server = answering();
  try {
    await listen(server, path);
    return server;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    const holder = await holderOf(path);
    throw inUse(holder === 'nobody' ? undefined : holder.process);
  }
}

async function listenByFile(directory: string, inUse: InUse): Promise<{ release(): Promise<void> }> {
  const opened = process.platform === 'linux' ? openSync(directory, 'r') : undefined;
  // The path of a socket has a hundred characters or so.
  const folder = opened === undefined ? directory : `/proc/self/fd/${opened}`;
  const [path, own] = [join(folder, LOCK_FILE), join(folder, `${LOCK_FILE}.${randomUUID().slice(0, 8)}`)];
  const server = answering();
  try {
    await listen(server, own);
    const { ino } = statSync(own);
    while (!isLinked(own, path)) await removeStale(path, `${own}.stale`, inUse);
    rmSync(own);
    return {
      release: async () => {
        if (inodeOf(path) === ino) rmSync(path, { force: true });
        await closed(server);
        if (opened !== undefined) closeSync(opened);
      },
    };
  } catch (error) {
    await closed(server);
    rmSync(own, { force: true });
    if (opened !== undefined) closeSync(opened);
    throw error;
  }
}

/** @returns false: there is one */
function isLinked(own: string, path: string): boolean {
  try {
    linkSync(own, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return false;
  }
}

/** Of two processes that find the same one stale, one moves it away; the other one may have moved that one's own, and puts it back. */
async function removeStale(path: string, aside: string, inUse: InUse): Promise<void> {
  const seen = inodeOf(path);
  const holder = await holderOf(path);
  if (holder !== 'nobody') throw inUse(holder.process);
  try {
    renameSync(path, aside);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  if (inodeOf(aside) !== seen) isLinked(aside, path);
  rmSync(aside);
}

function inodeOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.ino;
}

/** Who asked may be gone by the time that this process, which stood still, answers. */
const answering = (): Server =>
  createServer((socket) => socket.on('error', () => undefined).end(String(process.pid))).unref();

const closed = (server: Server): Promise<void> => new Promise((resolve) => server.close(() => resolve()));

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/** Who listens there; a process that gives no answer in time, since it stands still, has no number. */
function holderOf(path: string): Promise<'nobody' | { readonly process: string | undefined }> {
  return new Promise((resolve) => {
    const socket = connect(path);
    let text = '';
    const done = (): void => {
      socket.destroy();
      resolve({ process: /^\d+$/.test(text) ? text : undefined });
    };
    socket.setTimeout(1000, done);
    socket.on('data', (chunk) => (text += chunk.toString()));
    socket.on('error', ({ code }: NodeJS.ErrnoException) => {
      if (code === 'ECONNREFUSED' || code === 'ENOENT' || code === 'ENOTSOCK') resolve('nobody');
      else done();
    });
    socket.on('end', done);
  });
}
