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

/** What the kernel says of a process, or of a thread (`<pid>/task/<tid>`); undefined when that is gone, or may not be read, or where there is no /proc. */
export function procFile(of: number | string, name: 'status' | 'stat' | 'schedstat'): string | undefined {
  try {
    return readFileSync(`/proc/${of}/${name}`, 'latin1');
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

/** Of Linux: a processor is had while nothing else wants it. */
const SCHED_IDLE = 5;

/** How Linux schedules a process, or a thread. */
export interface Stat {
  /** R runs or waits for a processor, S sleeps, D waits for a disk, T is stopped. */
  readonly state: string;
  /** Of all threads of a process, milliseconds; undefined where it isn't told. */
  readonly processorMs: number | undefined;
  /** It has what others leave of the processors. */
  readonly isSpare: boolean;
}

/** Undefined when it is gone, or where there is no /proc. */
export function statOf(of: number | string): Stat | undefined {
  const text = procFile(of, 'stat');
  if (text === undefined) return undefined;
  // Behind the name, which may hold anything: state is the third field, user and system time the 14th and 15th, the policy the 41st.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const ticks = Number(fields[11]) + Number(fields[12]);
  return {
    state: fields[0] ?? '',
    processorMs: Number.isFinite(ticks) ? (ticks * 1000) / TICKS_PER_SECOND : undefined,
    isSpare: Number(fields[38]) === SCHED_IDLE,
  };
}

/** Processor time that all threads of a process have used, in milliseconds; undefined when it is gone, or where there is no /proc. */
export const processorMsOf = (pid: number): number | undefined => statOf(pid)?.processorMs;

/**
 * A process that has what others leave of the processors, and waits for more: some of its threads could run now. False where it sleeps, is
 * stopped, or is gone. It costs a file a thread.
 */
export function waitsForLeftovers(pid: number): boolean {
  if (statOf(pid)?.isSpare !== true) return false;
  try {
    return readdirSync(`/proc/${pid}/task`).some((thread) => statOf(`${pid}/task/${thread}`)?.state === 'R');
  } catch {
    // It has ended meanwhile.
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
