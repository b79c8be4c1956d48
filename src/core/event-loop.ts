/** Work that holds the event loop in slices, as the metrics name it. */
export const WORK_KINDS = [
  'bodies',
  'gather',
  'log_fold',
  'reducers',
  'projections',
  'runner_frames',
  'store',
  'pages',
  'notifications',
  'read_store',
] as const;
export type WorkKind = (typeof WORK_KINDS)[number];

/** A slice should not be longer, milliseconds. */
export const LONG_HOLD_MS = 50;
/** The longest hold is that of this period and of the one before, milliseconds. */
const PERIOD_MS = 60_000;

const INDEX = Object.fromEntries(WORK_KINDS.map((kind, i) => [kind, i])) as Readonly<Record<WorkKind, number>>;

/**
 * How long slices of work held the event loop, by kind: two readings of the clock a slice. A slice within another one counts for
 * both. What no kind explains is garbage collection, or work that is not marked.
 */
export class EventLoopHolds {
  readonly #now: () => number;
  #longest = new Float64Array(WORK_KINDS.length);
  #before = new Float64Array(WORK_KINDS.length);
  readonly #long = new Float64Array(WORK_KINDS.length);
  #periodEnds: number;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
    this.#periodEnds = now() + PERIOD_MS;
  }

  /** Runs the slice, which is synchronous, and notes how long it took. */
  slice<T>(kind: WorkKind, work: () => T): T {
    const began = this.#now();
    try {
      return work();
    } finally {
      this.#note(INDEX[kind], began);
    }
  }

  /** Of the last one to two minutes, in seconds. */
  longest(kind: WorkKind): number {
    this.#turn(this.#now());
    const index = INDEX[kind];
    return Math.max(this.#longest[index] ?? 0, this.#before[index] ?? 0) / 1000;
  }

  /** Slices past `LONG_HOLD_MS`, ever. */
  long(kind: WorkKind): number {
    return this.#long[INDEX[kind]] ?? 0;
  }

  #note(index: number, began: number): void {
    const now = this.#now();
    const took = now - began;
    this.#turn(now);
    if (took > (this.#longest[index] ?? 0)) this.#longest[index] = took;
    if (took > LONG_HOLD_MS) this.#long[index] = (this.#long[index] ?? 0) + 1;
  }

  #turn(now: number): void {
    if (now < this.#periodEnds) return;
    // After a pause neither of them is of the last minutes.
    this.#before = now < this.#periodEnds + PERIOD_MS ? this.#longest : new Float64Array(WORK_KINDS.length);
    this.#longest = new Float64Array(WORK_KINDS.length);
    this.#periodEnds = now + PERIOD_MS;
  }
}

/** Of this process, which has one event loop. */
export const eventLoop = new EventLoopHolds();
