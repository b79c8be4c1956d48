import type { Request, Response, Router } from 'express';
import { z } from 'zod';
import { faultForClients } from '../../core/event.js';
import { MAX_AGGREGATE_ID, MAX_STATE_KEY } from '../../core/names.js';
import type { ReleaseMode } from '../../core/records.js';
import type { KeyRelease } from '../../tenancy/faults.js';
import { declaredLength } from '../body.js';
import type { RouteDependencies } from '../edge-options.js';
import { readJsonBody } from '../json-body.js';
import { requireProjection } from '../notification-query.js';
import { pageParameters, queryOf, requireAggregateType, requireName } from '../query.js';
import { answer, parameter, resource } from '../resource.js';

const text = z.string('must be a string').min(1, 'must not be empty').optional();
const version = z.int('must be an integer').min(1, 'must be at least 1').optional();
/** Which fault the client means; without any, whichever it is. */
const OF_AN_AGGREGATE = z.object({ eventId: text, version });
const OF_A_KEY = OF_AN_AGGREGATE.extend({ className: text });
/** Of a projection: the empty key has no path of its own. */
const OF_KEYS = OF_A_KEY.extend({ key: z.string('must be a string').optional() });

/** Events on which tenant code threw: where they are, and how their aggregates and keys go on. */
export function faultRoutes(router: Router, { authenticate, tenants, catalog, settings }: RouteDependencies): void {
  /** A body may be left out. */
  const bodyOf = async <T>(request: Request, schema: z.ZodType<T>): Promise<T> => {
    const empty =
      declaredLength(request) === 0 ||
      (Number.isNaN(declaredLength(request)) && request.headers['transfer-encoding'] === undefined);
    return empty ? schema.parse({}) : readJsonBody(request, settings, schema);
  };

  resource(router, '/aggregate-types/:type/faults', {
    get: async (request, response) => {
      const { tenantId } = authenticate(request);
      const aggregateType = requireAggregateType(parameter(request, 'type'));
      const { faults, nextCursor } = await (
        await tenants.open(tenantId)
      ).faults.ofType(aggregateType, pageParameters(queryOf(request.url)));
      answer(response, 200, { faults: faults.map(faultForClients), nextCursor });
    },
  });

  resource(router, '/projections/:id/faults', {
    get: async (request, response) => {
      const { tenantId } = authenticate(request);
      const { projectionId } = requireProjection(catalog, tenantId, parameter(request, 'id'));
      const { faults, nextCursor } = await (
        await tenants.open(tenantId)
      ).faults.ofProjection(projectionId, pageParameters(queryOf(request.url)));
      answer(response, 200, {
        faults: faults.map(({ key, fault }) => ({ key, ...faultForClients(fault) })),
        nextCursor,
      });
    },
  });

  const ofAnAggregate = async (request: Request, response: Response, mode: ReleaseMode): Promise<void> => {
    const { tenantId } = authenticate(request);
    const aggregateType = requireAggregateType(parameter(request, 'type'));
    const aggregateId = requireName(parameter(request, 'id'), 'aggregateId', MAX_AGGREGATE_ID);
    const { eventId, version: expected } = await bodyOf(request, OF_AN_AGGREGATE);
    const { fault, ...released } = await (
      await tenants.home(tenantId, aggregateId)
    ).release({ aggregateType, aggregateId, mode, eventId, version: expected });
    answer(response, 200, { ...released, fault: fault === undefined ? undefined : faultForClients(fault) });
  };

  const ofKeys = async (request: Request, response: Response, mode: ReleaseMode, named: boolean): Promise<void> => {
    const { tenantId } = authenticate(request);
    const { projectionId } = requireProjection(catalog, tenantId, parameter(request, 'id'));
    const ofPath = named ? requireName(parameter(request, 'key'), 'key', MAX_STATE_KEY) : undefined;
    const {
      eventId,
      version: expected,
      className,
      key = undefined,
    } = await bodyOf<z.infer<typeof OF_KEYS>>(request, named ? OF_A_KEY : OF_KEYS);
    const keys = await (
      await tenants.open(tenantId)
    ).faults.releaseKeys({ projectionId, key: ofPath ?? key, className, mode, eventId, version: expected });
    answer(response, 200, { projectionId, keys: keys.map(keyJson) });
  };

  resource(router, '/aggregate-types/:type/:id/retry', {
    post: (request, response) => ofAnAggregate(request, response, 'retry'),
  });
  resource(router, '/aggregate-types/:type/:id/skip', {
    post: (request, response) => ofAnAggregate(request, response, 'skip'),
  });
  resource(router, '/projections/:id/retry', {
    post: (request, response) => ofKeys(request, response, 'retry', false),
  });
  resource(router, '/projections/:id/skip', { post: (request, response) => ofKeys(request, response, 'skip', false) });
  resource(router, '/projections/:id/states/:key/retry', {
    post: (request, response) => ofKeys(request, response, 'retry', true),
  });
  resource(router, '/projections/:id/states/:key/skip', {
    post: (request, response) => ofKeys(request, response, 'skip', true),
  });
}

const keyJson = ({ fault, ...release }: KeyRelease): object => ({
  ...release,
  fault: fault === undefined ? undefined : faultForClients(fault),
});
