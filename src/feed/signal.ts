/** Called when there is more; `first`: where that begins, when it is known, and nothing lies between it and what was told of before. */
export type Advanced = (first?: number) => void;

/** Tells those who listen that there is more. */
export class Signal {
  readonly #listeners = new Set<Advanced>();
  #raised = false;

  get listeners(): number {
    return this.#listeners.size;
  }

  /** The listeners are called once, at the end of this turn, when all of it has come. */
  raise(): void {
    if (this.#raised || this.#listeners.size === 0) return;
    this.#raised = true;
    queueMicrotask(() => {
      this.#raised = false;
      this.tell();
    });
  }

  /** Calls the listeners at once. */
  tell(first?: number): void {
    for (const listener of [...this.#listeners]) listener(first);
  }

  /** The result ends it. The listener must not throw. */
  subscribe(listener: Advanced): () => void {
    // One of its own each: who subscribes twice is told twice, and each ends for itself.
    const own: Advanced = (first) => listener(first);
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }
}
