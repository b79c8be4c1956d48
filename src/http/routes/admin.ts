import { z } from 'zod';
import type { Catalog } from '../../catalog/catalog.js';
import { QUOTA_NAMES } from '../../core/quotas.js';
import { SCOPES } from '../../core/scopes.js';
import { changeTenant, createKey, createTenant, deleteTenant, revokeKey } from '../../catalog/tenants.js';
import { StatefoldError } from '../../core/errors.js';
import { json, ndjson, optionalJson } from '../bodies.js';
import { requireNdjson } from '../body.js';
import { CLOUD_EVENTS } from '../sse/event-streams.js';
import { anyText, described, paging } from '../parameters.js';
import { answerList } from '../list-answer.js';
import { keyRecord, tenantRecord } from '../records.js';
import {
  aggregateId,
  aggregateType,
  anyObject,
  component,
  eventType,
  integer,
  listOf,
  text,
  timestamp,
  version,
} from '../schema.js';
import { route } from './dependencies.js';
import { processAt } from './processes.js';
import { perQuota } from './usage.js';

// Tenants, keys and the read store, for whoever holds the admin key.

export const tenant = { tenantId: text, name: text, createdAt: timestamp, partitions: integer.optional() };
export const Tenant = component(
  'Tenant',
  z.strictObject({
    ...tenant,
    suspended: z.literal(true).optional(),
    suspendedAt: timestamp.optional(),
    importingSince: timestamp
      .describe('An import has begun, and has not ended: the tenant is served to nobody until then.')
      .optional(),
    quotas: z.strictObject(perQuota(integer.optional())).describe('Those that are its own.').optional(),
  }),
);
export type Tenant = z.infer<typeof Tenant>;
export const NewTenant = component('NewTenant', z.strictObject({ ...tenant, keyId: text, apiKey: text }));
export type NewTenant = z.infer<typeof NewTenant>;
export const scopes = z.array(z.enum(SCOPES));
const keyLimits = { name: text.optional(), scopes, expiresAt: timestamp.optional() };
const key = { keyId: text, tenantId: text, ...keyLimits, prefix: text, createdAt: timestamp };
export const Key = component('Key', z.strictObject({ ...key, revokedAt: timestamp.optional() }));
export type Key = z.infer<typeof Key>;
export const NewKey = component('NewKey', z.strictObject({ ...key, apiKey: text }));
export type NewKey = z.infer<typeof NewKey>;
export const ReadStoreAccess = component(
  'ReadStoreAccess',
  z.strictObject({ url: text, user: text, password: text, database: text }),
);
export type ReadStoreAccess = z.infer<typeof ReadStoreAccess>;

// Which ids and names are allowed, the catalog decides.
const Create = z.object({
  name: z.string('must be a string').optional(),
  tenantId: z.string('must be a string').optional(),
  partitions: z.number('must be a number').meta({ type: 'integer', minimum: 1 }).optional(),
});

const wholeNumber = 'must be a whole number of at least 0, or null for that of the settings';
const Change = z.object({
  name: z.string('must be a string').optional(),
  suspended: z.boolean('must be true or false').optional(),
  quotas: z
    .strictObject(perQuota(z.int(wholeNumber).min(0, wholeNumber).nullable().optional()), {
      error: (issue) =>
        issue.code === 'unrecognized_keys'
          ? `${issue.keys.join(', ')}: there is no such quota; there are ${QUOTA_NAMES.join(', ')}`
          : 'must be an object',
    })
    .optional(),
});
// Which scopes, names and times are allowed, the catalog decides.
const CreateKey = z.object({
  name: z.string('must be a string').optional(),
  scopes: z.array(z.string('must be a string'), 'must be a list of scopes').optional(),
  expiresAt: z.string('must be a string').optional(),
});

function requireTenant(catalog: Pick<Catalog, 'get'>, tenantId: string): string {
  if (catalog.get('tenant', tenantId) === undefined)
    throw new StatefoldError('NOT_FOUND', `tenant ${tenantId} does not exist`);
  return tenantId;
}

const common = { tag: 'Admin', servedBy: 'any', credentials: 'admin' } as const;

const listTenants = route({
  ...common,
  method: 'GET',
  path: '/admin/tenants',
  operationId: 'listTenants',
  summary: 'List tenants',
  query: paging,
  answers: { 200: listOf('tenants', Tenant) },
  serve: ({ catalog }, call) =>
    answerList(call, call.query(), {
      name: 'tenants',
      past: (after) => catalog.past('tenant', undefined, after),
      recordOf: tenantRecord,
    }),
});

const createTenantRoute = route({
  ...common,
  method: 'POST',
  path: '/admin/tenants',
  operationId: 'createTenant',
  summary: 'Create a tenant with a key',
  body: json(Create, { name: 'Acme', tenantId: 'acme' }),
  answers: { 201: NewTenant },
  errors: ['ALREADY_EXISTS'],
  serve: async ({ catalog }, call) => {
    const { name, tenantId, partitions } = await call.body();
    if (name === undefined && tenantId === undefined)
      throw new StatefoldError('INVALID_REQUEST', 'The body needs a name, or a tenantId, or both.');
    const created = await createTenant(catalog, { tenantId, name, partitions });
    call.answer(201, { ...tenantRecord(created.tenant), keyId: created.key.keyId, apiKey: created.apiKey });
  },
});

const getTenant = route({
  ...common,
  method: 'GET',
  path: '/admin/tenants/{id}',
  operationId: 'getTenant',
  summary: 'A tenant',
  answers: { 200: Tenant },
  errors: ['NOT_FOUND'],
  serve: ({ catalog }, call) => {
    const found = catalog.get('tenant', requireTenant(catalog, call.parameter('id')))?.value;
    if (found !== undefined) call.answer(200, tenantRecord(found));
  },
});

const changeTenantRoute = route({
  ...common,
  // It stops the tenant's task, or opens it again.
  servedBy: { tenant: 'id' },
  method: 'PATCH',
  path: '/admin/tenants/{id}',
  operationId: 'changeTenant',
  summary: 'Rename a tenant, suspend it, or set its quotas',
  body: json(Change, { suspended: true, quotas: { storageBytes: 1_000_000_000, requestsPerSecond: null } }),
  answers: { 200: Tenant },
  errors: ['NOT_FOUND'],
  serve: async ({ catalog }, call) => {
    const change = await call.body();
    const tenantId = requireTenant(catalog, call.parameter('id'));
    call.answer(200, tenantRecord(await changeTenant(catalog, tenantId, change)));
  },
});

const deleteTenantRoute = route({
  ...common,
  // It stops the tenant's task.
  servedBy: { tenant: 'id' },
  method: 'DELETE',
  path: '/admin/tenants/{id}',
  operationId: 'deleteTenant',
  summary: 'Delete a tenant and all it has',
  answers: { 204: null },
  errors: ['NOT_FOUND'],
  serve: async ({ catalog, removeTenantData, sqlAccounts }, call) => {
    await deleteTenant(catalog, requireTenant(catalog, call.parameter('id')), async (tenant) => {
      await sqlAccounts.removeAll(tenant.tenantId);
      await removeTenantData(tenant);
    });
    call.done();
  },
});

export const CloudEvent = component(
  'CloudEvent',
  z.strictObject({
    specversion: z.literal('1.0'),
    id: z.uuid().describe('The eventId.'),
    source: text.min(1).describe('/tenants/ and the tenant that it is exported from; an import does not keep it.'),
    type: eventType.describe('The eventType.'),
    subject: aggregateId.describe('The aggregateId.'),
    time: text.describe('The timestamp, RFC 3339, with milliseconds at most.'),
    datacontenttype: z.literal('application/json').optional(),
    aggregatetype: aggregateType.describe('As for appends where it is left out.').optional(),
    aggregateversion: version,
    correlationid: text.min(1).max(256).optional(),
    causationid: text.min(1).max(256).optional(),
    metadata: text.describe('The text of a JSON object.').optional(),
    position: text.describe('In the feed that it is exported from; an import does not keep it.').optional(),
    data: anyObject,
  }),
);
export type CloudEvent = z.infer<typeof CloudEvent>;
const ImportAnswer = component(
  'Imported',
  z.strictObject({
    events: integer,
    position: integer.describe('Of the last event in the feed of the tenant; 0 where there is none.'),
  }),
);
export type ImportAnswer = z.infer<typeof ImportAnswer>;

const importEvents = route({
  ...common,
  method: 'POST',
  path: '/admin/tenants/{id}/import',
  operationId: 'importEvents',
  summary: 'Take the events of a tenant from elsewhere into an empty one, as CloudEvents: all of them or none',
  lasting: true,
  body: ndjson(CloudEvent, {
    specversion: '1.0',
    source: '/tenants/acme',
    id: '0190f2d3-7c1e-7a55-9c3f-1d2e3f4a5b6c',
    type: 'OrderPlaced',
    subject: 'order-1001',
    time: '2026-01-31T09:30:00.123Z',
    datacontenttype: 'application/json',
    aggregatetype: 'order',
    aggregateversion: 1,
    data: { customer: 'ann' },
  }),
  answers: { 200: ImportAnswer },
  errors: ['NOT_FOUND', 'TENANT_NOT_EMPTY', 'TENANT_SUSPENDED'],
  serve: async ({ catalog, imports }, call) => {
    const { request, response, requestId } = call;
    const tenantId = requireTenant(catalog, call.parameter('id'));
    if (request.headers['content-type'] !== CLOUD_EVENTS) requireNdjson(request);
    const imported = await imports.serve(request, response, tenantId, requestId);
    if (imported !== undefined) call.answer(200, imported);
  },
});

const listKeys = route({
  ...common,
  method: 'GET',
  path: '/admin/tenants/{id}/keys',
  operationId: 'listKeys',
  summary: 'List the keys of a tenant',
  query: paging,
  answers: { 200: listOf('keys', Key) },
  errors: ['NOT_FOUND'],
  serve: ({ catalog }, call) => {
    const tenantId = requireTenant(catalog, call.parameter('id'));
    return answerList(call, call.query(), {
      name: 'keys',
      past: (after) => catalog.past('key', tenantId, after),
      recordOf: keyRecord,
    });
  },
});

const createKeyRoute = route({
  ...common,
  method: 'POST',
  path: '/admin/tenants/{id}/keys',
  operationId: 'createKey',
  summary: 'Create a key',
  body: optionalJson(CreateKey, {
    name: 'shop backend',
    scopes: ['append', 'read'],
    expiresAt: '2100-01-31T00:00:00Z',
  }),
  answers: { 201: NewKey },
  errors: ['NOT_FOUND'],
  serve: async ({ catalog }, call) => {
    const { key, apiKey } = await createKey(catalog, requireTenant(catalog, call.parameter('id')), await call.body());
    call.answer(201, { ...keyRecord(key), apiKey });
  },
});

const revokeKeyRoute = route({
  ...common,
  method: 'DELETE',
  path: '/admin/tenants/{id}/keys/{keyId}',
  operationId: 'revokeKey',
  summary: 'Revoke a key',
  answers: { 204: null },
  errors: ['NOT_FOUND'],
  serve: async ({ catalog }, call) => {
    const tenantId = requireTenant(catalog, call.parameter('id'));
    const keyId = call.parameter('keyId');
    if (catalog.get('key', keyId)?.value.tenantId !== tenantId)
      throw new StatefoldError('NOT_FOUND', `key ${keyId} does not exist`);
    await revokeKey(catalog, tenantId, keyId);
    call.done();
  },
});

const getReadStoreAccess = route({
  ...common,
  method: 'GET',
  path: '/admin/read-store',
  operationId: 'getReadStoreAccess',
  summary: 'How to connect to the read store',
  answers: { 200: ReadStoreAccess },
  errors: ['READ_STORE_DISABLED'],
  serve: async ({ readStoreAccess }, call) => {
    const access = await readStoreAccess();
    call.response.setHeader('Cache-Control', 'no-store');
    call.answer(200, access);
  },
});

const rebuildReadStore = route({
  ...common,
  method: 'POST',
  path: '/admin/read-store/rebuild',
  operationId: 'rebuildReadStore',
  summary: 'Rebuild the read store from the log, of one tenant or of all',
  query: { tenantId: anyText },
  // A misspelt name would rebuild every tenant.
  strictQuery: true,
  answers: { 202: z.strictObject({ status: z.literal('rebuilding') }) },
  errors: ['NOT_FOUND', 'READ_STORE_DISABLED'],
  serve: async ({ catalog, rebuildReadStore }, call) => {
    const { tenantId } = call.query();
    await rebuildReadStore(tenantId === undefined ? undefined : requireTenant(catalog, tenantId));
    call.answer(202, { status: 'rebuilding' });
  },
});

const cancelReadStoreRebuild = route({
  ...common,
  method: 'DELETE',
  path: '/admin/read-store/rebuild',
  operationId: 'cancelReadStoreRebuild',
  summary: 'Call off the rebuild of the read store: its tables stay as they are',
  query: { url: described(anyText, 'One of GET /admin/processes, whose rebuild it is; unless given, of all of them.') },
  // A misspelt name would call off all.
  strictQuery: true,
  answers: { 204: null },
  errors: ['NOT_FOUND', 'NO_REBUILD', 'REBUILD_NOT_CANCELLABLE', 'READ_STORE_DISABLED'],
  serve: async ({ processes, cancelReadStoreRebuild }, call) => {
    const { url } = call.query();
    await cancelReadStoreRebuild(url === undefined ? processes.list() : [processAt(processes, url)]);
    call.done();
  },
});

export const ADMIN = [
  listTenants,
  createTenantRoute,
  getTenant,
  changeTenantRoute,
  deleteTenantRoute,
  importEvents,
  listKeys,
  createKeyRoute,
  revokeKeyRoute,
  getReadStoreAccess,
  rebuildReadStore,
  cancelReadStoreRebuild,
];
