import type { Told } from './live.js';

/**
 * What is told from the states on. These are taken as fast as they come and held for the loop, up to their end, which is the first place
 * that is told; what comes behind it is taken as the loop asks for it. A connection whose loop is slower is ended, by the service or since
 * too much waits, and states that break off are told from the first on: such a loop would never come to their end.
 */
export async function* snapshotFirst<T extends object>(
  open: (signal: AbortSignal) => AsyncGenerator<Told<T>, void, undefined>,
  signal: AbortSignal,
): AsyncGenerator<Told<T>, void, undefined> {
  const ended = new AbortController();
  const end = (): void => ended.abort(signal.reason);
  if (signal.aborted) end();
  signal.addEventListener('abort', end, { once: true });
  const all = open(ended.signal);
  const states = new HeldStates(all);
  try {
    yield* states.given();
    yield* all;
  } finally {
    ended.abort();
    signal.removeEventListener('abort', end);
    await all.return();
  }
}

/** States that were taken and not given yet. */
class HeldStates<T extends object> {
  #held: Told<T>[] = [];
  /** `taken`: up to their end. `over`: they broke off, so what is held is of no use. */
  #place: 'taking' | 'taken' | 'over' = 'taking';
  #failure: unknown;
  #wake: (() => void) | undefined;

  constructor(all: AsyncGenerator<Told<T>, void, undefined>) {
    void this.#take(all);
  }

  async *given(): AsyncGenerator<Told<T>, void, undefined> {
    for (;;) {
      const held = this.#held;
      this.#held = [];
      for (const told of held) {
        if (this.#place === 'over') break;
        yield told;
      }
      if (this.#failure !== undefined) throw this.#failure as Error;
      if (this.#place !== 'taking' && this.#held.length === 0) return;
      if (this.#held.length === 0) await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  async #take(all: AsyncGenerator<Told<T>, void, undefined>): Promise<void> {
    try {
      while (this.#place === 'taking') {
        const { done, value } = await all.next();
        if (done === true) this.#place = 'over';
        else this.#held.push(value);
        if (typeof value === 'number') this.#place = 'taken';
        this.#wake?.();
      }
    } catch (error) {
      this.#place = 'over';
      this.#failure = error;
      this.#wake?.();
    }
  }
}
