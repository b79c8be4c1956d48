import { StatefoldError } from '../core/errors.js';
import { eventLoop } from '../core/event-loop.js';

/** Checks that give way after each event; told what each of them took. */
export type Checks = Generator<number, StatefoldError | undefined, void>;

interface Waiting {
  readonly checks: Checks;
  resolve(unfit: StatefoldError | undefined): void;
  reject(error: unknown): void;
}

/** Steps that checks of a tenant may take in one round of the event loop: a few milliseconds at most. */
const STEPS_A_ROUND = 10_000;
const MOST_WAITING = 5_000;

/**
 * The checks of a tenant's appends, in the order in which these came. What is little is done at once; past that they take turns with
 * all else, a part in each round of the event loop. So whatever a tenant has made its schemas cost, it waits for them alone.
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
    const { done, value } = this.#go(checks);
    if (this.#spent >= STEPS_A_ROUND) this.#nextRound();
    return done === true ? value : this.#later(checks);
  }

  #go(checks: Checks): IteratorResult<number, StatefoldError | undefined> {
    return eventLoop.slice('bodies', () => {
      for (;;) {
        const result = checks.next();
        if (result.done === true) return result;
        this.#spent += result.value;
        if (this.#spent >= STEPS_A_ROUND) return result;
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

  #nextRound(): void {
    this.#rounds = true;
    setImmediate(() => {
      this.#spent = 0;
      let at = 0;
      for (; at < this.#waiting.length && this.#spent < STEPS_A_ROUND; at++) {
        const waiting = this.#waiting[at] as Waiting;
        try {
          const { done, value } = this.#go(waiting.checks);
          if (done !== true) break;
          waiting.resolve(value);
        } catch (error) {
          waiting.reject(error);
        }
      }
      this.#waiting.splice(0, at);
      if (at > 0 || this.#waiting.length > 0) this.#nextRound();
      else this.#rounds = false;
    });
  }
}
