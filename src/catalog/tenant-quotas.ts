import { QUOTA_NAMES, type QuotaName, type QuotaOf, type Quotas } from '../core/quotas.js';
import type { Catalog } from './catalog.js';

/** The settings that tenants without quotas of their own have. A pace of 0 sets no limit. */
export interface QuotaSettings {
  readonly rateLimitPerSecond: number;
  readonly eventsPerSecond: number;
  readonly tenantStorageBytes: number;
  readonly maxProjections: number;
  readonly maxReducers: number;
  readonly tenantConnections: number;
  readonly maxPendingUploads: number;
}

/** The quotas of every tenant: its own, else those of the settings. */
export function quotasOf(catalog: Pick<Catalog, 'get'>, settings: QuotaSettings): QuotaOf {
  const usual: Quotas = {
    requestsPerSecond: settings.rateLimitPerSecond || Infinity,
    eventsPerSecond: settings.eventsPerSecond || Infinity,
    storageBytes: settings.tenantStorageBytes,
    projections: settings.maxProjections,
    reducers: settings.maxReducers,
    connections: settings.tenantConnections,
    pendingUploads: settings.maxPendingUploads,
  };
  return (tenantId, name) => catalog.get('tenant', tenantId)?.value.quotas?.[name] ?? usual[name];
}

/** All of a tenant's, as an answer tells them; null: without a limit. */
export const quotasJson = (of: QuotaOf, tenantId: string): Readonly<Record<QuotaName, number | null>> =>
  Object.fromEntries(
    QUOTA_NAMES.map((name) => {
      const quota = of(tenantId, name);
      return [name, Number.isFinite(quota) ? quota : null];
    }),
  ) as Record<QuotaName, number | null>;
