import type { AggregateSource } from '../aggregates/aggregate-source.js';
import type { ProjectionSource } from '../projections/projection-source.js';

/** What a tenant holds, all of its partitions. */
export interface TenantInspection {
  readonly tenantId: string;
  /** By partition. */
  aggregates(): Promise<readonly AggregateSource[]>;
  readonly projections: ProjectionSource;
}

/** The tenants of this process, to those who fold again what they hold. */
export interface Inspectable {
  inspection(tenantId: string): Promise<TenantInspection>;
  /** What holds the aggregate, where this process serves it. */
  aggregateSource(tenantId: string, aggregateId: string): Promise<AggregateSource>;
}
