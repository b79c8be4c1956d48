import { Deadlines, readsInTime } from '../http/deadlines.js';
import { assertWebhookUrlAllowed } from '../webhooks/address-guard.js';
import { Endpoints } from '../webhooks/endpoints.js';
import type { Ground } from './ground.js';
import type { OpenedCatalog } from './open-catalog.js';
import type { OpenedTenancy } from './open-tenancy.js';

/** Where webhooks go: what the catalog has of it, and the secrets that sign them. */
export interface OpenedEndpoints {
  readonly endpoints: Endpoints;
}

export function openEndpoints(
  { settings, clock }: Ground,
  { catalog, room, sealer }: OpenedCatalog,
  { tenants, notified }: OpenedTenancy,
): OpenedEndpoints {
  const endpoints = new Endpoints({
    catalog,
    room,
    sealer,
    checkUrl: (url) => assertWebhookUrlAllowed(url, { allowPrivate: settings.webhookAllowPrivate }),
    lastSequence: async (tenantId) => (await tenants.open(tenantId)).changes.lastSequence(),
    notified,
    most: settings.maxWebhookEndpoints,
    inTime: readsInTime(new Deadlines(settings.answerDeadlineMs)),
    clock,
  });
  return { endpoints };
}
