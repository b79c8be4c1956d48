import { z } from 'zod';
import { isoTimestamp } from '../../core/event.js';
import { aggregateTypeName, paging } from '../parameters.js';
import { aggregateId, aggregateType, component, listOf, timestamp, version } from '../schema.js';
import { route } from './dependencies.js';

export const Aggregate = component(
  'Aggregate',
  z.strictObject({ aggregateId, aggregateType, version, lastModified: timestamp }),
);
export type Aggregate = z.infer<typeof Aggregate>;

const listAggregates = route({
  method: 'GET',
  path: '/aggregates',
  operationId: 'listAggregates',
  tag: 'Aggregates',
  summary: 'List aggregates',
  servedBy: 'owner',
  credentials: 'tenant',
  scope: 'read',
  query: { type: aggregateTypeName, ...paging },
  answers: { 200: listOf('aggregates', Aggregate) },
  serve: async ({ tenants }, call) => {
    const { type, ...page } = call.query();
    const { aggregates, nextCursor } = await (
      await tenants.open(call.tenantId)
    ).aggregates.list({ aggregateType: type, ...page });
    call.answer(200, {
      aggregates: aggregates.map((aggregate) => ({
        ...aggregate,
        lastModified: isoTimestamp(aggregate.lastModified),
      })),
      nextCursor,
    });
  },
});

export const AGGREGATES = [listAggregates];
