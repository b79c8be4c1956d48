import type { Catalog, TenantEntity } from './catalog.js';

/** It is served to no client: its owner has suspended it, or events are being imported into it. */
export function isClosed(catalog: Pick<Catalog, 'get'>, tenantId: string): boolean {
  const tenant = catalog.get('tenant', tenantId)?.value;
  return tenant !== undefined && isClosedTenant(tenant);
}

/** Nor is it opened: an import needs it open. */
export const isSuspended = (catalog: Pick<Catalog, 'get'>, tenantId: string): boolean =>
  catalog.get('tenant', tenantId)?.value.suspendedAt !== undefined;

export const isBeingImported = (catalog: Pick<Catalog, 'get'>, tenantId: string): boolean =>
  catalog.get('tenant', tenantId)?.value.importing !== undefined;

const isClosedTenant = ({ suspendedAt, importing }: TenantEntity): boolean =>
  suspendedAt !== undefined || importing !== undefined;

/** Calls `listener` when a tenant is suspended, or an import into it begins, and when that is over, on the turn of the change. */
export function onSuspension(
  catalog: Pick<Catalog, 'onChange'>,
  listener: (tenant: TenantEntity, closed: boolean) => void,
): void {
  catalog.onChange(({ kind, value, previous }) => {
    if (kind !== 'tenant' || value === undefined) return;
    const closed = isClosedTenant(value);
    if (closed !== (previous !== undefined && isClosedTenant(previous))) listener(value, closed);
  });
}
