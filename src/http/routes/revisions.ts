import type { IncomingMessage } from 'node:http';
import type { Router } from 'express';
import { z } from 'zod';
import { historyOf } from '../../deployments/revisions.js';
import type { RouteDependencies } from '../edge-options.js';
import { readJsonBody } from '../json-body.js';
import { requireProjection } from '../notification-query.js';
import { answer, parameter, resource } from '../resource.js';

const ROLLBACK = z.object({ revision: z.int('must be an integer').min(1, 'must be 1 or more').optional() });

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;

/** The revisions of a projection: which there are, an earlier one again, the live one from the start, and a build that is called off. */
export function revisionRoutes(
  router: Router,
  { authenticate, tenants, catalog, deployments, settings }: RouteDependencies,
): void {
  const projectionOf = (request: Parameters<typeof parameter>[0]): ReturnType<typeof requireProjection> =>
    requireProjection(catalog, authenticate(request).tenantId, parameter(request, 'id'));

  resource(router, '/projections/:id/revisions', {
    get: async (request, response) => {
      const projection = projectionOf(request);
      const life = (await tenants.open(projection.tenantId)).projections.life(projection.projectionId);
      answer(response, 200, { projectionId: projection.projectionId, revisions: historyOf(projection, life) });
    },
  });

  resource(router, '/projections/:id/rollback', {
    post: async (request, response) => {
      const { tenantId, projectionId } = projectionOf(request);
      const { revision } = hasBody(request) ? await readJsonBody(request, settings, ROLLBACK) : {};
      const done = await deployments.rollbackProjection(tenantId, projectionId, revision);
      const message =
        done.status === 'live'
          ? `The code of revision ${done.of} is live, as revision ${done.revision}; what was to follow it is called off.`
          : `Revision ${done.revision} has the code of revision ${done.of}. It is live as soon as it is folded to the end: see /projections/${projectionId}/status.`;
      answer(response, done.status === 'live' ? 200 : 202, { ...done, message });
    },
  });

  resource(router, '/projections/:id/rebuild', {
    post: async (request, response) => {
      const { tenantId, projectionId } = projectionOf(request);
      const done = await deployments.rebuildProjection(tenantId, projectionId);
      const message = `Revision ${done.revision} folds the code of revision ${done.of} again from the start, beside it, and then takes its place: changedKeys of /projections/${projectionId}/revisions says what differed.`;
      answer(response, 202, { ...done, message });
    },
  });

  resource(router, '/projections/:id/build', {
    delete: async (request, response) => {
      const { tenantId, projectionId } = projectionOf(request);
      await deployments.cancelBuild(tenantId, projectionId);
      response.status(204).end();
    },
  });
}
