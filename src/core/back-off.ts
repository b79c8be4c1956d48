/** Milliseconds: the wait after the first failure, and the longest one. */
export interface BackOff {
  readonly first: number;
  readonly last: number;
}

/**
 * Milliseconds before the next try, after so many failures that came before the last one: doubles with each, and is random
 * from half of that to all of it, so that those who contend, or who wait for the same thing, do not come back in step.
 */
export const backOff = (failures: number, { first, last }: BackOff): number =>
  Math.min(last, first * 2 ** failures) * (0.5 + Math.random() / 2);
