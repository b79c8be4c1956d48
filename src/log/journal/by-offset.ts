import { firstIndex } from '../../core/first-index.js';

/** Offsets that lie in one part. */
const PART = 1024;
const partOf = (offset: number): number => Math.floor(offset / PART);
/** Room that a part has at first. */
const LEAST_ROOM = 4;

/** Ascending offsets, counted from where the part begins, and beside each its numbers. */
interface Part {
  count: number;
  offsets: Uint16Array;
  numbers: Float64Array;
}

/**
 * Rows of a few numbers each by their offsets, of which there may be millions: they take little more memory than the numbers do. They are
 * gone through in their order from any of them on, and lie in parts: one that is added moves those of its part alone.
 */
export class ByOffset {
  readonly #width: number;
  readonly #parts = new Map<number, Part>();
  /** Numbers of the parts, ascending; undefined: some came since. */
  #order: readonly number[] | undefined;

  /** `width`: how many numbers a row has. */
  constructor(width: number) {
    this.#width = width;
  }

  get isEmpty(): boolean {
    return this.#parts.size === 0;
  }

  has(offset: number): boolean {
    const part = this.#parts.get(partOf(offset));
    return part !== undefined && isAt(part, placeIn(part, offset), offset);
  }

  get(offset: number): readonly number[] | undefined {
    const part = this.#parts.get(partOf(offset));
    if (part === undefined) return undefined;
    const at = placeIn(part, offset);
    return isAt(part, at, offset) ? this.#row(part, at) : undefined;
  }

  set(offset: number, row: readonly number[]): void {
    const number = partOf(offset);
    let part = this.#parts.get(number);
    if (part === undefined) {
      part = { count: 0, offsets: new Uint16Array(0), numbers: new Float64Array(0) };
      this.#parts.set(number, part);
      this.#order = undefined;
    }
    const at = placeIn(part, offset);
    if (!isAt(part, at, offset)) {
      this.#makeRoom(part, at);
      part.offsets[at] = offset % PART;
    }
    part.numbers.set(row, at * this.#width);
  }

  /** Ascending, both ends inclusive. */
  *within(first: number, last: number): Generator<readonly [offset: number, row: readonly number[]]> {
    for (const [number, part] of this.#partsFrom(partOf(first)))
      for (let at = number === partOf(first) ? placeIn(part, first) : 0; at < part.count; at++) {
        const offset = number * PART + (part.offsets[at] as number);
        if (offset > last) return;
        yield [offset, this.#row(part, at)];
      }
  }

  /** All of them, ascending. */
  get offsets(): readonly number[] {
    const all: number[] = [];
    for (const [number, { count, offsets }] of this.#partsFrom(0))
      for (let at = 0; at < count; at++) all.push(number * PART + (offsets[at] as number));
    return all;
  }

  *#partsFrom(least: number): Generator<readonly [number: number, part: Part]> {
    const order = (this.#order ??= [...this.#parts.keys()].sort((a, b) => a - b));
    for (let at = firstIndex(order.length, (i) => (order[i] as number) >= least); at < order.length; at++) {
      const number = order[at] as number;
      yield [number, this.#parts.get(number) as Part];
    }
  }

  #row({ numbers }: Part, at: number): readonly number[] {
    return [...numbers.subarray(at * this.#width, (at + 1) * this.#width)];
  }

  /** For one more at the place. */
  #makeRoom(part: Part, at: number): void {
    const width = this.#width;
    if (part.count === part.offsets.length) {
      const room = Math.min(PART, Math.max(LEAST_ROOM, 2 * part.count));
      const { offsets, numbers } = part;
      part.offsets = new Uint16Array(room);
      part.offsets.set(offsets);
      part.numbers = new Float64Array(room * width);
      part.numbers.set(numbers);
    }
    part.offsets.copyWithin(at + 1, at, part.count);
    part.numbers.copyWithin((at + 1) * width, at * width, part.count * width);
    part.count++;
  }
}

/** Where the offset lies in its part, or would. */
const placeIn = ({ count, offsets }: Part, offset: number): number =>
  firstIndex(count, (i) => (offsets[i] as number) >= offset % PART);
const isAt = ({ count, offsets }: Part, at: number, offset: number): boolean =>
  at < count && offsets[at] === offset % PART;
