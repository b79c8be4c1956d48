import type { Diagnostic, State } from '../code-host/code-host.js';
import type { Fault } from '../core/event.js';

interface DryRunOptions {
  /** Most aggregates or keys that are folded. */
  readonly limit: number;
  /** Most changes, and most faults, that are shown. */
  readonly show: number;
}
export interface ReducerDryRunOptions extends DryRunOptions {
  /** The aggregates to fold; undefined: of all types that the classes are for. */
  readonly aggregateType: string | undefined;
  readonly className: string | undefined;
  /** So many aggregates of each type, chosen by the seed; undefined: in order of their ids. */
  readonly sample: number | undefined;
  readonly seed: number;
}
export interface ProjectionDryRunOptions extends DryRunOptions {
  /** What the states are compared with. */
  readonly projectionId: string | undefined;
}

/** A state that would be another one. */
export interface ShownChange {
  readonly className: string;
  readonly key: string;
  /** Of an aggregate: at which both states are. */
  readonly version: number | undefined;
  readonly before: State;
  readonly after: State;
  /** JSON Patch, as text. */
  readonly patch: string;
}

/** What became of the aggregates or keys of one class. */
export interface DryRunClass {
  readonly className: string;
  readonly aggregateType: string | undefined;
  /** Whose states they are compared with; undefined: there are none. */
  readonly comparedWith: string | undefined;
  /** How many there are to fold, and how many were. */
  readonly total: number | undefined;
  readonly folded: number;
  readonly changed: number;
  readonly unchanged: number;
  /** They have a state then, and none now; and the other way round. */
  readonly added: number;
  readonly removed: number;
  /** Of the folded ones: stopped by an event then, and now. */
  readonly faulted: number;
  readonly faultedBefore: number;
}

export interface DryRunReport {
  readonly status: 'compiled';
  readonly diagnostics: readonly Diagnostic[];
  /** All that was to be folded was; else `cut` says why not, and how far it got. */
  readonly complete: boolean;
  readonly cut: string | undefined;
  readonly classes: readonly DryRunClass[];
  readonly changes: readonly ShownChange[];
  readonly faults: readonly (Fault & { readonly key: string })[];
  /** Folded with the new code, and how long that took with all that belongs to it. */
  readonly events: number;
  readonly seconds: number;
}

/** The upload does not compile. */
export interface DryRunFailed {
  readonly status: 'failed';
  readonly compilationError: string;
  readonly diagnostics: readonly Diagnostic[];
}

export type DryRun = DryRunReport | DryRunFailed;
