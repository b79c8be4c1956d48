import type { StatefoldError } from '../core/errors.js';
import { quotaExceeded } from '../core/quotas.js';
import type { StoredBytes } from '../store/stored-bytes.js';

export interface StorageMeterOptions {
  /** As of the call. */
  readonly quota: () => number;
  /** Bytes of the tenant's code in the log, and of what the catalog has of the tenant. */
  readonly definitionBytes: () => number;
  readonly changesRetentionMs: number;
  readonly now: () => number;
  /** Nothing of the tenant is counted here any more. */
  readonly idle?: () => void;
}

/**
 * What a tenant stores, as far as this process knows: of a tenant of several partitions all where its own task is, elsewhere what is
 * of the partitions that are here. Asked at each append.
 */
export class StorageMeter {
  readonly #options: StorageMeterOptions;
  readonly #parts = new Set<StoredBytes>();

  constructor(options: StorageMeterOptions) {
    this.#options = options;
  }

  /** Counts a partition from now on; ended by the function that it gives. */
  add(part: StoredBytes): () => void {
    this.#parts.add(part);
    return () => {
      if (this.#parts.delete(part) && this.#parts.size === 0) this.#options.idle?.();
    };
  }

  get usage(): number {
    const { changesRetentionMs, definitionBytes, now } = this.#options;
    const keptSince = now() - changesRetentionMs;
    let bytes = definitionBytes();
    for (const part of this.#parts) bytes += part.total(keptSince);
    return bytes;
  }

  /** Why nothing more of the tenant may be stored. */
  get refusal(): StatefoldError | undefined {
    const quota = this.#options.quota();
    const { usage } = this;
    return usage < quota ? undefined : quotaExceeded('storageBytes', usage, quota, 'bytes stored');
  }
}
