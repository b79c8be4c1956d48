import type { Router } from 'express';
import { ConnectionQuota } from '../connection-quota.js';
import { readBody, requireJson } from '../body.js';
import type { RouteDependencies } from '../edge-options.js';
import { readNotificationConfig } from '../notification-config.js';
import { requireProjection } from '../notification-query.js';
import { notificationsJson } from '../records.js';
import { answer, parameter, resource } from '../resource.js';
import { readUpload, requireFields } from '../upload.js';

const CHECKS_PER_TENANT = 4;

/** What an upload would be refused for, asked without one; and the notifications of a projection, changed without one. */
export function uploadCheckRoutes(
  router: Router,
  { authenticate, catalog, deployments, settings }: RouteDependencies,
): void {
  // A check keeps its sources in memory until it is compiled, and no log holds others up behind it.
  const quota = new ConnectionQuota(CHECKS_PER_TENANT, 'checks under way');
  const limited = async <T>(tenantId: string, work: () => Promise<T>): Promise<T> => {
    const release = quota.take(tenantId);
    try {
      return await work();
    } finally {
      release();
    }
  };

  resource(router, '/reducers/check', {
    post: async (request, response) => {
      const { tenantId } = authenticate(request);
      const { sources, fields } = await readUpload(request, response, settings);
      requireFields(fields, []);
      answer(response, 200, await limited(tenantId, () => deployments.checkReducer(tenantId, sources)));
    },
  });

  resource(router, '/projections/check', {
    post: async (request, response) => {
      const { tenantId } = authenticate(request);
      const { sources, fields } = await readUpload(request, response, settings);
      requireFields(fields, ['config', 'projectionId']);
      const config = fields.get('config');
      const notifications = config === undefined ? undefined : readNotificationConfig(config, settings.maxJsonDepth);
      answer(
        response,
        200,
        await limited(tenantId, () =>
          deployments.checkProjection(tenantId, sources, notifications, fields.get('projectionId')),
        ),
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
