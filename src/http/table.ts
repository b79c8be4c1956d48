import type { z } from 'zod';
import type { Body } from './bodies.js';
import type { Parameters, Values } from './parameters.js';
import type { Answers, Media } from './route.js';
import { ADMIN } from './routes/admin.js';
import { AGGREGATE_TYPES } from './routes/aggregate-types.js';
import { AGGREGATES } from './routes/aggregates.js';
import { AUDIT } from './routes/audit.js';
import type { Room, Route } from './routes/dependencies.js';
import { EVENT_TYPES } from './routes/event-types.js';
import { EVENTS } from './routes/events.js';
import { FEED } from './routes/feed.js';
import { FAULTS } from './routes/faults.js';
import { FIXTURES } from './routes/fixtures.js';
import { INSPECTIONS } from './routes/inspections.js';
import { NOTIFICATIONS } from './routes/notifications.js';
import { PROCESSES } from './routes/processes.js';
import { PROJECTIONS } from './routes/projections.js';
import { REDUCERS } from './routes/reducers.js';
import { REVISIONS } from './routes/revisions.js';
import { SCHEMA_REGISTRY } from './routes/schema-registry.js';
import { SQL } from './routes/sql.js';
import { SQL_ACCOUNTS } from './routes/sql-accounts.js';
import { STATE_TYPES } from './routes/state-types.js';
import { SYSTEM } from './routes/system.js';
import { TICKETS } from './routes/tickets.js';
import { UPLOAD_CHECKS } from './routes/upload-checks.js';
import { USAGE } from './routes/usage.js';
import { WEBHOOK_ENDPOINTS } from './routes/webhook-endpoints.js';
import { WEBHOOKS } from './routes/webhooks.js';

/** The interface of the service, entry by entry: a route is here, or it is not. The order is that of the OpenAPI document. */
export const ENTRIES = [
  ...EVENTS,
  ...EVENT_TYPES,
  ...AGGREGATES,
  ...AGGREGATE_TYPES,
  ...FAULTS,
  ...REDUCERS,
  ...PROJECTIONS,
  ...REVISIONS,
  ...UPLOAD_CHECKS,
  ...FIXTURES,
  ...INSPECTIONS,
  ...NOTIFICATIONS,
  ...FEED,
  ...TICKETS,
  ...WEBHOOKS,
  ...WEBHOOK_ENDPOINTS,
  ...SQL,
  ...SQL_ACCOUNTS,
  ...STATE_TYPES,
  ...SYSTEM,
  ...ADMIN,
  ...USAGE,
  ...PROCESSES,
  ...AUDIT,
];

/** Ours, and those of others that we speak. */
export const ROOMS: readonly Room[] = [{ routes: ENTRIES }, SCHEMA_REGISTRY];

/** Every entry, of all rooms. */
export const ROUTES: readonly Route[] = ROOMS.flatMap(({ routes }) => routes);

type Entry = Exclude<(typeof ENTRIES)[number], { readonly described: false }>;
type AnswerOf<A extends Answers> = {
  [S in keyof A]: A[S] extends z.ZodType ? z.infer<A[S]> : A[S] extends Media ? string : undefined;
}[keyof A];

/**
 * What goes over the wire, by operationId, as TypeScript types: path parameters are in `path`; `query` as the service reads it (all
 * of it may be left out); `body` of JSON; `answer` of success. Clients take their types from here.
 */
export type Operations = {
  [E in Entry as E['operationId']]: {
    readonly method: E['method'];
    readonly path: E['path'];
    readonly query: E extends { readonly query?: infer Q extends Parameters } ? Partial<Values<Q>> : never;
    readonly body: E extends { readonly body?: Body<infer T> } ? T : never;
    readonly answer: AnswerOf<E['answers']>;
  };
};
