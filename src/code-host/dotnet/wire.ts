/** Tags and bounds of the frame protocol: `schemas/frames/README.md`, and `Tag.cs` on the other side. */
export const Tag = {
  Compile: 1,
  Load: 2,
  Unload: 3,
  Forget: 4,
  Fold: 5,
  Project: 6,
  States: 7,
  Seal: 8,
  Ready: 128,
  Compiled: 129,
  Loaded: 130,
  Missing: 131,
  Folded: 132,
  Projected: 133,
  TooLarge: 134,
} as const;

/** Bytes of a frame after its length field. */
export const MAX_FRAME = 64 * 1024 * 1024;

/** Keys that one event may touch in one projection; `WireLimits.cs` has the same. */
export const MAX_KEYS = 1000;
/** Changes of one answer, and keys that one question for states may name; a runner whose answer would have more says `TooLarge`. */
export const MAX_ENTRIES = 65_536;
/** UTF-8 of a failure's message and file; a runner cuts them to less. */
export const MAX_MESSAGE_BYTES = 8 * 1024;
export const MAX_FILE_BYTES = 2 * 1024;
export const MAX_LINE = 2 ** 31 - 1;

export interface Frame {
  readonly requestId: number;
  readonly tag: number;
  readonly payload: Buffer;
}

/** The other side does not speak the protocol. */
export class WireError extends Error {
  override readonly name = 'WireError';
}

/** A frame would be larger than `MAX_FRAME`. */
export class FrameTooLargeError extends Error {
  override readonly name = 'FrameTooLargeError';
}
