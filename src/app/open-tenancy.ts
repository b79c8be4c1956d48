import type { Catalog, TenantEntity } from '../catalog/catalog.js';
import { followCatalog, tenantDefinitions } from '../deployments/tenant-definitions.js';
import { Activity, NO_ACTIVITY, type ActivityNotes } from '../tenancy/activity.js';
import { ChangeFeeds } from '../tenancy/change-feeds.js';
import type { TenantRegistry } from '../tenancy/tenant-registry.js';
import type { Ground } from './ground.js';
import type { OpenedCodeHost } from './open-code-host.js';
import type { OpenedReadStore } from './open-read-store.js';
import type { Storage } from './open-storage.js';
import { openSnapshots, openTasks } from './open-tasks.js';

/** The tenants of this process, and the changes that it tells of. */
export interface OpenedTenancy {
  readonly tenants: TenantRegistry;
  readonly feeds: ChangeFeeds;
  /** Tenants whose changes someone here follows: kept by the hub, read by the feeds. */
  readonly followed: Set<string>;
  /** Notes of what is active in the cluster; undefined where this process is alone. */
  readonly activity: Activity | undefined;
  /** Drops what this machine holds of a tenant. */
  removeCopies(tenant: TenantEntity): Promise<void>;
}

export async function openTenancy(
  ground: Ground,
  storage: Storage,
  catalog: Catalog,
  { codeHost }: OpenedCodeHost,
  { sink }: OpenedReadStore,
): Promise<OpenedTenancy> {
  const { settings, logger, metrics, shutdown, budget } = ground;
  const { log, store, ownership, shared } = storage;
  const snapshots = shared ? openSnapshots(ground, storage, (tenantId) => partitionsOf(catalog, tenantId)) : undefined;
  const activity = shared ? await Activity.open({ log, logger }) : undefined;
  const notes: ActivityNotes = activity ?? NO_ACTIVITY;
  const tenants = openTasks(ground, storage, codeHost, {
    definitionsOf: (tenantId) =>
      catalog.get('tenant', tenantId) === undefined ? undefined : tenantDefinitions(catalog, tenantId),
    partitionsOf: (tenantId) => partitionsOf(catalog, tenantId),
    snapshots,
    notes,
    sink,
  });
  followCatalog(catalog, tenants);
  metrics.watch('active_tenants', () => tenants.size);
  metrics.watch('faulted_aggregates', () => tenants.faulted.aggregates);
  metrics.watch('faulted_keys', () => tenants.faulted.keys);
  metrics.watch('projection_lag_commits', () => tenants.projectionLag);

  const followed = new Set<string>();
  const feeds = new ChangeFeeds({ tenants, ownership, followed, activity: notes, idleMs: settings.tenantIdleMs });
  shutdown.add('change feeds', () => feeds.close());

  const removeCopies = async ({ tenantId, partitions }: TenantEntity): Promise<void> => {
    for (const section of await tenants.remove(tenantId, partitions)) {
      await snapshots?.unwatch(section);
      await store.drop(section);
    }
  };
  catalog.onChange(({ kind, id, value, previous }) => {
    if (kind !== 'tenant' || value !== undefined) return;
    feeds.forget(id);
    budget.forget(id);
    // What an owner has goes with the data of the tenant.
    const tenant = previous as TenantEntity;
    if (ownership.ownerOf(id) !== 'self') void removeCopies(tenant);
    // Who had come in before its keys were gone may have opened it again, over topics that are no more.
    else void tenants.remove(id, tenant.partitions);
  });
  return { tenants, feeds, followed, activity, removeCopies };
}

const partitionsOf = (catalog: Catalog, tenantId: string): number =>
  catalog.get('tenant', tenantId)?.value.partitions ?? 1;
