import type { AggregateHome, Aggregates } from '../aggregates/aggregates.js';
import type { ActivatedTenants, TenantFeed } from '../feed/tenant-feeds.js';
import type { Projections } from '../projections/projections.js';
import type { Faults } from './faults.js';

/** What a process has of a tenant that it serves, by the roles in which others use it. */
export interface Tenant extends TenantFeed {
  readonly aggregates: Aggregates;
  readonly projections: Projections;
  readonly faults: Faults;
  /** Bytes that it stores, about. */
  readonly storageBytes: number;
}

/** The tenants whose slots this process owns. */
export type Tenants = ActivatedTenants<Tenant>;

/** As those see the tenants who address single aggregates. */
export interface AggregateHomes {
  /** Of how many partitions the tenant's events are: its aggregates are spread over them, each with an owner of its own. */
  partitionsOf(tenantId: string): number;
  /** What serves the aggregate; activated when needed, and then a promise. */
  home(tenantId: string, aggregateId: string): AggregateHome | Promise<AggregateHome>;
}
