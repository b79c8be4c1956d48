import { InvariantError } from '../core/errors.js';
import { eventsOf, type StoredCommit, type StoredEvent } from '../core/event.js';
import { isReducerControl, type EventsBody } from '../core/records.js';
import type { RecordCodec } from '../log/codec/codec.js';
import { readBelow, recordsAt } from '../log/journal/known-end.js';
import type { Log, LogRecord, PartitionRef } from '../log/log.js';
import { inputBytes, inputOffset, type Input, type InputReader } from '../feed/inputs.js';
import { storedCommit } from '../log/codec/commit-of-view.js';
import type { PartitionTables } from '../store/partition-tables.js';
import { Tail } from '../feed/tail.js';
import type { EventsPage, EventsQuery } from './aggregates.js';

export interface CommitReaderOptions {
  readonly log: Log;
  readonly ref: PartitionRef;
  readonly codec: RecordCodec<EventsBody>;
  readonly tables: PartitionTables;
  readonly tailBytes: number;
  /** Offset from which on records will be pushed. */
  readonly start: number;
  /** Offset to which the partition is folded: nothing past it is read. */
  readonly position: () => number;
}

/** A part of the log as it was read. */
interface Page {
  readonly from: number;
  readonly next: number;
  readonly inputs: readonly Input[];
}

const CHUNK_BYTES = 1024 * 1024;
/** One for each that may be following through history at a time: projector, build, sink, a dry run. */
const PAGES = 4;
const COMMITS_A_READ = 256;
/** Offsets before the end of what is restored. */
const RESTORED_TAIL = 4096;

/** Accepted records of a tenant partition for every reader: the tail from memory, what is older from the log. */
export class CommitReader implements InputReader {
  readonly #options: CommitReaderOptions;
  readonly #tail: Tail<Input>;
  readonly #voids = new Set<number>();
  #tailFrom = 0;
  /** The last that were read: a follower takes a small part of a page at a time, and would decode the rest again and again. */
  #pages: readonly Page[] = [];
  readonly #ahead = new Map<number, Promise<Page>>();
  /** Offsets of the controls that were pushed. */
  readonly #controls: number[] = [];

  constructor(options: CommitReaderOptions) {
    this.#options = options;
    this.#tail = new Tail<Input>({
      offsetOf: inputOffset,
      sizeOf: inputBytes,
      maxBytes: options.tailBytes,
      start: options.start,
    });
    for (const offset of options.tables.voids('events')) this.#voids.add(offset);
  }

  /** Up to this offset history is folded, of which only the end is likely to be read soon: the log has the rest. */
  restoring(end = 0): void {
    this.#tailFrom = end - RESTORED_TAIL;
  }

  push(input: Input): void {
    if (input.kind === 'control') this.#controls.push(input.offset);
    if (inputOffset(input) < this.#tailFrom) this.#tail.pass(input);
    else this.#tail.push(input);
  }

  /** Bytes of the records pushed so far, about. */
  get pushedBytes(): number {
    return this.#tail.pushedBytes;
  }

  addVoid(offset: number): void {
    this.#voids.add(offset);
  }

  /** Accepted records of [from, to), all of them below the position; undefined where they are not in memory. */
  recent(from: number, to: number): readonly Input[] | undefined {
    const inputs = this.#tail.from(from, to - from);
    const past = inputs?.findIndex((input) => inputOffset(input) >= to) ?? -1;
    return past < 0 ? inputs : inputs?.slice(0, past);
  }

  commitsUntil(from: number): number | undefined {
    if (from < this.#options.start) return undefined;
    return this.#controls.find((offset) => offset >= from) ?? this.#options.position();
  }

  async read(from: number, maxBytes: number): Promise<{ inputs: readonly Input[]; next: number }> {
    const end = this.#options.position();
    if (from >= end) return { inputs: [], next: from };
    const recent = this.#tail.from(from, 4096);
    if (recent !== undefined) {
      if (this.#pages.length > 0) this.#pages = this.#pages.filter((page) => from < page.from || from > page.next);
      if (this.#pages.length === 0) this.#ahead.clear();
      let bytes = 0;
      for (const [i, input] of recent.entries()) {
        bytes += inputBytes(input);
        if (bytes >= maxBytes || i === 4095) return { inputs: recent.slice(0, i + 1), next: inputOffset(input) + 1 };
      }
      return { inputs: recent, next: end };
    }
    let page = this.#pages.find((one) => one.from <= from && from < one.next);
    if (page === undefined) {
      const ahead = this.#ahead.get(from);
      this.#ahead.delete(from);
      const follows = this.#pages.some(({ next }) => next === from);
      page = await (ahead ?? this.#page(from, end, maxBytes));
      this.#pages = [page, ...this.#pages.filter(({ next }) => next !== from)].slice(0, PAGES);
      if (follows && page.next < end && page.next < this.#tail.start) this.#readAhead(page.next, end, maxBytes);
    }
    const first = page.inputs.findIndex((input) => inputOffset(input) >= from);
    return { inputs: first < 0 ? [] : page.inputs.slice(first), next: page.next };
  }

  /** Who follows through history folds this page while the next one is on its way. */
  #readAhead(from: number, end: number, maxBytes: number): void {
    if (this.#ahead.has(from)) return;
    const page = this.#page(from, end, maxBytes);
    page.catch(() => undefined); // whoever comes for it is told
    this.#ahead.set(from, page);
    for (const oldest of this.#ahead.keys()) if (this.#ahead.size > PAGES) this.#ahead.delete(oldest);
  }

  async #page(from: number, end: number, maxBytes: number): Promise<Page> {
    const { log, ref } = this.#options;
    const { records, next } = await readBelow(log, ref, from, end, maxBytes);
    const inputs: Input[] = [];
    for (const record of records) {
      if (record.offset >= end) return { from, next: end, inputs };
      const input = this.#decode(record);
      if (input !== undefined) inputs.push(input);
    }
    return { from, next, inputs };
  }

  #decode(record: LogRecord): Input | undefined {
    if (record.value === null || this.#voids.has(record.offset)) return undefined;
    const body = this.#options.codec.decode(record.value)?.body;
    if (body === undefined || body.kind === 'Claim') return undefined;
    if (body.kind === 'Commit') return { kind: 'commit', commit: storedCommit(record.offset, body.value) };
    if (!isReducerControl(body)) return { kind: 'control', control: body, offset: record.offset };
    return body.kind === 'ReducerRelease'
      ? { kind: 'release', aggregateId: body.value.aggregateId, offset: record.offset }
      : undefined;
  }

  async readCommit(offset: number): Promise<StoredCommit> {
    const [commit] = await this.#at([offset]);
    if (commit === undefined) throw new InvariantError(`the commit at offset ${offset} is not in the log`);
    return commit;
  }

  /** Commits at ascending offsets that the index gave. */
  async #at(offsets: readonly number[]): Promise<StoredCommit[]> {
    const old = offsets.filter((offset) => offset < this.#tail.start);
    // Taken before the log is waited for: the tail may drop them meanwhile.
    const recent = offsets.slice(old.length).map((offset) => this.#recent(offset));
    const commits: StoredCommit[] = [];
    if (old.length > 0)
      for (const record of await recordsAt(this.#options.log, this.#options.ref, old)) {
        const input = this.#decode(record);
        if (input?.kind === 'commit') commits.push(input.commit);
      }
    return [...commits, ...recent];
  }

  #recent(offset: number): StoredCommit {
    const [input] = this.#tail.from(offset, 1) ?? [];
    if (input?.kind !== 'commit' || input.commit.offset !== offset)
      throw new InvariantError(`the tail has no commit at offset ${offset}`);
    return input.commit;
  }

  /** Commits of an aggregate that hold events of versions in [from, to], in chunks; ascending, or all descending. */
  async *history(
    aggregateId: string,
    from: number,
    to: number,
    reverse = false,
  ): AsyncGenerator<readonly StoredCommit[]> {
    const first = this.#options.tables.commitBaseOf(aggregateId, from);
    if (first === undefined || to < from) return;
    const chunk = async (offsets: number[]): Promise<StoredCommit[]> =>
      reverse ? (await this.#at(offsets.reverse())).reverse() : this.#at(offsets);
    // Small chunks at first: most aggregates are short, and a page may end soon.
    let size = 16;
    let offsets: number[] = [];
    for (const [, offset] of this.#options.tables.commitOffsets(aggregateId, first, to - 1, reverse)) {
      offsets.push(offset);
      if (offsets.length < size) continue;
      yield await chunk(offsets);
      offsets = [];
      size = Math.min(size * 2, COMMITS_A_READ);
    }
    if (offsets.length > 0) yield await chunk(offsets);
  }

  async listEvents(query: EventsQuery, head: number): Promise<EventsPage> {
    return query.direction === 'forward' ? this.#forward(query, head) : this.#backward(query, head);
  }

  async #forward(
    { aggregateId, fromVersion = 1, toVersion = Number.MAX_SAFE_INTEGER, limit }: EventsQuery,
    head: number,
  ): Promise<EventsPage> {
    const from = Math.max(1, fromVersion);
    const last = Math.min(toVersion, head);
    const to = Math.min(last, from + limit - 1);
    const events: StoredEvent[] = [];
    let bytes = 0;
    for await (const commits of this.history(aggregateId, from, to)) {
      for (const commit of commits)
        for (const event of eventsOf(commit))
          if (event.version >= from && event.version <= to) bytes += push(events, event);
      if (bytes > PAGE_BYTES) break;
    }
    const reached = events.at(-1)?.version ?? to;
    return { events, nextVersion: reached < last && from <= last ? reached + 1 : undefined };
  }

  async #backward({ aggregateId, fromVersion, toVersion = 1, limit }: EventsQuery, head: number): Promise<EventsPage> {
    const from = Math.min(fromVersion ?? head, head);
    const to = Math.max(toVersion, from - limit + 1, 1);
    const events: StoredEvent[] = [];
    let bytes = 0;
    for await (const commits of this.history(aggregateId, to, from, true)) {
      for (const commit of commits)
        for (const event of [...eventsOf(commit)].reverse())
          if (event.version <= from && event.version >= to) bytes += push(events, event);
      if (bytes > PAGE_BYTES) break;
    }
    const reached = events.at(-1)?.version ?? to;
    return { events, nextVersion: reached > Math.max(toVersion, 1) && from >= to ? reached - 1 : undefined };
  }
}

/** A page of events ends past so many bytes, whatever its limit: an answer is built in memory. */
const PAGE_BYTES = 16 * CHUNK_BYTES;

const push = (events: StoredEvent[], event: StoredEvent): number => (
  events.push(event),
  event.data.length + (event.metadata?.length ?? 0) + 200
);
