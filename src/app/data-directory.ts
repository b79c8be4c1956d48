import { accessSync, closeSync, constants, existsSync, openSync, readFileSync, readSync, statfsSync } from 'node:fs';
import { join } from 'node:path';
import { DATA_FILES } from '../config/data-files.js';
import { dataFailure, StartupError } from '../core/startup-error.js';
import { lockDirectory } from '../log/embedded/instance-lock.js';
import { writeDurably } from './durable-file.js';

/** Raise it when what lies in the data directory can't be read by versions that know only the one before. */
export const DATA_FORMAT = 1;
const MIB = 1024 * 1024;

/** The log may end before what others have of it, and go on with other records. Undefined: it was never restored. */
export function restoreOf(directory: string): string | undefined {
  try {
    return readFileSync(join(directory, DATA_FILES.restored), 'utf8').trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
/** What a start opens; made by another user, one of them is enough to stop it halfway. */
const CONTENTS = [
  '.',
  DATA_FILES.format,
  ...[DATA_FILES.log, DATA_FILES.store].flatMap((name) => [name, `${name}/data.mdb`, `${name}/lock.mdb`]),
  DATA_FILES.clickhouse,
  DATA_FILES.work,
  DATA_FILES.exchanges,
  DATA_FILES.imports,
  DATA_FILES.adminKey,
  DATA_FILES.masterKey,
  DATA_FILES.firstKey,
];

const ENVIRONMENTS: Readonly<Record<string, (folder: string) => string>> = {
  [DATA_FILES.log]: () => 'Restore it from a backup (statefold restore)',
  [DATA_FILES.store]: (folder) => `Remove ${folder}, which is folded again from the log`,
};
const LMDB_MAGIC = 0xbeefc0de;
const LMDB_MAGIC_AT = 24;

/**
 * Makes the data directory, takes it for this process, and sees to it that what is in there can be used, before anything is opened.
 * `version`: of this program, for the sentence that an earlier one will say. `spaceBytes`: what must be free.
 * @throws StartupError
 */
export async function takeDataDirectory(
  directory: string,
  { version, spaceBytes }: { readonly version: string; readonly spaceBytes: number },
): Promise<{ release(): Promise<void> }> {
  const lock = await attempt(directory, directory, () => lockDirectory(directory));
  try {
    for (const name of CONTENTS) {
      const path = name === '.' ? directory : join(directory, name);
      await attempt(directory, path, () => {
        try {
          accessSync(path, constants.R_OK | constants.W_OK);
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
        }
      });
    }
    if (existsSync(join(directory, DATA_FILES.restoring)))
      throw new StartupError(
        `A restore into ${directory} was cut off: run \`statefold restore\` again, or choose another STATEFOLD_DATA_DIR.`,
      );
    await attempt(directory, directory, () => checkSpace(directory, spaceBytes));
    await attempt(directory, join(directory, DATA_FILES.format), () => checkFormat(directory, version));
    for (const [name, remedy] of Object.entries(ENVIRONMENTS)) {
      const path = join(directory, name, 'data.mdb');
      if (isDamaged(path))
        throw new StartupError(
          `${path} is damaged: it does not begin as a file of lmdb does. ${remedy(join(directory, name))}, or choose another STATEFOLD_DATA_DIR.`,
        );
    }
    return lock;
  } catch (error) {
    await lock.release();
    throw error;
  }
}

async function attempt<T>(directory: string, path: string, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw (error instanceof StartupError ? undefined : dataFailure(error, path, directory)) ?? error;
  }
}

/** Opening another file as one of its own ends the process in the lmdb library. */
function isDamaged(path: string): boolean {
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
  try {
    const head = Buffer.alloc(LMDB_MAGIC_AT + 4);
    const read = readSync(file, head, 0, head.length, 0);
    return read > 0 && (read < head.length || head.readUInt32LE(LMDB_MAGIC_AT) !== LMDB_MAGIC);
  } finally {
    closeSync(file);
  }
}

function checkSpace(directory: string, wanted: number): void {
  const { blocks, bavail, bsize } = statfsSync(directory);
  const free = bavail * bsize;
  // Some file systems don't say how large they are.
  if (blocks > 0 && free < wanted)
    throw new StartupError(
      `The disk of the data directory ${directory} is full: ${Math.floor(free / MIB)} MiB are free, and ${Math.ceil(wanted / MIB)} MiB must be. Make room, or choose another STATEFOLD_DATA_DIR.`,
    );
}

/** Data without the file was written before there was one, in format 1. */
async function checkFormat(directory: string, version: string): Promise<void> {
  const path = join(directory, DATA_FILES.format);
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    const written = { format: DATA_FORMAT, writtenBy: version };
    return writeDurably(directory, DATA_FILES.format, `${JSON.stringify(written)}\n`);
  }
  const { format, writtenBy } = parse(text);
  if (typeof format !== 'number' || !Number.isInteger(format))
    throw new StartupError(
      `${path} does not say which format the data has: restore it from a backup, or choose another STATEFOLD_DATA_DIR.`,
    );
  if (format > DATA_FORMAT)
    throw new StartupError(
      `The data in ${directory} were written by a newer Statefold${typeof writtenBy === 'string' ? ` (${writtenBy})` : ''}: their format is ${format}, and this version, ${version}, reads up to ${DATA_FORMAT}. Start the newer version, or choose another STATEFOLD_DATA_DIR.`,
    );
}

function parse(text: string): { readonly format?: unknown; readonly writtenBy?: unknown } {
  try {
    return (JSON.parse(text) ?? {}) as object;
  } catch {
    return {};
  }
}
