import type { ArtefactEntity, Catalog } from '../catalog/catalog.js';
import { Tally } from '../core/tally.js';

/** How many artefacts are halted: counted as the catalog takes them, so that who asks time and again goes through none. */
export class HaltedArtefacts {
  readonly #byTenant = new Tally();
  #total = 0;

  constructor(catalog: Pick<Catalog, 'list' | 'onChange'>) {
    for (const { value } of catalog.list('artefact', undefined)) this.#count(value, 1);
    catalog.onChange((change) => {
      if (change.kind !== 'artefact') return;
      this.#count(change.previous, -1);
      this.#count(change.value, 1);
    });
  }

  /** Of all tenants. */
  get total(): number {
    return this.#total;
  }

  /** Of each tenant that has any. */
  get byTenant(): ReadonlyMap<string, number> {
    return this.#byTenant.counts;
  }

  #count(artefact: ArtefactEntity | undefined, more: number): void {
    if (artefact?.faultedAt === undefined) return;
    this.#byTenant.add(artefact.tenantId, more);
    this.#total += more;
  }
}
