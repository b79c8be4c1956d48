import type { ServerResponse } from 'node:http';

/** Most that `waitSeconds` may ask for, where an answer says how far something has come. */
export const MAX_WAIT_SECONDS = 30;

/** Answers that wait, for as long as their clients asked, for something to end that goes on without them. */
export class Waits {
  readonly #open = new Set<AbortController>();
  #closed = false;

  /** Runs `work` with a signal that aborts when the time is up, when the client has gone, or when the process is told to end. */
  async during<T>(response: ServerResponse, seconds: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const controller = new AbortController();
    const abort = (): void => controller.abort();
    const timer = setTimeout(abort, seconds * 1000);
    this.#open.add(controller);
    response.once('close', abort);
    if (this.#closed || response.destroyed) abort();
    try {
      return await work(controller.signal);
    } finally {
      clearTimeout(timer);
      this.#open.delete(controller);
      response.off('close', abort);
    }
  }

  /** Those that wait are answered with what there is. */
  close(): void {
    this.#closed = true;
    for (const controller of this.#open) controller.abort();
  }
}
