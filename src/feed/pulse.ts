import type { Timers } from './timers.js';

/** What a connection does now and then: keep-alives, deadlines. */
export interface Beating {
  /** `now`: monotonic milliseconds. Must not throw. */
  beat(now: number): void;
}

/** One timer for all connections of a channel, running only while there are any. */
export class Pulse {
  readonly #members = new Set<Beating>();
  #stop: (() => void) | undefined;

  constructor(
    private readonly timers: Timers,
    private readonly intervalMs: number,
  ) {}

  get now(): number {
    return this.timers.now();
  }

  add(member: Beating): void {
    this.#members.add(member);
    this.#stop ??= this.timers.every(this.intervalMs, () => {
      const now = this.timers.now();
      for (const each of this.#members) each.beat(now);
    });
  }

  delete(member: Beating): void {
    this.#members.delete(member);
    if (this.#members.size > 0) return;
    this.#stop?.();
    this.#stop = undefined;
  }
}
