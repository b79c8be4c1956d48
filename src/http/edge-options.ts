import type { Catalog, TenantEntity } from '../catalog/catalog.js';
import type { Ownership } from '../placement/ownership.js';
import type { Settings } from '../config/settings.js';
import type { Logger } from '../core/logger.js';
import type { Deployments } from '../deployments/deployments.js';
import type { Inspections } from '../inspection/inspections.js';
import type { AggregateHomes, Tenants } from '../tenancy/tenant.js';
import type { Deliveries } from '../webhooks/deliveries.js';
import type { Endpoints } from '../webhooks/endpoints.js';
import type { Admission } from './admission.js';
import type { Channels } from './channels.js';
import type { FrontDoor, FrontDoorSettings } from './front-door.js';
import type { GatewayObserver } from './gateway/gateway.js';
import type { Peers } from './gateway/peers.js';
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
  readonly deliveries: Pick<Deliveries, 'state' | 'progress' | 'attempts' | 'parked' | 'test' | 'replay' | 'resend'>;
  readonly inspections: Inspections;
  /** Stops the tenant's tasks and drops its topics and rows, as a deletion of the tenant asks for; may be called again. */
  readonly removeTenantData: (tenant: TenantEntity) => Promise<void>;
  readonly admission: Admission;
  /** The admin key, in clear. */
  readonly adminKey: string;
  /** Undefined while the read store is away. */
  readonly readStoreAccess: () => ReadStoreAccess | undefined;
  /** Drops the rows of a tenant, or all, and starts to fill them in again from the log. */
  readonly rebuildReadStore: (tenantId?: string) => Promise<void>;
  /** Each names a part and tells whether it works, or works less well than it should; those in `required` decide over `/health/ready`. */
  readonly probes: readonly {
    readonly name: string;
    readonly required: boolean;
    check(): Promise<boolean | 'degraded'>;
  }[];
  readonly metrics: () => Promise<{ readonly contentType: string; readonly text: string }>;
  readonly logger: Logger;
  readonly observer?: HttpObserver;
  /** Polling, SSE and WebSocket; closed with the edge. */
  readonly channels: Channels;
  readonly schemaRegistry: SchemaRegistry;
  /** The port that was taken already; unless given, `listen` takes it. */
  readonly door?: FrontDoor;
}
