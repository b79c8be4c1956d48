/** How far a tenant's live projections are in its order: as a standby they follow the owner's changes, then they are folded here. Ends are exclusive. */
export class ProjectionCursor {
  /** All inputs below are folded; their changes may be on the way. */
  folded: number;
  #stored: number;
  readonly #listeners = new Set<() => void>();

  constructor(stored: number) {
    this.folded = this.#stored = stored;
  }

  /** All changes of inputs below are acknowledged, and in the store. */
  get stored(): number {
    return this.#stored;
  }

  set stored(end: number) {
    this.#stored = end;
    if (this.#listeners.size > 0) for (const listener of [...this.#listeners]) listener();
  }

  /** Calls the listener whenever more is stored, until the result is called. */
  onStored(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Nothing is on the way. */
  moveTo(end: number): void {
    this.folded = end;
    this.stored = end;
  }
}
