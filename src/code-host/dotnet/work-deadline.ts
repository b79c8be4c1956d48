import { procFile, statOf } from '../../jail/process-usage.js';

/** What the kernel says of the thread that runs uploaded code: the first one of its process. */
export interface Scheduling {
  /** Time since its start in which it had a processor, milliseconds; undefined where the kernel doesn't count it. */
  readonly ranMs: number | undefined;
  /** How often it was given one; undefined as above. */
  readonly turns: number | undefined;
  /**
   * Time since its start in which it could have run and had no processor, milliseconds; undefined where the kernel doesn't count it.
   * The wait that it is in isn't in it: that is added when it ends.
   */
  readonly waitedMs: number | undefined;
  /** Processor time of all threads of the process since its start, milliseconds; undefined where the kernel doesn't count it. */
  readonly processorMs: number | undefined;
  /** As `/proc/<pid>/stat` has it: R runs or waits for a processor, S sleeps, D waits for a disk, T is stopped. */
  readonly state: string;
}

/** Undefined when the process is gone, or where there is no /proc. Costs some 20 µs. */
export function schedulingOf(pid: number): Scheduling | undefined {
  const stat = statOf(pid);
  if (stat === undefined) return undefined;
  const { state, processorMs } = stat;
  const [ran, waited, turns] = (procFile(pid, 'schedstat') ?? '').split(' ').map(Number);
  // Where the kernel is told not to count it says zeros.
  const counts = Number.isFinite(ran) && Number.isFinite(waited) && Number.isFinite(turns) && (ran !== 0 || processorMs === 0);
  if (!counts) return { state, ranMs: undefined, waitedMs: undefined, turns: undefined, processorMs };
  return { state, ranMs: (ran ?? 0) / 1e6, waitedMs: (waited ?? 0) / 1e6, turns, processorMs };
}

/** How a request came to its deadline. */
export interface Overrun {
  readonly reason: string;
  /**
   * Whose doing it was. `code`: its own. `outside`: it was stopped by someone, or hung in the kernel: that says nothing of the code.
   * `starved`: others kept it from the processors, for which it waited most of the time: nor does that, and to try at once is in vain.
   */
  readonly by: 'code' | 'outside' | 'starved';
}

export interface WorkDeadlineOptions {
  readonly pid: () => number | undefined;
  /** Once: it is armed no more. */
  readonly onOverrun: (overrun: Overrun) => void;
  /** What a test passes in. */
  readonly scheduling?: (pid: number) => Scheduling | undefined;
  readonly now?: () => number;
}

/** Of the deadline: how often it is looked. */
const LOOKS = 4;
/** What ends before the first look costs none. Until then it isn't known what it waited for, and it counts as a whole. */
const SHORTEST_LOOK_MS = 20;
/** However little it got of a processor, a request has no longer, or twice its deadline where that is more. */
const PATIENCE_MS = 60_000;
/** Whose turns are so short, milliseconds, and so many between two looks, gives the processor away (`sched_yield`): it waits of its own accord. */
const GIVEN_AWAY = { turnMs: 0.05, turns: 20 };

/**
 * The deadline of what a process is at. What counts is time in which its code runs, sleeps, or waits for what it made itself; not
 * time in which it waits for a processor or a disk, or is stopped (but for what other threads of its process used meanwhile: it is
 * they that it waits for), nor time in which this process itself stood still: on a busy machine that is nobody's fault.
 */
export class WorkDeadline {
  readonly #options: WorkDeadlineOptions;
  readonly #now: () => number;
  #timer: NodeJS.Timeout | undefined;
  #ending: NodeJS.Immediate | undefined;
  #deadlineMs = 0;
  #countedMs = 0;
  #passedMs = 0;
  #stoppedMs = 0;
  #lookedAt = 0;
  #last: Scheduling | undefined;
  /** Waited for a processor since it was armed, of what passed. */
  #waitedMs = 0;
  /** Passed, and not counted yet: it either slept in it or is still waiting for a processor, which shows when it has one. */
  #openMs = 0;

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
    this.#waitedMs = 0;
    this.#openMs = 0;
    this.#goOn();
  }

  /** It waits for the host, until `resume`. */
  pause(): void {
    if (this.#timer === undefined) return;
    this.disarm();
    // It has told something, so its last wait is known; for what was short that isn't worth it.
    const isShort = this.#openMs === 0 && this.#now() - this.#lookedAt < SHORTEST_LOOK_MS;
    this.#count(isShort ? undefined : this.#scheduling());
  }

  /** It has what is left. */
  resume(): void {
    this.#goOn();
  }

  disarm(): void {
    clearTimeout(this.#timer);
    if (this.#ending !== undefined) clearImmediate(this.#ending);
    this.#timer = undefined;
    this.#ending = undefined;
  }

  #goOn(): void {
    this.#lookedAt = this.#now();
    this.#last = undefined;
    this.#lookLater();
  }

  get #interval(): number {
    return this.#last === undefined ? SHORTEST_LOOK_MS : Math.max(SHORTEST_LOOK_MS, this.#deadlineMs / LOOKS);
  }

  #lookLater(): void {
    this.disarm();
    // Not each millisecond either, where it is nearly over and waits.
    const left = Math.max(Math.min(SHORTEST_LOOK_MS, this.#deadlineMs / LOOKS), this.#deadlineMs - this.#countedMs);
    this.#timer = setTimeout(() => this.#look(), Math.min(this.#interval, left));
  }

  #look(): void {
    this.#count(this.#scheduling());
    if (this.#overrun() === undefined) this.#lookLater();
    // Its answer may be here already, and not read yet: what is there is read before this.
    else this.#ending = setImmediate(() => this.#end());
  }

  #scheduling(): Scheduling | undefined {
    const pid = this.#options.pid();
    return pid === undefined ? undefined : (this.#options.scheduling ?? schedulingOf)(pid);
  }

  #count(scheduling: Scheduling | undefined): void {
    const now = this.#now();
    // More has passed where this process stood still, and then the other one may have, too.
    const passed = Math.min(now - this.#lookedAt, 2 * this.#interval);
    this.#lookedAt = now;
    this.#passedMs += passed;
    const last = this.#last;
    this.#last = scheduling;
    const ran = grownBy(last?.ranMs, scheduling?.ranMs);
    const turns = grownBy(last?.turns, scheduling?.turns);
    const givesAway = turns >= GIVEN_AWAY.turns && ran < GIVEN_AWAY.turnMs * turns;
    const waited = givesAway ? 0 : grownBy(last?.waitedMs, scheduling?.waitedMs);
    // Of all threads. A process that used as much as a processor gives lacked none, however long one of its threads waited behind the others.
    const used = Math.min(passed, grownBy(last?.processorMs, scheduling?.processorMs));
    const open = passed + this.#openMs;
    this.#waitedMs += Math.min(waited, open);
    const own = Math.max(0, open - waited);
    this.#openMs = 0;
    if (scheduling?.state === 'T' || scheduling?.state === 't') this.#stoppedMs += passed;
    else if (scheduling?.state === 'D') this.#countedMs += used;
    else {
      // A wait that has begun in this time, or goes on since before where none has ended.
      if (scheduling?.state === 'R' && last?.ranMs !== undefined && !givesAway)
        this.#openMs = Math.max(0, waited > 0 ? Math.min(own, passed) - ran : own - ran);
      const counted = Math.max(own - this.#openMs, used);
      this.#countedMs += counted;
      // What others of its threads used of it is counted already.
      this.#openMs = Math.min(this.#openMs, Math.max(0, own - counted));
    }
  }

  #overrun(): Overrun | undefined {
    const deadlineMs = this.#deadlineMs;
    const its = `overran its ${inMs(deadlineMs)}`;
    if (this.#countedMs >= deadlineMs) return { reason: its, by: 'code' };
    if (this.#stoppedMs >= deadlineMs) return { reason: `${its}: it was stopped`, by: 'outside' };
    const patienceMs = Math.max(2 * deadlineMs, PATIENCE_MS);
    if (this.#passedMs < patienceMs) return undefined;
    const reason = `${its}: it had no answer after ${inMs(patienceMs)}`;
    if (this.#waitedMs + this.#openMs >= patienceMs / 2)
      return { reason: `${reason}, in which it had the processor for ${inMs(this.#countedMs)}`, by: 'starved' };
    return { reason, by: this.#countedMs < deadlineMs / 2 ? 'outside' : 'code' };
  }

  #end(): void {
    const overrun = this.#overrun();
    this.disarm();
    if (overrun !== undefined) this.#options.onOverrun(overrun);
  }
}

/** Of a count that only grows; what isn't known hasn't. */
const grownBy = (before: number | undefined, now: number | undefined): number =>
  before === undefined || now === undefined ? 0 : Math.max(0, now - before);

const inMs = (milliseconds: number): string => `${Math.round(milliseconds).toLocaleString('en-US')} ms`;
