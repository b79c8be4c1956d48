import type { InputFeed } from '../feed/inputs.js';
import type { KeyState, LiveProjection } from '../store/partition-tables.js';

/** What a tenant holds of its projections, for those who fold them again. Nothing is changed by it. */
export interface ProjectionSource {
  /** The tenant's one order. */
  readonly inputs: InputFeed;
  /** The rows of live projections are what the inputs below this place make, now and until the next turn. */
  position(): number;
  /** Undefined: so it is. Else an input at this place is half in the store, and it resolves when that may be over. */
  whole(): Promise<void> | undefined;
  live(projectionId: string): LiveProjection | undefined;
  row(projectionId: string, revision: number, key: string, classIndex: number): KeyState | undefined;
  /** Rows after the key of the cursor, ascending. */
  rows(
    projectionId: string,
    revision: number,
    after?: readonly [key: string, classIndex: number],
  ): Iterable<readonly [key: string, classIndex: number, row: KeyState]>;
}
