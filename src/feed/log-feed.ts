import { InvariantError } from '../core/errors.js';
import { firstIndex } from '../core/first-index.js';
import { READ_BYTES } from '../core/reads.js';
import type { SharedCache } from '../core/shared-cache.js';
import { overSlices } from '../core/slices.js';
import type { BodyCodec } from '../log/codec/codec.js';
import { readBelow, someRecordsAt } from '../log/journal/known-end.js';
import { reached } from '../log/journal/retry.js';
import type { Log, LogRecord, PartitionRef } from '../log/log.js';
import type { Budget, Feed, ItemKind, Page } from './feed.js';
import { Signal, type Advanced } from './signal.js';
import { Tail } from './tail.js';

export interface LogFeedOptions<B extends { readonly kind: string }, T> {
  readonly log: Log;
  readonly ref: PartitionRef;
  readonly codec: BodyCodec<B>;
  readonly kind: ItemKind<B, T>;
  /** Of the last items, which are kept in memory. */
  readonly tailBytes: number;
  /** What those of all feeds together may take; each for itself unless given. */
  readonly tails?: SharedCache | undefined;
  /** Offset from which on items will be pushed. */
  readonly start: number;
  /** Below it whatever the log still has was never folded here, as far as is known at the start. */
  readonly first?: number;
  /** Nothing of the partition may ever be dropped from its start on, as retention does it: a reader of what is left would not know. */
  readonly isWhole?: boolean;
  /** Offsets of records that do not count, as far as they were folded before. */
  readonly voids: Iterable<number>;
  /** How far the partition is folded: nothing past it is read. */
  readonly folded: { readonly position: number };
  /** What is left of an item now, whenever it is read; undefined: nothing. Without it all of it. */
  readonly left?: Left<T> | undefined;
}

/** What is at offsets, up to so many bytes. */
export interface Picked<T> {
  readonly items: readonly T[];
  /** So many of the offsets, the first ones, were looked at. */
  readonly looked: number;
}

export interface Left<T> {
  /** False: all is left of all items. */
  readonly isLess: boolean;
  of(item: T): T | undefined;
}

/** A part of the log as it was read. */
interface Read<T> extends Page<T> {
  readonly from: number;
}

/** One for each that may be following through history at a time: projector, build, sink, a dry run. */
const PAGES = 4;
const ITEMS_PER_READ = 4096;
/** Offsets before the end of what is restored. */
const RESTORED_TAIL = 4096;

/**
 * The accepted records of one partition of the log for every reader: the last ones from memory, what is older from the log. Where that
 * can't be reached a read is answered UNAVAILABLE, and whoever follows waits for it.
 */
export class LogFeed<B extends { readonly kind: string }, T> implements Feed<T> {
  readonly #options: LogFeedOptions<B, T>;
  readonly #tail: Tail<T>;
  readonly #voids: Set<number>;
  readonly #pushed = new Signal();
  #tailFrom = 0;
  #first: number;
  /** The last that were read: a reader takes a small part of a page at a time, and would decode the rest again and again. */
  #pages: readonly Read<T>[] = [];
  readonly #ahead = new Map<number, Promise<Read<T>>>();

  constructor(options: LogFeedOptions<B, T>) {
    this.#options = options;
    this.#tail = new Tail<T>(options.kind, options.tailBytes, options.start, options.tails);
    this.#voids = new Set(options.voids);
    this.#first = options.first ?? 0;
  }

  get head(): number {
    return this.#options.folded.position;
  }

  /** The first offset from which on all items can be read: the log has dropped those before. */
  async start(): Promise<number> {
    const { log, ref } = this.#options;
    return Math.max(this.#first, await reached(log.startOffset(ref)));
  }

  /** Up to this offset history is folded, of which only the end is likely to be read soon: the log has the rest. */
  restoring(end = 0): void {
    this.#tailFrom = end - RESTORED_TAIL;
  }

  push(item: T): void {
    if (this.#options.kind.positionOf(item) < this.#tailFrom) this.#tail.pass(item);
    else this.#tail.push(item);
    this.#pushed.raise();
  }

  /** Nothing more is pushed. Who still reads, reads the log. */
  close(): void {
    this.#tail.close();
  }

  /** A record was folded that counts and is no item: who reads on comes past it. */
  passed(): void {
    this.#pushed.raise();
  }

  subscribe(advanced: Advanced): () => void {
    return this.#pushed.subscribe(advanced);
  }

  /** Bytes of the items pushed so far, about. */
  get pushedBytes(): number {
    return this.#tail.pushedBytes;
  }

  addVoid(offset: number): void {
    this.#voids.add(offset);
  }

  /** Nothing before was there to be pushed: the log has dropped it, or what would tell which of its records count. */
  startsAt(offset: number): void {
    this.#first = Math.max(this.#first, offset);
    this.#tail.restart(offset);
  }

  recent(from: number, { bytes: maxBytes = READ_BYTES, items: most = ITEMS_PER_READ }: Budget): Page<T> | undefined {
    const { kind, folded } = this.#options;
    const end = folded.position;
    if (from >= end) return { items: [], end: from };
    const items = this.#tail.from(from, most);
    if (items === undefined) return undefined;
    let bytes = 0;
    for (const [i, item] of items.entries()) {
      bytes += kind.bytesOf(item);
      if (bytes >= maxBytes || i === most - 1)
        return { items: this.#left(items.slice(0, i + 1)), end: kind.positionOf(item) + 1 };
    }
    return { items: this.#left(items), end };
  }

  #left(items: readonly T[]): readonly T[] {
    const { left } = this.#options;
    return left?.isLess === true ? items.flatMap((item) => left.of(item) ?? []) : items;
  }

  /** From memory, the first items from there on that `wanted` picks; undefined where something is not there. */
  picked(from: number, most: number, wanted: (item: T) => boolean): readonly T[] | undefined {
    const { left } = this.#options;
    if (left?.isLess !== true) return this.#tail.filter(from, most, wanted);
    return this.#tail
      .filter(from, Infinity, () => true)
      ?.flatMap((item) => left.of(item) ?? [])
      .filter(wanted)
      .slice(0, most);
  }

  async read(from: number, budget: Budget): Promise<Page<T>> {
    const { bytes = READ_BYTES, items: most = Infinity } = budget;
    const recent = this.recent(from, budget);
    if (recent !== undefined) {
      if (this.#pages.length > 0) this.#pages = this.#pages.filter((page) => from < page.from || from > page.end);
      if (this.#pages.length === 0) this.#ahead.clear();
      return recent;
    }
    const head = this.head;
    let page = this.#pages.find((one) => one.from <= from && from < one.end);
    if (page === undefined) {
      const ahead = this.#ahead.get(from);
      this.#ahead.delete(from);
      const follows = this.#pages.some(({ end }) => end === from);
      page = await (ahead ?? this.#page(from, head, bytes));
      this.#pages = [page, ...this.#pages.filter(({ end }) => end !== from)].slice(0, PAGES);
      if (follows && page.end < head && page.end < this.#tail.start) this.#readAhead(page.end, head, bytes);
    }
    const { kind } = this.#options;
    const first = firstIndex(page.items.length, (i) => kind.positionOf(page.items[i] as T) >= from);
    const items = page.items.slice(first, first + most);
    const last = items.at(-1);
    const end = last === undefined || first + items.length === page.items.length ? page.end : kind.positionOf(last) + 1;
    return { items: this.#left(items), end };
  }

  /**
   * Items at ascending offsets that an index gave; those that were erased, or may be dropped and were, are left out. Of what is read from
   * the log about `maxBytes`, and at least one offset, is looked at.
   */
  async at(offsets: readonly number[], maxBytes = Infinity): Promise<Picked<T>> {
    const old = offsets.filter((offset) => offset < this.#tail.start);
    // Taken before the log is waited for: the tail may drop them meanwhile.
    const recent = offsets.slice(old.length).map((offset) => this.#recentAt(offset));
    if (old.length === 0) return { items: this.#left(recent), looked: offsets.length };
    const { log, ref } = this.#options;
    const { records, looked } = await reached(someRecordsAt(log, ref, old, maxBytes));
    if (records.length < looked) await this.#mustStartBy(old[0] ?? 0);
    const items: T[] = [];
    await this.#decodeEach(records, items);
    return looked < old.length
      ? { items: this.#left(items), looked }
      : { items: this.#left([...items, ...recent]), looked: offsets.length };
  }

  /** Something at or behind the offset is not there: alone of what was erased that may be. @throws InvariantError */
  async #mustStartBy(offset: number): Promise<void> {
    const { log, ref, isWhole } = this.#options;
    if (isWhole !== true) return;
    const start = await reached(log.startOffset(ref));
    if (start > offset)
      throw new InvariantError(
        `${ref.topic}-${ref.partition}: the log begins at ${start}, and ${offset} is asked for, of which nothing may ever be dropped: the log lost data`,
      );
  }

  #recentAt(offset: number): T {
    const [item] = this.#tail.from(offset, 1) ?? [];
    if (item === undefined || this.#options.kind.positionOf(item) !== offset)
      throw new InvariantError(`the tail has nothing at offset ${offset}`);
    return item;
  }

  /** Who reads on through history folds this page while the next one is on its way. */
  #readAhead(from: number, head: number, maxBytes: number): void {
    if (this.#ahead.has(from)) return;
    const page = this.#page(from, head, maxBytes);
    page.catch(() => undefined); // whoever comes for it is told
    this.#ahead.set(from, page);
    for (const oldest of this.#ahead.keys()) if (this.#ahead.size > PAGES) this.#ahead.delete(oldest);
  }

  async #page(from: number, head: number, maxBytes: number): Promise<Read<T>> {
    const { log, ref } = this.#options;
    const { records, next } = await reached(readBelow(log, ref, from, head, maxBytes));
    if ((records[0]?.offset ?? next) > from) await this.#mustStartBy(from);
    const items: T[] = [];
    const past = records.findIndex(({ offset }) => offset >= head);
    await this.#decodeEach(past < 0 ? records : records.slice(0, past), items);
    return { from, end: past < 0 ? next : head, items };
  }

  /** In slices: a page of changes of many keys, or some large transactions, take tens of milliseconds to decode. */
  #decodeEach(records: readonly LogRecord[], items: T[]): Promise<void> {
    return overSlices('pages', records, (record) => {
      const item = this.#decode(record);
      if (item !== undefined) items.push(item);
    });
  }

  #decode({ offset, value }: LogRecord): T | undefined {
    if (value === null || offset < this.#first || this.#voids.has(offset)) return undefined;
    const body = this.#options.codec.decodeBody(value);
    return body === undefined || body.kind === 'Claim' ? undefined : this.#options.kind.itemOf(offset, body as B);
  }
}
