import { createHash, randomBytes } from 'node:crypto';
import { createReadStream, createWriteStream, existsSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { z } from 'zod';
import { beforeSignalEnds } from '../cli/interrupted.js';
import { CliError, type BackupSummary } from '../cli/io.js';
import { DATA_FILES } from '../config/data-files.js';
import { makeFilesPrivate, makePrivateFolder } from '../core/private-folder.js';
import { DirectoryInUseError, LOCK_FILE, lockDirectory } from '../log/embedded/instance-lock.js';
import { copyLog } from '../log/embedded/log-backup.js';
import { DATA_FORMAT } from './data-directory.js';
import { synced, writeDurably } from './durable-file.js';
import { noteBackup } from './last-backup.js';

/** What a backup is complete with: written last. */
const MANIFEST_FILE = 'backup.json';
const MANIFEST_VERSION = 1;
/** In the folder of a backup: what is written of it, until all is there. */
const PART_FOLDER = '.part';
const LOG_FILE = `${DATA_FILES.log}/data.mdb`;
/** Beside the log: all else in a data directory is made of it again. */
const KEPT_FILES = [DATA_FILES.format, DATA_FILES.adminKey, DATA_FILES.masterKey, DATA_FILES.firstKey] as const;

const Manifest = z.object({
  backup: z.number(),
  /** Of the data directory. */
  format: z.number(),
  writtenBy: z.string(),
  takenAt: z.string(),
  files: z
    .array(z.object({ name: z.enum([LOG_FILE, ...KEPT_FILES]), bytes: z.number(), sha256: z.string() }))
    .refine(hasLog),
});
/** The log, and each file once: of a list that somebody has cut an empty service would be made. */
function hasLog(files: readonly { readonly name: string }[]): boolean {
  const names = new Set(files.map(({ name }) => name));
  return names.size === files.length && names.has(LOG_FILE);
}
type Manifest = z.infer<typeof Manifest>;
type BackedUpFile = Manifest['files'][number];

/** What stands in an empty folder: its lock, and what a volume of its own has of its file system. */
const OF_NO_DATA: ReadonlySet<string> = new Set([LOCK_FILE, 'lost+found']);

/** What one that was ended halfway leaves in its folder; one with a manifest is whole. */
const OF_PART: ReadonlySet<string> = new Set([PART_FOLDER, `${MANIFEST_FILE}.new`, DATA_FILES.log, ...KEPT_FILES]);

/**
 * Copies what a data directory of the embedded log can't be without into a folder of its own, while a service uses it or not. What
 * is written lies under a name of its own there until all of it is on the disk; where that was cut off, it is begun anew. The data
 * directory is told when it was taken; where it can't be, the backup is whole all the same.
 * @throws CliError saying what to do
 */
export async function backUp(dataDirectory: string, folder: string, writtenBy: string): Promise<BackupSummary> {
  if (!existsSync(join(dataDirectory, LOG_FILE)))
    throw new CliError(
      `${dataDirectory} is no data directory with a log in it: set STATEFOLD_DATA_DIR to that of the service, and run this on its machine, as its user.`,
    );
  mustTakeBackup(folder);
  const isNew = !existsSync(folder);
  const lock = await lockDirectory(folder).catch((error: unknown) => {
    if (error instanceof DirectoryInUseError)
      throw new CliError(`Another backup is being made in ${folder}: name another folder, or wait until it is there.`);
    throw notMade(error as Error);
  });
  const removePart = (): void => {
    for (const path of isNew ? [folder] : [...OF_PART].map((name) => join(folder, name)))
      rmSync(path, { recursive: true, force: true });
  };
  const done = beforeSignalEnds(removePart);
  try {
    if (!isNew) {
      // What another one has made there meanwhile stays.
      mustTakeBackup(folder);
      removePart();
    }
    const made = await written(dataDirectory, folder, writtenBy);
    // It is whole: what ends this process now takes nothing of it.
    done();
    return await noted(dataDirectory, made);
  } catch (error) {
    if (error instanceof CliError) throw error;
    // Nobody is to find the half of it.
    removePart();
    throw notMade(error as Error);
  } finally {
    done();
    await lock.release();
  }
}

async function noted(dataDirectory: string, made: BackupSummary): Promise<BackupSummary> {
  try {
    await noteBackup(dataDirectory, made.takenAt);
    return made;
  } catch (error) {
    return { ...made, notNoted: (error as Error).message };
  }
}

const notMade = ({ message }: Error): CliError =>
  new CliError(`The backup could not be made: ${message}. Nothing of it was left.`);

/** The folder is not there, is empty, or has what a backup left that was cut off. @throws CliError */
function mustTakeBackup(folder: string): void {
  const stats = statSync(folder, { throwIfNoEntry: false });
  if (stats === undefined) return;
  const there = stats.isDirectory() ? readdirSync(folder).filter((name) => !OF_NO_DATA.has(name)) : undefined;
  if (there?.length === 0 || (there !== undefined && isPart(there))) return;
  throw new CliError(`${folder} is not empty: a backup is made in a folder of its own. Name one that is not there.`);
}

const isPart = (names: readonly string[]): boolean =>
  names.includes(PART_FOLDER) && names.every((name) => OF_PART.has(name));

async function written(dataDirectory: string, folder: string, writtenBy: string): Promise<BackupSummary> {
  const takenAt = new Date().toISOString();
  const part = join(folder, PART_FOLDER);
  makePrivateFolder(folder);
  makePrivateFolder(part);
  makePrivateFolder(join(part, DATA_FILES.log));
  await copyLog(join(dataDirectory, DATA_FILES.log), join(part, DATA_FILES.log));
  makeFilesPrivate(join(part, DATA_FILES.log));
  const files: BackedUpFile[] = [await hashed(part, LOG_FILE)];
  for (const name of KEPT_FILES) {
    const path = join(dataDirectory, name);
    if (existsSync(path)) files.push(await copied(path, part, name));
  }
  await synced(join(part, DATA_FILES.log));
  for (const name of readdirSync(part)) await rename(join(part, name), join(folder, name));
  const manifest: Manifest = { backup: MANIFEST_VERSION, format: DATA_FORMAT, writtenBy, takenAt, files };
  await writeDurably(folder, MANIFEST_FILE, `${JSON.stringify(manifest, null, 2)}\n`);
  await rm(part, { recursive: true });
  await synced(folder);
  return summaryOf(folder, manifest);
}

/**
 * Makes a data directory of a backup: each file as it was written, by its hash. The directory must be empty, and stays marked
 * as half restored until the last file is on the disk, so that no service starts on a part.
 * @throws CliError saying what to do
 */
export async function restore(folder: string, dataDirectory: string): Promise<BackupSummary> {
  const manifest = readManifest(folder);
  const lock = await lockDirectory(dataDirectory).catch((error: unknown) => {
    throw new CliError((error as Error).message);
  });
  const marker = join(dataDirectory, DATA_FILES.restoring);
  try {
    const there = readdirSync(dataDirectory).filter((name) => !OF_NO_DATA.has(name));
    if (!existsSync(marker) && there.length > 0)
      throw new CliError(
        `${dataDirectory} is not empty: a backup is restored into a new data directory. Move this one away, or set STATEFOLD_DATA_DIR to another one.`,
      );
    for (const name of there)
      if (name !== DATA_FILES.restoring) await rm(join(dataDirectory, name), { recursive: true });
    await writeDurably(dataDirectory, DATA_FILES.restoring, '');
    makePrivateFolder(join(dataDirectory, DATA_FILES.log));
    for (const file of manifest.files) {
      const { sha256 } = await copied(join(folder, file.name), dataDirectory, file.name);
      if (sha256 !== file.sha256)
        throw new CliError(
          `${join(folder, file.name)} is not what was backed up: its SHA-256 is ${sha256}, and was ${file.sha256}. Take another backup; nothing was restored.`,
        );
    }
    await writeDurably(dataDirectory, DATA_FILES.restored, randomBytes(4).toString('hex'));
    await rm(marker);
    await synced(dataDirectory);
    return summaryOf(folder, manifest);
  } catch (error) {
    if (error instanceof CliError) throw error;
    const until = existsSync(marker)
      ? `No service starts in ${dataDirectory} until that is put right and the restore is run again.`
      : `Put that right, and run the restore again into an empty ${dataDirectory}.`;
    throw new CliError(`The backup could not be restored: ${(error as Error).message}. ${until}`);
  } finally {
    await lock.release();
  }
}

function readManifest(folder: string): Manifest {
  let text: string;
  try {
    text = readFileSync(join(folder, MANIFEST_FILE), 'utf8');
  } catch (error) {
    if (existsSync(join(folder, PART_FOLDER)))
      throw new CliError(
        `${folder} is no whole backup: it is being made, or was cut off. Run 'statefold backup' into it again, or name another one.`,
      );
    throw new CliError(
      `${folder} is no whole backup: ${MANIFEST_FILE} can't be read (${(error as Error).message}). Name a folder that 'statefold backup' has made.`,
    );
  }
  let manifest: Manifest;
  try {
    manifest = Manifest.parse(JSON.parse(text));
  } catch {
    throw new CliError(`${join(folder, MANIFEST_FILE)} is not as 'statefold backup' writes it: take another backup.`);
  }
  if (manifest.backup > MANIFEST_VERSION || manifest.format > DATA_FORMAT)
    throw new CliError(
      `The backup in ${folder} was made by a newer Statefold (${manifest.writtenBy}): restore it with that one.`,
    );
  return manifest;
}

const summaryOf = (folder: string, { takenAt, files }: Manifest): BackupSummary => ({
  folder,
  takenAt,
  bytes: files.reduce((sum, { bytes }) => sum + bytes, 0),
  hasMasterKey: files.some(({ name }) => name === DATA_FILES.masterKey),
});

/** Copies a file, to be read by this user alone; it is on the disk when this resolves. */
async function copied(from: string, folder: string, name: BackedUpFile['name']): Promise<BackedUpFile> {
  const target = join(folder, name);
  const seen = counting();
  await pipeline(createReadStream(from), seen.counted, createWriteStream(target, { mode: 0o600, flush: true }));
  return { name, ...seen.hash() };
}

/** A file that is there. */
async function hashed(folder: string, name: BackedUpFile['name']): Promise<BackedUpFile> {
  const path = join(folder, name);
  const seen = counting();
  await pipeline(createReadStream(path), seen.counted, (read: AsyncIterable<unknown>) => drained(read));
  await synced(path);
  return { name, ...seen.hash() };
}

async function drained(read: AsyncIterable<unknown>): Promise<void> {
  for await (const chunk of read) void chunk;
}

function counting(): { readonly counted: Transform; hash(): { readonly bytes: number; readonly sha256: string } } {
  const sha256 = createHash('sha256');
  let bytes = 0;
  const counted = new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      sha256.update(chunk);
      bytes += chunk.length;
      done(null, chunk);
    },
  });
  return { counted, hash: () => ({ bytes, sha256: sha256.digest('hex') }) };
}
