/** Works that are done one after the other, in the order in which they are given. */
export class OneByOne {
  #last: Promise<unknown> = Promise.resolve();

  /** Begins the work when those before it have ended, however they did; the result is that of the work. */
  run<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => undefined);
    return done;
  }

  /** Resolves when all that were given before the call have ended. */
  async ended(): Promise<void> {
    await this.#last;
  }
}
