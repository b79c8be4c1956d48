import { readlinkSync } from 'node:fs';
import { setPriority } from 'node:os';
import { basename } from 'node:path';

/** A third of the processor that the service has where both want it. */
export const BEHIND = 5;

/** What nobody waits for while there is something else to do. */
export const LAST = 19;

/** The process gives way to others. To be called before it has threads of its own: they have its priority. */
export function giveWay(pid: number, niceness: number): void {
  lower(() => setPriority(pid, niceness));
}

/** What the calling thread does takes less of the processors than others. On Linux a thread has a niceness of its own; elsewhere it stays as it is. */
export function threadGivesWay(niceness: number): void {
  lower(() => setPriority(Number(basename(readlinkSync('/proc/thread-self'))), niceness));
}

function lower(set: () => void): void {
  try {
    set();
  } catch {
    // It has ended, or this system has no such thing: it runs as any other.
  }
}
