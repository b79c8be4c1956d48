/** A work that tells what is at its begin: who asks while it is under way shares the next one with all who ask meanwhile. */
export class Gathered {
  readonly #work: () => Promise<void>;
  #underWay: { readonly running: Promise<void>; next: Promise<void> | undefined } | undefined;

  constructor(work: () => Promise<void>) {
    this.#work = work;
  }

  get isUnderWay(): boolean {
    return this.#underWay !== undefined;
  }

  /** Resolves when a work is done that began with the call or after it; rejects as that work does. */
  asked(): Promise<void> {
    if (this.#underWay === undefined) {
      const running = this.#work().finally(() => (this.#underWay = undefined));
      this.#underWay = { running, next: undefined };
      return running;
    }
    const current = this.#underWay;
    current.next ??= current.running.then(
      () => this.asked(),
      () => this.asked(),
    );
    return current.next;
  }
}
