import { z } from 'zod';
import { faultForClients } from '../../core/event.js';
import { MAX_AGGREGATE_ID, MAX_STATE_KEY } from '../../core/names.js';
import type { ReleaseMode } from '../../core/records.js';
import type { KeyRelease } from '../../tenancy/faults.js';
import { optionalJson } from '../bodies.js';
import { answerItems, memoryOfLists } from '../list-answer.js';
import { paging, requireAggregateType, requireName } from '../parameters.js';
import { requireProjection } from '../../catalog/require.js';
import { turnsOf } from '../request-memory.js';
import type { Call } from '../route.js';
import { aggregateId, aggregateType, component, Fault, integer, KeyFault, listOf, text } from '../schema.js';
import { route, type RouteDependencies } from './dependencies.js';

// Events on which tenant code threw: where they are, and how their aggregates and keys go on.

const given = z.string('must be a string').min(1, 'must not be empty').optional();
const version = z.int('must be an integer').min(1, 'must be at least 1').optional();
/** Which fault the client means; without any, whichever it is. */
const EXAMPLE_EVENT = '0198c9d2-7e5a-7c31-8f0e-2f6f0a1b2c3d';
export const FaultChoice = component('FaultChoice', z.object({ eventId: given, version }));
export const KeyFaultChoice = component('KeyFaultChoice', FaultChoice.extend({ className: given }));
/** Of a projection: the empty key has no path of its own. */
export const KeysFaultChoice = component(
  'KeysFaultChoice',
  KeyFaultChoice.extend({ key: z.string('must be a string').optional() }),
);
export type KeysFaultChoice = z.infer<typeof KeysFaultChoice>;

export const AggregateReleased = component(
  'AggregateReleased',
  z.strictObject({
    aggregateId,
    aggregateType,
    outcome: z.enum(['released', 'faulted', 'pending']),
    version: integer.describe('Of the state now.'),
    events: integer.describe('By which the state came further, those that were passed over too.'),
    fault: Fault.optional(),
  }),
);
export type AggregateReleased = z.infer<typeof AggregateReleased>;
export const KeysReleased = component(
  'KeysReleased',
  z.strictObject({
    projectionId: text,
    keys: z.array(
      z.strictObject({
        key: text,
        className: text,
        outcome: z.enum(['released', 'faulted', 'superseded', 'pending']),
        changes: integer.describe('Of the state, that were told.'),
        fault: Fault.optional(),
      }),
    ),
  }),
);
export type KeysReleased = z.infer<typeof KeysReleased>;

const listAggregateFaults = route({
  method: 'GET',
  path: '/aggregate-types/{type}/faults',
  operationId: 'listAggregateFaults',
  tag: 'Faults',
  summary: 'List the aggregates of a type that are faulted: the reducer threw at an event',
  servedBy: 'owner',
  credentials: 'tenant',
  scope: 'read',
  query: paging,
  answers: { 200: listOf('faults', Fault) },
  serve: async ({ tenants }, call) => {
    const aggregateType = requireAggregateType(call.parameter('type'));
    const { faults } = await tenants.open(call.tenantId);
    await memoryOfLists(call);
    const page = await faults.ofType(aggregateType, { ...call.query(), turn: turnsOf(call) });
    return answerItems(call, 'faults', { ...page, items: page.faults }, faultForClients);
  },
});

const listKeyFaults = route({
  method: 'GET',
  path: '/projections/{id}/faults',
  operationId: 'listKeyFaults',
  tag: 'Faults',
  summary: 'List the keys of a projection that are faulted: the code threw at an event',
  servedBy: 'owner',
  credentials: 'tenant',
  scope: 'read',
  ofCatalog: true,
  query: paging,
  answers: { 200: listOf('faults', KeyFault) },
  errors: ['NOT_FOUND'],
  serve: async ({ tenants, catalog }, call) => {
    const { projectionId } = requireProjection(catalog, call.tenantId, call.parameter('id'));
    const { faults } = await tenants.open(call.tenantId);
    await memoryOfLists(call);
    const page = await faults.ofProjection(projectionId, { ...call.query(), turn: turnsOf(call) });
    return answerItems(call, 'faults', { ...page, items: page.faults }, ({ key, fault }) => ({
      key,
      ...faultForClients(fault),
    }));
  },
});

const releaseAggregate = async (
  { tenants }: RouteDependencies,
  call: Call<'type' | 'id', Record<never, never>, z.infer<typeof FaultChoice>>,
  mode: ReleaseMode,
): Promise<void> => {
  const aggregateType = requireAggregateType(call.parameter('type'));
  const aggregateId = requireName(call.parameter('id'), 'aggregateId', MAX_AGGREGATE_ID);
  const { eventId, version } = await call.body();
  const { fault, ...released } = await (
    await tenants.home(call.tenantId, aggregateId)
  ).release({ aggregateType, aggregateId, mode, eventId, version });
  call.answer(200, { ...released, fault: fault === undefined ? undefined : faultForClients(fault) });
};

const releasing = {
  method: 'POST',
  tag: 'Faults',
  credentials: 'tenant',
  scope: 'deploy',
} as const;

const OF_AN_AGGREGATE = {
  ...releasing,
  servedBy: { aggregate: 'id' },
  body: optionalJson(FaultChoice, { eventId: EXAMPLE_EVENT, version: 7 }),
  answers: { 200: AggregateReleased },
  errors: ['ARTEFACT_FAULTED', 'FAULT_MISMATCH', 'GONE', 'NO_REDUCER_BOUND', 'NOT_FAULTED', 'NOT_FOUND'],
} as const;

const retryAggregate = route({
  ...OF_AN_AGGREGATE,
  path: '/aggregate-types/{type}/{id}/retry',
  operationId: 'retryAggregate',
  summary: 'Run the event at which the aggregate stands again, and those after it',
  serve: (dependencies, call) => releaseAggregate(dependencies, call, 'retry'),
});
const skipAggregate = route({
  ...OF_AN_AGGREGATE,
  path: '/aggregate-types/{type}/{id}/skip',
  operationId: 'skipAggregate',
  summary: 'Pass the event at which the aggregate stands over, and go on',
  serve: (dependencies, call) => releaseAggregate(dependencies, call, 'skip'),
});

const releaseKeys = async (
  { tenants, catalog }: RouteDependencies,
  call: Call<'id', Record<never, never>, KeysFaultChoice>,
  mode: ReleaseMode,
  keyOf: () => string | undefined = () => undefined,
): Promise<void> => {
  const { projectionId } = requireProjection(catalog, call.tenantId, call.parameter('id'));
  const ofPath = keyOf();
  const { eventId, version, className, key } = await call.body();
  const { faults } = await tenants.open(call.tenantId);
  const which = { projectionId, key: ofPath ?? key, className, eventId, version };
  const keys = await faults.releaseKeys({ ...which, mode, turn: turnsOf(call) });
  call.answer(200, { projectionId, keys: keys.map(keyJson) });
};

const OF_KEYS = {
  ...releasing,
  servedBy: 'owner',
  body: optionalJson(KeysFaultChoice, { key: 't-1', eventId: EXAMPLE_EVENT, className: 'Bank.Transfers' }),
  answers: { 200: KeysReleased },
  errors: ['ARTEFACT_FAULTED', 'FAULT_MISMATCH', 'NOT_FAULTED', 'NOT_FOUND'],
} as const;
const OF_A_KEY = { ...OF_KEYS, body: optionalJson(KeyFaultChoice, { eventId: EXAMPLE_EVENT, version: 7 }) } as const;

const retryKeys = route({
  ...OF_KEYS,
  path: '/projections/{id}/retry',
  operationId: 'retryKeys',
  summary: 'Run the events at which keys stand again, of one key or of all (up to 1,000)',
  errors: [...OF_KEYS.errors, 'FAULT_WITHOUT_KEY', 'QUOTA_EXCEEDED'],
  serve: (dependencies, call) => releaseKeys(dependencies, call, 'retry'),
});
const skipKeys = route({
  ...OF_KEYS,
  path: '/projections/{id}/skip',
  operationId: 'skipKeys',
  summary: 'Pass the events at which keys stand over, of one key or of all (up to 1,000)',
  serve: (dependencies, call) => releaseKeys(dependencies, call, 'skip'),
});
const retryKey = route({
  ...OF_A_KEY,
  path: '/projections/{id}/states/{key}/retry',
  operationId: 'retryKey',
  summary: 'Run the event at which the key stands again, and those after it',
  serve: (dependencies, call) => releaseKeys(dependencies, call, 'retry', () => keyOfPath(call)),
});
const skipKey = route({
  ...OF_A_KEY,
  path: '/projections/{id}/states/{key}/skip',
  operationId: 'skipKey',
  summary: 'Pass the event at which the key stands over, and go on',
  serve: (dependencies, call) => releaseKeys(dependencies, call, 'skip', () => keyOfPath(call)),
});

const keyOfPath = (call: { parameter(name: 'key'): string }): string =>
  requireName(call.parameter('key'), 'key', MAX_STATE_KEY);

const keyJson = ({ fault, ...release }: KeyRelease): object => ({
  ...release,
  fault: fault === undefined ? undefined : faultForClients(fault),
});

export const FAULTS = [
  listAggregateFaults,
  retryAggregate,
  skipAggregate,
  listKeyFaults,
  retryKeys,
  skipKeys,
  retryKey,
  skipKey,
];
