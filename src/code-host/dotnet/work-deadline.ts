import { procFile, processorMsOf } from '../../jail/process-usage.js';

/** What the kernel says of the thread that runs uploaded code: the first one of its process. */
export interface Scheduling {
  /** Time since its start in which it could have run and had no processor, milliseconds; undefined where the kernel doesn't count it. */
  readonly waitedMs: number | undefined;
  /** Processor time of all threads of the process since its start, milliseconds; undefined where the kernel doesn't count it. */
  readonly processorMs: number | undefined;
  /** As `/proc/<pid>/stat` has it: R runs or waits for a processor, S sleeps, D waits for a disk, T is stopped. */
  readonly state: string;
}

/** Undefined when the process is gone, or where there is no /proc. Costs some 20 µs. */
export function schedulingOf(pid: number): Scheduling | undefined {
  const stat = procFile(pid, 'stat');
  if (stat === undefined) return undefined;
  // Behind the name, which may hold anything.
  const state = stat.charAt(stat.lastIndexOf(')') + 2);
  const waited = Number(procFile(pid, 'schedstat')?.split(' ')[1]);
  return { state, waitedMs: Number.isFinite(waited) ? waited / 1e6 : undefined, processorMs: processorMsOf(pid) };
}

/** How a request came to its deadline. */
export interface Overrun {
  readonly reason: string;
  /** It had next to nothing of a processor, or was stopped by someone: that says nothing of the code. */
  readonly fromOutside: boolean;
}

export interface WorkDeadlineOptions {
  readonly pid: () => number | undefined;
  /** Once: it is armed no more. */
  readonly onOverrun: (overrun: Overrun) => void;
  /** What a test passes in. */
  readonly scheduling?: (pid: number) => Scheduling | undefined;
  readonly now?: () => number;
}

/** Of the deadline: how often it is looked. What ends before the first look costs none. */
const LOOKS = 4;
const SHORTEST_LOOK_MS = 20;
/** However little it got of a processor, a request has no longer than so many times its deadline, within bounds. */
const PATIENCE = 10;
const MOST_PATIENCE_MS = 60_000;

/**
 * The deadline of what a process is at. What counts is time in which its code runs, sleeps, or waits for what it made itself; not
 * time in which it waits for a processor or a disk, or is stopped (but for what other threads of its process used meanwhile: it is
 * they that it waits for), nor time in which this process itself stood still: on a busy
 * machine that is nobody's fault.
 */
export class WorkDeadline {
  readonly #options: WorkDeadlineOptions;
  readonly #now: () => number;
  #timer: NodeJS.Timeout | undefined;
  #last: NodeJS.Immediate | undefined;
  #deadlineMs = 0;
  #countedMs = 0;
  #passedMs = 0;
  #stoppedMs = 0;
  #lookedAt = 0;
  #waitedMs: number | undefined;
  #processorMs: number | undefined;

  constructor(options: WorkDeadlineOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Begins anew. */
  arm(deadlineMs: number): void {
    this.#deadlineMs = deadlineMs;
    this.#countedMs = 0;
    this.#passedMs = 0;
    this.#stoppedMs = 0;
    this.#goOn();
  }

  /** It waits for the host, until `resume`. */
  pause(): void {
    if (this.#timer === undefined) return;
    this.disarm();
    // Not looked at: it had answered before.
    this.#count(undefined);
  }

  /** It has what is left. */
  resume(): void {
    this.#goOn();
  }

  disarm(): void {
    clearTimeout(this.#timer);
    if (this.#last !== undefined) clearImmediate(this.#last);
    this.#timer = undefined;
    this.#last = undefined;
  }

  #goOn(): void {
    this.#lookedAt = this.#now();
    this.#waitedMs = undefined;
    this.#processorMs = undefined;
    this.#lookLater();
  }

  get #interval(): number {
    return Math.max(SHORTEST_LOOK_MS, this.#deadlineMs / LOOKS);
  }

  #lookLater(): void {
    this.disarm();
    const left = Math.max(1, this.#deadlineMs - this.#countedMs);
    this.#timer = setTimeout(() => this.#look(), Math.min(this.#interval, left));
  }

  #look(): void {
    const pid = this.#options.pid();
    this.#count(pid === undefined ? undefined : (this.#options.scheduling ?? schedulingOf)(pid));
    if (this.#overrun() === undefined) this.#lookLater();
    // Its answer may be here already, and not read yet: what is there is read before this.
    else this.#last = setImmediate(() => this.#end());
  }

  #count(scheduling: Scheduling | undefined): void {
    const now = this.#now();
    // More has passed where this process stood still, and then the other one may have, too.
    const passed = Math.min(now - this.#lookedAt, 2 * this.#interval);
    this.#lookedAt = now;
    this.#passedMs += passed;
    const waited = Math.max(0, (scheduling?.waitedMs ?? 0) - (this.#waitedMs ?? scheduling?.waitedMs ?? 0));
    this.#waitedMs = scheduling?.waitedMs;
    const used = Math.max(0, (scheduling?.processorMs ?? 0) - (this.#processorMs ?? scheduling?.processorMs ?? 0));
    this.#processorMs = scheduling?.processorMs;
    const stopped = scheduling?.state === 'T' || scheduling?.state === 't';
    if (stopped) this.#stoppedMs += passed;
    // A process that used as much as a processor gives lacked none, however long one of its threads waited behind the others.
    else if (scheduling?.state !== 'D') this.#countedMs += Math.max(passed - waited, Math.min(passed, used), 0);
  }

  #overrun(): Overrun | undefined {
    const deadlineMs = this.#deadlineMs;
    const its = `overran its ${deadlineMs.toLocaleString('en-US')} ms`;
    if (this.#countedMs >= deadlineMs) return { reason: its, fromOutside: false };
    if (this.#stoppedMs >= deadlineMs) return { reason: `${its}: it was stopped`, fromOutside: true };
    const patienceMs = Math.max(2 * deadlineMs, Math.min(PATIENCE * deadlineMs, MOST_PATIENCE_MS));
    return this.#passedMs < patienceMs
      ? undefined
      : {
          reason: `${its}: it had no answer after ${patienceMs.toLocaleString('en-US')} ms`,
          fromOutside: this.#countedMs < deadlineMs / 2,
        };
  }

  #end(): void {
    const overrun = this.#overrun();
    this.disarm();
    if (overrun !== undefined) this.#options.onOverrun(overrun);
  }
}
