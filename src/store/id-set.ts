import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { open, type RootDatabase } from 'lmdb';
import { requireSpace, STORE_RESERVE_BYTES } from '../core/disk-space.js';
import { StatefoldError } from '../core/errors.js';

/** Which ids were there already, of more than memory would hold. */
export interface IdSet {
  /** Resolves with true when the id was not there before. @throws StatefoldError UNAVAILABLE where the disk has no room for it */
  add(id: Buffer): Promise<boolean>;
  /** Removes it. */
  close(): Promise<void>;
}

/** What may be under way of a set: ids are in no order, so each may need a page of its own. */
const UNDER_WAY_BYTES = 8 * 1024 * 1024;

/** Sets in files below the folder. None outlives its process: what is there is of one that was killed, and goes. */
export class IdSets {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
    rmSync(folder, { recursive: true, force: true });
  }

  /** @throws StatefoldError UNAVAILABLE where the disk has no room for one */
  open(): IdSet {
    mustHaveRoom(dirname(this.#folder));
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

  async add(id: Buffer): Promise<boolean> {
    mustHaveRoom(this.#path);
    return this.#db.ifNoExists(id, () => void this.#db.put(id, true));
  }

  async close(): Promise<void> {
    await this.#db.close();
    rmSync(this.#path, { recursive: true, force: true });
  }
}

/** lmdb is not to find out by itself that a disk is full: that ends the process. */
function mustHaveRoom(path: string): void {
  try {
    requireSpace(path, UNDER_WAY_BYTES, STORE_RESERVE_BYTES);
  } catch (error) {
    throw new StatefoldError('UNAVAILABLE', `the ids can't be kept: ${(error as Error).message}`, { cause: error });
  }
}
