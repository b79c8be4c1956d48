import { readdirSync, readFileSync } from 'node:fs';

export interface ProcessUsage {
  /** What was moved to swap included. */
  readonly residentBytes: number;
  readonly threads: number;
  /** Of all that it has mapped, reserved or not. */
  readonly addressBytes: number;
  /** Part of what is resident. */
  readonly sharedResidentBytes: number;
}

const RESIDENT = /^VmRSS:\s+(\d+) kB$/m;
const SWAPPED = /^VmSwap:\s+(\d+) kB$/m;
const ADDRESSES = /^VmSize:\s+(\d+) kB$/m;
const SHARED = /^RssShmem:\s+(\d+) kB$/m;
const THREADS = /^Threads:\s+(\d+)$/m;

/** What the kernel says of a process; undefined when that is gone, or may not be read, or where there is no /proc. */
export function procFile(pid: number, name: 'status' | 'stat' | 'schedstat'): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'latin1');
  } catch {
    return undefined;
  }
}

/** What a process takes now; undefined when it is gone, or where there is no /proc. Costs some 20 µs. */
export function usageOf(pid: number): ProcessUsage | undefined {
  const text = procFile(pid, 'status');
  if (text === undefined) return undefined;
  const kibibytes = (field: RegExp): number => Number(field.exec(text)?.[1] ?? 0) * 1024;
  const threads = Number(THREADS.exec(text)?.[1] ?? 0);
  // A zombie has no memory any more.
  return threads === 0 || !RESIDENT.test(text)
    ? undefined
    : {
        residentBytes: kibibytes(RESIDENT) + kibibytes(SWAPPED),
        threads,
        addressBytes: kibibytes(ADDRESSES),
        sharedResidentBytes: kibibytes(SHARED),
      };
}

/** Of the kernel's interface, whatever the ticks of its own clock are. */
const TICKS_PER_SECOND = 100;

/** Processor time that all threads of a process have used, in milliseconds; undefined when it is gone, or where there is no /proc. */
export function processorMsOf(pid: number): number | undefined {
  const text = procFile(pid, 'stat');
  if (text === undefined) return undefined;
  // User and system time are the 14th and 15th.
  const fields = statFields(text);
  const ticks = Number(fields[11]) + Number(fields[12]);
  return Number.isFinite(ticks) ? (ticks * 1000) / TICKS_PER_SECOND : undefined;
}

/** Of Linux: a processor is had while nothing else wants it. */
const SCHED_IDLE = 5;

/** What the kernel says in `stat`, of a process or a thread, from its third field on: behind the name, which may hold anything. */
const statFields = (text: string): readonly string[] => text.slice(text.lastIndexOf(')') + 2).split(' ');

/**
 * A process that has what others leave of the processors, and waits for more: some of its threads could run now. False where it sleeps, is
 * stopped, or is gone. It costs a file a thread.
 */
export function waitsForLeftovers(pid: number): boolean {
  const text = procFile(pid, 'stat');
  if (text === undefined || Number(statFields(text)[38]) !== SCHED_IDLE) return false;
  try {
    return readdirSync(`/proc/${pid}/task`).some((thread) => {
      const [state] = statFields(readFileSync(`/proc/${pid}/task/${thread}/stat`, 'latin1'));
      return state === 'R';
    });
  } catch {
    // A thread has ended meanwhile, or all of them.
    return false;
  }
}

/** Of time in which a process has work: its fold is one thread, beside which the runtime compiles and collects. */
const PER_WORK = 1.25;
/** Of all time: what a runtime at rest needs. */
const PER_TIME = 0.05;

/**
 * The processor time that a process may use beside its work: an allowance that grows back. Code that leaves threads behind uses it
 * up, however short its events are.
 */
export class ProcessorAllowance {
  readonly #mostMs: number;
  #leftMs: number;
  #at: number;
  #usedMs = 0;
  #busyMs = 0;

  constructor(mostMs: number, now: number) {
    this.#mostMs = mostMs;
    this.#leftMs = mostMs;
    this.#at = now;
  }

  /** All since its start: what it used, and the time in which it had work. True: it has used more than it may. */
  exceeded(usedMs: number, busyMs: number, now: number): boolean {
    const grown = PER_WORK * (busyMs - this.#busyMs) + PER_TIME * (now - this.#at);
    this.#leftMs = Math.min(this.#mostMs, this.#leftMs + grown - (usedMs - this.#usedMs));
    this.#usedMs = usedMs;
    this.#busyMs = busyMs;
    this.#at = now;
    return this.#leftMs < 0;
  }
}

/** Why the process is past its limits; undefined when it is not. */
export function excessOf(usage: ProcessUsage, maxResidentBytes: number, maxThreads: number): string | undefined {
  if (usage.residentBytes > maxResidentBytes)
    return `took ${mebibytes(usage.residentBytes)} of memory, more than its ${mebibytes(maxResidentBytes)}`;
  if (usage.threads > maxThreads) return `ran ${usage.threads} threads, more than its ${maxThreads}`;
  return undefined;
}

const mebibytes = (bytes: number): string => `${Math.round(bytes / 1024 / 1024)} MiB`;
