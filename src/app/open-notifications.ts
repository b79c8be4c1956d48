import { DAY_MS } from '../core/clock.js';
import { FeedHub } from '../feed/hub.js';
import { Replays } from '../feed/replays.js';
import { EndpointOperations } from '../webhooks/endpoint-operations.js';
import { LogAttemptStore } from '../webhooks/log-attempt-store.js';
import { LogCursorStore } from '../webhooks/log-cursor-store.js';
import { WebhookDeliverer } from '../webhooks/webhook-deliverer.js';
import type { Ground } from './ground.js';
import { followDeletions } from './follow-deletions.js';
import type { OpenedCatalog } from './open-catalog.js';
import type { OpenedEndpoints } from './open-endpoints.js';
import type { Storage } from './open-storage.js';
import type { OpenedTenancy } from './open-tenancy.js';

/** Who brings changes to those who follow them, here and at webhook endpoints. */
export interface OpenedNotifications {
  readonly hub: FeedHub;
  readonly webhooks: WebhookDeliverer;
  readonly endpointOperations: EndpointOperations;
}

export async function openNotifications(
  { settings, logger, metrics, shutdown, budget, turns, clock }: Ground,
  { log, ownership }: Storage,
  { catalog, sealer, audit }: OpenedCatalog,
  { notified }: OpenedTenancy,
  { endpoints }: OpenedEndpoints,
): Promise<OpenedNotifications> {
  const hub = new FeedHub({ notified, replays: new Replays(turns) });
  followDeletions(catalog, hub);
  const cursors = await LogCursorStore.open(log, logger);
  const attempts = await LogAttemptStore.open(log, logger, clock);
  const webhooks = new WebhookDeliverer({
    hub,
    notified,
    catalog,
    endpoints,
    audit,
    store: cursors,
    attempts,
    serves: (tenantId) => ownership.notifies(tenantId),
    unseal: (sealed) => sealer.unseal(sealed),
    logger,
    budget,
    allowPrivate: settings.webhookAllowPrivate,
    timeoutMs: settings.webhookTimeoutMs,
    limits: {
      retryDelaysMs: settings.webhookRetrySeconds.map((seconds) => seconds * 1_000),
      disableAfterMs: settings.webhookDisableAfterDays * DAY_MS,
    },
    observer: metrics.webhooks,
  });
  shutdown.add('notifications', async () => {
    await webhooks.close();
    await cursors.close();
    await attempts.close();
    hub.close();
  });
  const endpointOperations = new EndpointOperations({ deliverer: webhooks, notified, store: cursors, attempts, clock });
  return { hub, webhooks, endpointOperations };
}
