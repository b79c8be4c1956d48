import type { Ownership } from '../placement/ownership.js';
import type { Catalog } from '../catalog/catalog.js';
import { isSuspended } from '../catalog/suspension.js';
import { hasCode, StatefoldError } from '../core/errors.js';
import type { Logger } from '../core/logger.js';
import { refusalOf, type PeerClient } from '../http/gateway/peer-client.js';
import type { KnownProcess } from '../http/processes.js';
import { noRebuild, type RebuildReach } from '../read-store/rebuild.js';
import type { TenantRegistry } from '../tenancy/tenant-registry.js';
import type { Storage } from './open-storage.js';

export interface RebuildOptions {
  readonly ownership: Ownership;
  /** Ids of all tenants. */
  readonly tenantIds: () => readonly string[];
  /** Writes the rows of a tenant of this process, or of all, anew from the log. Resolves when it has begun. */
  readonly rebuild: (tenantId: string | undefined) => Promise<void>;
  readonly open: (tenantId: string) => Promise<unknown>;
  readonly peers: Pick<PeerClient, 'ask'>;
  readonly logger: Logger;
}

const ASKING_MS = 60_000;
/** Of one that answers that there is nothing to call off, or that it can't be. */
const REFUSALS = ['NO_REBUILD', 'REBUILD_NOT_CANCELLABLE'] as const;

/** Rebuilds the rows of one tenant, or of all: by each tenant's owner, since it alone writes them. Resolves when it has begun. */
export function readStoreRebuild({
  ownership,
  tenantIds,
  rebuild,
  open,
  peers,
  logger,
}: RebuildOptions): (tenantId: string | undefined) => Promise<void> {
  const askOwner = async (tenantId: string): Promise<void> => {
    const owner = ownership.ownerOf(tenantId);
    if (owner === 'self') return rebuild(tenantId);
    if (owner === undefined)
      throw new StatefoldError('UNAVAILABLE', `no process serves tenant ${tenantId} now; send the request again`);
    const target = `/admin/read-store/rebuild?tenantId=${encodeURIComponent(tenantId)}`;
    const answer = await peers.ask('POST', owner.url, target, ASKING_MS);
    if (answer.status !== 202)
      throw new StatefoldError('UNAVAILABLE', `the owner of tenant ${tenantId} at ${owner.url} ${refusalOf(answer)}`);
  };
  return async (tenantId) => {
    const all = tenantIds();
    if (all.every((id) => ownership.owns(id))) await rebuild(tenantId);
    else for (const id of tenantId === undefined ? all : [tenantId]) await askOwner(id);
    // Those that are not active are filled in as they are opened; nobody waits for it.
    void (async () => {
      for (const id of all) if (ownership.owns(id) && (tenantId === undefined || id === tenantId)) await open(id);
    })().catch((error: unknown) =>
      logger.warn({ err: error }, 'a tenant is not in the rebuilt read store until its next use'),
    );
  };
}

export interface CancelOptions {
  /** Calls off the rebuild of this process. */
  readonly cancel: () => Promise<void>;
  readonly peers: Pick<PeerClient, 'ask'>;
}

/**
 * Calls off the rebuilds of processes: where each has a read store of its own, each has one of its own. All are asked.
 * @throws StatefoldError what the first refuses that has one and does not call it off; NO_REBUILD where none has one
 */
export function readStoreRebuildCancel({
  cancel,
  peers,
}: CancelOptions): (processes: readonly KnownProcess[]) => Promise<void> {
  const askProcess = async (url: string): Promise<void> => {
    const target = `/admin/read-store/rebuild?url=${encodeURIComponent(url)}`;
    const answer = await peers.ask('DELETE', url, target, ASKING_MS).catch((error: unknown) => {
      throw new StatefoldError('UNAVAILABLE', `the process at ${url} does not answer`, { cause: error });
    });
    if (answer.status === 204) return;
    const code = REFUSALS.find((one) => answer.status === 409 && answer.text.includes(`"code":"${one}"`));
    throw new StatefoldError(code ?? 'UNAVAILABLE', `the process at ${url} ${refusalOf(answer)}`);
  };
  return async (processes) => {
    const refusals: Error[] = [];
    for (const { url, self } of processes)
      await (self === true ? cancel() : askProcess(url)).catch((error: Error) => refusals.push(error));
    const refusal = refusals.find((one) => !hasCode(one, 'NO_REBUILD'));
    if (refusal !== undefined) throw refusal;
    if (refusals.length === processes.length) throw noRebuild();
  };
}

/** The tenants of the catalog: those that this process may serve are opened for a rebuild, others keep the rows that they have. */
export const reachOf = (
  catalog: Catalog,
  ownership: Pick<Ownership, 'owns'>,
  tenants: Pick<TenantRegistry, 'open'>,
  logger: Logger,
  isWrittenByOthers: boolean,
  rowsOf: Storage['rowsOf'],
): RebuildReach => ({
  caughtUp: () => catalog.caughtUp(),
  isWrittenHere: (tenantId) => !isWrittenByOthers || ownership.owns(tenantId),
  tenants: () => new Map(catalog.list('tenant', undefined).map(({ id, value }) => [id, rowsOf(value.incarnation)])),
  open: async (tenantId) => {
    if (!ownership.owns(tenantId) || isSuspended(catalog, tenantId)) return false;
    try {
      await tenants.open(tenantId);
      return true;
    } catch (error) {
      logger.warn({ err: error, tenantId }, 'a tenant could not be opened for a rebuild of the read store');
      return false;
    }
  },
});
