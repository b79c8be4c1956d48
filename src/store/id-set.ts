import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { open, type RootDatabase } from 'lmdb';

/** Which ids were there already, of more than memory would hold. */
export interface IdSet {
  /** Resolves with true when the id was not there before. */
  add(id: Buffer): Promise<boolean>;
  /** Removes it. */
  close(): Promise<void>;
}

/** Sets in files below the folder. None outlives its process: what is there is of one that was killed, and goes. */
export class IdSets {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
    rmSync(folder, { recursive: true, force: true });
  }

  open(): IdSet {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    return new StoredIds(mkdtempSync(join(this.#folder, 'ids-')));
  }
}

class StoredIds implements IdSet {
  readonly #path: string;
  readonly #db: RootDatabase<boolean, Buffer>;

  constructor(path: string) {
    this.#path = path;
    // It is gone with the process: nothing has to be on the disk.
    this.#db = open({ path, keyEncoding: 'binary', noSync: true, overlappingSync: false, noSubdir: false });
  }

  add(id: Buffer): Promise<boolean> {
    return this.#db.ifNoExists(id, () => void this.#db.put(id, true));
  }

  async close(): Promise<void> {
    await this.#db.close();
    rmSync(this.#path, { recursive: true, force: true });
  }
}
