import { StatefoldError } from '../core/errors.js';

interface Waiting {
  readonly tenantId: string;
  readonly begin: () => void;
}

/** Of tenants that were served it is kept when; of more the oldest are forgotten, as if they never had been. */
const REMEMBERED = 1000;
const RETRY_AFTER_SECONDS = 2;

/**
 * Work of which the service does a little at once, for all tenants: one piece a tenant, and of those who wait the one that was
 * served the longest ago is next. Who asks again and again only comes behind everybody else.
 */
export class TenantTurns {
  readonly #atOnce: number;
  readonly #what: string;
  readonly #Refusal: typeof StatefoldError;
  readonly #busy = new Set<string>();
  #running = 0;
  #waiting: Waiting[] = [];
  readonly #served = new Map<string, number>();
  #turn = 0;

  /** @param what the work, as the subject of a sentence: `a dry run` @param Refusal what a refusal is thrown as */
  constructor(atOnce: number, what: string, Refusal: typeof StatefoldError = StatefoldError) {
    this.#atOnce = atOnce;
    this.#what = what;
    this.#Refusal = Refusal;
  }

  /** Of each tenant one at a time. @throws StatefoldError RATE_LIMITED: it has one under way; what `work` throws */
  async once<T>(tenantId: string, work: () => Promise<T>): Promise<T> {
    if (this.#busy.has(tenantId))
      throw this.#limited(`${this.#what} of this tenant is under way; send the request again when it has ended`);
    this.#busy.add(tenantId);
    try {
      return await work();
    } finally {
      this.#busy.delete(tenantId);
    }
  }

  /** The part of it of which a little is done at once. @throws StatefoldError RATE_LIMITED: its turn did not come in time; what `work` throws */
  async take<T>(tenantId: string, waitMs: number, work: () => Promise<T>): Promise<T> {
    if (this.#running >= this.#atOnce || this.#waiting.length > 0) await this.#wait(tenantId, waitMs);
    else this.#begin(tenantId);
    try {
      return await work();
    } finally {
      this.#running--;
      this.#next();
    }
  }

  #wait(tenantId: string, ms: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting = this.#waiting.filter((one) => one !== waiting);
        reject(this.#limited(`the service is at other tenants' work of this kind; send the request again`));
      }, ms);
      const waiting: Waiting = {
        tenantId,
        begin: () => {
          clearTimeout(timer);
          this.#begin(tenantId);
          resolve();
        },
      };
      this.#waiting.push(waiting);
    });
  }

  #begin(tenantId: string): void {
    this.#running++;
    this.#served.delete(tenantId);
    this.#served.set(tenantId, ++this.#turn);
    for (const oldest of this.#served.keys()) if (this.#served.size > REMEMBERED) this.#served.delete(oldest);
  }

  #next(): void {
    let next: Waiting | undefined;
    for (const one of this.#waiting) if (next === undefined || this.#at(one) < this.#at(next)) next = one;
    if (next === undefined || this.#running >= this.#atOnce) return;
    this.#waiting = this.#waiting.filter((one) => one !== next);
    next.begin();
  }

  #at({ tenantId }: Waiting): number {
    return this.#served.get(tenantId) ?? 0;
  }

  #limited(message: string): StatefoldError {
    return new this.#Refusal('RATE_LIMITED', message, { retryAfterSeconds: RETRY_AFTER_SECONDS });
  }
}
