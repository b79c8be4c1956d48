import { open, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Writes a file that this user alone may read: whole or not at all, and on the disk when this resolves. */
export async function writeDurably(folder: string, name: string, text: string): Promise<void> {
  const draft = join(folder, `${name}.new`);
  try {
    await writeFile(draft, text, { mode: 0o600, flush: true });
    await rename(draft, join(folder, name));
  } catch (error) {
    await rm(draft, { force: true }).catch(() => undefined);
    throw error;
  }
  await synced(folder);
}

/** What lies under the path is on the disk when this resolves; of a folder its names. */
export async function synced(path: string): Promise<void> {
  const file = await open(path, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
