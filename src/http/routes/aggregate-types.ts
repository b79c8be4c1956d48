import type { Router } from 'express';
import { z } from 'zod';
import type { BindingEntity, Catalog } from '../../catalog/catalog.js';
import { artefactFault } from '../../deployments/artefact-health.js';
import { faultForClients, isoTimestamp } from '../../core/event.js';
import { StatefoldError } from '../../core/errors.js';
import { isAggregateType, MAX_AGGREGATE_ID } from '../../core/names.js';
import type { Tenant } from '../../tenancy/tenant.js';
import { bindingHistory } from '../../deployments/bindings.js';
import type { RouteDependencies } from '../edge-options.js';
import { readJsonBody } from '../json-body.js';
import { JsonWriter } from '../json-writer.js';
import { badCursor, pageParameters, queryOf, requireAggregateType, requireName } from '../query.js';
import { answer, parameter, resource } from '../resource.js';
import { stateAtJson } from './inspections.js';

const BIND = z.object({
  reducerId: z.string('must be a string').min(1, 'must not be empty'),
  className: z.string('must be a string').min(1, 'must not be empty').optional(),
});

function typeOfCursor(cursor: string): string {
  const type = Buffer.from(cursor, 'base64url').toString();
  if (!isAggregateType(type)) throw badCursor();
  return type;
}

export function aggregateTypeRoutes(
  router: Router,
  { authenticate, tenants, catalog, deployments, inspections, settings }: RouteDependencies,
): void {
  resource(router, '/aggregate-types', {
    get: async (request, response) => {
      const { tenantId } = authenticate(request);
      const tenant = await tenants.open(tenantId);
      const types = new Map<string, object>();
      for (const { aggregateType, aggregates } of await tenant.aggregates.types())
        types.set(aggregateType, { aggregateType, aggregates });
      for (const { value } of catalog.list('binding', tenantId)) {
        types.set(value.aggregateType, {
          aggregateType: value.aggregateType,
          aggregates: 0,
          ...types.get(value.aggregateType),
          ...bindingRecord(catalog, value, tenant),
        });
      }
      const { limit, cursor } = pageParameters(queryOf(request.url));
      const after = cursor === undefined ? '' : typeOfCursor(cursor);
      const left = [...types].filter(([type]) => type > after).sort(([a], [b]) => (a < b ? -1 : 1));
      const shown = left.slice(0, limit);
      const last = shown.at(-1)?.[0];
      const nextCursor =
        last !== undefined && left.length > limit ? Buffer.from(last).toString('base64url') : undefined;
      answer(response, 200, { aggregateTypes: shown.map(([, type]) => type), nextCursor });
    },
  });

  resource(router, '/aggregate-types/:type', {
    get: async (request, response) => {
      const { tenantId } = authenticate(request);
      const aggregateType = requireAggregateType(parameter(request, 'type'));
      const binding = catalog.get('binding', `${tenantId}/${aggregateType}`)?.value;
      if (binding === undefined)
        throw new StatefoldError('NO_REDUCER_BOUND', `No reducer is bound to the aggregate type ${aggregateType}.`);
      const tenant = await tenants.open(tenantId);
      answer(response, 200, {
        ...bindingRecord(catalog, binding, tenant),
        faultCount: await tenant.faults.countOfType(aggregateType),
      });
    },
    put: async (request, response) => {
      const { tenantId } = authenticate(request);
      const aggregateType = requireAggregateType(parameter(request, 'type'));
      const { reducerId, className } = await readJsonBody(request, settings, BIND);
      const binding = await deployments.bind(tenantId, aggregateType, reducerId, className);
      answer(response, 200, {
        aggregateType: binding.aggregateType,
        reducerId: binding.reducerId,
        className: binding.className,
        boundAt: binding.boundAt,
        message: `The reducer is bound to ${aggregateType}; the catch-up of its aggregates' state is in progress.`,
      });
    },
  });

  resource(router, '/aggregate-types/:type/history', {
    get: async (request, response) => {
      const { tenantId } = authenticate(request);
      const aggregateType = requireAggregateType(parameter(request, 'type'));
      const binding = catalog.get('binding', `${tenantId}/${aggregateType}`)?.value;
      if (binding === undefined)
        throw new StatefoldError('NO_REDUCER_BOUND', `No reducer is bound to the aggregate type ${aggregateType}.`);
      const kept = (await tenants.open(tenantId)).aggregates.keptGenerations(aggregateType);
      answer(response, 200, { aggregateType, generations: bindingHistory(binding, kept) });
    },
  });

  resource(router, '/aggregate-types/:type/:id/state', {
    get: async (request, response) => {
      const { tenantId } = authenticate(request);
      const aggregateType = requireAggregateType(parameter(request, 'type'));
      const aggregateId = requireName(parameter(request, 'id'), 'aggregateId', MAX_AGGREGATE_ID);
      const inspected = await stateAtJson(request, { inspections }, tenantId, aggregateType, aggregateId);
      if (inspected !== undefined) return answer(response, 200, inspected);
      const state = await (await tenants.home(tenantId, aggregateId)).state(aggregateType, aggregateId);
      const writer = new JsonWriter()
        .text('{')
        .member('aggregateId', state.aggregateId, true)
        .member('aggregateType', state.aggregateType)
        .member('version', state.version)
        .raw('state', state.state);
      if (state.lastModified !== undefined) writer.member('lastModified', isoTimestamp(state.lastModified));
      if (state.fault !== undefined) writer.member('fault', faultForClients(state.fault));
      if (state.stateStatus !== undefined) writer.member('stateStatus', state.stateStatus);
      answer(response, 200, writer.text('}').end());
    },
  });
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
  faulted: artefactFault(catalog, catalog.get('reducer', reducerId)?.value.artefactId ?? ''),
});
