import type { TenantChanges } from './changes.js';
import type { EventFeed } from './events.js';
import type { FollowedFeed } from './feed.js';

/** A tenant as those see it who follow what comes of it. */
export interface TenantFeed {
  readonly tenantId: string;
  readonly changes: TenantChanges;
  readonly events: EventFeed;
}

/** Tenants as this process has them, in one of its roles. A tenant is activated on first use and passivated when idle. */
export interface ActivatedTenants<T> {
  /** Activates the tenant when needed. `NOT_FOUND` where the catalog has no such tenant, `UNAVAILABLE` where this process does not have the role for it. */
  open(tenantId: string): Promise<T>;
  /** The tenant if it is active already. */
  active(tenantId: string): T | undefined;
  /** Called for each tenant when it is activated, also in place of an earlier activation. */
  onActivated(listener: (tenant: T) => void): void;
}

/** The tenants whose feeds this process has. */
export interface TenantFeeds extends ActivatedTenants<TenantFeed> {
  /** Someone here follows the tenant, until the result is called: its feeds are wanted, also while they are not here. */
  keep(tenantId: string): () => void;
}

/** Which of a tenant's feeds is followed. A further one needs a `FollowedFeed`, and a source that picks it. */
export interface Source<T> {
  /** What it is the feed of: its subscriptions end when that is deleted. */
  readonly id: string;
  of(tenant: TenantFeed): FollowedFeed<T>;
}
