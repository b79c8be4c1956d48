import type { EventChecks } from '../aggregates/partition.js';
import type { MemoryBudget } from '../core/budget.js';
import type { CodeHost } from '../code-host/code-host.js';
import { TenantSuspendedError } from '../core/errors.js';
import { partitionKey, partitionOfKey, storedAs, tenantOfKey } from '../core/slots.js';
import type { Sink } from '../read-store/sink.js';
import { ThreadedSectionArchive } from '../snapshots/section-archive.js';
import { Snapshots, type SnapshotsOptions } from '../snapshots/snapshots.js';
import type { LastHour, Move } from '../telemetry/last-hour.js';
import { NO_ACTIVITY, type ActivityNotes } from '../tenancy/activity.js';
import { PartitionTask } from '../tenancy/partition-task.js';
import type { TaskObserver, TenantDefinitions, TenantTaskOptions } from '../tenancy/task-options.js';
import { StorageMeter, type StorageMeterOptions } from '../tenancy/storage-meter.js';
import type { Opening } from '../tenancy/task-registry.js';
import { TenantRegistry } from '../tenancy/tenant-registry.js';
import { TenantTask } from '../tenancy/tenant-task.js';
import type { Ground } from './ground.js';
import type { Storage } from './open-storage.js';

/** What tasks need of the ground, so that tests have them without a port and a folder's lock. */
export interface TaskGround
  extends Pick<Ground, 'settings' | 'logger' | 'shutdown' | 'owner' | 'clock'>, Partial<Pick<Ground, 'eventClock'>> {
  /** What tenants may hold in memory; without it nothing is bounded. */
  readonly budget?: MemoryBudget;
  /** The last hour's figures; none are kept unless given. */
  readonly lastHour?: Pick<LastHour, 'count' | 'moved'>;
  readonly metrics: { readonly tasks: TaskObserver; readonly snapshots: NonNullable<SnapshotsOptions['observer']> };
}
export type TaskStorage = Pick<Storage, 'log' | 'codecs' | 'store'>;

/** The options of a tenant's tasks without `onStopped`. */
export type TaskOptions = Omit<TenantTaskOptions, 'onStopped'>;

export interface TasksOptions {
  /** What the catalog says of the tenant's code; undefined: there is no such tenant. */
  readonly definitionsOf: (tenantId: string) => TenantDefinitions | undefined;
  readonly partitionsOf: (tenantId: string) => number;
  /** Of a tenant whose id was used before; none unless given. */
  readonly incarnationOf?: (tenantId: string) => string | undefined;
  /** That of the rows in the read store. */
  readonly rowsIncarnationOf?: (tenantId: string) => string | undefined;
  /** Nothing of it may be here now; false unless given. */
  readonly isSuspended?: (tenantId: string) => boolean;
  /** What its events must fit; without it they may be anything. */
  readonly schemasOf?: (tenantId: string) => EventChecks;
  /** What the tenant may store, and what its code takes; without it nothing is bounded. */
  readonly storageOf?: (tenantId: string) => Pick<StorageMeterOptions, 'quota' | 'definitionBytes'>;
  /** Undefined where this process is its own next owner. */
  readonly snapshots?: Pick<Snapshots, 'restore' | 'watch' | 'unwatch'> | undefined;
  readonly notes?: ActivityNotes;
  readonly sink?: Pick<Sink, 'attach' | 'detach'> | undefined;
}

/** The tasks of the tenants that this process serves or follows, opened on first use. */
export function openTasks(
  ground: TaskGround,
  storage: TaskStorage & Pick<Storage, 'ownership'>,
  codeHost: CodeHost,
  {
    definitionsOf,
    partitionsOf,
    incarnationOf = () => undefined,
    rowsIncarnationOf = incarnationOf,
    isSuspended = () => false,
    storageOf,
    schemasOf,
    snapshots,
    notes = NO_ACTIVITY,
    sink,
  }: TasksOptions,
): TenantRegistry {
  const { settings, logger, shutdown, lastHour } = ground;
  const { ownership, store } = storage;
  const meters = new Map<string, StorageMeter>();
  /** One for all tasks of the tenant that are here; it goes with the last of them. */
  const meterOf = (tenantId: string): StorageMeter | undefined => {
    if (storageOf === undefined) return undefined;
    let meter = meters.get(tenantId);
    if (meter === undefined) {
      const { changesRetentionMs } = settings;
      const idle = (): void => void meters.delete(tenantId);
      meter = new StorageMeter({ ...storageOf(tenantId), changesRetentionMs, now: () => ground.clock.now(), idle });
      meters.set(tenantId, meter);
    }
    return meter;
  };
  const optionsOf = (tenantId: string): TaskOptions | undefined => {
    const definitions = definitionsOf(tenantId);
    return (
      definitions && {
        ...taskOptions(ground, storage, codeHost, tenantId, definitions),
        incarnation: incarnationOf(tenantId),
        rowsIncarnation: rowsIncarnationOf(tenantId),
        storage: meterOf(tenantId),
        schemas: schemasOf?.(tenantId),
      }
    );
  };
  const moved = (slotKey: string, how: Pick<Move, 'what' | 'tookMs'>): void =>
    lastHour?.moved({ tenantId: tenantOfKey(slotKey), partition: partitionOfKey(slotKey), ...how });
  const opened = (task: TenantTask | PartitionTask, { promoted, tookMs }: Opening): void => {
    moved(task.slotKey, { what: promoted ? 'promoted' : 'restored', tookMs });
    snapshots?.watch(task);
    notes.note(task.slotKey, 'active');
  };
  const closed = ({ slotKey, section }: TenantTask | PartitionTask): void => {
    moved(slotKey, { what: 'closed' });
    void snapshots?.unwatch(section);
    if (ownership.owns(slotKey)) notes.note(slotKey, 'idle');
  };
  const tenants = new TenantRegistry({
    logger,
    ownership,
    sectionOf: (slotKey) => {
      const tenantId = tenantOfKey(slotKey);
      return definitionsOf(tenantId) === undefined
        ? undefined
        : partitionKey(storedAs({ tenantId, incarnation: incarnationOf(tenantId) }), partitionOfKey(slotKey));
    },
    refuses: (slotKey) => (isSuspended(tenantOfKey(slotKey)) ? new TenantSuspendedError() : undefined),
    prepare: async (section) => {
      await store.dropped(section);
      await snapshots?.restore(section);
    },
    idleMs: settings.tenantIdleMs,
    partitionsOf,
    create: (tenantId, onStopped, partitions) => {
      const options = optionsOf(tenantId);
      return options && new TenantTask({ ...options, onStopped, ...(partitions && { partitions }) });
    },
    partitions: {
      create: (of) => {
        const options = optionsOf(of.tenantId);
        return options && new PartitionTask({ ...options, ...of });
      },
      activeElsewhere: (slotKey) => notes.has(slotKey),
      onOpened: opened,
      onClosed: closed,
    },
    onOpened: (task, opening) => {
      sink?.attach(task.sink);
      opened(task, opening);
    },
    onClosed: (task) => {
      sink?.detach(task.tenantId);
      closed(task);
    },
  });
  shutdown.add('tenants', () => tenants.close());
  return tenants;
}

/** Of one tenant's tasks, with code as `definitions` say. */
export const taskOptions = (
  { settings, logger, metrics, owner, clock, eventClock = clock, budget, lastHour }: TaskGround,
  { log, codecs, store }: Pick<TenantTaskOptions, 'log' | 'codecs' | 'store'>,
  codeHost: CodeHost,
  tenantId: string,
  definitions: TenantDefinitions,
): TaskOptions => ({
  tenantId,
  log,
  codecs,
  store,
  codeHost,
  definitions,
  owner,
  clock: eventClock,
  logger,
  observer: lastHour === undefined ? metrics.tasks : countedByTenant(tenantId, metrics.tasks, lastHour),
  ...(budget && { budget: budget.tenant(tenantId) }),
  idempotencyWindow: settings.idempotencyWindow,
  strictReads: settings.strictReads,
  changesRetentionMs: settings.changesRetentionMs,
  foldDeadlineMs: settings.foldDeadlineMs,
  keptRevisions: settings.keptRevisions,
});

const countedByTenant = (tenantId: string, observer: TaskObserver, hour: Pick<LastHour, 'count'>): TaskObserver => ({
  ...observer,
  appended: (events) => {
    observer.appended?.(events);
    hour.count(tenantId, 'events', events);
  },
  folded: (events, seconds) => {
    observer.folded?.(events, seconds);
    hour.count(tenantId, 'folded', events);
  },
  projected: (events, changes, seconds) => {
    observer.projected?.(events, changes, seconds);
    hour.count(tenantId, 'changes', changes);
  },
});

/** What the next owner, on another machine, starts from: where this one is alone it is its own next owner. */
export function openSnapshots(
  { settings, logger, metrics, shutdown }: TaskGround,
  { log, codecs, store }: TaskStorage,
  partitionsOf: (tenantId: string) => number,
): Snapshots {
  const snapshots = new Snapshots({
    log,
    codecs,
    store,
    archive: new ThreadedSectionArchive(store),
    logger,
    changesRetentionMs: settings.changesRetentionMs,
    partitionsOf,
    afterRecords: settings.snapshotAfterRecords,
    observer: metrics.snapshots,
  });
  shutdown.add('snapshots', () => snapshots.close());
  return snapshots;
}
