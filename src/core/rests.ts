import { lackingIdle, type LoopTimes } from './background.js';

export interface RestsOptions {
  readonly after?: (milliseconds: number, work: () => void) => void;
  /** Of the event loop. */
  readonly times?: () => LoopTimes;
}

/** As long as a rest may be, milliseconds: a loop that others fill is never idle. */
const MOST_REST_MS = 4;
/** It rests for no less, milliseconds: timers are hardly finer. */
const LEAST_REST_MS = 0.5;

/**
 * Puts steps off until the event loop has been idle for as long as it was active since the one before. A loop that never waits answers
 * each request behind all that others began, and its process waits for a processor behind those that sleep now and then. What comes while
 * a step waits isn't made up for: a rest ends when it was said to. Of one who waits for each before the next: those of many end together.
 */
export class Rests {
  readonly #after: (milliseconds: number, work: () => void) => void;
  readonly #times: () => LoopTimes;
  /** What the loop had done when the last step began. */
  #since: LoopTimes | undefined;

  constructor({
    after = (milliseconds, work) => void setTimeout(work, milliseconds),
    times = () => performance.eventLoopUtilization(),
  }: RestsOptions = {}) {
    this.#after = after;
    this.#times = times;
  }

  /** Begins the step, at once or 4 ms later at the latest. */
  before(step: () => void): void {
    const begin = (): void => {
      this.#since = this.#times();
      step();
    };
    const lacking = this.#since === undefined ? 0 : lackingIdle(this.#since, this.#times());
    if (lacking < LEAST_REST_MS) begin();
    else this.#after(Math.min(MOST_REST_MS, Math.ceil(lacking)), begin);
  }
}
