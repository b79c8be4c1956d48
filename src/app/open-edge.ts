import { join } from 'node:path';
import { CATALOG_TOPIC } from '../catalog/fenced-catalog.js';
import { isClosed } from '../catalog/suspension.js';
import { DATA_FILES } from '../config/data-files.js';
import { versionOf } from '../config/project-root.js';
import { isFull, LOG_RESERVE_BYTES } from '../core/disk-space.js';
import { Admission } from '../http/admission.js';
import { Channels } from '../http/channels.js';
import { ConsolePages } from '../http/console/console-pages.js';
import { ConcurrencyQuota } from '../http/concurrency-quota.js';
import { createEdge, type Edge } from '../http/edge.js';
import type { EdgeOptions } from '../http/edge-options.js';
import type { Check } from '../http/probes.js';
import { Tickets } from '../http/tickets.js';
import { SchemaRegistry } from '../http/schema-registry.js';
import { IdSets } from '../store/id-set.js';
import type { Ground } from './ground.js';
import { KnownProcesses } from './known-processes.js';
import type { OpenedCatalog } from './open-catalog.js';
import type { OpenedCodeHost } from './open-code-host.js';
import type { OpenedDeployments } from './open-deployments.js';
import type { OpenedEndpoints } from './open-endpoints.js';
import type { OpenedNotifications } from './open-notifications.js';
import type { OpenedPeers } from './open-peers.js';
import { environments } from './open-log.js';
import { refuseReadStore, type OpenedReadStore } from './open-read-store.js';
import type { Storage } from './open-storage.js';
import type { OpenedTenancy } from './open-tenancy.js';
import type { OpenedSqlAccounts } from './open-sql-accounts.js';
import { readStoreRebuild, readStoreRebuildCancel } from './read-store-rebuild.js';
import type { ReplicationWatch } from './watch-replication.js';

export interface EdgeParts {
  readonly storage: Storage;
  readonly replication: ReplicationWatch;
  readonly catalog: OpenedCatalog;
  readonly peers: OpenedPeers;
  readonly code: OpenedCodeHost;
  readonly copy: OpenedReadStore;
  readonly tenancy: OpenedTenancy;
  readonly notifications: OpenedNotifications;
  readonly deploying: OpenedDeployments;
  readonly endpoints: OpenedEndpoints;
  readonly accounts: OpenedSqlAccounts;
}

/** The HTTP interface over all the parts. It answers 503 until it is told to listen. */
export function openEdge(ground: Ground, parts: EdgeParts): Edge {
  const { settings, logger, metrics, shutdown, door, budget, turns } = ground;
  const { log, ownership, schemas, schemaIds, shared } = parts.storage;
  const { catalog, quotaOf, adminKey, masterKey, audit } = parts.catalog;
  const { peers, client } = parts.peers;
  const { check: checkReadStore, sink, access, tenantSql } = parts.copy;
  const { tenants, notified } = parts.tenancy;
  const memory = { budget, waitMs: settings.answerDeadlineMs, stallMs: settings.answerStallMs };
  const admission = new Admission({
    ...{ catalog, quotaOf, limits: settings, memory, turns },
    tickets: new Tickets(masterKey),
  });
  const channels = new Channels({
    hub: parts.notifications.hub,
    notified,
    catalog,
    admission,
    logger,
    answerDeadlineMs: settings.answerDeadlineMs,
    onConnections: metrics.websockets,
  });
  const schemaRegistry = new SchemaRegistry({
    schemas,
    ids: schemaIds,
    topicPrefix: settings.kafkaTopicPrefix,
    catalog,
    adminKey,
    authenticate: (request) => admission.admitKnown(request, 'read'),
    limits: settings,
  });
  const seenIds = new IdSets(join(settings.dataDirectory, DATA_FILES.imports));
  const edge = createEdge({
    door,
    settings,
    catalog,
    tenants,
    ownership,
    peers,
    ...parts.deploying,
    ...parts.endpoints,
    endpointOperations: parts.notifications.endpointOperations,
    removeTenantData: (tenant) => parts.tenancy.data.remove(tenant),
    seenIds: () => seenIds.open(),
    admission,
    audit,
    adminKey,
    sql: {
      tenants: tenantSql,
      quota: new ConcurrencyQuota(settings.sqlStatementsPerTenant, 'statements of SQL under way'),
      // Without a read store it is the statement that is refused.
      withoutFormer: async (tenantId, deadlineMs) => sink?.withoutFormer(tenantId, deadlineMs),
      flush: async (tenantId, offset, deadlineMs) => sink?.flush(tenantId, { events: offset }, deadlineMs),
    },
    sqlAccounts: parts.accounts.sqlAccounts,
    readStoreAccess: access,
    rebuildReadStore: readStoreRebuild({
      ownership,
      tenantIds: () => catalog.list('tenant', undefined).map(({ id }) => id),
      rebuild: (tenantId) => sink?.rebuild(tenantId) ?? refuseReadStore(),
      // A suspended one is refilled when that is taken back.
      open: async (tenantId) => (isClosed(catalog, tenantId) ? undefined : tenants.open(tenantId)),
      peers: client,
      logger,
    }),
    cancelReadStoreRebuild: readStoreRebuildCancel({
      cancel: () => sink?.cancelRebuild() ?? refuseReadStore(),
      peers: client,
    }),
    probes: [
      {
        name: 'log',
        required: true,
        check: async () => {
          if ((await log.endOffset({ topic: CATALOG_TOPIC, partition: 0 })) < 0) return 'down';
          // The embedded one is read on a full disk, and takes no appends.
          return !shared && isFull(environments(settings).log.path, LOG_RESERVE_BYTES) ? 'degraded' : 'up';
        },
      },
      ...(sink === undefined ? [] : [{ name: 'readStore', required: false, check: checkReadStore }]),
      {
        name: 'codeHost',
        required: false,
        check: () => Promise.resolve<Check>(parts.code.refused ? 'down' : 'up'),
      },
      ...(parts.storage.replication === undefined
        ? []
        : [
            {
              name: 'replication',
              required: false,
              check: () => Promise.resolve<Check>(parts.replication.enough === false ? 'degraded' : 'up'),
            },
          ]),
    ],
    processes: new KnownProcesses(ground, {
      ...{ ownership, peers: client, tenants, catalog },
      haltedArtefacts: parts.deploying.haltedArtefacts,
      rebuild: () => sink?.rebuildStatus(),
    }),
    metrics: () => metrics.expose(),
    logger,
    observer: metrics.http,
    channels,
    schemaRegistry,
    console: new ConsolePages(join(ground.root, 'dist', 'console')),
    assistants: openAssistants(ground),
  });
  shutdown.add('edge', () => edge.close());
  return edge;
}

type Assistants = NonNullable<EdgeOptions['assistants']>;

/** What it stands on is large: it is loaded for the first assistant that asks. */
function openAssistants({ url, root }: Ground): Assistants {
  let opened: Promise<Assistants> | undefined;
  const load = async (): Promise<Assistants> =>
    (await import('../mcp/http.js')).assistants({ url, version: versionOf(root) });
  return async (asked) => (await (opened ??= load()))(asked);
}
