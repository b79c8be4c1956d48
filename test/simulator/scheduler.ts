import { background } from '../../src/core/background.js';

/** Seeded randomness (mulberry32): the same seed gives the same run. */
export class Random {
  #state: number;
  constructor(seed: number) {
    this.#state = seed;
  }

  /** In [0, 1). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }
  /** An integer in [0, below). */
  below(below: number): number {
    return Math.floor(this.next() * below);
  }
  chance(probability: number): boolean {
    return this.next() < probability;
  }
  pick<T>(from: readonly T[]): T {
    const one = from[this.below(from.length)];
    if (one === undefined) throw new Error('nothing to pick from');
    return one;
  }
}

/** A process of the simulated world: crashed, nothing of it runs any more; paused, its turns are held back. */
export interface SimProcess {
  readonly id: string;
  alive: boolean;
  paused: boolean;
}

/** One thing that may happen next. Its promises' continuations run in the same step. */
export interface Action {
  readonly label: string;
  /** Whose code it runs; none: the log's or the store's own doing, which no crash stops. */
  readonly owner?: SimProcess | undefined;
  readonly weight: number;
  run(): void;
}

export const realImmediate = setImmediate;
/** What a look at the clock finds gone at times, milliseconds: past any slice. */
const SLOW_MS = 50;

/**
 * Runs one action at a time, chosen by the seed, and lets all that follows from it settle before the next. Timers of the code
 * under test are actions too: they fire in any order, however long they were meant to wait.
 */
export class Scheduler {
  readonly random: Random;
  readonly trace: string[] = [];
  step = 0;
  #actions: Action[] = [];
  #current: SimProcess | undefined;

  /** The clock has randomness of its own: in half of the worlds work takes no time, in the others slices end early. */
  readonly #clock: Random;
  readonly #hurried: boolean;
  #now = 0;

  constructor(seed: number) {
    this.random = new Random(seed);
    this.#clock = new Random(seed ^ 0x7c10c);
    this.#hurried = this.#clock.chance(0.5);
  }

  add(action: Action): Action {
    this.#actions.push(action);
    return action;
  }

  cancel(action: Action): void {
    this.#actions = this.#actions.filter((one) => one !== action);
  }

  /** Drops what the process was about to do. */
  forget(owner: SimProcess): void {
    this.#actions = this.#actions.filter((action) => action.owner !== owner);
  }

  has(test: (action: Action) => boolean): boolean {
    return this.#actions.some(test);
  }

  /** Runs one of the actions, or of `more`, that may run and pass `only`; false when there is none. */
  async next(more: readonly Action[] = [], only: (action: Action) => boolean = () => true): Promise<boolean> {
    const open = [...this.#actions, ...more].filter(
      (action) =>
        (action.owner === undefined || (action.owner.alive && !action.owner.paused)) &&
        action.weight > 0 &&
        only(action),
    );
    let at = this.random.next() * open.reduce((sum, action) => sum + action.weight, 0);
    const chosen = open.find((action) => (at -= action.weight) < 0) ?? open.at(-1);
    if (chosen === undefined) return false;
    this.cancel(chosen);
    this.step++;
    this.trace.push(`${this.step} ${chosen.owner === undefined ? '' : `${chosen.owner.id}: `}${chosen.label}`);
    this.#current = chosen.owner;
    chosen.run();
    await this.turn();
    this.#current = undefined;
    return true;
  }

  /** Until all promises that can go on have done so. */
  turn(): Promise<void> {
    return new Promise((resolve) => realImmediate(resolve));
  }

  /** Replaces the timers of this thread, and the clock that slices of work go by, until the returned function is called. */
  takeTimers(): () => void {
    const real = { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate };
    const timer =
      (weight: number, label: string) =>
      (run: (...args: unknown[]) => void, ...args: unknown[]) => {
        const rest = label === 'immediate' ? args : args.slice(1);
        const action = this.add({ label, owner: this.#current, weight, run: () => run(...rest) });
        return Object.assign(action, { unref: () => action, ref: () => action });
      };
    const clear = (action: Action | undefined): void => {
      if (action !== undefined) this.cancel(action);
    };
    const fakes = {
      setImmediate: timer(4, 'immediate'),
      setTimeout: timer(0.25, 'timer'),
      // Periodic work rests on the wall clock (deadlines): it has no place here.
      setInterval: timer(0, 'interval'),
      clearTimeout: clear,
      clearInterval: clear,
      clearImmediate: clear,
    };
    /* oxlint-disable typescript/unbound-method -- they are put back as they were */
    const now = performance.now;
    const turn = background.turn;
    /* oxlint-enable typescript/unbound-method */
    Object.assign(globalThis, fakes);
    // Each process of the simulation is one of its own, and so is what turns its background work waits for. (A mock of node:test would
    // keep each call, with the stack that holds its world, for as long as the process runs.)
    background.turn = () => new Promise<void>((resolve) => void setImmediate(resolve));
    performance.now = () => (this.#now += this.#hurried && this.#clock.chance(0.25) ? SLOW_MS : 0.001);
    return () => {
      Object.assign(globalThis, real);
      performance.now = now;
      background.turn = turn;
    };
  }
}
