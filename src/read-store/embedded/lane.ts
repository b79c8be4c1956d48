/** A bounded number of places, and a bounded queue before them, first come first served. */
export class Lane<Place> {
  readonly #free: Place[];
  readonly #waiting: ((place: Place) => void)[] = [];
  readonly #maxWaiting: number;

  constructor(places: readonly Place[], maxWaiting: number) {
    this.#free = [...places];
    this.#maxWaiting = maxWaiting;
  }

  /** @throws LaneFullError when the queue is full, or when no place came free within `timeoutMs`; the signal's reason when aborted. */
  async use<T>(timeoutMs: number, signal: AbortSignal, work: (place: Place) => Promise<T>): Promise<T> {
    const place = this.#free.pop() ?? (await this.#wait(timeoutMs, signal));
    try {
      return await work(place);
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free.push(place);
      else next(place);
    }
  }

  async #wait(timeoutMs: number, signal: AbortSignal): Promise<Place> {
    if (this.#waiting.length >= this.#maxWaiting) throw new LaneFullError();
    signal.throwIfAborted();
    let leave: (error: Error) => void = () => undefined;
    const onAbort = (): void => leave(new Error('the client has gone', { cause: signal.reason }));
    const timer = setTimeout(() => leave(new LaneFullError()), timeoutMs);
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      return await new Promise<Place>((resolve, reject) => {
        leave = (error) => {
          const at = this.#waiting.indexOf(resolve);
          if (at >= 0) this.#waiting.splice(at, 1);
          reject(error);
        };
        this.#waiting.push(resolve);
      });
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
    }
  }
}

export class LaneFullError extends Error {
  override readonly name = 'LaneFullError';
}
