import { backOff, type BackOff } from '../core/back-off.js';
import type { Logger } from '../core/logger.js';
import { pause } from '../core/pause.js';
import type { ReadStore } from './read-store.js';
import type { RebuildReach } from './rebuild.js';

export interface LeftoverRowsOptions {
  readonly store: Pick<ReadStore, 'tenants'>;
  readonly reach: () => RebuildReach | undefined;
  /** Takes the rows of a tenant out; those of a later one of the id are written again. */
  readonly remove: (tenantId: string) => Promise<void>;
  readonly logger: Logger;
  readonly backOffMs?: BackOff;
}

const BACK_OFF_MS: BackOff = { first: 500, last: 60_000 };

/**
 * Rows of tenants that are no more, which stayed because the store, or the process, was away when the tenant was deleted. Nothing else keeps
 * note of them: whose rows there are stands in the store, and which tenants there are in the catalog.
 */
export class LeftoverRows {
  readonly #options: LeftoverRowsOptions;
  readonly #closing = new AbortController();
  #isWanted = false;
  #wake = new AbortController();
  #looking: Promise<void> | undefined;

  constructor(options: LeftoverRowsOptions) {
    this.#options = options;
  }

  /** There may be some. They are looked for until none is left. */
  look(): void {
    this.#isWanted = true;
    this.#wake.abort();
    if (this.#closing.signal.aborted) return;
    this.#looking ??= this.#run().finally(() => {
      this.#looking = undefined;
      // Asked for between the last look and here.
      if (this.#isWanted) this.look();
    });
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#wake.abort();
    await this.#looking;
  }

  async #run(): Promise<void> {
    for (let failures = 0; !this.#closing.signal.aborted;) {
      if (this.#isWanted) failures = 0;
      this.#isWanted = false;
      this.#wake = new AbortController();
      // What fails here fails the sink too, which tells it.
      const isDone = await this.#removeAll().catch(() => false);
      if (isDone && !this.#isWanted) return;
      const { signal } = this.#wake;
      await pause(backOff(failures++, this.#options.backOffMs ?? BACK_OFF_MS), { signal });
    }
  }

  /** @returns false: others are to remove some */
  async #removeAll(): Promise<boolean> {
    const { store, reach: reachNow, remove, logger } = this.#options;
    const reach = reachNow();
    if (reach === undefined) return true;
    const stored = await store.tenants();
    // Behind the read: whoever wrote a row had its tenant in the catalog.
    await reach.caughtUp();
    const tenants = reach.tenants();
    const gone = stored.filter(
      ({ tenantId, incarnation }) => !tenants.has(tenantId) || tenants.get(tenantId) !== incarnation,
    );
    const ids = [...new Set(gone.map(({ tenantId }) => tenantId))];
    const own = ids.filter((tenantId) => reach.isWrittenHere(tenantId));
    for (const tenantId of own) {
      if (this.#closing.signal.aborted) return true;
      await remove(tenantId);
      logger.info({ tenantId }, 'Rows that a deleted tenant had left in the read store are removed');
    }
    return own.length === ids.length;
  }
}
