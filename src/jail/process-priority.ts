import { setPriority } from 'node:os';

/** A third of the processor that the service has where both want it. */
export const BEHIND = 5;

/** What nobody waits for while there is something else to do. */
export const LAST = 19;

/** The process gives way to the service. To be called before it has threads: they have its priority. */
export function giveWay(pid: number, niceness: number): void {
  try {
    setPriority(pid, niceness);
  } catch {
    // It has ended, or this system has no such thing: it runs as any other.
  }
}
