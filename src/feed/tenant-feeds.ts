import type { TenantChanges } from './changes.js';
import type { EventFeed } from './events.js';
import type { FollowedFeed } from './feed.js';

/** A tenant as those see it who follow what comes of it. */
export interface TenantFeed {
  readonly tenantId: string;
  readonly changes: TenantChanges;
  readonly events: EventFeed;
}

/** The tenants whose feeds this process has. */
export interface TenantFeeds {
  /** Follows the tenant when needed. `NOT_FOUND` where the catalog has none, `UNAVAILABLE` where this process does not notify of it. */
  open(tenantId: string): Promise<TenantFeed>;
  /** The tenant if its feeds are here already. */
  active(tenantId: string): TenantFeed | undefined;
  /** Someone here follows the tenant, until the result is called: its feeds are wanted, also while they are not here. */
  keep(tenantId: string): () => void;
  /** Called for each tenant when its feeds are here, also in place of earlier ones. */
  onActivated(listener: (tenant: TenantFeed) => void): void;
}

/** Which of a tenant's feeds is followed. A further one needs a `FollowedFeed`, and a source that picks it. */
export interface Source<T> {
  /** What it is the feed of: its subscriptions end when that is deleted. */
  readonly id: string;
  of(tenant: TenantFeed): FollowedFeed<T>;
}
