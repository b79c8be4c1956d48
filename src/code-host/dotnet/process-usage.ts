import { readFileSync } from 'node:fs';

export interface ProcessUsage {
  readonly residentBytes: number;
  readonly threads: number;
}

const RESIDENT = /^VmRSS:\s+(\d+) kB$/m;
const THREADS = /^Threads:\s+(\d+)$/m;

/** What a process takes now; undefined when it is gone, or where there is no /proc. Costs some 20 µs. */
export function usageOf(pid: number): ProcessUsage | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/status`, 'latin1');
  } catch {
    return undefined;
  }
  const [resident, threads] = [RESIDENT.exec(text)?.[1], THREADS.exec(text)?.[1]];
  // A zombie has no memory any more.
  return resident === undefined || threads === undefined
    ? undefined
    : { residentBytes: Number(resident) * 1024, threads: Number(threads) };
}

/** Why the process is past its limits; undefined when it is not. */
export function excessOf(usage: ProcessUsage, maxResidentBytes: number, maxThreads: number): string | undefined {
  if (usage.residentBytes > maxResidentBytes)
    return `took ${mebibytes(usage.residentBytes)} of memory, more than its ${mebibytes(maxResidentBytes)}`;
  if (usage.threads > maxThreads) return `ran ${usage.threads} threads, more than its ${maxThreads}`;
  return undefined;
}

const mebibytes = (bytes: number): string => `${Math.round(bytes / 1024 / 1024)} MiB`;
