import type { State } from '../code-host/code-host.js';

/** Of changes that a batch is to make, about: a large one is worked off in slices, and is in memory as a whole. */
const CHANGES = 2000;
/** As much work as a change: to look through a state, and to write it. */
const BYTES = 4096;
/** What is expected of an event, where nothing is known of it, and of each class that is fed. */
const UNKNOWN = 8;
/** How fast a large event is forgotten. */
const DECAY = 0.75;

/** How many events go in a batch: fewer, the more classes they are fed to, and the more each of them has changed of late. */
export class BatchSize {
  readonly #most: number;
  #perEvent: number | undefined;

  constructor(most: number) {
    this.#most = most;
  }

  /** To be fed next. */
  events(units: number): number {
    const perEvent = this.#perEvent ?? Math.max(UNKNOWN, units);
    return Math.max(1, Math.min(this.#most, Math.floor(CHANGES / perEvent)));
  }

  /** What so many events came to. */
  made(events: number, changes: readonly { readonly state: State }[]): void {
    if (events === 0) return;
    let bytes = 0;
    for (const { state } of changes) bytes += state?.length ?? 0;
    const perEvent = (changes.length + bytes / BYTES) / events;
    this.#perEvent = Math.max(perEvent, DECAY * (this.#perEvent ?? 0), CHANGES / this.#most / 4);
  }
}
