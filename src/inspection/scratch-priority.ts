import { constants, setPriority } from 'node:os';

const MARK = '~';

/** Of a runner apart from the tenant's live one: no tenant's id, which has no such character. */
export const scratchName = (tenantId: string, what: 'at' | 'dry'): string => `${tenantId}${MARK}${what}`;

/** What is folded again gives way to what is folded live. Called when a process starts, before it has threads: they have its priority. */
export function lowerScratchPriority({
  tenantId,
  pid,
}: {
  readonly tenantId: string | undefined;
  readonly pid: number;
}): void {
  if (tenantId?.includes(MARK) !== true) return;
  try {
    setPriority(pid, constants.priority.PRIORITY_BELOW_NORMAL);
  } catch {
    // It has ended, or is another user's: it runs as any other.
  }
}
