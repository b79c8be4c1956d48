/**
 * Of what folds history, compiles, or removes much. The service ends such work itself, after 80 s at the most (`INSPECTION_DEADLINE_MS`), and
 * tells how far it got: its answer, with the turn that it may have to wait for, comes within this.
 */
export const LONG_MS = 120_000;
