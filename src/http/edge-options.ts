import type { Catalog, TenantEntity } from '../catalog/catalog.js';
import type { AuditTrail } from '../audit/audit-entry.js';
import type { Ownership } from '../placement/ownership.js';
import type { Settings } from '../config/settings.js';
import type { Logger } from '../core/logger.js';
import type { Deployments } from '../deployments/deployments.js';
import type { EventTypes } from '../event-schemas/event-type-service.js';
import type { Inspections } from '../inspection/inspections.js';
import type { TenantSql } from '../read-store/tenant-sql.js';
import type { TenantAccounts } from '../sql-accounts/tenant-accounts.js';
import type { AggregateHomes, Tenants } from '../tenancy/tenant.js';
import type { EndpointOperations } from '../webhooks/endpoint-operations.js';
import type { Endpoints } from '../webhooks/endpoints.js';
import type { Admission } from './admission.js';
import type { AssistantRequest } from './assistants.js';
import type { ConcurrencyQuota } from './concurrency-quota.js';
import type { Channels } from './channels.js';
import type { ConsolePages } from './console/console-pages.js';
import type { FrontDoor, FrontDoorSettings } from './front-door.js';
import type { GatewayObserver } from './gateway/gateway.js';
import type { Peers } from './gateway/peers.js';
import type { SeenIds } from './import/import-route.js';
import type { Probe } from './probes.js';
import type { KnownProcess, Processes } from './processes.js';
import type { SchemaRegistry } from './schema-registry.js';

/** The settings that the edge itself reads. */
export type EdgeSettings = FrontDoorSettings &
  Pick<
    Settings,
    | 'maxBodyBytes'
    | 'maxJsonDepth'
    | 'maxBatchEvents'
    | 'maxUploadBytes'
    | 'maxInflatedBytes'
    | 'maxArchiveEntries'
    | 'shutdownDeadlineMs'
    | 'forwardDeadlineMs'
    | 'answerDeadlineMs'
    | 'bulkIdleMs'
    | 'roles'
    | 'corsOrigins'
  >;

/** Where the owner's own ClickHouse client connects. */
export interface ReadStoreAccess {
  readonly url: string;
  readonly user: string;
  readonly password: string;
  readonly database: string;
}

export interface HttpObserver extends GatewayObserver {
  /** `route` is the pattern of the path, never an id; `none` where no route matched, or another process answered. */
  answered(route: string, method: string, status: number, seconds: number): void;
}

export interface EdgeOptions {
  readonly settings: EdgeSettings;
  readonly catalog: Catalog;
  readonly tenants: Tenants & AggregateHomes;
  /** Which process serves a tenant; requests of others' are forwarded to them. */
  readonly ownership: Ownership;
  readonly peers: Peers;
  readonly deployments: Deployments;
  /** Webhook endpoints, and what was sent to them: asked of the process that sends it. */
  readonly endpoints: Pick<
    Endpoints,
    'list' | 'require' | 'secretOf' | 'create' | 'change' | 'remove' | 'pause' | 'resume' | 'rotate'
  >;
  readonly endpointOperations: Pick<
    EndpointOperations,
    'state' | 'progress' | 'attempts' | 'deadLetters' | 'test' | 'replay' | 'resend' | 'resendAll' | 'retry'
  >;
  readonly inspections: Inspections;
  readonly eventTypes: EventTypes;
  /** Resolves when this process, as the owner of the tenant's partition, knows what the catalog has. @throws NotOwnerError */
  readonly knows: (tenantId: string, partition: number) => Promise<void>;
  /** Stops the tenant's tasks and drops its topics and rows, as a deletion of the tenant asks for; may be called again. */
  readonly removeTenantData: (tenant: TenantEntity) => Promise<void>;
  /** For an import, to tell an event that comes twice. */
  readonly seenIds: () => SeenIds;
  readonly admission: Admission;
  /** What keys have changed. */
  readonly audit: AuditTrail;
  /** The admin key, in clear. */
  readonly adminKey: string;
  /** SQL of tenants: how many statements each may have under way, and where the rows of all events below an offset are waited for. */
  readonly sql: {
    readonly tenants: TenantSql;
    readonly quota: ConcurrencyQuota;
    /** Resolves when the read store has no row of a former tenant of that id. @throws StatefoldError UNAVAILABLE after `deadlineMs` */
    readonly withoutFormer: (tenantId: string, deadlineMs: number) => Promise<void>;
    /** @throws StatefoldError UNAVAILABLE after `deadlineMs` */
    readonly flush: (tenantId: string, offset: number, deadlineMs: number) => Promise<void>;
  };
  readonly sqlAccounts: Pick<TenantAccounts, 'areOffered' | 'create' | 'list' | 'remove' | 'removeAll'>;
  /** Resolves once its tables are there. @throws StatefoldError UNAVAILABLE while the read store is away */
  readonly readStoreAccess: () => Promise<ReadStoreAccess>;
  /** Starts to write the rows of a tenant, or all, anew from the log. */
  readonly rebuildReadStore: (tenantId?: string) => Promise<void>;
  /** Calls off the rebuild at each of the processes. @throws StatefoldError NO_REBUILD where none has one, REBUILD_NOT_CANCELLABLE, UNAVAILABLE */
  readonly cancelReadStoreRebuild: (processes: readonly KnownProcess[]) => Promise<void>;
  readonly probes: readonly Probe[];
  readonly processes: Processes;
  readonly metrics: () => Promise<{ readonly contentType: string; readonly text: string }>;
  readonly logger: Logger;
  readonly observer?: HttpObserver;
  /** Polling, SSE and WebSocket; closed with the edge. */
  readonly channels: Channels;
  readonly schemaRegistry: SchemaRegistry;
  /** Unless given, its paths are as any that are not there. */
  readonly console?: ConsolePages;
  /** `/mcp`, where assistants ask: it asks what it needs by this edge, as any client. */
  readonly assistants?: (asked: AssistantRequest) => Promise<void>;
  /** The port that was taken already; unless given, `listen` takes it. */
  readonly door?: FrontDoor;
}
