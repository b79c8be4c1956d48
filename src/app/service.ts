import { join } from 'node:path';
import { UnshownKey } from '../catalog/first-key.js';
import { ensureDefaultTenant, type DefaultTenant } from '../catalog/tenants.js';
import { openGround, type ServiceOptions } from './ground.js';
import { joinCluster } from './join-cluster.js';
import { openCatalog } from './open-catalog.js';
import { openCodeHost } from './open-code-host.js';
import { openDeployments } from './open-deployments.js';
import { openEdge } from './open-edge.js';
import { openEndpoints } from './open-endpoints.js';
import { openNotifications } from './open-notifications.js';
import { openPeers } from './open-peers.js';
import { openReadStore } from './open-read-store.js';
import { openSqlAccounts } from './open-sql-accounts.js';
import { openStorage } from './open-storage.js';
import { openTracing } from './open-tracing.js';
import { openTenancy } from './open-tenancy.js';
import { reachOf } from './read-store-rebuild.js';
import { Shutdown } from './shutdown.js';
import { DATA_FILES } from '../config/data-files.js';
import { watchReplication } from './watch-replication.js';

export type { ServiceOptions } from './ground.js';

export interface Service {
  /** Where it listens, e.g. `http://127.0.0.1:8080`. */
  readonly url: string;
  /** The key of tenant `default`, when this start made it, or one before that ended before it was shown. */
  readonly newApiKey: string | undefined;
  readonly hasDefaultTenant: boolean;
  /** What is known of the key in STATEFOLD_API_KEY. */
  readonly fixedKey: DefaultTenant['fixedKey'];
  /** `newApiKey` has reached whoever started it: no start shows it again. */
  keyWasShown(): void;
  /** One line on how uploaded code is kept from everything else. */
  readonly jailed: string;
  /** Ends it in order: answers what is under way, flushes, stops the children. */
  close(): Promise<void>;
}

/** A part whose work under way has a deadline of its own has so much more than that to end. */
const SHUTDOWN_MARGIN_MS = 20_000;

/** Puts the house together, part by part; it ends in the reverse order. Only the files of this folder know which adapter is behind a port. */
export async function startService(options: ServiceOptions): Promise<Service> {
  const { settings, logger } = options;
  const shutdown = new Shutdown(logger, settings.shutdownDeadlineMs + SHUTDOWN_MARGIN_MS);
  try {
    const ground = await openGround(options, shutdown);
    await openTracing(ground);
    const storage = await openStorage(ground);
    const catalog = await openCatalog(ground, storage);
    const peers = openPeers(ground, catalog);
    const code = openCodeHost(ground, catalog.catalog);
    const copy = openReadStore(ground, storage, code, catalog);
    const tenancy = await openTenancy(ground, storage, catalog, code, copy);
    const accounts = openSqlAccounts(ground, storage, catalog, copy);
    const endpoints = openEndpoints(ground, catalog, tenancy);
    const notifications = await openNotifications(ground, storage, catalog, tenancy, endpoints);
    const deploying = openDeployments(ground, storage, catalog, code, copy, tenancy, endpoints, peers);
    const replication = watchReplication(ground, storage);
    const edge = openEdge(ground, {
      ...{ storage, replication, catalog, peers, code, copy, tenancy, notifications, deploying, endpoints, accounts },
    });

    const unshown = new UnshownKey(join(settings.dataDirectory, DATA_FILES.firstKey));
    const first = await ensureDefaultTenant(catalog.catalog, unshown, settings.apiKey);
    await edge.listen();
    // What only an owner uses is not kept ready elsewhere.
    if (settings.roles.includes('tasks')) {
      copy.start(
        reachOf(catalog.catalog, storage.ownership, tenancy.tenants, logger, copy.isWrittenByOthers, storage.rowsOf),
      );
      accounts.start();
      code.start();
    }
    const { activity } = tenancy;
    if (activity !== undefined) await joinCluster(ground, storage, tenancy, activity, notifications, deploying, edge);
    deploying.deployments.resume();
    await notifications.webhooks.start();
    return {
      url: ground.url,
      jailed: code.jailed,
      newApiKey: first.apiKey,
      hasDefaultTenant: first.exists,
      fixedKey: first.fixedKey,
      keyWasShown: () => unshown.forget(),
      close: () => shutdown.close(),
    };
  } catch (error) {
    await shutdown.close();
    throw error;
  }
}
