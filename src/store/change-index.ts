import { padded, pastAll, SEPARATOR } from './keys.js';
import type { StoreSection } from './store-section.js';
import { TABLES } from './tables.js';

const BLOCK = 256;

/** The last sequence, then the first one and the distance of each to the one before: numbers that take a byte or two. */
type Block = number[];

/**
 * Which sequences a projection's changes have, so that a cursor finds them without reading those of others: in blocks under their
 * first one. The part of a block that was not written yet is changed in place.
 */
export class ChangeIndex {
  readonly #section: StoreSection;
  /** By projection, where its last block begins; as far as it is known. */
  readonly #lastFirst = new Map<string, number>();
  /** By projection, last blocks that were set since the section's last write began. */
  #unwritten = new Map<string, Block>();
  #unwrittenSince = -1;

  constructor(section: StoreSection) {
    this.#section = section;
  }

  /** Sequences ascend. */
  add(projectionId: string, sequence: number): void {
    if (this.#unwrittenSince !== this.#section.writes) {
      this.#unwrittenSince = this.#section.writes;
      this.#unwritten = new Map();
    }
    let block = this.#unwritten.get(projectionId);
    if (block === undefined) {
      const first = this.#lastFirst.get(projectionId) ?? this.#firstBefore(projectionId, Number.MAX_SAFE_INTEGER);
      block = first === undefined ? undefined : this.#block(projectionId, first)?.slice();
      if (first !== undefined && block !== undefined && block.length <= BLOCK) this.#put(projectionId, first, block);
    }
    if (block === undefined || block.length > BLOCK) this.#put(projectionId, sequence, [sequence, sequence]);
    else if (sequence > (block[0] ?? 0)) {
      block.push(sequence - (block[0] ?? 0));
      block[0] = sequence;
    }
  }

  #put(projectionId: string, first: number, block: Block): void {
    this.#lastFirst.set(projectionId, first);
    this.#unwritten.set(projectionId, block);
    this.#section.set(`${baseOf(projectionId)}${padded(first)}`, block);
  }

  /** The first so many past the sequence. */
  after(projectionId: string, sequence: number, limit: number): number[] {
    const found: number[] = [];
    if (limit < 1) return found;
    const base = baseOf(projectionId);
    const from = this.#firstBefore(projectionId, sequence + 1) ?? 0;
    for (const [, block] of this.#section.range(base + padded(from), pastAll(base)))
      for (const one of sequencesOf(block as Block)) if (one > sequence && found.push(one) === limit) return found;
    return found;
  }

  /** The last one below the sequence; undefined: there is none. */
  lastBelow(projectionId: string, sequence: number): number | undefined {
    const first = this.#firstBefore(projectionId, sequence - 1);
    let last: number | undefined;
    for (const one of first === undefined ? [] : sequencesOf(this.#block(projectionId, first) ?? []))
      if (one < sequence) last = one;
    return last;
  }

  /** Where the blocks lie that hold nothing from the sequence on: the keys from `from` up to `to`. */
  below(projectionId: string, sequence: number): { readonly from: string; readonly to: string } {
    const base = baseOf(projectionId);
    const first = this.#firstBefore(projectionId, sequence);
    if (first === undefined) return { from: base, to: base };
    const last = this.#block(projectionId, first)?.[0] ?? 0;
    // The last block stays, from which the next change goes on.
    const whole = last < sequence && first !== this.#firstBefore(projectionId, Number.MAX_SAFE_INTEGER);
    return { from: base, to: base + padded(whole ? first + 1 : first) };
  }

  /** Forgets the projection, and says where its blocks lie: whoever calls it removes them. */
  forget(projectionId: string): { readonly from: string; readonly to: string } {
    this.#lastFirst.delete(projectionId);
    this.#unwritten.delete(projectionId);
    const base = baseOf(projectionId);
    return { from: base, to: pastAll(base) };
  }

  #block(projectionId: string, first: number): Block | undefined {
    return this.#section.get(`${baseOf(projectionId)}${padded(first)}`) as Block | undefined;
  }

  /** The first sequence of the last block that begins at this one or before. */
  #firstBefore(projectionId: string, sequence: number): number | undefined {
    const base = baseOf(projectionId);
    const to = sequence === Number.MAX_SAFE_INTEGER ? pastAll(base) : base + padded(Math.max(0, sequence + 1));
    for (const [key] of this.#section.range(base, to, { limit: 1, reverse: true }))
      return parseInt(key.slice(base.length), 36);
    return undefined;
  }
}

const baseOf = (projectionId: string): string => `${TABLES.changeSequences}${projectionId}${SEPARATOR}`;

function* sequencesOf(block: Block): Generator<number> {
  let sequence = 0;
  for (let i = 1; i < block.length; i++) yield (sequence += block[i] ?? 0);
}
