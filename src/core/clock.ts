/** Time and identity as arguments, so that a seeded simulator can drive the core. */
export interface Clock {
  /** Milliseconds since the epoch. May step backwards; nothing rests on it. */
  now(): number;
}

export const systemClock: Clock = { now: () => Date.now() };
