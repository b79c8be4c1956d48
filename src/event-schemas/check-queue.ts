import { StatefoldError } from '../core/errors.js';
import { eventLoop } from '../core/event-loop.js';

/**
 * Checks that give way after each event: they tell what it took, or give a promise, which never rejects, where something else is to be done
 * before they go on.
 */
export type Checks = Generator<number | Promise<void>, StatefoldError | undefined, void>;
type Step = IteratorResult<number | Promise<void>, StatefoldError | undefined>;

interface Waiting {
  readonly checks: Checks;
  resolve(unfit: StatefoldError | undefined): void;
  reject(error: unknown): void;
}

/** Steps that checks of a tenant may take in one round of the event loop: a few milliseconds at most. */
const STEPS_PER_ROUND = 10_000;
const MOST_WAITING = 5_000;

/**
 * The checks of a tenant's appends, in the order in which these came. What is little is done at once; past that they take turns with
 * all else, a part in each round of the event loop. So whatever a tenant has made its schemas cost, it waits for them alone; for the thread
 * that checks large events it waits with others, each of which has one event in it at a time.
 */
export class CheckQueue {
  #spent = 0;
  #waiting: Waiting[] = [];
  /** A round is to come, before which nothing more is done at once: it would overtake what was done in this one. */
  #rounds = false;

  /** Nothing waits, and what was done is with those who asked. */
  get isIdle(): boolean {
    return !this.#rounds;
  }

  /** @throws StatefoldError RATE_LIMITED; what the checks throw */
  run(checks: Checks): StatefoldError | undefined | Promise<StatefoldError | undefined> {
    if (this.#rounds) return this.#later(checks);
    const step = this.#go(checks);
    if (step.done === true) {
      if (this.#spent >= STEPS_PER_ROUND) this.#nextRound();
      return step.value;
    }
    this.#nextRound(step.value);
    return this.#later(checks);
  }

  #go(checks: Checks): Step {
    return eventLoop.slice('bodies', () => {
      for (;;) {
        const step = checks.next();
        if (step.done === true || typeof step.value !== 'number') return step;
        this.#spent += step.value;
        if (this.#spent >= STEPS_PER_ROUND) return step;
      }
    });
  }

  #later(checks: Checks): Promise<StatefoldError | undefined> {
    if (this.#waiting.length >= MOST_WAITING)
      throw new StatefoldError(
        'RATE_LIMITED',
        `${MOST_WAITING} appends of the tenant wait for the checks of their schemas; send the request again later, or set simpler schemas`,
        { retryAfterSeconds: 1 },
      );
    return new Promise((resolve, reject) => this.#waiting.push({ checks, resolve, reject }));
  }

  /** `after`: what the first that waits gave way for. */
  #nextRound(after?: number | Promise<void>): void {
    this.#rounds = true;
    const round = (): void => this.#round();
    if (after instanceof Promise) void after.then(round);
    else setImmediate(round);
  }

  #round(): void {
    this.#spent = 0;
    let at = 0;
    let after: number | Promise<void> | undefined;
    for (; at < this.#waiting.length && this.#spent < STEPS_PER_ROUND; at++) {
      const waiting = this.#waiting[at] as Waiting;
      try {
        const step = this.#go(waiting.checks);
        if (step.done !== true) {
          after = step.value;
          break;
        }
        waiting.resolve(step.value);
      } catch (error) {
        waiting.reject(error);
      }
    }
    this.#waiting.splice(0, at);
    if (at > 0 || this.#waiting.length > 0) this.#nextRound(after);
    else this.#rounds = false;
  }
}
