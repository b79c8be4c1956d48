import type { Ownership } from '../placement/ownership.js';
import { tenantOfKey } from '../core/slots.js';
import type { Logger } from '../core/logger.js';

export interface AssignmentOptions {
  readonly ownership: Ownership;
  readonly tenants: {
    readonly activeIds: readonly string[];
    readonly standbyIds: readonly string[];
    open(tenantId: string): Promise<unknown>;
    standBy(tenantId: string): Promise<void>;
    passivate(tenantId: string): Promise<void>;
    onStopped(listener: (tenantId: string) => void): void;
  };
  /** Tenants that are active somewhere in the cluster. */
  readonly activity: { tenants(): readonly string[] };
  readonly standbys: boolean;
  /** Tenants whose changes are wanted here, whoever owns them. */
  readonly feeds: {
    readonly wanted: readonly string[];
    wants(tenantId: string): boolean;
    onUnwanted(listener: (tenantId: string) => void): void;
  };
  readonly logger: Logger;
  /** The slots of this process changed, and its tasks are being brought in line. */
  readonly onReassigned: () => void;
}

/** Tenants that are opened or followed at once after a change. */
const AT_ONCE = 4;
/** What is wanted here and could not be had is tried again after so long. */
const RETRY_MS = 2000;

/** Brings the tasks of this process in line with its slots: closes what is another's, takes what is ours, keeps standbys. */
export class Assignment {
  readonly #options: AssignmentOptions;
  readonly #queue = new Set<string>();
  #running = 0;
  #closed = false;

  constructor(options: AssignmentOptions) {
    this.#options = options;
    options.ownership.onChange(() => this.reassign());
    options.tenants.onStopped((tenantId) => this.#again(tenantId));
    options.feeds.onUnwanted((tenantId) => this.consider(tenantId));
  }

  reassign(): void {
    if (this.#closed) return;
    const { tenants, activity, ownership, feeds, onReassigned } = this.#options;
    for (const tenantId of tenants.activeIds) if (ownership.ownerOf(tenantId) !== 'self') this.consider(tenantId);
    for (const tenantId of tenants.standbyIds) this.consider(tenantId);
    for (const tenantId of activity.tenants()) this.consider(tenantId);
    for (const tenantId of feeds.wanted) this.consider(tenantId);
    onReassigned();
  }

  /** The tenant is active somewhere, or may be another's by now. */
  consider(tenantId: string): void {
    if (this.#closed) return;
    this.#queue.add(tenantId);
    // A partition that is active somewhere is for its tenant's own task too.
    this.#queue.add(tenantOfKey(tenantId));
    while (this.#running < AT_ONCE && this.#queue.size > 0) void this.#run();
  }

  async #run(): Promise<void> {
    this.#running++;
    for (const tenantId of this.#queue) {
      this.#queue.delete(tenantId);
      try {
        await this.#align(tenantId);
      } catch (error) {
        this.#options.logger.debug(
          { err: error, tenantId },
          'a tenant was not brought in line with its slot; its next use does it',
        );
      }
      if (this.#isMissed(tenantId)) this.#again(tenantId);
    }
    this.#running--;
  }

  async #align(tenantId: string): Promise<void> {
    const { tenants, ownership, standbys, feeds } = this.#options;
    const owner = ownership.ownerOf(tenantId);
    if (this.#closed || owner === undefined) return;
    if (owner === 'self') {
      await tenants.open(tenantId);
      return;
    }
    if (tenants.activeIds.includes(tenantId)) await tenants.passivate(tenantId);
    if ((standbys && ownership.standsBy(tenantId)) || feeds.wants(tenantId)) await tenants.standBy(tenantId);
    else await tenants.passivate(tenantId);
  }

  /** It may be another's by then, or be had again. */
  #again(tenantId: string): void {
    setTimeout(() => void (this.#isMissed(tenantId) ? this.consider(tenantId) : undefined), RETRY_MS).unref();
  }

  /** Its changes are awaited here, and there is nothing that they would come from. */
  #isMissed(tenantId: string): boolean {
    const { tenants, feeds } = this.#options;
    return (
      !this.#closed &&
      feeds.wants(tenantId) &&
      !tenants.activeIds.includes(tenantId) &&
      !tenants.standbyIds.includes(tenantId)
    );
  }

  close(): void {
    this.#closed = true;
    this.#queue.clear();
  }
}
