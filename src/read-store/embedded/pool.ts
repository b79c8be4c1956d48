/** A bounded number of items, each used by one at a time, and a bounded queue of those who wait for one, first come first served. */
export class Pool<Item> {
  readonly #free: Item[];
  readonly #waiting: ((item: Item) => void)[] = [];
  readonly #maxWaiting: number;

  constructor(items: readonly Item[], maxWaiting: number) {
    this.#free = [...items];
    this.#maxWaiting = maxWaiting;
  }

  /** @throws PoolFullError when the queue is full, or when nothing came free within `timeoutMs`; the signal's reason when aborted. */
  async use<T>(timeoutMs: number, signal: AbortSignal, work: (item: Item) => Promise<T>): Promise<T> {
    const item = this.#free.pop() ?? (await this.#wait(timeoutMs, signal));
    try {
      return await work(item);
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free.push(item);
      else next(item);
    }
  }

  async #wait(timeoutMs: number, signal: AbortSignal): Promise<Item> {
    if (this.#waiting.length >= this.#maxWaiting) throw new PoolFullError();
    signal.throwIfAborted();
    let leave: (error: Error) => void = () => undefined;
    const onAbort = (): void => leave(new Error('the client has gone', { cause: signal.reason }));
    const timer = setTimeout(() => leave(new PoolFullError()), timeoutMs);
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      return await new Promise<Item>((resolve, reject) => {
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

export class PoolFullError extends Error {
  override readonly name = 'PoolFullError';
}
