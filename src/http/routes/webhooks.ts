import type { Router } from 'express';
import type { RouteDependencies } from '../edge-options.js';
import { answer, resource } from '../resource.js';

export function webhookRoutes(router: Router, { authenticate, deployments }: RouteDependencies): void {
  resource(router, '/webhooks/rotate', {
    post: async (request, response) => {
      const { tenantId } = authenticate(request);
      answer(response, 200, { webhook: { secret: await deployments.rotateTenantSecret(tenantId) } });
    },
  });
}
