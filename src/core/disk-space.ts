import { statfsSync } from 'node:fs';

/**
 * A write that fails for want of space makes the lmdb library damage its heap (3.5.6: the process aborts some writes later), so
 * none is begun that might: the log refuses when less is left, the local store a little later, since it writes what the log took.
 */
export const LOG_RESERVE_BYTES = 64 * 1024 * 1024;
export const STORE_RESERVE_BYTES = 32 * 1024 * 1024;

/** @throws Error when a write of about so many bytes would leave less than `reserve` on the file system of `path`. */
export function requireSpace(path: string, bytes: number, reserve: number): void {
  const { blocks, bavail, bsize } = statfsSync(path);
  // Pages are copied on write, and some file systems don't say how large they are.
  if (blocks > 0 && bavail * bsize < reserve + 2 * bytes)
    throw new Error(`the disk is full: ${bavail * bsize} bytes are left, and ${reserve} of them kept back`);
}
