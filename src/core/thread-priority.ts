import { readlinkSync } from 'node:fs';
import { setPriority } from 'node:os';
import { basename } from 'node:path';

/** What the calling thread does takes less of the processors than others. On Linux a thread has a niceness of its own; elsewhere it stays as it is. */
export function giveWay(nice: number): void {
  try {
    setPriority(Number(basename(readlinkSync('/proc/thread-self'))), nice);
  } catch {
    return;
  }
}
