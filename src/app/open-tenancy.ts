import type { Catalog, TenantEntity } from '../catalog/catalog.js';
import { partitionKey, storedAs, storedAsOfSection, tenantOfKey } from '../core/slots.js';
import { followCatalog, tenantDefinitions } from '../deployments/tenant-definitions.js';
import { allTopics } from '../log/topics.js';
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
    incarnationOf: (tenantId) => catalog.get('tenant', tenantId)?.value.incarnation,
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

  const removeCopies = async (tenant: TenantEntity): Promise<void> => {
    const { tenantId, partitions } = tenant;
    await Promise.all([tenants.remove(tenantId, partitions), codeHost.dispose(tenantId)]);
    for (let partition = 0; partition < partitions; partition++) {
      const section = partitionKey(storedAs(tenant), partition);
      await snapshots?.unwatch(section);
      await store.drop(section);
    }
  };
  const failed = (error: unknown): void =>
    logger.warn({ err: error }, 'what a deleted tenant left could not be removed here');
  catalog.onChange(({ kind, id, value, previous }) => {
    if (kind !== 'tenant' || value !== undefined || previous === undefined) return;
    feeds.forget(id);
    budget.forget(id);
    // In the process that deletes it too: who had come in before its keys were gone may have opened it again, over topics that are no more.
    const owned = ownership.ownerOf(id) === 'self';
    removeCopies(previous)
      .then(async () => {
        if (owned) for (const topic of allTopics(storedAs(previous))) await log.deleteTopic(topic);
      })
      .catch(failed);
  });
  dropLeftOver(catalog, store).catch(failed);
  return { tenants, feeds, followed, activity, removeCopies };
}

/** Copies of tenants that were deleted while this process was down, or ended before they were removed. */
async function dropLeftOver(catalog: Catalog, store: Storage['store']): Promise<void> {
  for (const section of [...store.sections()]) {
    const tenant = catalog.get('tenant', tenantOfKey(section))?.value;
    if (tenant === undefined || storedAs(tenant) !== storedAsOfSection(section)) await store.drop(section);
  }
}

const partitionsOf = (catalog: Catalog, tenantId: string): number =>
  catalog.get('tenant', tenantId)?.value.partitions ?? 1;
