import { StatefoldError } from '../core/errors.js';
import { rateLimited, type QuotaName } from '../core/quotas.js';
import { Tally } from '../core/tally.js';

const RETRY_SECONDS = 5;

/** What is under way at one time, counted a tenant, so that none takes all there is: connections that wait (WebSocket, SSE, long polls, uploads), checks. */
export class ConcurrencyQuota {
  readonly #open = new Tally();
  readonly #mostOf: (tenantId: string) => number;

  /** `what`: plural, as the refusal names them; `quota`: by which a tenant may have a number of its own. */
  constructor(
    most: number | ((tenantId: string) => number),
    private readonly what = 'connections waiting for changes',
    private readonly quota?: QuotaName,
  ) {
    this.#mostOf = typeof most === 'number' ? () => most : most;
  }

  /** Of the tenant, now. */
  openOf(tenantId: string): number {
    return this.#open.of(tenantId);
  }

  /** Takes one place; the result gives it back, once. @throws StatefoldError RATE_LIMITED when all are taken. */
  take(tenantId: string): () => void {
    const open = this.openOf(tenantId);
    const most = this.#mostOf(tenantId);
    if (open >= most) {
      const message = `this tenant already has ${open} ${this.what}, the most that are allowed`;
      throw this.quota === undefined
        ? new StatefoldError('RATE_LIMITED', message, { retryAfterSeconds: RETRY_SECONDS })
        : rateLimited(this.quota, most, message, RETRY_SECONDS);
    }
    this.#open.add(tenantId, 1);
    let taken = true;
    return () => {
      if (!taken) return;
      taken = false;
      this.#open.add(tenantId, -1);
    };
  }
}
