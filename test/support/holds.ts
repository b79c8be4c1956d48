// How long the event loop was held at a time. A machine that runs tests beside others takes the processor away for longer than any
// work of ours lasts, so where the kernel tells it the time is that which this thread had of a processor.
import { closeSync, openSync, readSync } from 'node:fs';
import { createHistogram } from 'node:perf_hooks';

export interface Holds {
  /** Milliseconds since the start, or the last call. */
  longest(): number;
  /** Milliseconds below which so many of 100 turns of the event loop stayed, since the start or the last `reset`. */
  percentile(percentage: number): number;
  reset(): void;
  end(): void;
}

/** Of this thread, from now on. */
export function watchHolds(): Holds {
  const clock = threadClock();
  let last = clock.now();
  let longest = 0;
  const turns = createHistogram({ highest: 600_000_000 });
  const look = (): void => {
    const now = clock.now();
    longest = Math.max(longest, now - last);
    turns.record(Math.max(1, Math.round((now - last) * 1000)));
    last = now;
  };
  const timer = setInterval(look, 1);
  return {
    longest: () => {
      look();
      const found = longest;
      longest = 0;
      return found;
    },
    percentile: (percentage) => turns.percentile(percentage) / 1000,
    reset: () => {
      look();
      turns.reset();
      longest = 0;
    },
    end: () => {
      clearInterval(timer);
      clock.close();
    },
  };
}

/** Milliseconds that this thread had of a processor; of time where the kernel does not tell. */
export function threadClock(): { now(): number; close(): void } {
  let file: number;
  try {
    file = openSync(`/proc/self/task/${process.pid}/schedstat`, 'r');
  } catch {
    return { now: () => performance.now(), close: () => undefined };
  }
  const text = Buffer.alloc(128);
  // The first number: nanoseconds on a processor.
  const now = (): number => parseInt(text.toString('latin1', 0, readSync(file, text, 0, text.length, 0)), 10) / 1e6;
  return { now, close: () => closeSync(file) };
}

/** Bytes of memory of this process that no file backs, as the kernel counts them; where it doesn't, all that is resident. */
export function anonymousBytes(): number {
  try {
    const file = openSync('/proc/self/status', 'r');
    try {
      const text = Buffer.alloc(8192);
      const found = /RssAnon:\s+(\d+) kB/.exec(text.toString('latin1', 0, readSync(file, text)));
      if (found !== null) return Number(found[1]) * 1024;
    } finally {
      closeSync(file);
    }
  } catch {
    // Another system.
  }
  return process.memoryUsage.rss();
}
