import { z } from 'zod';
import { requireProjection } from '../../catalog/require.js';
import { text } from '../schema.js';
import { route } from './dependencies.js';

const common = {
  method: 'POST',
  tag: 'Webhooks',
  servedBy: 'owner',
  credentials: 'tenant',
  scope: 'webhooks',
} as const;

const rotateProjectionSecret = route({
  ...common,
  path: '/projections/{id}/webhook/rotate',
  operationId: 'rotateProjectionSecret',
  summary: 'Rotate the webhook secret of an isolated projection',
  answers: {
    200: z.strictObject({
      projectionId: text,
      webhook: z.strictObject({ secret: text, isolated: z.literal(true) }),
    }),
  },
  errors: ['NOT_FOUND', 'WEBHOOK_NOT_CONFIGURED', 'WEBHOOK_SECRET_SHARED'],
  serve: async ({ catalog, deployments }, call) => {
    const { projectionId } = requireProjection(catalog, call.tenantId, call.parameter('id'));
    const secret = await deployments.rotateProjectionSecret(call.tenantId, projectionId);
    call.answer(200, { projectionId, webhook: { secret, isolated: true } });
  },
});

const rotateTenantSecret = route({
  ...common,
  path: '/webhooks/rotate',
  operationId: 'rotateTenantSecret',
  summary: 'Rotate the shared webhook secret of the tenant',
  answers: { 200: z.strictObject({ webhook: z.strictObject({ secret: text }) }) },
  serve: async ({ deployments }, call) =>
    call.answer(200, { webhook: { secret: await deployments.rotateTenantSecret(call.tenantId) } }),
});

export const WEBHOOKS = [rotateProjectionSecret, rotateTenantSecret];
