import { statfsSync } from 'node:fs';

/**
 * A write that fails for want of space makes the lmdb library damage its heap (3.5.6: the process aborts some writes later), so
 * none is begun that might: the log refuses when less is left, the local store a little later, since it writes what the log took.
 */
export const LOG_RESERVE_BYTES = 64 * 1024 * 1024;
export const STORE_RESERVE_BYTES = 32 * 1024 * 1024;
/** What is removed, and what keeps order, is little at a time, and makes room: it is written until this part of it is left. */
export const reserveOfRemovals = (reserve: number): number => reserve / 16;

/** Bytes of a file system: those that this user may write, and all. Some file systems say 0 of both. */
interface Space {
  readonly free: number;
  readonly size: number;
}

/** Of the file system of `path`. */
export function spaceOf(path: string): Space {
  const { blocks, bavail, bsize } = statfsSync(path);
  return { free: bavail * bsize, size: blocks * bsize };
}

/** @throws Error when a write of about so many bytes would leave less than `reserve` on the file system of `path`. */
export function requireSpace(path: string, bytes: number, reserve: number): void {
  refuseWhereFull(spaceOf(path), bytes, reserve);
}

function refuseWhereFull(space: Space, bytes: number, reserve: number): void {
  if (isTooFull(space, bytes, reserve))
    throw new Error(`the disk is full: ${space.free} bytes are left, and ${reserve} of them kept back`);
}

/** Where so much is free beyond what is kept back, nobody fills the disk until it is looked at again. */
const PLENTY_BYTES = 1024 ** 3;
const LOOKED_AT_AGAIN_MS = 100;

/** The same for who writes all the time: a system call for each write only where the disk is nearly full. */
export class SpaceCheck {
  readonly #path: string;
  readonly #reserve: number;
  readonly #spaceOf: typeof spaceOf;
  /** What may be written without another look, and until when, milliseconds. */
  #plenty = 0;
  #until = -Infinity;

  constructor(path: string, reserve: number, look = spaceOf) {
    this.#path = path;
    this.#reserve = reserve;
    this.#spaceOf = look;
  }

  /** @throws Error as `requireSpace` */
  require(bytes: number, now = performance.now()): void {
    if (now >= this.#until || 2 * bytes > this.#plenty) {
      const space = this.#spaceOf(this.#path);
      refuseWhereFull(space, bytes, this.#reserve);
      this.#plenty = space.free - this.#reserve - PLENTY_BYTES;
      this.#until = now + LOOKED_AT_AGAIN_MS;
    }
    this.#plenty -= 2 * bytes;
  }
}

/** Whether that would throw for the smallest of writes. */
export const isFull = (path: string, reserve: number): boolean => isTooFull(spaceOf(path), 0, reserve);

/** Pages are copied on write, and some file systems don't say how large they are. */
const isTooFull = ({ free, size }: Space, bytes: number, reserve: number): boolean =>
  size > 0 && free < reserve + 2 * bytes;
