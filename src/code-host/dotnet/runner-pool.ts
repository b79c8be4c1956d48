import { MappedMemory, MAX_MAPPINGS } from '../../jail/process-mappings.js';
import { excessOf, ProcessorAllowance, processorMsOf, usageOf } from '../../jail/process-usage.js';

/** What has a process, or wants one: the runner of a tenant. */
export interface PoolMember {
  /** Of its live process. */
  readonly pid: number | undefined;
  /** Time in which its live process had work, its start included. */
  readonly busyMs: number;
  /** Ends its process, which is idle; resolves when that has ended. */
  evict(): Promise<void>;
  /** Its process is past a limit: ends it, for that reason. `leftBehind`: by what earlier events may have left. */
  exceeded(reason: string, leftBehind: boolean): void;
}

export interface RunnerPoolOptions {
  /** Processes at once. */
  readonly maxRunners: number;
  /** Resident memory of all together. */
  readonly maxRunnersBytes: number;
  /** Processes that are on their way up at once. */
  readonly startsAtOnce: number;
  /** While others wait, a member that always has work gives its place away after so long. */
  readonly turnMs: number;
  readonly maxResidentBytes: number;
  readonly maxThreads: number;
  /** Processor time beside its work that one may use at once. */
  readonly spareProcessorMs: number;
  readonly pollMs: number;
}

interface Place {
  readonly since: number;
  residentBytes: number;
  starting: boolean;
  /** When it last had nothing to do; undefined while it works. */
  idleSince: number | undefined;
  leaving: boolean;
  /** Of the process that it had when it was looked at last. */
  process: { readonly pid: number; readonly allowance: ProcessorAllowance; readonly mapped: MappedMemory } | undefined;
}

interface Waiter {
  readonly member: PoolMember;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** What a process is taken for before it was looked at. */
const START_BYTES = 64 * 1024 * 1024;

/**
 * The places for runners' processes, of which there are fewer than tenants. Who wants one waits in line, each member once; the
 * longest idle process makes room, and where none is idle, those that have had their turn. Looks at what each process takes.
 */
export class RunnerPool {
  readonly #options: RunnerPoolOptions;
  readonly #places = new Map<PoolMember, Place>();
  readonly #waiting: Waiter[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(options: RunnerPoolOptions) {
    this.#options = options;
  }

  get figures(): { readonly runners: number; readonly waiting: number; readonly residentBytes: number } {
    return { runners: this.#places.size, waiting: this.#waiting.length, residentBytes: this.#residentBytes() };
  }

  /** Resolves when the member may have a process. */
  acquire(member: PoolMember): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ member, resolve, reject });
      this.#grant();
    });
  }

  /** The process that the member was given a place for is up, or has ended. */
  started(member: PoolMember): void {
    const place = this.#places.get(member);
    if (place?.starting !== true) return;
    place.starting = false;
    this.#grant();
  }

  /** It has work again. False: its process is being ended, and it has to wait for a place. */
  busy(member: PoolMember): boolean {
    const place = this.#places.get(member);
    if (place === undefined || place.leaving) return false;
    place.idleSince = undefined;
    return true;
  }

  /** It has nothing to do: whoever waits may have its place. */
  idle(member: PoolMember): void {
    const place = this.#places.get(member);
    if (place === undefined) return;
    place.idleSince = performance.now();
    this.#grant();
  }

  /** Others wait, nobody is idle, and it has had its turn: it has to end its process and release its place. */
  mustYield(member: PoolMember): boolean {
    const place = this.#places.get(member);
    if (place === undefined || place.leaving) return false;
    if (!this.#crowded(performance.now() - place.since)) return false;
    place.leaving = true;
    return true;
  }

  /** Its process has ended. */
  release(member: PoolMember): void {
    if (!this.#places.delete(member)) return;
    if (this.#places.size === 0) this.#watch(false);
    this.#grant();
  }

  /** Ends an idle member's process. */
  retire(member: PoolMember): void {
    const place = this.#places.get(member);
    if (place === undefined || place.leaving || place.idleSince === undefined) return;
    place.leaving = true;
    void member.evict().then(() => this.release(member));
  }

  /** It waits no more. */
  cancel(member: PoolMember, error: Error): void {
    const index = this.#waiting.findIndex((waiter) => waiter.member === member);
    if (index >= 0) this.#waiting.splice(index, 1)[0]?.reject(error);
  }

  #crowded(heldMs: number): boolean {
    const places = [...this.#places.values()];
    const leaving = places.filter((place) => place.leaving).length;
    if (places.some((place) => place.idleSince !== undefined && !place.leaving)) return false;
    if (leaving < this.#waiting.length && heldMs >= this.#options.turnMs && !this.#fits()) return true;
    // Too much for all together: one after the other, until it is less.
    return leaving === 0 && places.length > 1 && this.#residentBytes() > this.#options.maxRunnersBytes;
  }

  #fits(): boolean {
    const { maxRunners, maxRunnersBytes } = this.#options;
    if (this.#places.size === 0) return true;
    if (this.#places.size >= maxRunners) return false;
    // One that has just started takes less than it will: each counts as what a start takes, at least.
    let bytes = START_BYTES;
    for (const { residentBytes } of this.#places.values()) bytes += Math.max(START_BYTES, residentBytes);
    return bytes <= maxRunnersBytes;
  }

  #residentBytes(): number {
    let bytes = 0;
    for (const place of this.#places.values()) bytes += place.residentBytes;
    return bytes;
  }

  #grant(): void {
    while (this.#waiting.length > 0) {
      const places = [...this.#places.values()];
      if (places.filter(({ starting }) => starting).length >= this.#options.startsAtOnce) return;
      const next = this.#waiting.findIndex(({ member }) => !this.#places.has(member));
      if (next < 0) return;
      if (this.#fits()) {
        const [waiter] = this.#waiting.splice(next, 1);
        if (waiter === undefined) return;
        this.#places.set(waiter.member, {
          since: performance.now(),
          residentBytes: START_BYTES,
          starting: true,
          idleSince: undefined,
          leaving: false,
          process: undefined,
        });
        this.#watch(true);
        waiter.resolve();
      } else if (places.filter(({ leaving }) => leaving).length >= this.#waiting.length || !this.#retireLongestIdle())
        return;
    }
  }

  #retireLongestIdle(): boolean {
    let longest: { member: PoolMember; idleSince: number } | undefined;
    for (const [member, { idleSince, leaving }] of this.#places)
      if (idleSince !== undefined && !leaving && (longest === undefined || idleSince < longest.idleSince))
        longest = { member, idleSince };
    if (longest === undefined) return false;
    this.retire(longest.member);
    return true;
  }

  #watch(on: boolean): void {
    if (on) this.#timer ??= setInterval(() => this.#look(), this.#options.pollMs).unref();
    else {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
  }

  #look(): void {
    const { maxResidentBytes, maxThreads, maxRunnersBytes } = this.#options;
    const now = performance.now();
    for (const [member, place] of this.#places) {
      const { pid } = member;
      const usage = pid === undefined ? undefined : usageOf(pid);
      if (pid === undefined || usage === undefined) continue;
      if (place.process?.pid !== pid)
        place.process = {
          pid,
          allowance: new ProcessorAllowance(this.#options.spareProcessorMs, now),
          mapped: new MappedMemory(),
        };
      const { allowance, mapped } = place.process;
      mapped.look(pid, usage, now);
      const residentBytes = usage.residentBytes + mapped.hiddenBytes(usage);
      place.residentBytes = residentBytes;
      const excess = mapped.tooMany
        ? `mapped its memory in more than ${MAX_MAPPINGS.toLocaleString('en-US')} pieces`
        : excessOf({ ...usage, residentBytes }, maxResidentBytes, maxThreads);
      const processor = this.#processorExcess(pid, allowance, member.busyMs, now);
      if (excess !== undefined) member.exceeded(excess, false);
      else if (processor !== undefined) member.exceeded(processor, true);
    }
    if (this.#residentBytes() > maxRunnersBytes) this.#retireLongestIdle();
    this.#grant();
  }

  #processorExcess(pid: number, allowance: ProcessorAllowance, busyMs: number, now: number): string | undefined {
    const { spareProcessorMs } = this.#options;
    const used = spareProcessorMs === 0 ? undefined : processorMsOf(pid);
    return used !== undefined && allowance.exceeded(used, busyMs, now)
      ? `used more than ${spareProcessorMs.toLocaleString('en-US')} ms of processor time beside its work`
      : undefined;
  }
}
