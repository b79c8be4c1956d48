import type { Ownership } from '../placement/ownership.js';
import { StatefoldError } from '../core/errors.js';
import type { Logger } from '../core/logger.js';
import { connectorOf } from '../http/gateway/owner-pools.js';
import type { PeerTls } from '../http/gateway/peer-tls.js';

export interface RebuildOptions {
  readonly ownership: Ownership;
  /** Ids of all tenants. */
  readonly tenantIds: () => readonly string[];
  /** Drops the rows of a tenant of this process, or of all, and writes them anew from the log. */
  readonly rebuild: (tenantId: string | undefined) => Promise<void>;
  readonly open: (tenantId: string) => Promise<unknown>;
  /** The same in all processes. */
  readonly adminKey: string;
  /** With which they meet. */
  readonly tls: PeerTls | undefined;
  readonly logger: Logger;
}

const ASKING_MS = 60_000;

/** Rebuilds the rows of one tenant, or of all: by each tenant's owner, since it alone writes them. Resolves when they are dropped. */
export function readStoreRebuild({
  ownership,
  tenantIds,
  rebuild,
  open,
  adminKey,
  tls,
  logger,
}: RebuildOptions): (tenantId: string | undefined) => Promise<void> {
  const loaded = async () => {
    const { Agent, buildConnector, fetch } = await import('undici');
    return { fetch, dispatcher: tls && new Agent({ connect: connectorOf(buildConnector, tls) }) };
  };
  let client: ReturnType<typeof loaded> | undefined;
  const askOwner = async (tenantId: string): Promise<void> => {
    const owner = ownership.ownerOf(tenantId);
    if (owner === 'self') return rebuild(tenantId);
    if (owner === undefined)
      throw new StatefoldError('UNAVAILABLE', `no process serves tenant ${tenantId} now; send the request again`);
    const { fetch, dispatcher } = await (client ??= loaded());
    const answer = await fetch(`${owner.url}/admin/read-store/rebuild?tenantId=${encodeURIComponent(tenantId)}`, {
      method: 'POST',
      headers: { 'x-admin-key': adminKey },
      signal: AbortSignal.timeout(ASKING_MS),
      ...(dispatcher && { dispatcher }),
    });
    if (answer.status !== 202)
      throw new StatefoldError(
        'UNAVAILABLE',
        `the owner of tenant ${tenantId} at ${owner.url} answered ${answer.status}; STATEFOLD_ADMIN_KEY must be the same in all processes`,
      );
  };
  return async (tenantId) => {
    const all = tenantIds();
    if (all.every((id) => ownership.owns(id))) await rebuild(tenantId);
    else for (const id of tenantId === undefined ? all : [tenantId]) await askOwner(id);
    // Those that are not active are refilled as they are opened; nobody waits for it.
    void (async () => {
      for (const id of all) if (ownership.owns(id) && (tenantId === undefined || id === tenantId)) await open(id);
    })().catch((error: unknown) =>
      logger.warn({ err: error }, 'a tenant is not in the rebuilt read store until its next use'),
    );
  };
}
