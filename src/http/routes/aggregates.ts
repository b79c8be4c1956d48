import { z } from 'zod';
import { StatefoldError } from '../../core/errors.js';
import { isoTimestamp } from '../../core/event.js';
import { MAX_AGGREGATE_ID } from '../../core/names.js';
import { optionalJson } from '../bodies.js';
import { answerItems, memoryOfLists } from '../list-answer.js';
import { turnsOf } from '../request-memory.js';
import { aggregateTypeName, described, nameUpTo, paging } from '../parameters.js';
import { aggregateId, aggregateType, component, listOf, timestamp, version } from '../schema.js';
import { requireName } from '../parameters.js';
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
    await memoryOfLists(call, tenants.partitionsOf(call.tenantId));
    const { aggregates: all } = await tenants.open(call.tenantId);
    const { aggregates: items, nextCursor } = await all.list({ aggregateType: type, ...page, turn: turnsOf(call) });
    await answerItems(call, 'aggregates', { items, nextCursor }, (aggregate) => ({
      ...aggregate,
      lastModified: isoTimestamp(aggregate.lastModified),
    }));
  },
});

const MAX_REASON = 1_000;

export const Erasure = component(
  'Erasure',
  z.strictObject({
    aggregateId,
    status: z
      .enum(['erasing', 'erased'])
      .describe(
        'erased: what the log had of it is marked to be taken out. To all who ask it is gone with the first answer.',
      ),
  }),
);
export type Erasure = z.infer<typeof Erasure>;

const eraseAggregate = route({
  method: 'DELETE',
  path: '/aggregates/{aggregateId}',
  operationId: 'eraseAggregate',
  tag: 'Aggregates',
  summary: 'Erase an aggregate: its events, its state and its id are gone for ever',
  servedBy: { aggregate: 'aggregateId' },
  credentials: 'tenant',
  scope: 'erase',
  query: {
    reason: described(nameUpTo(MAX_REASON), 'Why, for those who read the feed: it stays. In the body, or here.'),
  },
  strictQuery: true,
  body: optionalJson(z.object({ reason: z.string().min(1).max(MAX_REASON).optional() }), {
    reason: 'asked for by the customer',
  }),
  answers: { 202: Erasure },
  errors: ['NOT_FOUND'],
  serve: async ({ tenants }, call) => {
    const erased = requireName(call.parameter('aggregateId'), 'aggregateId', MAX_AGGREGATE_ID);
    const { reason: asked } = call.query();
    const { reason = asked } = await call.body();
    if (asked !== undefined && reason !== asked)
      throw new StatefoldError('INVALID_REQUEST', 'the body and the query give two reasons: give one');
    call.answer(202, await (await tenants.home(call.tenantId, erased)).erase(erased, reason));
  },
});

export const AGGREGATES = [listAggregates, eraseAggregate];
