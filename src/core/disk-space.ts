import { statfsSync } from 'node:fs';

/**
 * A write that fails for want of space makes the lmdb library damage its heap (3.5.6: the process aborts some writes later), so
 * none is begun that might: the log refuses when less is left, the local store a little later, since it writes what the log took.
 */
export const LOG_RESERVE_BYTES = 64 * 1024 * 1024;
export const STORE_RESERVE_BYTES = 32 * 1024 * 1024;

/** Bytes of the file system of `path`: those that this user may write, and all. Some file systems say 0 of both. */
export function spaceOf(path: string): { readonly free: number; readonly size: number } {
  const { blocks, bavail, bsize } = statfsSync(path);
  return { free: bavail * bsize, size: blocks * bsize };
}

/** @throws Error when a write of about so many bytes would leave less than `reserve` on the file system of `path`. */
export function requireSpace(path: string, bytes: number, reserve: number): void {
  const space = spaceOf(path);
  if (isTooFull(space, bytes, reserve))
    throw new Error(`the disk is full: ${space.free} bytes are left, and ${reserve} of them kept back`);
}

/** Whether that would throw for the smallest of writes. */
export const isFull = (path: string, reserve: number): boolean => isTooFull(spaceOf(path), 0, reserve);

/** Pages are copied on write, and some file systems don't say how large they are. */
const isTooFull = ({ free, size }: ReturnType<typeof spaceOf>, bytes: number, reserve: number): boolean =>
  size > 0 && free < reserve + 2 * bytes;
