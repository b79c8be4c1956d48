import { artefactsDropped, type Catalog, type ProjectionEntity, type ReducerEntity } from '../catalog/catalog.js';
import { revisionsOf } from './revisions.js';

/** What was deleted is in the log until that has dropped it: so long it counts, milliseconds, */
const LEAVING_MS = 60 * 60 * 1000;
/** past so many bytes: who deletes something to have room for something else has it at once. */
const LEAVING_FREE_BYTES = 64 * 1024 * 1024;
/** What leaves in one of these is counted together. */
const LEAVING_TOGETHER_MS = 60_000;

/** Bytes of each tenant's sources and assemblies in the log: summed when it is first asked, and followed from there. */
export class CodeBytes {
  readonly #catalog: Pick<Catalog, 'list'>;
  readonly #now: () => number;
  readonly #known = new Map<string, number>();
  /** Of each tenant, by when it was deleted, oldest first. */
  readonly #leaving = new Map<string, { readonly from: number; bytes: number }[]>();

  constructor(catalog: Pick<Catalog, 'list' | 'onChange'>, now: () => number = () => performance.now()) {
    this.#catalog = catalog;
    this.#now = now;
    catalog.onChange(({ kind, value, previous }) => {
      if (kind !== 'reducer' && kind !== 'projection') return;
      const { tenantId } = (value ?? previous) as ReducerEntity | ProjectionEntity;
      const known = this.#known.get(tenantId);
      // No two entities share code: what one of them has is all that is another now.
      if (known !== undefined) this.#known.set(tenantId, known + codeOf(value) - codeOf(previous));
      const left = previous === undefined ? 0 : droppedBytes(previous, value);
      if (left > 0) this.#leave(tenantId, left);
    });
  }

  of(tenantId: string): number {
    let bytes = this.#known.get(tenantId);
    if (bytes === undefined) this.#known.set(tenantId, (bytes = this.#sum(tenantId)));
    return bytes + this.#leavingOf(tenantId);
  }

  #sum(tenantId: string): number {
    return total(
      bytesOf(
        [...this.#catalog.list('reducer', tenantId), ...this.#catalog.list('projection', tenantId)].map(
          ({ value }) => value,
        ),
      ),
    );
  }

  #leave(tenantId: string, bytes: number): void {
    const from = this.#now();
    const leaving = this.#leaving.get(tenantId) ?? [];
    const last = leaving.at(-1);
    if (last !== undefined && from - last.from < LEAVING_TOGETHER_MS) last.bytes += bytes;
    else leaving.push({ from, bytes });
    this.#leaving.set(tenantId, leaving);
  }

  #leavingOf(tenantId: string): number {
    const leaving = this.#leaving.get(tenantId);
    if (leaving === undefined) return 0;
    const since = this.#now() - LEAVING_MS;
    while ((leaving[0]?.from ?? since) < since) leaving.shift();
    if (leaving.length === 0) this.#leaving.delete(tenantId);
    const bytes = leaving.reduce((sum, one) => sum + one.bytes, 0);
    return Math.max(0, bytes - LEAVING_FREE_BYTES);
  }
}

/** Of each artefact that they name. Revisions of the same code share it. */
function bytesOf(entities: readonly (ReducerEntity | ProjectionEntity)[]): Map<string, number> {
  const bytes = new Map<string, number>();
  for (const entity of entities)
    for (const { artefactId, codeBytes = 0 } of 'reducerId' in entity ? [entity] : revisionsOf(entity))
      bytes.set(artefactId, Math.max(codeBytes, bytes.get(artefactId) ?? 0));
  return bytes;
}

const codeOf = (entity: ReducerEntity | ProjectionEntity | undefined): number =>
  entity === undefined ? 0 : total(bytesOf([entity]));

const total = (bytes: ReadonlyMap<string, number>): number => [...bytes.values()].reduce((sum, one) => sum + one, 0);

/** Of what the entity named before, and does not name any more. */
function droppedBytes<E extends ReducerEntity | ProjectionEntity>(previous: E, value: E | undefined): number {
  const dropped = artefactsDropped(previous, value);
  return total(new Map([...bytesOf([previous])].filter(([artefactId]) => dropped.has(artefactId))));
}
