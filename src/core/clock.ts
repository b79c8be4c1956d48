export const DAY_MS = 24 * 60 * 60 * 1000;

/** Time and identity as arguments, so that a seeded simulator can drive the core. */
export interface Clock {
  /** Milliseconds since the epoch. May step backwards; nothing rests on it. */
  now(): number;
}

export const systemClock: Clock = { now: () => Date.now() };
