import { InvariantError } from '../core/errors.js';
import type { EntityValue } from '../core/records.js';
import type { CatalogChange, Entities, EntityKind, Entry, KeyEntity } from './catalog.js';
import { OrderedMap } from './ordered-map.js';

/** A version of an entity, where in the log it lies, and its bytes there. */
type Held = { [K in EntityKind]: Entry<K> & { readonly offset: number; readonly bytes: number } }[EntityKind];

const KINDS: Readonly<Record<EntityKind, true>> = {
  tenant: true,
  key: true,
  reducer: true,
  binding: true,
  projection: true,
  eventType: true,
  endpoint: true,
  sqlAccount: true,
  artefact: true,
  cluster: true,
};
/** Of another kind is what a newer version of the service has written: it is passed over, and left as it is. */
export const isKind = (kind: string): kind is EntityKind => Object.hasOwn(KINDS, kind);

/**
 * The fold of the catalog topic: the entities in memory, by kind and id, by tenant, and keys by hash.
 *
 * Which record counts is decided by `replaces` alone. Its own version is one more, and a record is void when the entity is at
 * or past that version. It may be further ahead: the versions between were superseded and erased. So every reader comes to
 * the same end, whichever of the superseded records it still meets.
 */
export class EntityStore {
  readonly #entities = new Map<EntityKind, OrderedMap<Held>>();
  readonly #byTenant = new Map<string, OrderedMap<Held>>();
  readonly #bytes = new Map<string, number>();
  readonly #keys = new Map<string, KeyEntity>();
  /** Versions of the deletions of tenants that are not there now: a new one of that id must not be taken for the former. */
  readonly #deletedTenants = new Map<string, number>();

  get<K extends EntityKind>(kind: K, id: string): (Entry<K> & { readonly offset: number }) | undefined {
    // The map of a kind holds entries of that kind only.
    return this.#entities.get(kind)?.get(id) as (Entry<K> & { readonly offset: number }) | undefined;
  }

  /** The version that a write replaces. A tenant's goes on past its deletion; all else begins again, and is created with 0. */
  versionOf(kind: EntityKind, id: string): number {
    return this.get(kind, id)?.version ?? (kind === 'tenant' ? (this.#deletedTenants.get(id) ?? 0) : 0);
  }

  list<K extends EntityKind>(kind: K, tenantId: string | undefined): readonly Entry<K>[] {
    return (this.#held(kind, tenantId)?.all() ?? []) as unknown as Entry<K>[];
  }

  past<K extends EntityKind>(kind: K, tenantId: string | undefined, after: string): Iterable<Entry<K>> {
    return (this.#held(kind, tenantId)?.past(after) ?? []) as Iterable<Entry<K>>;
  }

  count(kind: EntityKind, tenantId: string | undefined): number {
    return this.#held(kind, tenantId)?.size ?? 0;
  }

  #held(kind: EntityKind, tenantId: string | undefined): OrderedMap<Held> | undefined {
    return tenantId === undefined ? this.#entities.get(kind) : this.#byTenant.get(`${kind}/${tenantId}`);
  }

  bytesOf(tenantId: string): number {
    return this.#bytes.get(tenantId) ?? 0;
  }

  keyByHash(hash: string): KeyEntity | undefined {
    return this.#keys.get(hash);
  }

  /** Pure on what was folded: does the record count here? */
  accepts({ kind, id, replaces }: EntityValue): boolean {
    return isKind(kind) && replaces >= (this.get(kind, id)?.version ?? 0);
  }

  /** Takes an accepted record. Gives the change, and the offset of the record that it supersedes. */
  apply(
    { kind, id, replaces, value: text }: EntityValue,
    offset: number,
  ): { readonly change: CatalogChange; readonly superseded: number | undefined } {
    if (!isKind(kind)) throw new InvariantError(`the catalog has a record of the unknown kind ${kind}`);
    const previous = this.get(kind, id);
    const value = text === null ? undefined : (JSON.parse(text) as Entities[EntityKind]);
    if (previous !== undefined) this.#remove(kind, previous as Held);
    if (kind === 'tenant' && value === undefined) this.#deletedTenants.set(id, replaces + 1);
    else if (kind === 'tenant') this.#deletedTenants.delete(id);
    if (text !== null)
      this.#add(kind, { id, version: replaces + 1, value, offset, bytes: Buffer.byteLength(text) } as Held);
    // Both values are of the kind.
    const change = { kind, id, value, previous: previous?.value } as CatalogChange;
    return { change, superseded: previous?.offset };
  }

  #add(kind: EntityKind, held: Held): void {
    mapOf(this.#entities, kind).set(held);
    mapOf(this.#byTenant, `${kind}/${held.value.tenantId}`).set(held);
    this.#count(held.value.tenantId, held.bytes);
    if (kind === 'key') this.#keys.set((held.value as KeyEntity).hash, held.value as KeyEntity);
  }

  #remove(kind: EntityKind, held: Held): void {
    const tenant = `${kind}/${held.value.tenantId}`;
    this.#entities.get(kind)?.delete(held.id);
    this.#byTenant.get(tenant)?.delete(held.id);
    if (this.#byTenant.get(tenant)?.size === 0) this.#byTenant.delete(tenant);
    this.#count(held.value.tenantId, -held.bytes);
    if (kind === 'key') this.#keys.delete((held.value as KeyEntity).hash);
  }

  #count(tenantId: string, more: number): void {
    const bytes = this.bytesOf(tenantId) + more;
    if (bytes === 0) this.#bytes.delete(tenantId);
    else this.#bytes.set(tenantId, bytes);
  }
}

function mapOf<K>(maps: Map<K, OrderedMap<Held>>, key: K): OrderedMap<Held> {
  let map = maps.get(key);
  if (map === undefined) maps.set(key, (map = new OrderedMap<Held>()));
  return map;
}
