import type { Edge } from '../http/edge.js';
import { Assignment } from '../tenancy/assignment.js';
import type { Activity } from '../tenancy/activity.js';
import type { Ground } from './ground.js';
import type { OpenedDeployments } from './open-deployments.js';
import type { OpenedNotifications } from './open-notifications.js';
import type { Storage } from './open-storage.js';
import type { OpenedTenancy } from './open-tenancy.js';

/** Takes part in sharing the slots with other processes: what this one has follows what it is given. */
export async function joinCluster(
  { settings, logger, shutdown }: Ground,
  { ownership, join }: Storage,
  { tenants, notified }: OpenedTenancy,
  activity: Activity,
  { hub, webhooks }: OpenedNotifications,
  { deployments }: OpenedDeployments,
  edge: Edge,
): Promise<void> {
  const assignment = new Assignment({
    ownership,
    tenants: tenants.slots,
    notified,
    activity,
    standbys: settings.standbys,
    logger,
    onReassigned: () => {
      hub.reassign((tenantId) => ownership.notifiedElsewhere(tenantId));
      deployments.resume();
      void webhooks.reassign();
    },
  });
  shutdown.add('assignment', () => {
    assignment.close();
    activity.close();
  });
  activity.follow({ active: tenants.slots, notified, listener: assignment });
  await join();
  // Others take its slots while it still serves, and what comes here meanwhile is forwarded to them.
  shutdown.add('slots', async () => {
    edge.drain();
    await ownership.leave();
  });
}
