import { writeFileSync } from 'node:fs';
import { setPriority } from 'node:os';

/** A third of the processor that the service has where both want it. */
export const BEHIND = 5;

/**
 * The process gives way to the service. Linux schedules sessions as groups where `kernel.sched_autogroup_enabled` is 1, and a
 * priority counts only within one; so that of the group is set too. To be called before it has threads: they have its priority.
 */
export function giveWay(pid: number, niceness: number): void {
  for (const lower of [
    () => setPriority(pid, niceness),
    () => writeFileSync(`/proc/${pid}/autogroup`, String(niceness), { flag: 'r+' }),
  ])
    try {
      lower();
    } catch {
      // It has ended, or this system has no such thing: it runs as any other.
    }
}
