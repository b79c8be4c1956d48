import { open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Writes a file that its owner alone may read: whole or not at all, and on the disk when this resolves. No link is followed, whoever else
 * writes to the folder. `owner`: in place of this process's user, whom that takes to be root.
 */
export async function writeDurably(
  folder: string,
  name: string,
  text: string,
  owner?: { readonly uid: number; readonly gid: number },
): Promise<void> {
  const draft = join(folder, `${name}.new`);
  await rm(draft, { force: true });
  const file = await open(draft, 'wx', 0o600);
  try {
    try {
      await file.writeFile(text);
      if (owner !== undefined) await file.chown(owner.uid, owner.gid);
      await file.sync();
    } finally {
      await file.close();
    }
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
