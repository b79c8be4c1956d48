import type { Catalog, TenantEntity } from '../catalog/catalog.js';
import { tenantOfKey } from '../core/slots.js';
import { followCatalog, tenantDefinitions } from '../deployments/tenant-definitions.js';
import { ThreadedSectionArchive } from '../snapshots/section-archive.js';
import { Snapshots } from '../snapshots/snapshots.js';
import { Activity, NO_ACTIVITY, type ActivityNotes } from '../tenancy/activity.js';
import { ChangeFeeds } from '../tenancy/change-feeds.js';
import { PartitionTask } from '../tenancy/partition-task.js';
import type { TenantTaskOptions } from '../tenancy/task-options.js';
import { TenantRegistry } from '../tenancy/tenant-registry.js';
import { TenantTask } from '../tenancy/tenant-task.js';
import type { Ground } from './ground.js';
import type { OpenedCodeHost } from './open-code-host.js';
import type { OpenedReadStore } from './open-read-store.js';
import type { Storage } from './open-storage.js';

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
  const { settings, logger, metrics, shutdown, owner, clock } = ground;
  const { log, codecs, store, ownership, shared } = storage;
  const snapshots = shared ? openSnapshots(ground, storage, catalog) : undefined;
  const activity = shared ? await Activity.open({ log, logger }) : undefined;
  const notes: ActivityNotes = activity ?? NO_ACTIVITY;

  const taskOptions = (tenantId: string): Omit<TenantTaskOptions, 'onStopped'> | undefined =>
    catalog.get('tenant', tenantId) === undefined
      ? undefined
      : {
          tenantId,
          log,
          codecs,
          store,
          codeHost,
          owner,
          clock,
          logger,
          observer: metrics.tasks,
          definitions: tenantDefinitions(catalog, tenantId),
          idempotencyWindow: settings.idempotencyWindow,
          strictReads: settings.strictReads,
          changesRetentionMs: settings.changesRetentionMs,
          foldDeadlineMs: settings.foldDeadlineMs,
          keptRevisions: settings.keptRevisions,
        };
  const opened = (task: TenantTask | PartitionTask): void => {
    snapshots?.watch(task);
    notes.note(task.slotKey, 'active');
  };
  const closed = ({ slotKey }: TenantTask | PartitionTask): void => {
    void snapshots?.unwatch(slotKey);
    if (ownership.ownerOf(slotKey) === 'self') notes.note(slotKey, 'idle');
  };
  const tenants = new TenantRegistry({
    logger,
    ownership,
    prepare: async (section) => {
      // Of a tenant that was deleted here, and made again.
      await store.dropped(section);
      // A restore makes the tenant's topics; those of a deleted one stay gone.
      if (catalog.get('tenant', tenantOfKey(section)) !== undefined) await snapshots?.restore(section);
    },
    idleMs: settings.tenantIdleMs,
    partitionsOf: (tenantId) => partitionsOf(catalog, tenantId),
    create: (tenantId, onStopped, partitions) => {
      const options = taskOptions(tenantId);
      return options && new TenantTask({ ...options, onStopped, ...(partitions && { partitions }) });
    },
    partitions: {
      create: (of) => {
        const options = taskOptions(of.tenantId);
        return options && new PartitionTask({ ...options, ...of });
      },
      activeElsewhere: (slotKey) => notes.tenants().includes(slotKey),
      onOpened: opened,
      onClosed: closed,
    },
    onOpened: (task) => {
      sink.attach(task.sink);
      opened(task);
    },
    onClosed: (task) => {
      sink.detach(task.tenantId);
      closed(task);
    },
  });
  shutdown.add('tenants', () => tenants.close());
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
    // What an owner has goes with the data of the tenant.
    const tenant = previous as TenantEntity;
    if (ownership.ownerOf(id) !== 'self') void removeCopies(tenant);
    // Who had come in before its keys were gone may have opened it again, over topics that are no more.
    else void tenants.remove(id, tenant.partitions);
  });
  return { tenants, feeds, followed, activity, removeCopies };
}

/** What the next owner, on another machine, starts from: where this one is alone it is its own next owner. */
function openSnapshots(
  { settings, logger, metrics, shutdown }: Ground,
  { log, codecs, store }: Storage,
  catalog: Catalog,
): Snapshots {
  const snapshots = new Snapshots({
    log,
    codecs,
    store,
    archive: new ThreadedSectionArchive(store),
    logger,
    changesRetentionMs: settings.changesRetentionMs,
    partitionsOf: (tenantId) => partitionsOf(catalog, tenantId),
    afterRecords: settings.snapshotAfterRecords,
    observer: metrics.snapshots,
  });
  shutdown.add('snapshots', () => snapshots.close());
  return snapshots;
}

const partitionsOf = (catalog: Catalog, tenantId: string): number =>
  catalog.get('tenant', tenantId)?.value.partitions ?? 1;
