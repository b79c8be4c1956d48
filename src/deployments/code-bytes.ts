import type { Catalog } from '../catalog/catalog.js';
import { revisionsOf } from './revisions.js';

/** Bytes of each tenant's sources and assemblies in the log: summed when it is asked after a change of its code. */
export class CodeBytes {
  readonly #catalog: Pick<Catalog, 'list'>;
  readonly #known = new Map<string, number>();

  constructor(catalog: Pick<Catalog, 'list' | 'onChange'>) {
    this.#catalog = catalog;
    catalog.onChange(({ kind, value, previous }) => {
      if (kind === 'reducer' || kind === 'projection') this.#known.delete((value ?? previous)?.tenantId ?? '');
    });
  }

  of(tenantId: string): number {
    let bytes = this.#known.get(tenantId);
    if (bytes === undefined) this.#known.set(tenantId, (bytes = this.#sum(tenantId)));
    return bytes;
  }

  #sum(tenantId: string): number {
    // Revisions of the same code share it.
    const artefacts = new Map<string, number>();
    for (const { value } of this.#catalog.list('reducer', tenantId))
      artefacts.set(value.artefactId, value.codeBytes ?? 0);
    for (const { value } of this.#catalog.list('projection', tenantId))
      for (const { artefactId, codeBytes = 0 } of revisionsOf(value))
        artefacts.set(artefactId, Math.max(codeBytes, artefacts.get(artefactId) ?? 0));
    return [...artefacts.values()].reduce((sum, one) => sum + one, 0);
  }
}
