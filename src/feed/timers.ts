/** Time for what waits: monotonic, never the wall clock. Injected, so that tests and the simulator drive it. */
export interface Timers {
  /** Monotonic milliseconds. */
  now(): number;
  /** Runs once after `milliseconds`; the result cancels. */
  after(milliseconds: number, run: () => void): () => void;
  /** Runs each `milliseconds`; the result stops it. */
  every(milliseconds: number, run: () => void): () => void;
}

/** Real time. None of its timers keeps the process alive. */
export const systemTimers: Timers = {
  now: () => performance.now(),
  after(milliseconds, run) {
    const timer = setTimeout(run, milliseconds).unref();
    return () => clearTimeout(timer);
  },
  every(milliseconds, run) {
    const timer = setInterval(run, milliseconds).unref();
    return () => clearInterval(timer);
  },
};
