import type { Router } from 'express';
import { projectionFault } from '../../deployments/artefact-health.js';
import { faultForClients, isoTimestamp } from '../../core/event.js';
import { StatefoldError } from '../../core/errors.js';
import { eventLoop } from '../../core/event-loop.js';
import { MAX_STATE_KEY } from '../../core/names.js';
import type { ProjectionState } from '../../projections/projections.js';
import type { ProjectionReached } from '../../deployments/upload-waits.js';
import type { RouteDependencies } from '../edge-options.js';
import { JsonWriter } from '../json-writer.js';
import { readNotificationConfig } from '../notification-config.js';
import { requireProjection } from '../notification-query.js';
import { integerParameter, onlyParameters, pageParameters, queryOf, requireName, textParameter } from '../query.js';
import { notificationsJson, page, projectionRecord } from '../records.js';
import { answer, parameter, resource } from '../resource.js';
import { memoryOf } from '../request-memory.js';
import { readUpload, requireFields } from '../upload.js';
import { MAX_WAIT_SECONDS } from '../waits.js';

/** Enough to see what is wrong; the rest is in a list of its own. */
const FAULTS_SHOWN = 100;

export function projectionRoutes(
  router: Router,
  { authenticate, tenants, catalog, deployments, settings, waits }: RouteDependencies,
): void {
  resource(router, '/projections', {
    get: (request, response) => {
      const { tenantId } = authenticate(request);
      const { items, nextCursor } = page(catalog.list('projection', tenantId), pageParameters(queryOf(request.url)));
      answer(response, 200, {
        projections: items.map((projection) =>
          projectionRecord(projection, undefined, projectionFault(catalog, projection)),
        ),
        nextCursor,
      });
    },
  });

  resource(router, '/projections/upload', {
    post: async (request, response) => {
      const { tenantId } = authenticate(request);
      const query = queryOf(request.url);
      onlyParameters(query, ['waitSeconds']);
      const waitSeconds = integerParameter(query, 'waitSeconds', 0, MAX_WAIT_SECONDS) ?? 0;
      const { sources, fields } = await readUpload(request, response, settings);
      requireFields(fields, ['config', 'projectionId']);
      const config = fields.get('config');
      const notifications = config === undefined ? undefined : readNotificationConfig(config, settings.maxJsonDepth);
      const { projection, secret } = await deployments.uploadProjection(
        tenantId,
        sources,
        notifications,
        fields.get('projectionId'),
      );
      const reached =
        waitSeconds === 0
          ? undefined
          : await waits.during(tenantId, response, waitSeconds, (signal) =>
              deployments.projectionReached(projection, signal),
            );
      answer(response, 202, {
        success: reached?.status !== 'failed',
        projectionId: projection.projectionId,
        status: reached?.status ?? 'compiling',
        message: uploadMessage(projection.projectionId, reached),
        ...(reached?.status === 'failed'
          ? { compilationError: reached.compilationError, diagnostics: reached.diagnostics }
          : {}),
        live: reached?.live,
        notifications: notifications === undefined ? undefined : notificationsJson(projection, secret),
      });
    },
  });

  resource(router, '/projections/:id', {
    delete: async (request, response) => {
      const { tenantId } = authenticate(request);
      const { projectionId } = requireProjection(catalog, tenantId, parameter(request, 'id'));
      await deployments.deleteProjection(tenantId, projectionId);
      response.status(204).end();
    },
  });

  resource(router, '/projections/:id/status', {
    get: async (request, response) => {
      const { tenantId } = authenticate(request);
      const projection = requireProjection(catalog, tenantId, parameter(request, 'id'));
      // The first upload has nothing live beside it until it is compiled.
      if (projection.status !== 'compiled' && projection.revision === 1)
        return answer(response, 200, projectionRecord(projection));
      const tenant = await tenants.open(tenantId);
      const [{ faults }, faultCount] = await Promise.all([
        tenant.faults.ofProjection(projection.projectionId, { limit: FAULTS_SHOWN, cursor: undefined }),
        tenant.faults.countOfProjection(projection.projectionId),
      ]);
      const life = tenant.projections.life(projection.projectionId);
      answer(
        response,
        200,
        projectionRecord(
          projection,
          {
            build: tenant.projections.build(projection.projectionId),
            life,
            faults: faults.map(({ key, fault }) => ({ ...faultForClients(fault), key })),
            faultCount,
          },
          projectionFault(catalog, projection, life),
        ),
      );
    },
  });

  resource(router, '/projections/:id/states', {
    get: async (request, response) => {
      const { tenantId } = authenticate(request);
      const { projectionId } = requireProjection(catalog, tenantId, parameter(request, 'id'));
      const query = queryOf(request.url);
      const prefix = textParameter(query, 'prefix') ?? '';
      if (prefix !== '') requireName(prefix, 'prefix', MAX_STATE_KEY);
      await memoryOf(request)?.pageOf(response);
      const { states, nextCursor } = await (
        await tenants.open(tenantId)
      ).projections.states({ projectionId, prefix, ...pageParameters(query) });
      answer(
        response,
        200,
        eventLoop.slice('pages', () => statesJson(states, nextCursor)),
      );
    },
  });

  resource(router, '/projections/:id/states/:key', {
    get: async (request, response) => {
      const { tenantId } = authenticate(request);
      const { projectionId } = requireProjection(catalog, tenantId, parameter(request, 'id'));
      const key = requireName(parameter(request, 'key'), 'key', MAX_STATE_KEY);
      const states = await (await tenants.open(tenantId)).projections.statesOf(projectionId, key);
      if (states.length === 0)
        throw new StatefoldError('NOT_FOUND', `projection ${projectionId} has no state of the key ${key}`);
      answer(response, 200, statesJson(states, undefined));
    },
  });

  resource(router, '/projections/:id/webhook/rotate', {
    post: async (request, response) => {
      const { tenantId } = authenticate(request);
      const { projectionId } = requireProjection(catalog, tenantId, parameter(request, 'id'));
      const secret = await deployments.rotateProjectionSecret(tenantId, projectionId);
      answer(response, 200, { projectionId, webhook: { secret, isolated: true } });
    },
  });
}

function uploadMessage(projectionId: string, reached: ProjectionReached | undefined): string {
  const see = `see /projections/${projectionId}/status.`;
  if (reached === undefined || reached.status === 'compiling')
    return `The projection was accepted and is being compiled: ${see}`;
  if (reached.status === 'failed') return 'The code was not compiled: compilationError says why.';
  return reached.live === undefined
    ? `The projection is compiled, and is not live yet: ${see}`
    : 'The projection is compiled, and live.';
}

function statesJson(states: readonly ProjectionState[], nextCursor: string | undefined): Buffer {
  const writer = new JsonWriter().text('{"states":[');
  writer.list(states, (state) => {
    writer
      .text('{')
      .member('key', state.key, true)
      .member('className', state.className)
      .raw('state', state.state)
      .member('sequence', state.sequence)
      .member('lastModified', isoTimestamp(state.lastModified));
    if (state.fault !== undefined) writer.member('fault', faultForClients(state.fault));
    writer.text('}');
  });
  writer.text(']');
  if (nextCursor !== undefined) writer.member('nextCursor', nextCursor);
  return writer.text('}').end();
}
