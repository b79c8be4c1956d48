import type { Catalog, TenantEntity } from './catalog.js';

export const isSuspended = (catalog: Pick<Catalog, 'get'>, tenantId: string): boolean =>
  catalog.get('tenant', tenantId)?.value.suspendedAt !== undefined;

/** Calls `listener` when a tenant is suspended, and when that is taken back, on the turn of the change. */
export function onSuspension(
  catalog: Pick<Catalog, 'onChange'>,
  listener: (tenant: TenantEntity, suspended: boolean) => void,
): void {
  catalog.onChange(({ kind, value, previous }) => {
    if (kind !== 'tenant' || value === undefined) return;
    const suspended = value.suspendedAt !== undefined;
    if (suspended !== (previous?.suspendedAt !== undefined)) listener(value, suspended);
  });
}
