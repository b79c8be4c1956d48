import { randomBytes } from 'node:crypto';
import { StatefoldError } from '../core/errors.js';
import { isoTimestamp } from '../core/event.js';
import { uuidv7 } from '../core/ids.js';
import type { Catalog, TenantEntity } from './catalog.js';

const INCARNATION_BYTES = 4;

/** Removes all records of a tenant under a former name; may be called again. */
export type RemoveRecords = (tenant: TenantEntity) => Promise<void>;

/**
 * Closes the tenant to all but the import that begins. What an import stored that was broken off is dropped: the tenant gets another
 * name in the log. One that was broken off before `foundEmpty` has stored nothing: what the tenant has is its own. Resolves with the id
 * of the import. @throws StatefoldError NOT_FOUND | UNAVAILABLE
 */
export async function beginImport(catalog: Catalog, tenantId: string, remove: RemoveRecords): Promise<string> {
  const importId = uuidv7();
  const tenant = await catalog.update('tenant', tenantId, (had) => {
    const startedAt = isoTimestamp(Date.now());
    const { importing: before } = had;
    if (before !== undefined && before.unseen !== true) return renamed(had, startedAt, importId);
    return { ...had, importing: { importId, startedAt, former: before?.former ?? [], unseen: true } };
  });
  await removeFormer(catalog, tenant, importId, remove);
  return importId;
}

/** The tenant was looked at since it was closed, and has nothing of its own: what it has from now on is the import's. @throws StatefoldError UNAVAILABLE where another import has begun instead */
export async function foundEmpty(catalog: Catalog, tenantId: string, importId: string): Promise<void> {
  const tenant = await catalog.update('tenant', tenantId, (had) => {
    if (had.importing?.importId !== importId || had.importing.unseen !== true) return undefined;
    const { unseen: _, ...importing } = had.importing;
    return { ...had, importing };
  });
  if (tenant.importing?.importId !== importId)
    throw new StatefoldError(
      'UNAVAILABLE',
      'another import into the tenant has begun, before this one stored anything',
    );
}

/** The import is whole: the tenant is served from now on. @throws StatefoldError UNAVAILABLE where another import has begun instead */
export async function endImport(catalog: Catalog, tenantId: string, importId: string): Promise<void> {
  let mine = false;
  await catalog.update('tenant', tenantId, ({ importing, ...tenant }) => {
    mine = importing?.importId === importId;
    return mine ? tenant : undefined;
  });
  if (!mine)
    throw new StatefoldError(
      'UNAVAILABLE',
      'another import into the tenant has begun, and what this one stored was dropped',
    );
}

/** Drops what the import has stored; then the tenant is empty, and served. Nothing is done where another import has begun. @throws StatefoldError UNAVAILABLE */
export async function dropImport(
  catalog: Catalog,
  tenantId: string,
  importId: string,
  remove: RemoveRecords,
): Promise<void> {
  if (catalog.get('tenant', tenantId)?.value.importing?.importId !== importId) return;
  const tenant = await catalog.update('tenant', tenantId, (had) =>
    had.importing?.importId === importId ? renamed(had, had.importing.startedAt, importId) : undefined,
  );
  if (tenant.importing?.importId !== importId) return;
  await removeFormer(catalog, tenant, importId, remove);
  await endImport(catalog, tenantId, importId);
}

/** Under a name that it never had; the former one is kept until nothing is left under it. */
const renamed = (tenant: TenantEntity, startedAt: string, importId: string): TenantEntity => ({
  ...tenant,
  incarnation: randomBytes(INCARNATION_BYTES).toString('hex'),
  importing: { importId, startedAt, former: [...(tenant.importing?.former ?? []), tenant.incarnation ?? ''] },
});

async function removeFormer(
  catalog: Catalog,
  tenant: TenantEntity,
  importId: string,
  remove: RemoveRecords,
): Promise<void> {
  const former = tenant.importing?.former ?? [];
  if (former.length === 0) return;
  const { incarnation: _, ...unnamed } = tenant;
  for (const incarnation of former) await remove(incarnation === '' ? unnamed : { ...unnamed, incarnation });
  await catalog.update('tenant', tenant.tenantId, (had) =>
    had.importing?.importId === importId ? { ...had, importing: { ...had.importing, former: [] } } : undefined,
  );
}
