import type { Router } from 'express';
import { StatefoldError } from '../../core/errors.js';
import { faultForClients } from '../../core/event.js';
import { MAX_AGGREGATE_ID } from '../../core/names.js';
import type { AppendRoute } from '../append-route.js';
import type { RouteDependencies } from '../edge-options.js';
import { eventJson } from '../event-json.js';
import { JsonWriter } from '../json-writer.js';
import { integerParameter, queryOf, requireName, textParameter } from '../query.js';
import { memoryOf } from '../request-memory.js';
import { answer, parameter, requestIdOfAnswer, resource, type Handler } from '../resource.js';

const DEFAULT_EVENTS = 1_000;
const MAX_EVENTS = 10_000;

export function eventRoutes(router: Router, { authenticate, tenants }: RouteDependencies, append: AppendRoute): void {
  const list = async (...[request, response, id]: [...Parameters<Handler>, string]): Promise<void> => {
    const { tenantId } = authenticate(request);
    const aggregateId = requireName(id, 'aggregateId', MAX_AGGREGATE_ID);
    const query = queryOf(request.url);
    const version = (name: string): number | undefined => integerParameter(query, name, 0, Number.MAX_SAFE_INTEGER);
    const direction = textParameter(query, 'direction') ?? 'forward';
    if (direction !== 'forward' && direction !== 'backward')
      throw new StatefoldError('INVALID_REQUEST', 'direction must be forward or backward');
    const include = textParameter(query, 'include');
    if (include !== undefined && include !== 'metadata')
      throw new StatefoldError('INVALID_REQUEST', 'include must be metadata, or be left out');
    const asked = {
      aggregateId,
      fromVersion: version('fromVersion'),
      toVersion: version('toVersion'),
      limit: integerParameter(query, 'limit', 1, MAX_EVENTS) ?? DEFAULT_EVENTS,
      direction,
    } as const;
    await memoryOf(request)?.pageOf(response);
    const page = await (await tenants.home(tenantId, aggregateId)).events(asked);
    const writer = new JsonWriter().text('{"events":[');
    writer.list(page.events, (event) => eventJson(writer, event, include === 'metadata')).text(']');
    if (page.nextVersion !== undefined) writer.member('nextVersion', page.nextVersion);
    if (page.fault !== undefined) writer.member('fault', faultForClients(page.fault));
    answer(response, 200, writer.text('}').end());
  };

  // The two appends come here only by unusual spellings of their paths: the edge serves them before the router.
  resource(router, '/events', {
    post: (request, response) => append(request, response, requestIdOfAnswer(response), false),
  });
  resource(router, '/events/batch', {
    get: (request, response) => list(request, response, 'batch'),
    post: (request, response) => append(request, response, requestIdOfAnswer(response), true),
  });
  resource(router, '/events/:aggregateId', {
    get: (request, response) => list(request, response, parameter(request, 'aggregateId')),
  });
}
