import { execFileSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';

/** Why a test of a full disk can't run, where there is none to be had. */
export const NO_SMALL_DISK = 'needs root on Linux, to mount a small tmpfs';

/** The folder of a file system of its own, gone when the test ends; undefined where none can be made. */
export function smallDisk(t: Pick<TestContext, 'after'>, megabytes: number): string | undefined {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return undefined;
  const directory = mkdtempSync(join(tmpdir(), 'statefold-disk-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', directory], { stdio: 'ignore' });
  } catch {
    rmSync(directory, { recursive: true });
    return undefined;
  }
  // Registered before what is started on it, whose clean-up ends that: lazily, so that the order does not matter.
  t.after(() => {
    execFileSync('umount', ['-l', directory]);
    rmSync(directory, { recursive: true, force: true });
  });
  return directory;
}

/** Takes all space that is left into the file. */
export function fill(file: string): void {
  const balloon = openSync(file, 'a');
  try {
    for (let size = 1024 * 1024; size >= 4096;)
      try {
        if (writeSync(balloon, Buffer.alloc(size, 1)) < size) size >>= 1;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
        size >>= 1;
      }
  } finally {
    closeSync(balloon);
  }
}
