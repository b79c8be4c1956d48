import { z } from 'zod';
import { SCOPES } from '../../core/scopes.js';
import { StatefoldError } from '../../core/errors.js';
import { checked, health, readiness } from '../probes.js';
import { route } from './dependencies.js';
import { component, text, timestamp } from '../schema.js';
import { scopes, tenant as members } from './admin.js';

// Probes and descriptions of the service itself, which hold nothing of any tenant, need no key.

const getHealth = route({
  ...health,
  serve: (_dependencies, call) => call.answer(200, { status: 'ok' }),
});

const getReadiness = route({
  ...readiness,
  serve: async ({ probes, draining }, call) => {
    const checks = await checked(probes);
    if (draining())
      throw new StatefoldError('UNAVAILABLE', 'Not ready: the service is shutting down.', { details: { checks } });
    const missing = probes.filter(({ name, required }) => required && checks[name] === 'down').map(({ name }) => name);
    if (missing.length > 0)
      throw new StatefoldError('UNAVAILABLE', `Not ready: ${missing.join(', ')}.`, { details: { checks } });
    call.answer(200, { status: 'ready', checks });
  },
});

const common = { method: 'GET', tag: 'System', servedBy: 'any' } as const;

const getOpenApi = route({
  ...common,
  path: '/openapi.json',
  operationId: 'getOpenApi',
  summary: 'This document',
  credentials: 'none',
  answers: { 200: z.object({ openapi: z.string() }).loose() },
  serve: ({ openapi }, call) => call.answer(200, openapi()),
});

const getMetrics = route({
  ...common,
  path: '/metrics',
  operationId: 'getMetrics',
  summary: 'Metrics in the text format of Prometheus',
  credentials: 'admin',
  probe: true,
  answers: { 200: { media: 'text/plain' } },
  serve: async ({ metrics }, { response }) => {
    const { contentType, text } = await metrics();
    response.writeHead(200, { 'Content-Type': contentType }).end(text);
  },
});

export const WhoAmI = component(
  'WhoAmI',
  z.strictObject({
    ...members,
    keyName: text.optional(),
    scopes,
    expiresAt: timestamp.optional(),
    sqlAccounts: z
      .literal(true)
      .describe('The key may make accounts for SQL, and the service has them: POST /sql/accounts.')
      .optional(),
  }),
);
export type WhoAmI = z.infer<typeof WhoAmI>;

const whoami = route({
  ...common,
  path: '/auth/whoami',
  operationId: 'whoami',
  summary: 'The tenant of the API key, and what the key may be used for',
  credentials: 'tenant',
  scope: 'any',
  answers: { 200: WhoAmI },
  serve: ({ catalog, sqlAccounts }, call) => {
    const tenant = catalog.get('tenant', call.tenantId)?.value;
    const key = catalog.get('key', call.keyId)?.value;
    if (tenant === undefined || key === undefined)
      throw new StatefoldError('UNAUTHENTICATED', 'The API key is not valid.');
    const { tenantId, name, createdAt, partitions } = tenant;
    const { scopes = SCOPES, expiresAt } = key;
    call.answer(200, {
      tenantId,
      name,
      createdAt,
      partitions: partitions > 1 ? partitions : undefined,
      keyName: key.name,
      scopes,
      expiresAt,
      sqlAccounts: scopes.includes('sql') && sqlAccounts.areOffered ? true : undefined,
    });
  },
});

export const SYSTEM = [whoami, getHealth, getReadiness, getOpenApi, getMetrics];
