import { StatefoldError } from '../core/errors.js';
import { Tally } from '../core/tally.js';
import type { Catalog } from './catalog.js';

/** About the most that one upload adds: 64 KiB of names twice, in bindings too, and 64 KiB of findings. */
const OUTCOME_BYTES = 256 * 1024;

/** Bounds what a tenant has in the catalog: each process holds all of it in memory. */
export class CatalogRoom {
  readonly #catalog: Pick<Catalog, 'bytesOf'>;
  readonly #most: number;
  /** By tenant, of what is being written: outcomes of compilations, and endpoints. */
  readonly #reserved = new Tally();

  /** `most`: bytes of the entities of one tenant. */
  constructor(catalog: Pick<Catalog, 'bytesOf'>, most: number) {
    this.#catalog = catalog;
    this.#most = most;
  }

  /** Why the tenant may define nothing more; undefined: there is room. */
  refusal(tenantId: string): StatefoldError | undefined {
    const usage = this.#catalog.bytesOf(tenantId) + this.#reserved.of(tenantId);
    if (usage < this.#most) return undefined;
    return new StatefoldError(
      'QUOTA_EXCEEDED',
      `What the tenant has defined takes ${usage} bytes of the catalog, and may take ${this.#most} (TENANT_CATALOG_BYTES): delete reducers, projections and webhook endpoints that are not needed, or ask the owner of the service for more.`,
      { details: { quota: 'catalogBytes', usage, limit: this.#most } },
    );
  }

  /** @throws StatefoldError QUOTA_EXCEEDED */
  require(tenantId: string): void {
    const refusal = this.refusal(tenantId);
    if (refusal !== undefined) throw refusal;
  }

  /**
   * Keeps room for what is being written, the outcome of a compilation unless given, until what this gives is called.
   * @throws StatefoldError QUOTA_EXCEEDED
   */
  reserve(tenantId: string, bytes = OUTCOME_BYTES): () => void {
    this.require(tenantId);
    this.#reserved.add(tenantId, bytes);
    return () => this.#reserved.add(tenantId, -bytes);
  }
}
