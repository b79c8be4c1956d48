import type { IncomingMessage } from 'node:http';
import type { Admission } from '../admission.js';
import type { AppendRoute } from '../append-route.js';
import type { BulkRoute } from '../bulk/bulk-route.js';
import type { Channels } from '../channels.js';
import type { ConcurrencyQuota } from '../concurrency-quota.js';
import type { EdgeOptions } from '../edge-options.js';
import type { ImportRoute } from '../import/import-route.js';
import { routesWith, type RoomOf, type RouteOf } from '../route.js';
import type { SchemaRegistry } from '../schema-registry.js';
import type { Waits } from '../waits.js';

/** What the handlers of routes are given. */
export interface RouteDependencies extends Omit<
  EdgeOptions,
  'admission' | 'ownership' | 'logger' | 'observer' | 'door' | 'seenIds'
> {
  readonly admission: Pick<Admission, 'quotaOf' | 'requests' | 'events' | 'connections' | 'tickets'>;
  readonly channels: Channels;
  readonly schemaRegistry: SchemaRegistry;
  readonly append: AppendRoute;
  readonly bulk: Pick<BulkRoute, 'serve'>;
  readonly imports: Pick<ImportRoute, 'serve'>;
  /** The stream at a path, where a ticket may be for it. */
  readonly ticketed: (path: string) => TicketedStream | undefined;
  /** @throws StatefoldError UNAUTHENTICATED */
  readonly requireAdmin: (request: IncomingMessage) => void;
  /** The process is about to end: it is to get no new clients. */
  readonly draining: () => boolean;
  /** Answers that wait as long as their clients asked. */
  readonly waits: Waits;
  /** Uploads that are only checked, of which each holds its sources in memory. */
  readonly checks: ConcurrencyQuota;
  /** The OpenAPI document, as JSON. */
  readonly openapi: () => Buffer;
}

/** A stream that a ticket may be for. */
export interface TicketedStream {
  /** Undefined: it is of the feed. */
  readonly projectionId: string | undefined;
}

export type Route = RouteOf<RouteDependencies>;
export type Room = RoomOf<RouteDependencies>;

/** An entry of the table of routes, with its handler. */
export const route = routesWith<RouteDependencies>();
