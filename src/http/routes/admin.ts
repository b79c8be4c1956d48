import type { Router } from 'express';
import { z } from 'zod';
import { createKey, createTenant, deleteTenant, revokeKey } from '../../catalog/tenants.js';
import { StatefoldError } from '../../core/errors.js';
import { adminCheck } from '../admin-auth.js';
import type { RouteDependencies } from '../edge-options.js';
import { readJsonBody } from '../json-body.js';
import { onlyParameters, pageParameters, queryOf, textParameter } from '../query.js';
import { keyRecord, page, tenantRecord } from '../records.js';
import { answer, parameter, resource } from '../resource.js';

// Which ids and names are allowed, the catalog decides.
const CREATE = z.object({
  name: z.string('must be a string').optional(),
  tenantId: z.string('must be a string').optional(),
  partitions: z.number('must be a number').optional(),
});

/** Tenants, keys and the read store, for whoever holds the admin key. */
export function adminRoutes(
  router: Router,
  { catalog, removeTenantData, adminKey, settings, readStoreAccess, rebuildReadStore }: RouteDependencies,
): void {
  const requireAdmin = adminCheck(adminKey);
  const requireTenant = (tenantId: string): string => {
    if (catalog.get('tenant', tenantId) === undefined)
      throw new StatefoldError('NOT_FOUND', `tenant ${tenantId} does not exist`);
    return tenantId;
  };

  resource(router, '/admin/tenants', {
    get: (request, response) => {
      requireAdmin(request);
      const { items, nextCursor } = page(catalog.list('tenant', undefined), pageParameters(queryOf(request.url)));
      answer(response, 200, { tenants: items.map(tenantRecord), nextCursor });
    },
    post: async (request, response) => {
      requireAdmin(request);
      const { name, tenantId, partitions } = await readJsonBody(request, settings, CREATE);
      if (name === undefined && tenantId === undefined)
        throw new StatefoldError('INVALID_REQUEST', 'The body needs a name, or a tenantId, or both.');
      const created = await createTenant(catalog, { tenantId, name, partitions });
      answer(response, 201, { ...tenantRecord(created.tenant), keyId: created.key.keyId, apiKey: created.apiKey });
    },
  });

  resource(router, '/admin/tenants/:id', {
    get: (request, response) => {
      requireAdmin(request);
      const tenant = catalog.get('tenant', requireTenant(parameter(request, 'id')))?.value;
      if (tenant !== undefined) answer(response, 200, tenantRecord(tenant));
    },
    delete: async (request, response) => {
      requireAdmin(request);
      await deleteTenant(catalog, requireTenant(parameter(request, 'id')), removeTenantData);
      response.status(204).end();
    },
  });

  resource(router, '/admin/tenants/:id/keys', {
    get: (request, response) => {
      requireAdmin(request);
      const tenantId = requireTenant(parameter(request, 'id'));
      const { items, nextCursor } = page(catalog.list('key', tenantId), pageParameters(queryOf(request.url)));
      answer(response, 200, { keys: items.map(keyRecord), nextCursor });
    },
    post: async (request, response) => {
      requireAdmin(request);
      const { key, apiKey } = await createKey(catalog, requireTenant(parameter(request, 'id')));
      answer(response, 201, { ...keyRecord(key), apiKey });
    },
  });

  resource(router, '/admin/tenants/:id/keys/:keyId', {
    delete: async (request, response) => {
      requireAdmin(request);
      const tenantId = requireTenant(parameter(request, 'id'));
      const keyId = parameter(request, 'keyId');
      if (catalog.get('key', keyId)?.value.tenantId !== tenantId)
        throw new StatefoldError('NOT_FOUND', `key ${keyId} does not exist`);
      await revokeKey(catalog, tenantId, keyId);
      response.status(204).end();
    },
  });

  resource(router, '/admin/read-store', {
    get: (request, response) => {
      requireAdmin(request);
      const access = readStoreAccess();
      if (access === undefined) throw new StatefoldError('UNAVAILABLE', 'The read store is not running.');
      response.setHeader('Cache-Control', 'no-store');
      answer(response, 200, access);
    },
  });

  resource(router, '/admin/read-store/rebuild', {
    post: async (request, response) => {
      requireAdmin(request);
      const query = queryOf(request.url);
      // A misspelt name would rebuild every tenant.
      onlyParameters(query, ['tenantId']);
      const tenantId = textParameter(query, 'tenantId');
      await rebuildReadStore(tenantId === undefined ? undefined : requireTenant(tenantId));
      answer(response, 202, { status: 'rebuilding' });
    },
  });
}
