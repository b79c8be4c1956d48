import { isSuspended } from '../catalog/suspension.js';
import { Admission } from '../http/admission.js';
import { Channels } from '../http/channels.js';
import { createEdge, type Edge } from '../http/edge.js';
import { Peers } from '../http/gateway/peers.js';
import { SchemaRegistry } from '../http/schema-registry.js';
import type { Ground } from './ground.js';
import type { OpenedCatalog } from './open-catalog.js';
import type { OpenedCodeHost } from './open-code-host.js';
import type { OpenedDeployments } from './open-deployments.js';
import type { OpenedEndpoints } from './open-endpoints.js';
import type { OpenedNotifications } from './open-notifications.js';
import type { OpenedReadStore } from './open-read-store.js';
import type { Storage } from './open-storage.js';
import type { OpenedTenancy } from './open-tenancy.js';
import { readStoreRebuild } from './read-store-rebuild.js';
import type { ReplicationWatch } from './watch-replication.js';

export interface EdgeParts {
  readonly storage: Storage;
  readonly replication: ReplicationWatch;
  readonly catalog: OpenedCatalog;
  readonly code: OpenedCodeHost;
  readonly copy: OpenedReadStore;
  readonly tenancy: OpenedTenancy;
  readonly notifications: OpenedNotifications;
  readonly deploying: OpenedDeployments;
  readonly endpoints: OpenedEndpoints;
}

/** The HTTP interface over all the parts. It answers 503 until it is told to listen. */
export function openEdge(ground: Ground, parts: EdgeParts): Edge {
  const { settings, logger, metrics, shutdown, door, budget } = ground;
  const { log, ownership, schemas, schemaIds } = parts.storage;
  const { catalog, quotaOf, adminKey, masterKey } = parts.catalog;
  const peers = new Peers(masterKey, ground.peerTls);
  const { readStore, sink, endpoint } = parts.copy;
  const { tenants, feeds } = parts.tenancy;
  const admission = new Admission(catalog, quotaOf, settings, {
    budget,
    waitMs: settings.answerDeadlineMs,
    stallMs: settings.answerStallMs,
  });
  const channels = new Channels({
    hub: parts.notifications.hub,
    tenants: feeds,
    catalog,
    admission,
    logger,
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
  const edge = createEdge({
    door,
    settings,
    catalog,
    tenants,
    ownership,
    peers,
    ...parts.deploying,
    ...parts.endpoints,
    deliveries: parts.notifications.deliveries,
    removeTenantData: (tenant) => parts.tenancy.data.remove(tenant),
    admission,
    adminKey,
    readStoreAccess: endpoint,
    rebuildReadStore: readStoreRebuild({
      ownership,
      tenantIds: () => catalog.list('tenant', undefined).map(({ id }) => id),
      rebuild: (tenantId) => sink.rebuild(tenantId),
      // A suspended one is refilled when that is taken back.
      open: async (tenantId) => (isSuspended(catalog, tenantId) ? undefined : tenants.open(tenantId)),
      adminKey,
      tls: ground.peerTls,
      logger,
    }),
    probes: [
      {
        name: 'log',
        required: true,
        check: async () => (await log.endOffset({ topic: 'statefold.catalog', partition: 0 })) >= 0,
      },
      {
        name: 'readStore',
        required: false,
        check: async () => (await readStore.ping()) && (sink.status().refused > 0 ? 'degraded' : true),
      },
      { name: 'codeHost', required: false, check: () => Promise.resolve(!parts.code.refused) },
      ...(parts.storage.replication === undefined
        ? []
        : [
            {
              name: 'replication',
              required: false,
              check: (): Promise<boolean | 'degraded'> =>
                Promise.resolve(parts.replication.enough === false ? 'degraded' : true),
            },
          ]),
    ],
    metrics: () => metrics.expose(),
    logger,
    observer: metrics.http,
    channels,
    schemaRegistry,
  });
  shutdown.add('edge', () => edge.close());
  return edge;
}
