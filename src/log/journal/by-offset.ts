import { firstIndex } from '../../core/first-index.js';

/** Rows that lie in one part, at most. */
const PART = 512;
/** Rows that a part has room for at first: of many aggregates there are a few each. */
const LEAST_ROOM = 2;

/** Rows in the order of their offsets: of each the offset, and then its numbers. */
interface Part {
  count: number;
  numbers: Float64Array;
}

/**
 * Rows of a few numbers each by their offsets, of which there may be millions: they take little more memory than the numbers do, however far
 * apart they lie. They are gone through in their order from any of them on, and lie in parts: one that is added moves those of its part alone.
 */
export class ByOffset {
  /** Numbers of a row, with its offset. */
  readonly #width: number;
  /** In their order. None is empty. */
  readonly #parts: Part[] = [];

  /** `width`: how many numbers a row has. */
  constructor(width: number) {
    this.#width = width + 1;
  }

  get isEmpty(): boolean {
    return this.#parts.length === 0;
  }

  /** How many rows there is memory for. */
  get room(): number {
    return this.#parts.reduce((rows, { numbers }) => rows + numbers.length / this.#width, 0);
  }

  has(offset: number): boolean {
    const part = this.#parts[this.#partOf(offset)];
    return part !== undefined && this.#isAt(part, this.#placeIn(part, offset), offset);
  }

  get(offset: number): readonly number[] | undefined {
    const part = this.#parts[this.#partOf(offset)];
    if (part === undefined) return undefined;
    const at = this.#placeIn(part, offset);
    return this.#isAt(part, at, offset) ? this.#row(part, at) : undefined;
  }

  set(offset: number, row: readonly number[]): void {
    const index = this.#partOf(offset);
    const known = this.#parts[index];
    let at = known === undefined ? 0 : this.#placeIn(known, offset);
    let part = known;
    if (part === undefined || !this.#isAt(part, at, offset)) {
      [part, at] = this.#placeFor(index, at);
      this.#makeRoom(part, at);
      part.numbers[at * this.#width] = offset;
    }
    part.numbers.set(row, at * this.#width + 1);
  }

  /** Ascending, both ends inclusive. */
  *within(first: number, last: number): Generator<readonly [offset: number, row: readonly number[]]> {
    const from = this.#partOf(first);
    for (let index = from; index < this.#parts.length; index++) {
      const part = this.#parts[index] as Part;
      for (let at = index === from ? this.#placeIn(part, first) : 0; at < part.count; at++) {
        const offset = this.#offsetAt(part, at);
        if (offset > last) return;
        yield [offset, this.#row(part, at)];
      }
    }
  }

  /** All of them, ascending. */
  get offsets(): readonly number[] {
    const all: number[] = [];
    for (const part of this.#parts) for (let at = 0; at < part.count; at++) all.push(this.#offsetAt(part, at));
    return all;
  }

  /** The part that has the offset, or would: the last one that does not begin behind it, or the first. */
  #partOf(offset: number): number {
    const parts = this.#parts;
    return Math.max(0, firstIndex(parts.length, (i) => this.#offsetAt(parts[i] as Part, 0) > offset) - 1);
  }

  /** Where the offset lies in its part, or would. */
  #placeIn(part: Part, offset: number): number {
    return firstIndex(part.count, (i) => this.#offsetAt(part, i) >= offset);
  }

  #offsetAt({ numbers }: Part, at: number): number {
    return numbers[at * this.#width] as number;
  }

  #isAt(part: Part, at: number, offset: number): boolean {
    return at < part.count && this.#offsetAt(part, at) === offset;
  }

  #row({ numbers }: Part, at: number): readonly number[] {
    return [...numbers.subarray(at * this.#width + 1, (at + 1) * this.#width)];
  }

  /** Where one more is to lie that comes at the place of a part: in a part that is not full. Rows that come in order, or against it, fill theirs. */
  #placeFor(index: number, at: number): [part: Part, at: number] {
    const part = this.#parts[index];
    if (part !== undefined && part.count < PART) return [part, at];
    if (part === undefined || at === 0) return [this.#insert(index, NOTHING), 0];
    if (at === PART) {
      const next = this.#parts[index + 1];
      return [next !== undefined && next.count < PART ? next : this.#insert(index + 1, NOTHING), 0];
    }
    const middle = PART / 2;
    const behind = this.#insert(index + 1, part.numbers.slice(middle * this.#width));
    part.numbers = part.numbers.slice(0, middle * this.#width);
    part.count = middle;
    return at > middle ? [behind, at - middle] : [part, at];
  }

  #insert(index: number, numbers: Float64Array): Part {
    const part = { count: numbers.length / this.#width, numbers };
    this.#parts.splice(index, 0, part);
    return part;
  }

  /** For one more at the place. */
  #makeRoom(part: Part, at: number): void {
    const width = this.#width;
    if (part.count * width === part.numbers.length) {
      const { numbers } = part;
      part.numbers = new Float64Array(Math.min(PART, Math.max(LEAST_ROOM, 2 * part.count)) * width);
      part.numbers.set(numbers);
    }
    part.numbers.copyWithin((at + 1) * width, at * width, part.count * width);
    part.count++;
  }
}

const NOTHING = new Float64Array(0);
