import type { SourceFile } from '../deployments/source-file.js';
import type { Fixture } from '../fixtures/fixtures.js';
import type { DryRun, ProjectionDryRunOptions, ReducerDryRunOptions } from './dry-run.js';
import type { FixturesOutcome } from './fixtures-run.js';
import type { StateAt, StateAtQuery } from './fold-state-at.js';
import type { AggregatesVerified, AggregatesToVerify, KeysToVerify, KeysVerified } from './verification.js';

/** A compiled reducer of the tenant; neither: the one that is bound. */
export interface ReducerChoice {
  readonly reducerId: string | undefined;
  /** Needed where several classes of it are for the type, or none. */
  readonly className: string | undefined;
}

/**
 * Folds again what the log holds, in a process apart from the live one, and changes nothing. All reject with
 * `INSPECTION_DEADLINE` when the time of the settings is over and there is nothing to tell, `RATE_LIMITED` where as many are
 * under way as may be.
 */
export interface Inspections {
  /** `NOT_FOUND` without the aggregate or the version (`details.currentVersion`), `NO_REDUCER_BOUND`, and what a binding of the choice is refused with. */
  stateAt(
    tenantId: string,
    aggregateType: string,
    reducer: ReducerChoice,
    query: StateAtQuery,
  ): Promise<StateAt & { readonly className: string }>;
  dryRunReducers(tenantId: string, sources: readonly SourceFile[], options: ReducerDryRunOptions): Promise<DryRun>;
  /** `NOT_FOUND` where the projection to compare with is not the tenant's. */
  dryRunProjection(tenantId: string, sources: readonly SourceFile[], options: ProjectionDryRunOptions): Promise<DryRun>;
  /** Of code that is not kept: folds what the fixtures give, and no history. */
  runFixtures(tenantId: string, sources: readonly SourceFile[], fixtures: readonly Fixture[]): Promise<FixturesOutcome>;
  /** `NO_REDUCER_BOUND`. */
  verifyAggregates(tenantId: string, aggregateType: string, which: AggregatesToVerify): Promise<AggregatesVerified>;
  /** `NOT_FOUND`; `PROJECTION_NOT_LIVE` while it is being built, or halted. */
  verifyProjection(tenantId: string, projectionId: string, which: KeysToVerify): Promise<KeysVerified>;
}
