import type { CodeHost } from '../code-host/code-host.js';
import type { Logger } from '../core/logger.js';
import { partitionKey, storedAs } from '../core/slots.js';
import type { Log } from '../log/log.js';
import { allTopics } from '../log/topics.js';
import type { RebuildableSink } from '../read-store/rebuildable-sink.js';
import type { Snapshots } from '../snapshots/snapshots.js';
import type { LocalStore } from '../store/local-store.js';
import type { TenantRegistry } from './tenant-registry.js';

/** A tenant as its data is named by it. */
export interface StoredTenant {
  readonly tenantId: string;
  readonly partitions: number;
  readonly incarnation?: string | undefined;
}

export interface TenantDataOptions {
  readonly tenants: Pick<TenantRegistry, 'remove'>;
  readonly codeHost: Pick<CodeHost, 'dispose'>;
  /** Undefined where none are written. */
  readonly snapshots: Pick<Snapshots, 'unwatch'> | undefined;
  readonly store: Pick<LocalStore, 'drop'>;
  readonly log: Pick<Log, 'deleteTopic'>;
  /** Undefined: there is no read store. */
  readonly sink: Pick<RebuildableSink, 'remove'> | undefined;
  readonly logger: Logger;
}

/** All that there is of a tenant besides what the catalog says of it, and how it is removed. Each removal may be asked for again. */
export class TenantData {
  readonly #options: TenantDataOptions;

  constructor(options: TenantDataOptions) {
    this.#options = options;
  }

  /** Stops the tenant's tasks and code in this process, and drops what this machine holds of it. */
  async removeHere(tenant: StoredTenant): Promise<void> {
    const { tenants, codeHost, snapshots, store } = this.#options;
    const { tenantId, partitions } = tenant;
    await Promise.all([tenants.remove(tenantId, partitions), codeHost.dispose(tenantId)]);
    for (let partition = 0; partition < partitions; partition++) {
      const section = partitionKey(storedAs(tenant), partition);
      await snapshots?.unwatch(section);
      await store.drop(section);
    }
  }

  /** The same, and its topics. */
  async removeRecords(tenant: StoredTenant): Promise<void> {
    await this.removeHere(tenant);
    for (const topic of allTopics(storedAs(tenant))) await this.#options.log.deleteTopic(topic);
  }

  /** The same, and its rows in the read store: where that is away they stay until it is back. */
  async remove(tenant: StoredTenant): Promise<void> {
    const { sink, logger } = this.#options;
    const { tenantId } = tenant;
    await this.removeRecords(tenant);
    await sink
      ?.remove(tenantId)
      .catch((error: unknown) =>
        logger.warn({ err: error, tenantId }, 'Rows of a deleted tenant stay in the read store until it is back'),
      );
  }
}
