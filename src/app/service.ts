import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { LogArtefactStore } from '../catalog/artefacts.js';
import { joinCluster } from '../catalog/cluster.js';
import { FencedCatalog } from '../catalog/fenced-catalog.js';
import { masterKey, Sealer } from '../catalog/sealing.js';
import { readOrMakeSecret } from '../catalog/secret-file.js';
import type { TenantEntity } from '../catalog/catalog.js';
import { ensureDefaultTenant } from '../catalog/tenants.js';
import { tenantOfKey } from '../core/slots.js';
import { codeHostOptions, openCodeHost } from './open-code-host.js';
import type { CodeHost } from '../code-host/code-host.js';
import { describeJail } from '../code-host/dotnet/jail.js';
import { findProjectRoot } from '../config/project-root.js';
import type { Settings } from '../config/settings.js';
import { systemClock } from '../core/clock.js';
import type { Logger } from '../core/logger.js';
import { ArtefactHealth } from '../deployments/artefact-health.js';
import { DeploymentService } from '../deployments/deployment-service.js';
import { followCatalog, tenantDefinitions } from '../deployments/tenant-definitions.js';
import { Authenticator } from '../http/auth.js';
import { createEdge } from '../http/edge.js';
import { notificationRoutes } from '../http/routes/notifications.js';
import { serverSentEvents } from '../http/sse/stream-routes.js';
import { StreamServer } from '../http/websocket/stream-server.js';
import { schemaRegistryRoutes } from '../http/routes/schema-registry.js';
import { InspectionService } from '../inspection/inspection-service.js';
import { lowerScratchPriority } from '../inspection/scratch-priority.js';
import { openLog } from './open-log.js';
import { lockDirectory } from '../log/embedded/instance-lock.js';
import type { Log } from '../log/log.js';
import { ConnectionQuota } from '../http/connection-quota.js';
import { ChangeHub } from '../feed/hub.js';
import { LogCursorStore } from '../webhooks/log-cursor-store.js';
import { assertWebhookUrlAllowed } from '../webhooks/address-guard.js';
import { WebhookDeliverer } from '../webhooks/webhook-deliverer.js';
import { ClickHouseReadStore } from '../read-store/clickhouse/clickhouse-read-store.js';
import type { ReadStore } from '../read-store/read-store.js';
import { readStoreEndpoint } from './open-read-store.js';
import { Shutdown } from './shutdown.js';
import { readStoreRebuild } from './read-store-rebuild.js';
import { Sink } from '../read-store/sink.js';
import { Activity } from '../tenancy/activity.js';
import { Assignment } from '../tenancy/assignment.js';
import { PartitionTask } from '../tenancy/partition-task.js';
import { ChangeFeeds } from '../tenancy/change-feeds.js';
import { ThreadedSectionArchive } from '../snapshots/section-archive.js';
import { Snapshots } from '../snapshots/snapshots.js';
import { LocalStore } from '../store/local-store.js';
import type { TenantTaskOptions } from '../tenancy/task-options.js';
import { TenantRegistry } from '../tenancy/tenant-registry.js';
import { TenantTask } from '../tenancy/tenant-task.js';
import { changesTopic, eventsTopic, orderTopic, snapshotsTopic } from '../log/topics.js';
import { serveMetrics } from '../telemetry/metrics-server.js';
import type { Metrics } from '../telemetry/metrics.js';

export interface ServiceOptions {
  readonly settings: Settings;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Wrap the ports, so that a test can break them at a chosen place. */
  readonly decorate?: {
    readonly log?: (log: Log) => Log;
    readonly codeHost?: (host: CodeHost) => CodeHost;
    readonly readStore?: (store: ReadStore) => ReadStore;
  };
}

export interface Service {
  /** Where it listens, e.g. `http://127.0.0.1:8080`. */
  readonly url: string;
  /** The key of tenant `default`, when this start made it. */
  readonly newApiKey: string | undefined;
  readonly fixedKeyRevoked: boolean;
  /** One line on how uploaded code is kept from everything else. */
  readonly jailed: string;
  /** Ends it in order: answers what is under way, flushes, stops the children. */
  close(): Promise<void>;
}

const CONNECTIONS_PER_TENANT = 1000;

/** Puts the house together: the only place, with `main.ts`, that knows which adapter is behind a port. */
export async function startService({ settings, logger, metrics, decorate = {} }: ServiceOptions): Promise<Service> {
  const root = findProjectRoot();
  const data = settings.dataDirectory;
  // A part whose work under way has a deadline of its own has more time than that.
  const shutdown = new Shutdown(logger, settings.shutdownDeadlineMs + 20_000);
  const close = (): Promise<void> => shutdown.close();
  try {
    const lock = await lockDirectory(data);
    shutdown.add('instance lock', () => lock.release());
    const owner = randomUUID();
    const clock = systemClock;
    const setup = await openLog(settings, root, logger);
    shutdown.add('log', () => setup.log.close());
    const { codecs, schemas, schemaIds, shared } = setup;
    const log = decorate.log?.(setup.log) ?? setup.log;
    const store = new LocalStore({ path: join(data, 'store'), logger });
    shutdown.add('local store', () => store.close());
    let url = '';
    const owners = await setup.openOwnership(
      owner,
      () => settings.advertisedUrl ?? url,
      () => store.sections(),
    );
    const { ownership } = owners;
    shutdown.add('ownership', () => ownership.close());
    const owns = (tenantId: string): boolean => ownership.ownerOf(tenantId) === 'self';

    const catalog = await FencedCatalog.open({
      log,
      codec: codecs.catalog,
      artefacts: await LogArtefactStore.open({ log }),
      owner,
      logger,
      shared,
      onStopped: fatal(logger),
    });
    shutdown.add('catalog', () => catalog.close());
    const sealer = new Sealer(masterKey(settings.masterKey, join(data, 'master-key')));
    if (shared) await joinCluster(catalog, sealer, schemaIds);
    const adminKey = settings.adminKey ?? readOrMakeSecret(join(data, 'admin-key'), () => randomUUID());
    const first = await ensureDefaultTenant(catalog, settings.apiKey);

    const health = new ArtefactHealth({
      catalog,
      strikes: settings.artefactStrikes,
      windowMs: settings.artefactStrikeWindowMs,
      clock,
      logger,
    });
    shutdown.add('strikes', () => health.settled());
    const { codeHost: dotnet, jail } = openCodeHost(settings, {
      ...codeHostOptions(settings, root),
      logger,
      observer: {
        ...metrics.codeHost,
        onProcessStart: (started) => void (metrics.codeHost.onProcessStart(started), lowerScratchPriority(started)),
        onStrike: (strike) => void (metrics.codeHost.onStrike(), health.struck(strike)),
      },
    });
    const jailed = describeJail(jail);
    logger[jail.kind === 'jailed' ? 'debug' : 'warn'](
      { jail: jail.kind, ...(jail.kind === 'jailed' && { landlock: jail.landlock }) },
      jailed,
    );
    const codeHost = decorate.codeHost?.(dotnet) ?? dotnet;
    shutdown.add('code host', () => codeHost.close());

    const { endpoint, start: startReadStore, stop: stopReadStore } = readStoreEndpoint(settings, logger);
    shutdown.add('read store engine', stopReadStore);
    const clickHouse = new ClickHouseReadStore({
      endpoint,
      schemaDirectory: join(root, 'schemas', 'clickhouse'),
      logger,
      onRowRejected: metrics.rowRejected,
    });
    const readStore = decorate.readStore?.(clickHouse) ?? clickHouse;
    const sink = new Sink({ store: readStore, logger, observer: metrics.sink });
    shutdown.add('sink', async () => {
      await sink.close();
      await readStore.close();
    });

    const partitionsOf = (tenantId: string): number => catalog.get('tenant', tenantId)?.value.partitions ?? 1;
    const snapshots = shared
      ? new Snapshots({
          log,
          codecs,
          store,
          archive: new ThreadedSectionArchive(store),
          logger,
          changesRetentionMs: settings.changesRetentionMs,
          partitionsOf,
          afterRecords: settings.snapshotAfterRecords,
          observer: metrics.snapshots,
        })
      : undefined;
    shutdown.add('snapshots', () => snapshots?.close());
    let activity: Activity | undefined;
    let assignment: Assignment | undefined;
    const taskOptions = (tenantId: string): Omit<TenantTaskOptions, 'onStopped'> | undefined =>
      catalog.get('tenant', tenantId) === undefined
        ? undefined
        : {
            ...{ tenantId, log, codecs, store, codeHost, owner, clock, logger, observer: metrics.tasks },
            definitions: tenantDefinitions(catalog, tenantId),
            idempotencyWindow: settings.idempotencyWindow,
            strictReads: settings.strictReads,
            changesRetentionMs: settings.changesRetentionMs,
            foldDeadlineMs: settings.foldDeadlineMs,
            keptRevisions: settings.keptRevisions,
          };
    const opened = (task: TenantTask | PartitionTask): void => {
      snapshots?.watch(task);
      activity?.note(task.section, 'active');
    };
    const closed = ({ section }: TenantTask | PartitionTask): void => {
      void snapshots?.unwatch(section);
      if (owns(section)) activity?.note(section, 'idle');
    };
    const tenants = new TenantRegistry({
      logger,
      ownership,
      // A restore makes the tenant's topics; those of a deleted one stay gone.
      prepare: async (section) =>
        catalog.get('tenant', tenantOfKey(section)) === undefined ? undefined : snapshots?.restore(section),
      idleMs: settings.tenantIdleMs,
      partitionsOf,
      create: (tenantId, onStopped, partitions) => {
        const options = taskOptions(tenantId);
        return options && new TenantTask({ ...options, onStopped, ...(partitions && { partitions }) });
      },
      partitions: {
        create: (of) => {
          const options = taskOptions(of.tenantId);
          return options && new PartitionTask({ ...options, ...of });
        },
        activeElsewhere: (section) => activity?.tenants().includes(section) ?? false,
        onOpened: opened,
        onClosed: closed,
      },
      onOpened: (task) => {
        sink.attach(task);
        opened(task);
      },
      onClosed: (task) => {
        sink.detach(task.tenantId);
        closed(task);
      },
    });
    shutdown.add('tenants', () => tenants.close());
    followCatalog(catalog, tenants);
    const feeds: ChangeFeeds = new ChangeFeeds({
      tenants,
      ownership,
      awaited: () => hub.followed,
      onWanted: (tenantId) => activity?.note(tenantId, 'wanted'),
      onUnwanted: (tenantId) => assignment?.consider(tenantId),
      idleMs: settings.tenantIdleMs,
    });
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
      if (ownership.ownerOf(id) !== 'self') void removeCopies(previous as TenantEntity);
    });
    metrics.watch('code_host_landlock_version', () => (jail.kind === 'jailed' ? jail.landlock : 0));
    metrics.watch('active_tenants', () => tenants.size);
    metrics.watch(
      'faulted_artefacts',
      () => catalog.list('artefact', undefined).filter(({ value }) => value.faultedAt !== undefined).length,
    );
    metrics.watch('runners', () => dotnet.runners.runners);
    metrics.watch('runners_waiting', () => dotnet.runners.waiting);
    metrics.watch('runners_resident_bytes', () => dotnet.runners.residentBytes);
    metrics.watch('read_store_behind_tenants', () => sink.status().behind);
    metrics.watch('faulted_aggregates', () => tenants.faulted.aggregates);
    metrics.watch('faulted_keys', () => tenants.faulted.keys);
    metrics.watch('projection_lag_commits', () => tenants.projectionLag);

    const hub: ChangeHub = new ChangeHub({ tenants: feeds, catalog, logger });
    const cursors = await LogCursorStore.open(log, logger);
    const webhooks = new WebhookDeliverer({
      hub,
      tenants: feeds,
      catalog,
      store: cursors,
      serves: (tenantId) => ownership.notifies(tenantId),
      unseal: (sealed) => sealer.unseal(sealed),
      logger,
      allowPrivate: settings.webhookAllowPrivate,
      timeoutMs: settings.webhookTimeoutMs,
      observer: metrics.webhooks,
    });
    shutdown.add('notifications', async () => {
      await webhooks.close();
      await cursors.close();
      hub.close();
    });
    const deployments = new DeploymentService({
      catalog,
      codeHost,
      sealer,
      changesHead: async (tenantId) => (await tenants.open(tenantId)).changes.head(),
      projectionLife: async (tenantId, projectionId) => (await tenants.open(tenantId)).projectionLife(projectionId),
      checkWebhookUrl: (url) => assertWebhookUrlAllowed(url, { allowPrivate: settings.webhookAllowPrivate }),
      clock,
      logger,
      observer: metrics.deployments,
    });
    shutdown.add('deployments', () => deployments.close());

    const inspections = new InspectionService({
      tenants,
      catalog,
      codeHost,
      readStore,
      deadlineMs: settings.inspectionDeadlineMs,
      maxBytes: settings.inspectionMemoryBytes,
    });
    const authenticator = new Authenticator(catalog);
    const quota = new ConnectionQuota(CONNECTIONS_PER_TENANT);
    let streams: StreamServer | undefined;
    const channelClosers: (() => Promise<void> | void)[] = [];
    const removeTenantData = async (tenant: TenantEntity): Promise<void> => {
      const { tenantId } = tenant;
      await removeCopies(tenant);
      await codeHost.dispose(tenantId);
      for (const topic of [
        eventsTopic(tenantId),
        changesTopic(tenantId),
        orderTopic(tenantId),
        snapshotsTopic(tenantId),
      ])
        await log.deleteTopic(topic);
      await sink
        .remove(tenantId)
        .catch((error: unknown) =>
          logger.warn({ err: error, tenantId }, 'rows of a deleted tenant are still in the read store'),
        );
    };
    const edge = createEdge({
      settings,
      catalog,
      tenants,
      ownership,
      deployments,
      inspections,
      removeTenantData,
      authenticator,
      adminKey,
      readStoreAccess: endpoint,
      rebuildReadStore: readStoreRebuild({
        ownership,
        tenantIds: () => catalog.list('tenant', undefined).map(({ id }) => id),
        rebuild: (tenantId) => sink.rebuild(tenantId),
        open: (tenantId) => tenants.open(tenantId),
        adminKey,
        logger,
      }),
      probes: [
        {
          name: 'log',
          required: true,
          check: async () => (await log.endOffset({ topic: 'statefold.catalog', partition: 0 })) >= 0,
        },
        { name: 'readStore', required: false, check: () => readStore.ping() },
        { name: 'codeHost', required: false, check: () => Promise.resolve(jail.kind !== 'refused') },
      ],
      metrics: () => metrics.expose(),
      logger,
      observer: metrics.http,
      extensions: [
        {
          mount: (app, { authenticate }) => {
            const channels = { hub, tenants: feeds, catalog, quota, authenticator, authenticate, logger };
            const polling = notificationRoutes(channels);
            const sse = serverSentEvents(channels);
            const sockets = new StreamServer({ ...channels, onConnections: metrics.websockets });
            const registry = { schemas, ids: schemaIds, topicPrefix: settings.kafkaTopicPrefix };
            app.use(
              schemaRegistryRoutes({
                ...registry,
                catalog,
                adminKey,
                authenticate: (request) => authenticator.admit(request),
                limits: settings,
              }),
            );
            app.use(polling.router);
            app.use(sse.router);
            streams = sockets;
            channelClosers.push(
              () => polling.close(),
              () => sse.close(),
              () => sockets.close(),
            );
          },
          onUpgrade: (request, socket, head) => void streams?.handleUpgrade(request, socket, head),
        },
      ],
    });
    const port = await edge.listen();
    shutdown.add('edge', async () => {
      const closing = edge.close();
      for (const closer of channelClosers) await closer();
      await closing;
    });
    url = urlOf(settings.host, port);

    if (settings.metricsPort !== undefined) {
      const scraped = await serveMetrics(settings.metricsPort, settings.host, metrics);
      shutdown.add('metrics endpoint', () => scraped.close());
    }
    // What only an owner uses is not kept ready elsewhere.
    if (settings.roles.includes('tasks')) {
      startReadStore();
      dotnet.start();
    }
    if (shared) {
      const noted = await Activity.open({
        log,
        logger,
        active: () => tenants.slots.activeIds,
        wanted: () => feeds.wanted,
        onActive: (tenantId) => assignment?.consider(tenantId),
      });
      activity = noted;
      assignment = new Assignment({
        ownership,
        tenants: tenants.slots,
        feeds,
        activity: noted,
        standbys: settings.standbys,
        logger,
        onReassigned: () => {
          hub.reassign((tenantId) =>
            [undefined, 'self'].includes(ownership.notifierOf(tenantId) as 'self' | undefined),
          );
          deployments.resume(owns);
          void webhooks.reassign();
        },
      });
      shutdown.add('assignment', () => {
        assignment?.close();
        noted.close();
      });
      await owners.join();
      // Others take its slots while it still serves, and what comes here meanwhile is forwarded to them.
      shutdown.add('slots', async () => {
        edge.drain();
        await ownership.leave();
      });
    }
    deployments.resume(owns);
    await webhooks.start();
    return { url, jailed, newApiKey: first.apiKey, fixedKeyRevoked: first.fixedKeyRevoked, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** A broken log: what the process believes may be wrong, so it ends, and the next start folds it again. */
const fatal =
  (logger: Logger) =>
  (error: Error): void => {
    logger.error({ err: error }, 'the catalog stopped; the process ends');
    process.exitCode = 1;
    process.kill(process.pid, 'SIGTERM');
  };

/** Where it is reached; for other processes by the machine's name where it listens on all addresses. */
function urlOf(host: string, port: number): string {
  const reached = host === '0.0.0.0' || host === '::' ? hostname() : host;
  return `http://${reached.includes(':') ? `[${reached}]` : reached}:${port}`;
}
