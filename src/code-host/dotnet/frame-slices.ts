import type { Sliced } from '../../core/slices.js';

/** What is worked off at once: about two milliseconds. */
const SLICE_ENTRIES = 1024;
const SLICE_BYTES = 256 * 1024;

/** Says when a slice is used up, by what was read and not by the clock, which is not asked for an answer of a few entries. */
export class FrameMeter {
  #entries = 0;
  #bytes = 0;

  due(bytes: number): boolean {
    this.#bytes += bytes;
    if (++this.#entries < SLICE_ENTRIES && this.#bytes < SLICE_BYTES) return false;
    this.#entries = 0;
    this.#bytes = 0;
    return true;
  }
}

interface Task {
  /** True: it is through. */
  step(): boolean;
}

const waiting: Task[] = [];
let scheduled = false;

/** One slice of one runner's frame a turn of the event loop, however many runners answer at once. */
function turn(): void {
  scheduled = false;
  const task = waiting.shift();
  if (task?.step() === false) waiting.push(task);
  schedule();
}

function schedule(): void {
  if (scheduled || waiting.length === 0) return;
  scheduled = true;
  setImmediate(turn);
}

/**
 * Reads or writes a frame: what is small at once, and undefined is returned; the rest in slices, between which the event loop goes on.
 * `failed` is told what a later slice threw; what the first one throws comes out of this call.
 */
export function sliceFrame<T>(
  work: Sliced<T>,
  done: (value: T) => void,
  failed: (error: unknown) => void,
): Promise<void> | undefined {
  const first = work.next();
  if (first.done === true) {
    done(first.value);
    return undefined;
  }
  return new Promise((resolve) => {
    const step = (): boolean => {
      try {
        const next = work.next();
        if (next.done !== true) return false;
        done(next.value);
      } catch (error) {
        failed(error);
      }
      resolve();
      return true;
    };
    waiting.push({ step });
    schedule();
  });
}

/** All of it at once. */
export function whole<T>(work: Sliced<T>): T {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
  }
}
