import type { Router } from 'express';
import { readBody, requireJson } from '../body.js';
import type { RouteDependencies } from '../edge-options.js';
import { readNotificationConfig } from '../notification-config.js';
import { requireProjection } from '../notification-query.js';
import { notificationsJson } from '../records.js';
import { answer, parameter, resource } from '../resource.js';
import { readUpload, requireFields } from '../upload.js';

/** What an upload would be refused for, asked without one; and the notifications of a projection, changed without one. */
export function uploadCheckRoutes(
  router: Router,
  { authenticate, catalog, deployments, settings }: RouteDependencies,
): void {
  resource(router, '/reducers/check', {
    post: async (request, response) => {
      const { tenantId } = authenticate(request);
      const { sources, fields } = await readUpload(request, settings);
      requireFields(fields, []);
      answer(response, 200, await deployments.checkReducer(tenantId, sources));
    },
  });

  resource(router, '/projections/check', {
    post: async (request, response) => {
      const { tenantId } = authenticate(request);
      const { sources, fields } = await readUpload(request, settings);
      requireFields(fields, ['config', 'projectionId']);
      const config = fields.get('config');
      const notifications = config === undefined ? undefined : readNotificationConfig(config, settings.maxJsonDepth);
      answer(
        response,
        200,
        await deployments.checkProjection(tenantId, sources, notifications, fields.get('projectionId')),
      );
    },
  });

  resource(router, '/projections/:id/config', {
    put: async (request, response) => {
      const { tenantId } = authenticate(request);
      const { projectionId } = requireProjection(catalog, tenantId, parameter(request, 'id'));
      requireJson(request);
      const body = await readBody(request, settings.maxBodyBytes);
      const { projection, secret } = await deployments.configureProjection(
        tenantId,
        projectionId,
        readNotificationConfig(body.toString('utf8'), settings.maxJsonDepth),
      );
      answer(response, 200, { projectionId, notifications: notificationsJson(projection, secret) });
    },
  });
}
