import { InvariantError, StatefoldError } from '../core/errors.js';
import { eventsOf, type AggregateCommit, type StoredCommit, type StoredEvent } from '../core/event.js';
import { PAGE_BYTES, READ_BYTES } from '../core/reads.js';
import { costOfListed, type Turn } from '../core/turns.js';
import type { EventsBody } from '../core/records.js';
import { bytesOfCommit, commitsOf, type Input } from '../feed/inputs.js';
import type { LogFeed } from '../feed/log-feed.js';
import type { PartitionTables } from '../store/partition-tables.js';
import type { EventsPage, EventsQuery } from './aggregates.js';

const FIRST_COMMITS = 16;
/** Of those that are asked for one by one, as who repeats many commands does. */
const FIRST_ASKED = 64;
const COMMITS_PER_READ = 256;

/** How many commits are read at a time: few at first, since most aggregates are short and any of them may be large, and then by what they were. */
class ReadSize {
  commits: number;

  constructor(first = FIRST_COMMITS) {
    this.commits = first;
  }

  was(bytes: number): void {
    this.commits = bytes > READ_BYTES ? Math.max(1, this.commits >> 2) : Math.min(2 * this.commits, COMMITS_PER_READ);
  }
}

/** Commits as they were read, with the bytes of all that was read for them: of a transaction they are a part. */
interface ReadCommits {
  readonly commits: readonly AggregateCommit[];
  readonly bytes: number;
  /** Of the offsets, how many of the first ones these are. */
  readonly looked: number;
}

/** A commit that somebody waits for. */
interface Asked {
  readonly offset: number;
  readonly resolve: (commit: StoredCommit) => void;
  readonly reject: (error: Error) => void;
}

/** What was appended to single aggregates: their commits are found by the index of the local store. */
export class AggregateHistory {
  readonly #feed: Pick<LogFeed<EventsBody, Input>, 'at'>;
  readonly #tables: PartitionTables;
  readonly #asked: Asked[] = [];
  readonly #askedSize = new ReadSize(FIRST_ASKED);
  #isReading = false;

  constructor(feed: Pick<LogFeed<EventsBody, Input>, 'at'>, tables: PartitionTables) {
    this.#feed = feed;
    this.#tables = tables;
  }

  /**
   * The commit at an offset. Those that are asked for while others are read are read together: after a takeover producers repeat by the
   * thousand what had no answer, and each would be a request to the log for all that was written with it.
   */
  readCommit(offset: number): Promise<StoredCommit> {
    return new Promise((resolve, reject) => {
      this.#asked.push({ offset, resolve, reject });
      if (this.#isReading) return;
      this.#isReading = true;
      // All of one turn are there then.
      queueMicrotask(() => void this.#readAsked());
    });
  }

  async #readAsked(): Promise<void> {
    while (this.#asked.length > 0) {
      const all = this.#asked.splice(0).sort((a, b) => a.offset - b.offset);
      while (all.length > 0) this.#askedSize.was(await this.#readFor(all));
    }
    this.#isReading = false;
  }

  /** Takes the first ones. Resolves with the bytes that were read. */
  async #readFor(all: Asked[]): Promise<number> {
    let asked = all.splice(0, this.#askedSize.commits);
    try {
      const offsets = [...new Set(asked.map(({ offset }) => offset))];
      const { commits, looked } = await this.#at(offsets);
      const cutAt = offsets[looked];
      if (cutAt !== undefined) {
        all.unshift(...asked.filter(({ offset }) => offset >= cutAt));
        asked = asked.filter(({ offset }) => offset < cutAt);
      }
      const found = new Map(commits.map((commit) => [commit.offset, commit]));
      for (const { offset, resolve, reject } of asked) {
        const commit = found.get(offset);
        if (commit === undefined) reject(new InvariantError(`the commit at offset ${offset} is not in the log`));
        else resolve(commit);
      }
      return bytesOf(commits);
    } catch (error) {
      for (const { reject } of asked) reject(error as Error);
      return 0;
    }
  }

  /** Commits at ascending offsets that the index gave, as many as are about so many bytes. */
  async #at(
    offsets: readonly number[],
  ): Promise<{ readonly commits: readonly StoredCommit[]; readonly looked: number }> {
    const { items, looked } = await this.#feed.at(offsets, READ_BYTES);
    return { commits: commitsOf(items), looked };
  }

  /** What the commits at the offsets added to the aggregate: of a transaction its part. */
  async #partsAt(aggregateId: string, offsets: readonly number[]): Promise<ReadCommits> {
    const { commits: whole, looked } = await this.#at(offsets);
    const commits = whole.flatMap((commit) =>
      commit.parts === undefined ? [commit] : commit.parts.filter((part) => part.aggregateId === aggregateId),
    );
    return { commits, bytes: bytesOf(whole), looked };
  }

  /** The last of ascending ones, from the last one on: what is read from the log are its first ones, so that fewer are asked for where these are much. */
  async #partsBefore(aggregateId: string, ascending: readonly number[]): Promise<ReadCommits> {
    for (let offsets = ascending; ;) {
      const { commits, bytes, looked } = await this.#partsAt(aggregateId, offsets);
      if (looked === offsets.length) return { commits: commits.toReversed(), bytes, looked };
      offsets = offsets.slice(Math.ceil(offsets.length / 2));
    }
  }

  /** Commits of an aggregate that hold events of versions in [from, to], in chunks; ascending, or all descending. */
  async *commits(
    aggregateId: string,
    from: number,
    to: number,
    reverse = false,
  ): AsyncGenerator<readonly AggregateCommit[]> {
    for await (const { commits } of this.#read(aggregateId, from, to, reverse)) yield commits;
  }

  async *#read(
    aggregateId: string,
    from: number,
    to: number,
    reverse: boolean,
    turn?: Turn,
  ): AsyncGenerator<ReadCommits> {
    const first = this.#tables.commitBaseOf(aggregateId, from);
    if (first === undefined || to < from) return;
    const size = new ReadSize();
    let offsets: number[] = [];
    const chunk = async (): Promise<ReadCommits> => {
      if (turn !== undefined) await turn(costOfListed(offsets.length));
      const read = await (reverse
        ? this.#partsBefore(aggregateId, offsets.toReversed())
        : this.#partsAt(aggregateId, offsets));
      offsets = offsets.slice(read.looked);
      size.was(read.bytes);
      return read;
    };
    for (const [, offset] of this.#tables.commitOffsets(aggregateId, first, to - 1, reverse)) {
      offsets.push(offset);
      while (offsets.length >= size.commits) yield await chunk();
    }
    while (offsets.length > 0) yield await chunk();
  }

  async events(query: EventsQuery, head: number): Promise<EventsPage> {
    return query.direction === 'forward' ? this.#forward(query, head) : this.#backward(query, head);
  }

  async #forward(
    { aggregateId, fromVersion = 1, toVersion = Number.MAX_SAFE_INTEGER, limit, turn }: EventsQuery,
    head: number,
  ): Promise<EventsPage> {
    const from = Math.max(1, fromVersion);
    const last = Math.min(toVersion, head);
    const to = Math.min(last, from + limit - 1);
    const events = await this.#page(aggregateId, from, to, turn);
    const reached = events.at(-1)?.version ?? to;
    return { events, nextVersion: reached < last && from <= last ? reached + 1 : undefined };
  }

  async #backward(
    { aggregateId, fromVersion, toVersion = 1, limit, turn }: EventsQuery,
    head: number,
  ): Promise<EventsPage> {
    const from = Math.min(fromVersion ?? head, head);
    const to = Math.max(toVersion, from - limit + 1, 1);
    const events = await this.#page(aggregateId, from, to, turn, true);
    const reached = events.at(-1)?.version ?? to;
    return { events, nextVersion: reached > Math.max(toVersion, 1) && from >= to ? reached - 1 : undefined };
  }

  /** Of versions from one to another, as far as a page goes. */
  async #page(
    aggregateId: string,
    from: number,
    to: number,
    turn: Turn | undefined,
    reverse = false,
  ): Promise<readonly StoredEvent[]> {
    const [low, high] = reverse ? [to, from] : [from, to];
    const page = new Page(from, high - low + 1, reverse ? -1 : 1);
    let bytesRead = 0;
    for await (const read of this.#read(aggregateId, low, high, reverse, turn)) {
      for (const commit of read.commits)
        for (const event of reverse ? [...eventsOf(commit)].reverse() : eventsOf(commit)) page.add(event);
      bytesRead += read.bytes;
      if (page.isFull || bytesRead >= PAGE_BYTES) return page.events;
    }
    return page.whole();
  }
}

const bytesOf = (commits: readonly StoredCommit[]): number =>
  commits.reduce((sum, commit) => sum + bytesOfCommit(commit), 0);

/** What is around an event in memory, about. */
const EVENT_BYTES = 200;

/**
 * So many events of versions from one on, up or down. The index may have been given up while they were read, and
 * has had holes since: a page with one is none.
 */
class Page {
  readonly events: StoredEvent[] = [];
  readonly #step: 1 | -1;
  /** Of the event that comes next. */
  #version: number;
  /** Events that are missing still. */
  #left: number;
  #bytes = 0;

  constructor(from: number, count: number, step: 1 | -1) {
    this.#version = from;
    this.#left = Math.max(0, count);
    this.#step = step;
  }

  get isFull(): boolean {
    return this.#bytes >= PAGE_BYTES;
  }

  /** Those before the first one, and behind the last one, are passed over. */
  add(event: StoredEvent): void {
    const behind = this.#step * (event.version - this.#version);
    if (behind < 0 || this.#left === 0 || this.isFull) return;
    if (behind > 0) throw unreadable();
    this.events.push(event);
    this.#version += this.#step;
    this.#left--;
    this.#bytes += event.data.length + (event.metadata?.length ?? 0) + EVENT_BYTES;
  }

  /** All that there is was read. */
  whole(): readonly StoredEvent[] {
    if (this.#left > 0) throw unreadable();
    return this.events;
  }
}

const unreadable = (): StatefoldError =>
  new StatefoldError('UNAVAILABLE', 'this process gave the aggregate up meanwhile; send the request again');
