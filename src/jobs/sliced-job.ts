import { background } from '../core/background.js';

/**
 * Work over more rows than others can wait for: a slice at a time, each from a cursor. The cursor is saved with what its slice
 * did, in one transaction, so that work that was cut off goes on behind the last slice that is there whole. What a slice did before
 * it was saved may be done again.
 */
export interface SlicedJob<C> {
  /** Gives the cursor of the next slice; undefined: all is done. */
  slice(cursor: C): Promise<C | undefined> | C | undefined;
  /** What the slice did counts. Not called for the last one: what comes of the whole job is its owner's to save, with the job's end. */
  save(cursor: C): void;
}

/** What lies between two slices. */
export interface Pace {
  /** Others had their turn, and there is room for what the next slice sets. @throws Error to break the work off; it is begun again at its cursor */
  next(): Promise<void>;
}

/** Takes the slices from the cursor on. @throws what a slice, or the pace, threw: by then the cursor of each whole slice is saved */
export async function runSlices<C>(job: SlicedJob<C>, from: C, pace: Pace): Promise<void> {
  for (let cursor: C | undefined = from; ;) {
    cursor = await job.slice(cursor);
    if (cursor === undefined) return;
    job.save(cursor);
    await pace.next();
  }
}

/** How much a slice takes: about 5 ms of work, and not much memory. */
export interface SliceBounds {
  readonly rows: number;
  readonly bytes: number;
}
export const SLICE: SliceBounds = { rows: 250, bytes: 1024 * 1024 };

/** Whether a slice has taken enough. */
export class SliceMeter {
  readonly #bounds: SliceBounds;
  #rows = 0;
  #bytes = 0;

  constructor(bounds: SliceBounds) {
    this.#bounds = bounds;
  }

  /** One more row of so many bytes. True: it was the last one. */
  full(bytes: number): boolean {
    this.#rows++;
    this.#bytes += bytes;
    return this.#rows >= this.#bounds.rows || this.#bytes >= this.#bounds.bytes;
  }
}

/** Where the work sets what it makes. */
export interface PacedSection {
  /** Whose work it is. */
  readonly tenantId: string;
  /** Resolves when there is room. */
  room(): Promise<void>;
}

export interface StorePaceOptions {
  /** Other work of the tenant's waits for it. */
  readonly isAwaited: () => boolean;
  /** Throws when the work is to end. */
  readonly mustGoOn: () => void;
}

/** Between slices others have their turn, and what was set is written when it is much. */
export class StorePace implements Pace {
  readonly #section: PacedSection;
  readonly #isAwaited: () => boolean;
  readonly #mustGoOn: () => void;

  constructor(
    section: PacedSection,
    { isAwaited = () => false, mustGoOn = () => undefined }: Partial<StorePaceOptions> = {},
  ) {
    this.#section = section;
    this.#isAwaited = isAwaited;
    this.#mustGoOn = mustGoOn;
  }

  async next(): Promise<void> {
    await background.turn(this.#section.tenantId, this.#isAwaited());
    await this.#section.room();
    this.#mustGoOn();
  }
}
