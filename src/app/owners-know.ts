import { NotOwnerError, StatefoldError } from '../core/errors.js';
import { partitionKey } from '../core/slots.js';
import { within } from '../core/within.js';
import { refusalOf, type PeerClient } from '../http/gateway/peer-client.js';
import type { Ownership } from '../placement/ownership.js';

export interface OwnersKnowOptions {
  readonly ownership: Ownership;
  readonly partitionsOf: (tenantId: string) => number;
  /** The same in this process. @throws NotOwnerError where another one owns the partition */
  readonly knows: (tenantId: string, partition: number) => Promise<void>;
  readonly peers: Pick<PeerClient, 'ask'>;
  readonly deadlineMs: number;
}

const RETRY_MS = 200;

/**
 * Resolves when the owner of each of the tenant's partitions has folded all that the catalog had at the call, and has then found itself
 * still the owner: by the log, so that whoever claims the partition later reads the catalog later too.
 */
export function ownersKnow(options: OwnersKnowOptions): (tenantId: string) => Promise<void> {
  const { ownership, partitionsOf, knows, peers, deadlineMs } = options;
  const ask = async (url: string, tenantId: string, partition: number, until: number): Promise<boolean> => {
    const target = `/admin/tenants/${encodeURIComponent(tenantId)}/partitions/${partition}/knows`;
    // It ended, or is away: another one will be the owner.
    const answer = await peers.ask('POST', url, target, until - performance.now()).catch(() => undefined);
    if (answer?.status === 401) throw new StatefoldError('UNAVAILABLE', `the process at ${url} ${refusalOf(answer)}`);
    return answer?.status === 204;
  };
  const asked = async (tenantId: string, partition: number, until: number): Promise<void> => {
    const slotKey = partitionKey(tenantId, partition);
    for (;;) {
      const owner = ownership.ownerOf(slotKey);
      if (owner === 'self') {
        try {
          // Appends that were taken before may hang as long as the log does.
          const known = within(
            knows(tenantId, partition).then(() => true),
            Math.max(1, until - performance.now()),
          );
          if ((await known) === true) return;
        } catch (error) {
          if (!(error instanceof NotOwnerError)) throw error;
        }
      } else if (owner !== undefined && (await ask(owner.url, tenantId, partition, until))) return;
      const left = until - performance.now();
      if (left <= 0)
        throw new StatefoldError(
          'UNAVAILABLE',
          'the change is stored, and a process that takes appends of the tenant has not said in time that it knows of it; send the request again',
          { retryAfterSeconds: 2 },
        );
      await ownership.changed(Math.min(RETRY_MS, left));
    }
  };
  return async (tenantId) => {
    const until = performance.now() + deadlineMs;
    const partitions = Array.from({ length: partitionsOf(tenantId) }, (_, partition) => partition);
    await Promise.all(partitions.map((partition) => asked(tenantId, partition, until)));
  };
}
