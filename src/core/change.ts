import type { Fault } from './event.js';

/** Why a projection's state changed; absent for a live event. */
export type ChangeCause = SwapCause | 'retry' | 'skip';

/** Why a revision becomes the live one: the first, a later upload, an earlier one again, the same code from the start, or from where it was halted. */
export type SwapCause = 'build' | 'redeploy' | 'rollback' | 'rebuild' | 'revive';

/** One accepted change of a projection's state: what every channel of notification carries. */
export interface Change {
  /** Offset in the tenant's changes topic, from 1 on; gaps are normal. */
  readonly sequence: number;
  readonly projectionId: string;
  readonly revision: number;
  readonly className: string;
  readonly key: string;
  /** Of the event that made the change (for a build: the last event of the key). */
  readonly eventId: string;
  readonly aggregateId: string;
  readonly aggregateType: string;
  readonly version: number;
  /** JSON text of the state after the change; null: the code gave none. */
  readonly state: Buffer | null;
  readonly timestamp: number;
  readonly cause: ChangeCause | undefined;
  /** Set when the event stopped the key; `state` is then the last good one. Not pushed to subscribers. */
  readonly fault: Fault | undefined;
  /** Of an input whose changes come in parts: no further one comes. Absent where they were all written at once. Not for clients. */
  readonly last?: boolean;
}

/** About what a change takes, in memory and in a record: its state, and what is around it. */
export const changeBytes = ({ state }: { readonly state: Buffer | null }): number => 400 + (state?.length ?? 0);
