/** Appends that were taken and have not ended. Who changes what appends are checked against waits for those that came before. */
export class Intake {
  #taken = new Generation();
  #before: Promise<unknown> = Promise.resolve();

  /** An append begins; the result is called when it has ended. */
  enter(): () => void {
    const of = this.#taken;
    of.enter();
    return () => of.leave();
  }

  /** Resolves when all that was taken before the call has ended: stored, or refused. */
  async passed(): Promise<void> {
    const of = this.#taken;
    this.#taken = new Generation();
    // Not what it resolves with: that would nest with every call.
    this.#before = Promise.all([this.#before, of.ended()]).then(() => undefined);
    await this.#before;
  }
}

class Generation {
  #open = 0;
  #resolve: (() => void) | undefined;

  enter(): void {
    this.#open++;
  }

  leave(): void {
    if (--this.#open === 0) this.#resolve?.();
  }

  /** Nothing enters any more. */
  ended(): Promise<void> {
    return this.#open === 0 ? Promise.resolve() : new Promise((resolve) => (this.#resolve = resolve));
  }
}
