import type { Router } from 'express';
import { isoTimestamp } from '../../core/event.js';
import type { RouteDependencies } from '../edge-options.js';
import { pageParameters, queryOf, requireAggregateType, textParameter } from '../query.js';
import { answer, resource } from '../resource.js';

export function aggregateRoutes(router: Router, { authenticate, tenants }: RouteDependencies): void {
  resource(router, '/aggregates', {
    get: async (request, response) => {
      const { tenantId } = authenticate(request);
      const query = queryOf(request.url);
      const type = textParameter(query, 'type');
      const aggregateType = type === undefined ? undefined : requireAggregateType(type);
      const { aggregates, nextCursor } = await (
        await tenants.open(tenantId)
      ).aggregates.list({ aggregateType, ...pageParameters(query) });
      answer(response, 200, {
        aggregates: aggregates.map((aggregate) => ({
          ...aggregate,
          lastModified: isoTimestamp(aggregate.lastModified),
        })),
        nextCursor,
      });
    },
  });
}
