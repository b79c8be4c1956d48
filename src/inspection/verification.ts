import type { State } from '../code-host/code-host.js';
import type { Fault } from '../core/event.js';

export interface AggregatesToVerify {
  /** These; else a sample of the type. */
  readonly aggregateIds: readonly string[] | undefined;
  readonly sample: number;
  readonly seed: number;
}
export interface KeysToVerify {
  /** These; else a sample; neither: all, up to a limit. */
  readonly keys: readonly string[] | undefined;
  readonly sample: number | undefined;
  readonly seed: number;
}

/**
 * `equal`, `different`: against what the log gives. `absent`: nothing is stored (an aggregate is folded when it is asked for;
 * rows of the read store come a moment later). `behind`: a row of the read store is of another version than what was compared.
 */
export type Verdict = 'equal' | 'different' | 'absent' | 'behind';

/** One that is not as the log has it, or is not there. */
export interface Difference {
  readonly key: string;
  readonly className: string;
  /** Of an aggregate: at which it was compared. */
  readonly version: number | undefined;
  readonly store: Verdict;
  /** Undefined where it could not be asked. */
  readonly readStore: Verdict | undefined;
  readonly stored: State;
  readonly recomputed: State;
  /** JSON Patch from what is stored to what it should be, as text. */
  readonly patch: string;
  /** Of the stored state, and of the recomputed one. */
  readonly storedFault: Fault | undefined;
  readonly fault: Fault | undefined;
}

interface Verified {
  /** All that was to be compared was; else `cut` says why not, and how far it got. */
  readonly complete: boolean;
  readonly cut: string | undefined;
  readonly checked: number;
  readonly equal: number;
  readonly different: number;
  readonly absent: number;
  /** Rows of the read store; undefined where it could not be asked. */
  readonly readStore: Readonly<Record<Verdict, number>> | undefined;
  /** The first of those that differ somewhere. */
  readonly differences: readonly Difference[];
  readonly events: number;
  readonly seconds: number;
}
export interface AggregatesVerified extends Verified {
  readonly aggregateType: string;
  readonly reducerClass: string;
  /** Asked for, and no aggregate of the type. */
  readonly unknown: readonly string[];
}
export interface KeysVerified extends Verified {
  readonly projectionId: string;
  readonly revision: number;
  /** Asked for, and no key of the projection. */
  readonly unknown: readonly string[];
}
