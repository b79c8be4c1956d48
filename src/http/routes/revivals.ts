import type { Router } from 'express';
import { artefactFault } from '../../deployments/artefact-health.js';
import type { RouteDependencies } from '../edge-options.js';
import { requireProjection } from '../notification-query.js';
import { reducerRecord } from '../records.js';
import { answer, parameter, resource } from '../resource.js';

/** Code that had too many strikes is run again, from where it was halted. */
export function revivalRoutes(router: Router, { authenticate, catalog, deployments }: RouteDependencies): void {
  resource(router, '/reducers/:id/revive', {
    post: async (request, response) => {
      const { tenantId } = authenticate(request);
      const reducer = await deployments.reviveReducer(tenantId, parameter(request, 'id'));
      answer(response, 200, reducerRecord(reducer, [], artefactFault(catalog, reducer.artefactId)));
    },
  });

  resource(router, '/projections/:id/revive', {
    post: async (request, response) => {
      const { tenantId } = authenticate(request);
      const { projectionId } = requireProjection(catalog, tenantId, parameter(request, 'id'));
      const done = await deployments.reviveProjection(tenantId, projectionId);
      const message =
        done.status === 'live'
          ? `Revision ${done.revision} is live and not faulted: there is nothing to revive.`
          : `Revision ${done.revision} goes on where its code was halted, and is live as soon as it has caught up: see /projections/${projectionId}/status.`;
      answer(response, done.status === 'live' ? 200 : 202, { ...done, message });
    },
  });
}
