import { z } from 'zod';
import { quotasJson } from '../../catalog/tenant-quotas.js';
import { StatefoldError } from '../../core/errors.js';
import { QUOTA_NAMES, type QuotaName } from '../../core/quotas.js';
import { component, integer } from '../schema.js';
import { route, type RouteDependencies } from './dependencies.js';

// What a tenant has, and what it may have.

export const perQuota = <T extends z.ZodType>(schema: T): Record<QuotaName, T> =>
  Object.fromEntries(QUOTA_NAMES.map((name) => [name, schema])) as Record<QuotaName, T>;

export const Usage = component(
  'Usage',
  z.strictObject({
    usage: z.strictObject(perQuota(integer)).describe('Paces are those of the last full second.'),
    quotas: z.strictObject(perQuota(integer.nullable())).describe('null: without a limit.'),
  }),
);
export type Usage = z.infer<typeof Usage>;

/** Requests, events and connections are those of this process. @throws StatefoldError UNAVAILABLE, TENANT_SUSPENDED */
async function usageOf(
  { admission, catalog, deployments, tenants }: RouteDependencies,
  tenantId: string,
): Promise<Usage> {
  const { storageBytes } = await tenants.open(tenantId);
  const usage = {
    requestsPerSecond: admission.requests.lastSecond(tenantId),
    eventsPerSecond: admission.events.lastSecond(tenantId),
    storageBytes,
    projections: catalog.count('projection', tenantId),
    reducers: catalog.count('reducer', tenantId),
    connections: admission.connections.openOf(tenantId),
    pendingUploads: deployments.pendingUploads(tenantId),
  };
  return { usage, quotas: quotasJson(admission.quotaOf, tenantId) };
}

const getUsage = route({
  method: 'GET',
  path: '/usage',
  operationId: 'getUsage',
  tag: 'System',
  summary: 'What the tenant has, and what it may have',
  servedBy: 'owner',
  credentials: 'tenant',
  scope: 'read',
  answers: { 200: Usage },
  serve: async (dependencies, call) => call.answer(200, await usageOf(dependencies, call.tenantId)),
});

const getTenantUsage = route({
  method: 'GET',
  path: '/admin/tenants/{id}/usage',
  operationId: 'getTenantUsage',
  tag: 'Admin',
  summary: 'What a tenant has, and what it may have',
  servedBy: { tenant: 'id' },
  credentials: 'admin',
  answers: { 200: Usage },
  errors: ['NOT_FOUND', 'TENANT_SUSPENDED'],
  serve: async (dependencies, call) => {
    const tenantId = call.parameter('id');
    if (dependencies.catalog.get('tenant', tenantId) === undefined)
      throw new StatefoldError('NOT_FOUND', `tenant ${tenantId} does not exist`);
    call.answer(200, await usageOf(dependencies, tenantId));
  },
});

export const USAGE = [getUsage, getTenantUsage];
