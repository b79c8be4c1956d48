import type { Router } from 'express';
import { StatefoldError } from '../../core/errors.js';
import { artefactFault } from '../../deployments/artefact-health.js';
import { unboundTypes } from '../../deployments/bindings.js';
import type { RouteDependencies } from '../edge-options.js';
import { integerParameter, onlyParameters, pageParameters, queryOf } from '../query.js';
import { page, reducerRecord } from '../records.js';
import { answer, parameter, resource } from '../resource.js';
import { readUpload, requireFields } from '../upload.js';
import { MAX_WAIT_SECONDS } from '../waits.js';

export function reducerRoutes(
  router: Router,
  { authenticate, catalog, deployments, settings, waits }: RouteDependencies,
): void {
  resource(router, '/reducers', {
    get: (request, response) => {
      const { tenantId } = authenticate(request);
      const { items, nextCursor } = page(
        catalog.list('reducer', tenantId).filter(({ value }) => value.deletedAt === undefined),
        pageParameters(queryOf(request.url)),
      );
      answer(response, 200, {
        reducers: items.map((reducer) =>
          reducerRecord(reducer, unboundTypes(catalog, reducer), artefactFault(catalog, reducer.artefactId)),
        ),
        nextCursor,
      });
    },
  });

  resource(router, '/reducers/upload', {
    post: async (request, response) => {
      const { tenantId } = authenticate(request);
      const query = queryOf(request.url);
      onlyParameters(query, ['waitSeconds']);
      const waitSeconds = integerParameter(query, 'waitSeconds', 0, MAX_WAIT_SECONDS) ?? 0;
      const { sources, fields } = await readUpload(request, response, settings);
      requireFields(fields, []);
      const uploaded = await deployments.uploadReducer(tenantId, sources);
      const reached =
        waitSeconds === 0
          ? uploaded
          : await waits.during(tenantId, response, waitSeconds, (signal) =>
              deployments.reducerReached(uploaded, signal),
            );
      const { reducerId, status, compilationError, diagnostics } = reached;
      answer(response, 202, { reducerId, status, ...(status === 'failed' ? { compilationError, diagnostics } : {}) });
    },
  });

  resource(router, '/reducers/:id', {
    delete: async (request, response) => {
      const { tenantId } = authenticate(request);
      await deployments.deleteReducer(tenantId, parameter(request, 'id'));
      response.status(204).end();
    },
  });

  resource(router, '/reducers/:id/status', {
    get: (request, response) => {
      const { tenantId } = authenticate(request);
      const id = parameter(request, 'id');
      const reducer = catalog.get('reducer', id)?.value;
      if (reducer?.tenantId !== tenantId || reducer.deletedAt !== undefined)
        throw new StatefoldError('NOT_FOUND', `reducer ${id} does not exist`);
      answer(
        response,
        200,
        reducerRecord(reducer, unboundTypes(catalog, reducer), artefactFault(catalog, reducer.artefactId)),
      );
    },
  });
}
