import type { Catalog } from '../catalog/catalog.js';
import { isSuspended, onSuspension } from '../catalog/suspension.js';
import { CodeBytes } from '../deployments/code-bytes.js';
import { storedAs, storedAsOfSection, tenantOfKey } from '../core/slots.js';
import { EventSchemas } from '../event-schemas/event-schemas.js';
import { CheckThread, type LargeChecks } from '../event-schemas/large-events.js';
import { followCatalog, tenantDefinitions } from '../deployments/tenant-definitions.js';
import { Activity, NO_ACTIVITY, type ActivityNotes } from '../tenancy/activity.js';
import { NotifiedTenants } from '../tenancy/notified-tenants.js';
import { TenantData } from '../tenancy/tenant-data.js';
import type { TenantRegistry } from '../tenancy/tenant-registry.js';
import type { Ground } from './ground.js';
import type { OpenedCatalog } from './open-catalog.js';
import type { OpenedCodeHost } from './open-code-host.js';
import type { OpenedReadStore } from './open-read-store.js';
import type { Storage } from './open-storage.js';
import { openSnapshots, openTasks } from './open-tasks.js';

/** The tenants of this process, and the changes that it tells of. */
export interface OpenedTenancy {
  readonly tenants: TenantRegistry;
  readonly notified: NotifiedTenants;
  /** Notes of what is active in the cluster; undefined where this process is alone. */
  readonly activity: Activity | undefined;
  readonly data: TenantData;
  /** What holds large events against the schemas of their types. */
  readonly largeChecks: LargeChecks;
  /** Of how many partitions a tenant's events are. */
  readonly partitionsOf: (tenantId: string) => number;
}

export async function openTenancy(
  ground: Ground,
  storage: Storage,
  { catalog, quotaOf }: OpenedCatalog,
  { codeHost }: OpenedCodeHost,
  { sink }: OpenedReadStore,
): Promise<OpenedTenancy> {
  const { settings, logger, metrics, shutdown, budget } = ground;
  const { log, store, ownership, shared } = storage;
  const snapshots = shared ? openSnapshots(ground, storage, (tenantId) => partitionsOf(catalog, tenantId)) : undefined;
  const activity = shared ? await Activity.open({ log, logger }) : undefined;
  const notes: ActivityNotes = activity ?? NO_ACTIVITY;
  const codeBytes = new CodeBytes(catalog);
  const largeChecks = new CheckThread();
  shutdown.add('checks of large events', () => largeChecks.close());
  const schemas = new EventSchemas(catalog, largeChecks);
  const tenants = openTasks(ground, storage, codeHost, {
    incarnationOf: (tenantId) => catalog.get('tenant', tenantId)?.value.incarnation,
    rowsIncarnationOf: (tenantId) => storage.rowsOf(catalog.get('tenant', tenantId)?.value.incarnation),
    definitionsOf: (tenantId) =>
      catalog.get('tenant', tenantId) === undefined ? undefined : tenantDefinitions(catalog, tenantId),
    partitionsOf: (tenantId) => partitionsOf(catalog, tenantId),
    isSuspended: (tenantId) => isSuspended(catalog, tenantId),
    storageOf: (tenantId) => ({
      quota: () => quotaOf(tenantId, 'storageBytes'),
      definitionBytes: () => codeBytes.of(tenantId) + catalog.bytesOf(tenantId),
    }),
    schemasOf: (tenantId) => schemas.of(tenantId),
    snapshots,
    notes,
    sink,
  });
  followCatalog(catalog, tenants);
  metrics.watch('active_tenants', () => tenants.size);
  metrics.watch('faulted_aggregates', () => tenants.faulted.aggregates);
  metrics.watch('faulted_keys', () => tenants.faulted.keys);
  metrics.watch('projection_lag_commits', () => tenants.projectionLag);

  const notified = new NotifiedTenants({ tenants, ownership, activity: notes, idleMs: settings.tenantIdleMs });
  shutdown.add('notified tenants', () => notified.close());

  const data = new TenantData({ tenants, codeHost, snapshots, store, log, sink, logger });
  const failed = (error: unknown): void =>
    logger.warn({ err: error }, 'what a deleted tenant left could not be removed here');
  catalog.onChange(({ kind, id, value, previous }) => {
    if (kind !== 'tenant' || value !== undefined || previous === undefined) return;
    notified.forget(id);
    budget.forget(id);
    sink?.tenantDeleted();
    // In the process that deletes it too: who had come in before its keys were gone may have opened it again, over topics that are no more.
    const removed = ownership.owns(id) ? data.removeRecords(previous) : data.removeHere(previous);
    removed.catch(failed);
  });
  // What was imported in part is dropped: from now on the tenant is stored under another name.
  catalog.onChange(({ kind, id, value, previous }) => {
    if (
      kind !== 'tenant' ||
      value === undefined ||
      previous === undefined ||
      value.incarnation === previous.incarnation
    )
      return;
    notified.forget(id);
    data.removeHere(previous).catch(failed);
  });
  onSuspension(catalog, (tenant, suspended) => {
    const { tenantId, partitions } = tenant;
    notified.forget(tenantId);
    const done = suspended
      ? Promise.all([tenants.remove(tenantId, partitions), codeHost.dispose(tenantId)])
      : tenants.resume(tenantId);
    done.catch((error: unknown) =>
      logger.warn(
        { err: error, tenantId },
        suspended
          ? 'a suspended tenant could not be closed in order'
          : 'a tenant that was suspended waits for its next use',
      ),
    );
  });
  dropLeftOver(catalog, store).catch(failed);
  return {
    tenants,
    notified,
    activity,
    data,
    largeChecks,
    partitionsOf: (tenantId) => partitionsOf(catalog, tenantId),
  };
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
