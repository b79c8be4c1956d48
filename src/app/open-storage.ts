import type { Log } from '../log/log.js';
import type { Ownership } from '../placement/ownership.js';
import { LocalStore } from '../store/local-store.js';
import { abandonProcess } from './end-of-process.js';
import type { Ground } from './ground.js';
import type { LogSetup } from './log-setup.js';
import { rewriteIfDue } from '../log/embedded/rewrite-environment.js';
import { restoreOf } from './data-directory.js';
import { environments, openLog } from './open-log.js';

/** The log, what this machine keeps of it, and who serves which tenant. */
export interface Storage extends Pick<LogSetup, 'codecs' | 'schemas' | 'schemaIds' | 'shared' | 'replication'> {
  readonly log: Log;
  readonly store: LocalStore;
  readonly ownership: Ownership;
  /**
   * The incarnation of a tenant whose rows in the read store are of this log: what a server has of the log before it was restored is taken
   * for a former tenant's.
   */
  readonly rowsOf: (incarnation: string | undefined) => string | undefined;
  /** From now on slots are given to this process. */
  readonly join: () => Promise<void>;
}

export async function openStorage(ground: Ground): Promise<Storage> {
  const { settings, logger, decorate, shutdown, owner, peerUrl, budget, door } = ground;
  const setup = await openLog(settings, ground.root, logger, ground.metrics.log);
  shutdown.add('log', () => setup.log.close());
  const log = decorate.log?.(setup.log) ?? setup.log;
  const { store: inStore } = environments(settings);
  await rewriteIfDue(inStore, logger);
  const store = new LocalStore({
    ...{ path: inStore.path, logger, budget },
    onLost: (error) => abandonProcess(logger, error, 'the local store can not be written any more by this process'),
  });
  shutdown.add('local store', () => store.close());
  const { ownership, join: joinGroup } = await setup.openOwnership(owner, peerUrl, store, (isAway) =>
    door.awaits(isAway ? 'log' : undefined),
  );
  shutdown.add('ownership', () => ownership.close());
  const { codecs, schemas, schemaIds, shared, replication } = setup;
  const restore = shared ? undefined : restoreOf(settings.dataDirectory);
  const rowsOf: Storage['rowsOf'] = (incarnation) =>
    restore === undefined ? incarnation : `${incarnation ?? ''}_${restore}`;
  return { log, store, ownership, rowsOf, join: joinGroup, codecs, schemas, schemaIds, shared, replication };
}
