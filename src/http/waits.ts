import type { ServerResponse } from 'node:http';
import type { ConnectionQuota } from './connection-quota.js';

/** Most that `waitSeconds` may ask for, where an answer says how far something has come. */
export const MAX_WAIT_SECONDS = 30;

/** Answers that wait, for as long as their clients asked, for something to end that goes on without them. */
export class Waits {
  readonly #open = new Set<AbortController>();
  #closed = false;

  constructor(private readonly connections: ConnectionQuota) {}

  /**
   * Runs `work` with a signal that aborts when the time is up, when the client has gone, or when the process is told to end; at
   * once for a tenant of which as many connections wait as may.
   */
  async during<T>(
    tenantId: string,
    response: ServerResponse,
    seconds: number,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    let release: () => void;
    try {
      release = this.connections.take(tenantId);
    } catch {
      return work(AbortSignal.abort());
    }
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
      release();
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
