import type { Ownership } from '../placement/ownership.js';
import { hasCode, NotOwnerError, StatefoldError } from '../core/errors.js';
import { Tally } from '../core/tally.js';
import type { TenantFeed, TenantFeeds } from '../feed/tenant-feeds.js';
import type { ActivityNotes } from './activity.js';
import type { Tenants } from './tenant.js';

export interface NotifiedTenantsOptions {
  readonly tenants: Tenants & {
    /** The standby of a tenant, once it follows. */
    standby(tenantId: string): TenantFeed | undefined;
    /** Resolves when there is one, or when it could not be had. */
    standBy(tenantId: string): Promise<void>;
    onFollowed(listener: (feed: TenantFeed) => void): void;
  };
  readonly ownership: Pick<Ownership, 'owns' | 'notifierOf'>;
  /** Where it is noted that a tenant of another process is wanted. */
  readonly activity: Pick<ActivityNotes, 'note'>;
  /** After how long. */
  readonly idleMs: number;
}

/**
 * The tenants of which this process notifies clients: those that it owns, and those of others, of which it keeps a standby
 * as long as someone here wants their changes.
 */
export class NotifiedTenants implements TenantFeeds {
  readonly #options: NotifiedTenantsOptions;
  /** When changes of another process's tenant were asked for last. */
  readonly #asked = new Map<string, number>();
  /** Tenants that someone here follows, and how many do. */
  readonly #kept = new Tally();
  readonly #sweeper: NodeJS.Timeout;
  #unwanted: ((tenantId: string) => void) | undefined;

  constructor(options: NotifiedTenantsOptions) {
    this.#options = options;
    this.#sweeper = setInterval(() => this.#sweep(), Math.max(1000, options.idleMs / 4)).unref();
  }

  active(tenantId: string): TenantFeed | undefined {
    const { tenants } = this.#options;
    return tenants.active(tenantId) ?? tenants.standby(tenantId);
  }

  async open(tenantId: string): Promise<TenantFeed> {
    const { tenants, ownership, activity } = this.#options;
    if (ownership.owns(tenantId)) return tenants.open(tenantId);
    if (ownership.notifierOf(tenantId) !== 'self')
      throw new NotOwnerError('another process notifies of the tenant now; send the request again');
    const asked = this.#asked.has(tenantId);
    this.#asked.set(tenantId, performance.now());
    if (!asked) activity.note(tenantId, 'wanted');
    try {
      await tenants.standBy(tenantId);
    } catch (error) {
      if (hasCode(error, 'NOT_FOUND')) this.forget(tenantId);
      throw error;
    }
    const feed = this.active(tenantId);
    if (feed === undefined)
      throw new StatefoldError(
        'UNAVAILABLE',
        'the changes of the tenant can not be followed now; send the request again',
      );
    return feed;
  }

  /** The tenant is no more. */
  forget(tenantId: string): void {
    this.#asked.delete(tenantId);
  }

  keep(tenantId: string): () => void {
    this.#kept.add(tenantId, 1);
    return () => this.#kept.add(tenantId, -1);
  }

  onActivated(listener: (feed: TenantFeed) => void): void {
    this.#options.tenants.onActivated(listener);
    this.#options.tenants.onFollowed(listener);
  }

  /** Called with each tenant of whose changes nobody has asked for a while. */
  onUnwanted(listener: (tenantId: string) => void): void {
    this.#unwanted = listener;
  }

  /** The tenant's changes are to be here, whoever owns it. False for the slot key of a further partition, which has no changes. */
  wants(slotKey: string): boolean {
    return (
      this.#options.ownership.notifierOf(slotKey) === 'self' && (this.#asked.has(slotKey) || this.#kept.of(slotKey) > 0)
    );
  }

  /** Tenants of other processes whose changes are wanted here. */
  get wanted(): readonly string[] {
    const { ownership } = this.#options;
    return [...new Set([...this.#asked.keys(), ...this.#kept.counts.keys()])].filter(
      (tenantId) => this.wants(tenantId) && !ownership.owns(tenantId),
    );
  }

  close(): void {
    clearInterval(this.#sweeper);
  }

  #sweep(): void {
    const before = performance.now() - this.#options.idleMs;
    for (const [tenantId, at] of this.#asked) {
      if (at > before || (this.#kept.of(tenantId) > 0 && this.wants(tenantId))) continue;
      this.#asked.delete(tenantId);
      this.#unwanted?.(tenantId);
    }
  }
}
