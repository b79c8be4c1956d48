import type { ServerResponse } from 'node:http';
import { EndableWaits } from './client-leaves.js';
import type { ConcurrencyQuota } from './concurrency-quota.js';
import { described, integerFrom } from './parameters.js';

/** Most that `waitSeconds` may ask for, where an answer says how far something has come. */
const MAX_WAIT_SECONDS = 30;
/** The parameter `waitSeconds` of an upload. */
export const WAITED = described(
  integerFrom(0, MAX_WAIT_SECONDS, 0),
  'How long the answer may wait: for a reducer to be compiled and bound, for a projection to be live.',
);

/** Answers that wait, for as long as their clients asked, for something to end that goes on without them. */
export class Waits {
  readonly #waits = new EndableWaits();

  constructor(private readonly connections: ConcurrencyQuota) {}

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
    return this.#waits.during(response, async (controller) => {
      const timer = setTimeout(() => controller.abort(), seconds * 1000);
      try {
        return await work(controller.signal);
      } finally {
        clearTimeout(timer);
        release();
      }
    });
  }

  /** Those that wait are answered with what there is. */
  close(): void {
    this.#waits.close();
  }
}
