import type { Request, Response, Router } from 'express';
import { StatefoldError } from '../../core/errors.js';
import { adminCheck } from '../admin-auth.js';
import type { RouteDependencies } from '../edge-options.js';
import { openapiDocument } from '../openapi/document.js';
import { tenantRecord } from '../records.js';
import { answer, resource } from '../resource.js';

/** Probes and descriptions of the service itself, which hold nothing of any tenant, need no key. */
export function systemRoutes(
  router: Router,
  { authenticate, catalog, probes, metrics, adminKey, draining }: RouteDependencies,
): void {
  const requireAdmin = adminCheck(adminKey);
  const openapi = Buffer.from(JSON.stringify(openapiDocument()));

  resource(router, '/health', { get: (_request, response) => answer(response, 200, { status: 'ok' }) });

  resource(router, '/health/ready', {
    get: async (_request: Request, response: Response) => {
      const results = await Promise.all(
        probes.map(async (probe) => ({
          name: probe.name,
          required: probe.required,
          up: await probe.check().catch(() => false),
        })),
      );
      const checks = Object.fromEntries(
        results.map(({ name, up }) => [name, up === 'degraded' ? up : up ? 'up' : 'down']),
      );
      if (draining())
        throw new StatefoldError('UNAVAILABLE', 'Not ready: the service is shutting down.', { details: { checks } });
      const missing = results.filter(({ required, up }) => required && up === false).map(({ name }) => name);
      if (missing.length > 0)
        throw new StatefoldError('UNAVAILABLE', `Not ready: ${missing.join(', ')}.`, { details: { checks } });
      answer(response, 200, { status: 'ready', checks });
    },
  });

  resource(router, '/openapi.json', { get: (_request, response) => answer(response, 200, openapi) });

  resource(router, '/metrics', {
    get: async (request, response) => {
      requireAdmin(request);
      const { contentType, text } = await metrics();
      response.status(200).setHeader('Content-Type', contentType).end(text);
    },
  });

  resource(router, '/auth/whoami', {
    get: (request, response) => {
      const { tenantId } = authenticate(request);
      const tenant = catalog.get('tenant', tenantId)?.value;
      if (tenant === undefined) throw new StatefoldError('UNAUTHENTICATED', 'The API key is not valid.');
      answer(response, 200, tenantRecord(tenant));
    },
  });
}
