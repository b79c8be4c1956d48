export interface BackgroundOptions {
  /** Runs the work in the next round of the event loop, behind what came in by then and what was handed over before. */
  readonly nextRound?: (work: () => void) => void;
  readonly after?: (milliseconds: number, work: () => void) => void;
  readonly now?: () => number;
}

/** Clients are about while one of them asked for something within this time, milliseconds. */
const ABOUT_MS = 100;
/**
 * Those of several tenants are while one asked behind that of another within this time: longer than who waits for an answer takes to ask again,
 * or the one who is held up would be alone as soon as it is held up for long.
 */
const SHARED_MS = 1000;
/** Rests are put together up to this: timers are no finer. */
const LEAST_REST_MS = 2;
/** However long a slice was. */
const MOST_REST_MS = 50;

/**
 * The turns of work that no client waits for: catch-ups, builds, jobs over whole projections, of all tenants. A request passes through
 * several rounds of the event loop, and each slice of background work in a round delays it once more. So while clients are about, one
 * slice runs at a time, and the loop is left to them as long as the slices took. While none is, whoever asks has its turn in the next
 * round.
 */
export class Background {
  readonly #nextRound: (work: () => void) => void;
  readonly #after: (milliseconds: number, work: () => void) => void;
  readonly #now: () => number;
  #waiting: (() => void)[] = [];
  #serving = false;
  #aboutUntil = -Infinity;
  /** Who asked last. */
  #asking: string | undefined;
  #sharedUntil = -Infinity;
  /** How long the loop is to be left to clients. */
  #owed = 0;

  constructor({
    nextRound = (work) => void setImmediate(work),
    after = (milliseconds, work) => void setTimeout(work, milliseconds),
    now = () => performance.now(),
  }: BackgroundOptions = {}) {
    this.#nextRound = nextRound;
    this.#after = after;
    this.#now = now;
  }

  /** A client of the tenant asked for something. */
  asked(tenantId: string): void {
    const now = this.#now();
    if (tenantId !== this.#asking) {
      if (now < this.#aboutUntil) this.#sharedUntil = now + SHARED_MS;
      this.#asking = tenantId;
    }
    this.#aboutUntil = now + ABOUT_MS;
  }

  /** A slice is to be short: somebody waits behind it. */
  get givesWay(): boolean {
    return this.#now() < this.#aboutUntil;
  }

  /** Clients of several tenants are about: what one of them asked for is in the way of the others. */
  get isShared(): boolean {
    // Where no client ever asks, nobody looks at the clock.
    return this.#sharedUntil > -Infinity && this.#now() < this.#sharedUntil;
  }

  /** Resolves when the next slice of a work has its turn; to be asked for before each. */
  turn(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      if (this.#serving) return;
      this.#serving = true;
      this.#serve();
    });
  }

  #serve(): void {
    let began = 0;
    this.#nextRound(() => {
      began = this.#now();
      for (const go of this.#waiting.splice(0, this.givesWay ? 1 : Infinity)) go();
    });
    // In the same round, right behind the slice and what follows from it at once.
    this.#nextRound(() => {
      this.#owed = this.givesWay ? this.#owed + this.#now() - began : 0;
      if (this.#owed >= LEAST_REST_MS) {
        const rest = Math.min(MOST_REST_MS, this.#owed);
        this.#owed = 0;
        this.#after(rest, () => this.#goOn());
      } else this.#goOn();
    });
  }

  #goOn(): void {
    if (this.#waiting.length > 0) this.#serve();
    else this.#serving = false;
  }
}

/** Of this process, which has one event loop. */
export const background = new Background();
