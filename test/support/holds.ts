// How long the event loop was held at a time. A machine that runs tests beside others takes the processor away for longer than any
// work of ours lasts, so where the kernel tells it the time is that which this thread had of a processor.
import { closeSync, openSync, readSync } from 'node:fs';

export interface Holds {
  /** Milliseconds since the start, or the last call. */
  longest(): number;
  end(): void;
}

/** Of this thread, from now on. */
export function watchHolds(): Holds {
  const clock = threadClock();
  let last = clock.now();
  let longest = 0;
  const look = (): void => {
    const now = clock.now();
    longest = Math.max(longest, now - last);
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
    end: () => {
      clearInterval(timer);
      clock.close();
    },
  };
}

function threadClock(): { now(): number; close(): void } {
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
