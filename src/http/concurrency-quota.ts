import { StatefoldError } from '../core/errors.js';

/** What is under way at one time, counted a tenant, so that none takes all there is: connections that wait (WebSocket, SSE, long polls, uploads), checks. */
export class ConcurrencyQuota {
  readonly #open = new Map<string, number>();

  /** `what`: plural, as the refusal names them. */
  constructor(
    private readonly perTenant: number,
    private readonly what = 'connections waiting for changes',
  ) {}

  /** Takes one place; the result gives it back, once. @throws StatefoldError RATE_LIMITED when all are taken. */
  take(tenantId: string): () => void {
    const open = this.#open.get(tenantId) ?? 0;
    if (open >= this.perTenant) {
      throw new StatefoldError(
        'RATE_LIMITED',
        `this tenant already has ${this.perTenant} ${this.what}, the most that are allowed`,
        {
          retryAfterSeconds: 5,
        },
      );
    }
    this.#open.set(tenantId, open + 1);
    let taken = true;
    return () => {
      if (!taken) return;
      taken = false;
      const left = (this.#open.get(tenantId) ?? 1) - 1;
      if (left === 0) this.#open.delete(tenantId);
      else this.#open.set(tenantId, left);
    };
  }
}
