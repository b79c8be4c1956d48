import { patchText } from './json-patch.js';
import type { Difference, Verdict } from './verification.js';

/** Differences, and bytes of their states, that one report shows. */
const SHOWN = 20;
const SHOWN_BYTES = 4 * 1024 * 1024;

const noVerdicts = (): Record<Verdict, number> => ({ equal: 0, different: 0, absent: 0, behind: 0 });

/** What a verification has come to so far. */
export class VerifyTally {
  readonly differences: Difference[] = [];
  readonly #store = noVerdicts();
  readonly #readStore = noVerdicts();
  #shownBytes = 0;
  events = 0;
  /** How far it is, where its time is over before anything could be compared. */
  reached?: string;
  /** Its rows could not be had. */
  readStoreAway = false;

  add(checked: Omit<Difference, 'patch'>): void {
    this.#store[checked.store]++;
    if (checked.readStore !== undefined) this.#readStore[checked.readStore]++;
    if (checked.store !== 'different' && checked.readStore !== 'different') return;
    const { stored, recomputed } = checked;
    const bytes = (stored?.length ?? 0) + (recomputed?.length ?? 0);
    if (this.differences.length >= SHOWN || this.#shownBytes + bytes > SHOWN_BYTES) return;
    this.#shownBytes += bytes;
    this.differences.push({ ...checked, patch: patchText(stored, recomputed) });
  }

  get figures(): {
    readonly checked: number;
    readonly equal: number;
    readonly different: number;
    readonly absent: number;
    readonly readStore: Record<Verdict, number> | undefined;
  } {
    const { equal, different, absent, behind } = this.#store;
    return {
      checked: equal + different + absent + behind,
      equal,
      different,
      absent,
      readStore: this.readStoreAway ? undefined : this.#readStore,
    };
  }
}
