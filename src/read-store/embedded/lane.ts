/** A bounded number of places, and a bounded queue before them, first come first served. */
export class Lane<Place> {
  readonly #free: Place[];
  readonly #waiting: { resolve(place: Place): void; reject(error: Error): void }[] = [];
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
      else next.resolve(place);
    }
  }

  async #wait(timeoutMs: number, signal: AbortSignal): Promise<Place> {
    if (this.#waiting.length >= this.#maxWaiting) throw new LaneFullError();
    signal.throwIfAborted();
    const { promise, resolve, reject } = withResolvers<Place>();
    const waiter = { resolve, reject };
    const leave = (error: Error): void => {
      const at = this.#waiting.indexOf(waiter);
      if (at >= 0) this.#waiting.splice(at, 1);
      reject(error);
    };
    const onAbort = (): void => leave(new Error('the client has gone', { cause: signal.reason }));
    const timer = setTimeout(() => leave(new LaneFullError()), timeoutMs);
    signal.addEventListener('abort', onAbort, { once: true });
    this.#waiting.push(waiter);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
    }
  }
}

export class LaneFullError extends Error {
  override readonly name = 'LaneFullError';
}

function withResolvers<T>(): { promise: Promise<T>; resolve(value: T): void; reject(error: Error): void } {
  let resolve!: (value: T) => void;
  let reject!: (error: Error) => void;
  const promise = new Promise<T>((onValue, onError) => {
    resolve = onValue;
    reject = onError;
  });
  return { promise, resolve, reject };
}
