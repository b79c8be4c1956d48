import { z } from 'zod';
import type { BindingEntity, Catalog } from '../../catalog/catalog.js';
import { artefactFault, type ArtefactFaultRecord } from '../../deployments/artefact-health.js';
import { faultForClients, isoTimestamp } from '../../core/event.js';
import { StatefoldError } from '../../core/errors.js';
import { isAggregateType, MAX_AGGREGATE_ID } from '../../core/names.js';
import { firstOf } from '../../core/reads.js';
import { onTurns } from '../../core/turns.js';
import type { Tenant } from '../../tenancy/tenant.js';
import { bindingHistory } from '../../deployments/binding-records.js';
import { json } from '../bodies.js';
import { JsonWriter } from '../json-writer.js';
import { badCursor, paging, requireAggregateType, requireName } from '../parameters.js';
import { answerList, memoryOfLists, pastIn } from '../list-answer.js';
import { idOfCursor, rateOf } from '../records.js';
import { turnsOf } from '../request-memory.js';
import {
  aggregateId,
  aggregateType,
  component,
  Fault,
  faulted,
  integer,
  listOf,
  progress,
  rate,
  state,
  text,
  timestamp,
  version,
} from '../schema.js';
import { STATE_AT, stateAtJson, stateAtMembers } from '../state-at.js';
import { route } from './dependencies.js';

export const CatchUp = component('CatchUp', z.strictObject(progress));
export type CatchUp = z.infer<typeof CatchUp>;
export const AggregateType = component(
  'AggregateType',
  z.strictObject({
    aggregateType,
    aggregates: integer,
    eventsPerSecond: rate
      .describe('Events appended over the last minute. Absent where events of more than 1,000 types came within it.')
      .optional(),
    reducerId: text.optional(),
    className: text.optional(),
    boundAt: timestamp.optional(),
    catchUp: CatchUp.optional(),
    faulted: faulted.optional(),
  }),
);
export type AggregateType = z.infer<typeof AggregateType>;
const bound = { aggregateType, reducerId: text, className: text, boundAt: timestamp };
export const Binding = component(
  'Binding',
  z.strictObject({ ...bound, faulted: faulted.optional(), catchUp: CatchUp.optional(), faultCount: integer }),
);
export type Binding = z.infer<typeof Binding>;
export const Bound = component('Bound', z.strictObject({ ...bound, message: text }));
export type Bound = z.infer<typeof Bound>;
export const Generation = component(
  'Generation',
  z.strictObject({
    generation: version,
    reducerId: text,
    className: text,
    boundAt: timestamp,
    status: z
      .enum(['bound', 'kept', 'gone'])
      .describe('kept: states of its code are there, so that it takes no fold from the start to bind it again.'),
    faulted: faulted.omit({ revision: true }).optional(),
  }),
);
export type Generation = z.infer<typeof Generation>;
export const AggregateState = component(
  'AggregateState',
  z.strictObject({
    aggregateId,
    aggregateType,
    version: integer,
    state,
    lastModified: timestamp.describe('Of the last event that the state reflects; absent at version 0.').optional(),
    fault: Fault.optional(),
    stateStatus: z
      .enum(['deadline', 'faulted', 'superseded', 'unavailable'])
      .describe('Why there is no state although a reducer is bound.')
      .optional(),
    ...stateAtMembers,
  }),
);
export type AggregateState = z.infer<typeof AggregateState>;

const Bind = z.object({
  reducerId: z.string('must be a string').min(1, 'must not be empty'),
  className: z.string('must be a string').min(1, 'must not be empty').optional(),
});

const listAggregateTypes = route({
  method: 'GET',
  path: '/aggregate-types',
  operationId: 'listAggregateTypes',
  tag: 'Aggregates',
  summary: 'List aggregate types and their bindings',
  servedBy: 'owner',
  credentials: 'tenant',
  scope: 'read',
  query: paging,
  answers: { 200: listOf('aggregateTypes', AggregateType) },
  serve: async ({ tenants, catalog }, call) => {
    const { tenantId } = call;
    await memoryOfLists(call, tenants.partitionsOf(tenantId));
    const tenant = await tenants.open(tenantId);
    const query = call.query();
    const after = idOfCursor(query.cursor);
    if (after !== '' && !isAggregateType(after)) throw badCursor();
    const types = new Map<string, object>();
    // One more than the page may have says whether another one follows.
    const most = query.limit + 1;
    const turn = turnsOf(call);
    for (const { aggregateType, aggregates } of await tenant.aggregates.types({ after, limit: most, turn }))
      types.set(aggregateType, { aggregateType, aggregates });
    const bindings = [...firstOf(catalog.past('binding', tenantId, `${tenantId}/${after}`), most)];
    for await (const part of onTurns(bindings, turn))
      for (const { value } of part)
        types.set(value.aggregateType, {
          aggregateType: value.aggregateType,
          aggregates: 0,
          ...types.get(value.aggregateType),
          ...bindingRecord(catalog, value, tenant),
        });
    const past = pastIn([...types].map(([id, summary]) => ({ id, value: { id, summary } })));
    return answerList(call, query, {
      name: 'aggregateTypes',
      past,
      recordOf: ({ id, summary }) => ({
        ...summary,
        eventsPerSecond: rateOf(tenant.aggregates.eventsPerSecond(id)),
      }),
    });
  },
});

const getBinding = route({
  method: 'GET',
  path: '/aggregate-types/{type}',
  operationId: 'getBinding',
  tag: 'Aggregates',
  summary: 'The binding of an aggregate type',
  servedBy: 'owner',
  credentials: 'tenant',
  scope: 'read',
  ofCatalog: true,
  answers: { 200: Binding },
  errors: ['NO_REDUCER_BOUND'],
  serve: async ({ tenants, catalog }, call) => {
    const aggregateType = requireAggregateType(call.parameter('type'));
    const binding = requireBinding(catalog, call.tenantId, aggregateType);
    const tenant = await tenants.open(call.tenantId);
    call.answer(200, {
      ...bindingRecord(catalog, binding, tenant),
      faultCount: await tenant.faults.countOfType(aggregateType),
    });
  },
});

const bindReducer = route({
  method: 'PUT',
  path: '/aggregate-types/{type}',
  operationId: 'bindReducer',
  tag: 'Aggregates',
  summary: 'Bind a reducer to an aggregate type',
  servedBy: 'owner',
  credentials: 'tenant',
  scope: 'deploy',
  body: json(Bind, { reducerId: '0190f3c2-7b1e-7c3a-9d55-0c1f2a3b4c5d', className: 'Shop.OrderReducer' }),
  answers: { 200: Bound },
  errors: ['NOT_FOUND', 'QUOTA_EXCEEDED', 'REDUCER_CLASS_AMBIGUOUS', 'REDUCER_CLASS_NOT_FOUND', 'REDUCER_NOT_COMPILED'],
  serve: async ({ deployments }, call) => {
    const aggregateType = requireAggregateType(call.parameter('type'));
    const { reducerId, className } = await call.body();
    const binding = await deployments.bind(call.tenantId, aggregateType, reducerId, className);
    call.answer(200, {
      aggregateType: binding.aggregateType,
      reducerId: binding.reducerId,
      className: binding.className,
      boundAt: binding.boundAt,
      message: `The reducer is bound to ${aggregateType}; the catch-up of its aggregates' state is in progress.`,
    });
  },
});

const getBindingHistory = route({
  method: 'GET',
  path: '/aggregate-types/{type}/history',
  operationId: 'getBindingHistory',
  tag: 'Aggregates',
  summary: 'The bindings of an aggregate type, the newest first',
  servedBy: 'owner',
  credentials: 'tenant',
  scope: 'read',
  ofCatalog: true,
  answers: { 200: z.strictObject({ aggregateType: text, generations: z.array(Generation) }) },
  errors: ['NO_REDUCER_BOUND'],
  serve: async ({ tenants, catalog }, call) => {
    const aggregateType = requireAggregateType(call.parameter('type'));
    const binding = requireBinding(catalog, call.tenantId, aggregateType);
    const kept = (await tenants.open(call.tenantId)).aggregates.keptGenerations(aggregateType);
    const generations = bindingHistory(binding, kept).map((one) => ({
      ...one,
      faulted: faultOfReducer(catalog, one.reducerId),
    }));
    call.answer(200, { aggregateType, generations });
  },
});

const getAggregateState = route({
  method: 'GET',
  path: '/aggregate-types/{type}/{id}/state',
  operationId: 'getAggregateState',
  tag: 'Aggregates',
  summary: 'The state of an aggregate',
  servedBy: { aggregate: 'id' },
  credentials: 'tenant',
  scope: 'read',
  ofCatalog: true,
  query: STATE_AT,
  answers: { 200: AggregateState },
  errors: [
    'GONE',
    'INSPECTION_DEADLINE',
    'NO_REDUCER_BOUND',
    'NOT_FOUND',
    'REDUCER_CLASS_AMBIGUOUS',
    'REDUCER_CLASS_NOT_FOUND',
    'REDUCER_NOT_COMPILED',
  ],
  serve: async ({ tenants, inspections }, call) => {
    const aggregateType = requireAggregateType(call.parameter('type'));
    const aggregateId = requireName(call.parameter('id'), 'aggregateId', MAX_AGGREGATE_ID);
    const inspected = await stateAtJson(inspections, call.tenantId, { aggregateType, aggregateId }, call.query());
    if (inspected !== undefined) return call.answer(200, inspected);
    const stored = await (await tenants.home(call.tenantId, aggregateId)).state(aggregateType, aggregateId);
    const writer = new JsonWriter()
      .text('{')
      .member('aggregateId', stored.aggregateId, true)
      .member('aggregateType', stored.aggregateType)
      .member('version', stored.version)
      .raw('state', stored.state);
    if (stored.lastModified !== undefined) writer.member('lastModified', isoTimestamp(stored.lastModified));
    if (stored.fault !== undefined) writer.member('fault', faultForClients(stored.fault));
    if (stored.stateStatus !== undefined) writer.member('stateStatus', stored.stateStatus);
    call.answer(200, writer.text('}').end());
  },
});

function requireBinding(catalog: Pick<Catalog, 'get'>, tenantId: string, aggregateType: string): BindingEntity {
  const binding = catalog.get('binding', `${tenantId}/${aggregateType}`)?.value;
  if (binding === undefined)
    throw new StatefoldError('NO_REDUCER_BOUND', `No reducer is bound to the aggregate type ${aggregateType}.`);
  return binding;
}

const bindingRecord = (
  catalog: Catalog,
  { aggregateType, reducerId, className, boundAt }: BindingEntity,
  tenant: Tenant,
): object => ({
  aggregateType,
  reducerId,
  className,
  boundAt,
  catchUp: tenant.aggregates.catchUp(aggregateType),
  faulted: faultOfReducer(catalog, reducerId),
});

const faultOfReducer = (catalog: Catalog, reducerId: string): ArtefactFaultRecord | undefined =>
  artefactFault(catalog, catalog.get('reducer', reducerId)?.value.artefactId ?? '');

export const AGGREGATE_TYPES = [listAggregateTypes, getBinding, bindReducer, getBindingHistory, getAggregateState];
