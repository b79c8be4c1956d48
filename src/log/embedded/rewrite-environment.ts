import { closeSync, existsSync, openSync, renameSync, rmSync } from 'node:fs';
import { statfs, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { open, type Database, type RootDatabase } from 'lmdb';
import type { Logger } from '../../core/logger.js';
import { makeFilesPrivate, makePrivateFolder } from '../../core/private-folder.js';
import { nextTurn } from '../../core/slices.js';

/** There while lmdb's file may hold bytes of what was erased, in pages, and gaps of pages, that it uses no more. */
const DUE = 'rewrite';
const BATCH_BYTES = 1024 * 1024;

export interface Environment {
  readonly path: string;
  /** Of its named databases. */
  readonly databases?: readonly string[];
  /** Length of the keys of its unnamed one, where not all entries there are its own. */
  readonly keyBytes?: number;
}

/** The environment in the folder is written anew at the next start. */
export function markForRewrite({ path }: Environment): void {
  closeSync(openSync(join(path, DUE), 'a', 0o600));
}

/**
 * Writes an lmdb environment anew, entry by entry, where it is marked for that: what was removed from it is then in no byte of its
 * files. lmdb leaves it in free pages until it needs them, and in the gaps of pages that were split; a copy of the pages, also a
 * compacting one, takes the gaps along. Call it before the environment is opened. Where there is no room it stays as it is, and marked.
 * @returns whether it was written anew
 */
export async function rewriteIfDue({ path, databases = [], keyBytes }: Environment, logger: Logger): Promise<boolean> {
  const [beside, before] = [`${path}.rewritten`, `${path}.before`];
  // The former one was moved away, so the new one was whole.
  if (existsSync(before) && !existsSync(path)) renameSync(beside, path);
  for (const left of [before, beside]) rmSync(left, { recursive: true, force: true });
  if (!existsSync(join(path, DUE)) || !existsSync(join(path, 'data.mdb'))) return false;
  const started = performance.now();
  const { size } = await stat(join(path, 'data.mdb'));
  const { bavail, bsize } = await statfs(path);
  if (bavail * bsize < size) {
    logger.warn(
      { path, bytes: size },
      'there is no room to write a store anew from which something was erased: the next start tries again',
    );
    return false;
  }
  makePrivateFolder(beside);
  const raw = { encoding: 'binary', keyEncoding: 'binary' } as const;
  const tuning = { noSubdir: false, maxDbs: 4, overlappingSync: false } as const;
  const source = open<Buffer, Buffer>({ path, ...raw, ...tuning, readOnly: true });
  const target = open<Buffer, Buffer>({ path: beside, ...raw, ...tuning });
  try {
    await copy(source, target, (key) => keyBytes === undefined || key.length === keyBytes);
    for (const name of databases) {
      // Undefined: an earlier release wrote the environment, which had none of that name.
      const named = source.openDB<Buffer, Buffer>({ name, ...raw }) as Database<Buffer, Buffer> | undefined;
      if (named !== undefined) await copy(named, target.openDB<Buffer, Buffer>({ name, ...raw }));
    }
    await target.flushed;
  } finally {
    await source.close();
    await target.close();
  }
  makeFilesPrivate(beside);
  renameSync(path, before);
  renameSync(beside, path);
  rmSync(before, { recursive: true, force: true });
  logger.info({ path, bytes: size, seconds: (performance.now() - started) / 1000 }, 'a store was written anew');
  return true;
}

type Entries = Pick<RootDatabase<Buffer, Buffer> | Database<Buffer, Buffer>, 'getRange' | 'put'>;

async function copy(from: Entries, to: Entries, isOwn: (key: Buffer) => boolean = () => true): Promise<void> {
  let bytes = 0;
  let written: Promise<boolean>[] = [];
  for (const { key, value } of from.getRange({})) {
    if (!isOwn(key)) continue;
    // lmdb hands out a view of its own memory, which lasts only for this step.
    written.push(to.put(Buffer.from(key), Buffer.from(value)));
    bytes += value.length;
    if (bytes < BATCH_BYTES) continue;
    await Promise.all(written);
    [written, bytes] = [[], 0];
    await nextTurn();
  }
  await Promise.all(written);
}
