/** Work in slices: each yields to others, and leaves a cursor from which the next one goes on. */
export interface SteppedWork {
  /** One slice; false: there is nothing more to do now. */
  step(): Promise<boolean>;
  /** A slice failed; after a while the next one begins where it did. `again`: so did the one before, and whoever logs it has. */
  failed(error: unknown, again: boolean): void;
}

/** After a slice that failed, milliseconds. */
export const RETRY_MS = 1000;

/** Takes the slices of a work one after the other, as long as there may be something to do. */
export class Steps {
  readonly #work: SteppedWork;
  #started = false;
  #signalled = false;
  #running = false;
  #closed = false;
  /** The last slice failed. */
  #failing = false;

  constructor(work: SteppedWork) {
    this.#work = work;
  }

  /** A slice is under way, or about to be. */
  get running(): boolean {
    return this.#running;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** What was signalled before is done from here on. */
  start(): void {
    this.#started = true;
    this.signal();
  }

  /** There may be something to do. */
  signal(): void {
    this.#signalled = true;
    if (this.#running || this.#closed || !this.#started) return;
    this.#running = true;
    queueMicrotask(() => void this.#run());
  }

  /** No further slice begins. */
  close(): void {
    this.#closed = true;
  }

  async #run(): Promise<void> {
    try {
      while (this.#signalled && !this.#closed) {
        this.#signalled = false;
        for (let more = true; more && !this.#closed;) {
          more = await this.#work.step();
          this.#failing = false;
        }
      }
    } catch (error) {
      if (this.#closed) return;
      this.#work.failed(error, this.#failing);
      this.#failing = true;
      setTimeout(() => this.signal(), RETRY_MS).unref();
    } finally {
      this.#running = false;
    }
  }
}
