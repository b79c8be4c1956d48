import { nextTurn } from '../core/slices.js';
import { Turns } from '../core/turns.js';

/** Of a tenant, how many of its subscriptions read at once. */
const READS = 4;
/** Of a turn: what it costs to go through as much of a feed as is read at a time. */
const PAGE_COST = 1;

/** What one tenant's subscriptions read. */
interface Reading {
  underWay: number;
  /** Called in their order, each when its page may be read. */
  readonly waiting: (() => void)[];
}

/**
 * Shares what it takes to go through history among tenants: each page takes a turn of its tenant, and few subscriptions of a tenant are at
 * a page at once, the others in the order in which they asked. So a thousand that replay hold the event loop for no longer than one does,
 * have a few pages in memory, and leave the tenant's own requests a few turns behind.
 */
export class Replays {
  readonly #turns: Turns;
  readonly #reading = new Map<string, Reading>();

  /** `turns`: those that the tenants' requests take. */
  constructor(turns = new Turns()) {
    this.#turns = turns;
  }

  /** Gives what `read` does, which is called on a turn of the tenant. */
  async page<T>(tenantId: string, read: () => Promise<T>): Promise<T> {
    const reading = await this.#begun(tenantId);
    try {
      await (this.#turns.enter(tenantId, PAGE_COST, { isTenant: false }) ?? nextTurn());
      return await read();
    } finally {
      this.#ended(tenantId, reading);
    }
  }

  async #begun(tenantId: string): Promise<Reading> {
    let reading = this.#reading.get(tenantId);
    if (reading === undefined) this.#reading.set(tenantId, (reading = { underWay: 0, waiting: [] }));
    const { waiting } = reading;
    if (reading.underWay < READS) reading.underWay++;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    return reading;
  }

  /** The next one takes its place. */
  #ended(tenantId: string, reading: Reading): void {
    const next = reading.waiting.shift();
    if (next !== undefined) return next();
    reading.underWay--;
    if (reading.underWay === 0) this.#reading.delete(tenantId);
  }
}
