import type { LogRecord, PartitionRef } from '../log.js';
import type { Broker } from './broker.js';
import { fetchCall, type Fetched } from './calls.js';
import { recordsOf } from './fetcher.js';
import { splitRecordSet } from './record-batch.js';

interface Waiter {
  readonly from: number;
  readonly timer: NodeJS.Timeout;
  resolve(records: LogRecord[] | undefined): void;
  reject(error: unknown): void;
}

/** A partition that somebody waits on, or did a moment ago. */
interface Followed extends PartitionRef {
  /** All from here on is still to come; what was before was delivered, or is in `held`. */
  position: number;
  held: { readonly from: number; readonly records: LogRecord[]; readonly bytes: number } | undefined;
  readonly waiters: Set<Waiter>;
  usedAt: number;
}

/** A request that waits at the broker: the position at which it asks for each partition. */
interface Waiting {
  readonly index: number;
  asked: ReadonlyMap<Followed, number> | undefined;
}

/** The main request asks for all; the side one, meanwhile, for those that came later: they may wait so long to join. */
const WAIT_MS = { main: 1000, side: 50 };
const PARTITION_BYTES = 256 * 1024;
const REQUEST_BYTES = 4 * 1024 * 1024;
/** Fetched ahead of readers that are not back yet, of all partitions together. */
const HELD_BYTES = 32 * 1024 * 1024;
/** A partition is fetched ahead so long after its last reader. */
const GRACE_MS = 10_000;

/**
 * Waiting reads of the partitions that one broker leads, gathered into one Fetch that the broker holds until there is
 * something. A reader that comes back for more finds its partition still asked for, at the right position: it joins nothing.
 */
export class Follower {
  readonly #broker: Broker;
  readonly #timeoutMs: number;
  readonly #followed = new Map<string, Followed>();
  readonly #main: Waiting = { index: 0, asked: undefined };
  readonly #side: Waiting = { index: 1, asked: undefined };
  #scheduled = false;
  #turn = 0;
  #heldBytes = 0;

  constructor(broker: Broker, timeoutMs: number) {
    this.#broker = broker;
    this.#timeoutMs = timeoutMs;
  }

  /** Where the partition is followed, and what is before it was delivered. */
  position(of: PartitionRef): number | undefined {
    return this.#followed.get(`${of.topic}/${of.partition}`)?.position;
  }

  /** A reader at this place needs no fetch of its own first. */
  covers(of: PartitionRef, from: number): boolean {
    const followed = this.#followed.get(`${of.topic}/${of.partition}`);
    return followed !== undefined && from >= (followed.held?.from ?? followed.position);
  }

  /**
   * The first records from `from` on; none when nothing came for `waitMs`. Undefined: it is to be read without waiting first.
   * `checked`: the position (see above) before a read from `from` found nothing.
   */
  wait(of: PartitionRef, from: number, waitMs: number, checked: number | undefined): Promise<LogRecord[] | undefined> {
    const name = `${of.topic}/${of.partition}`;
    let followed = this.#followed.get(name);
    if (followed === undefined) {
      followed = { topic: of.topic, partition: of.partition, position: from, held: undefined, waiters: new Set(), usedAt: 0 };
      this.#followed.set(name, followed);
    }
    followed.usedAt = performance.now();
    const { held } = followed;
    if (held !== undefined && from >= held.from && from < followed.position) {
      this.#release(followed);
      this.#schedule();
      const records = held.records.filter(({ offset }) => offset >= from);
      if (records.length > 0) return Promise.resolve(records);
    } else if (from < followed.position && followed.position !== checked) return Promise.resolve(undefined);
    else this.#release(followed); // whoever it was held for is past it
    const { waiters } = followed;
    return new Promise((resolve, reject) => {
      const waiter = { from, timer: setTimeout(() => this.#expire(waiters, waiter), waitMs), resolve, reject };
      waiters.add(waiter);
      this.#schedule();
    });
  }

  #expire(waiters: Set<Waiter>, waiter: Waiter): void {
    waiters.delete(waiter);
    waiter.resolve([]);
  }

  #release(followed: Followed): void {
    this.#heldBytes -= followed.held?.bytes ?? 0;
    followed.held = undefined;
  }

  /** After the work of this turn: readers that were just answered ask again in it. */
  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#pump();
    });
  }

  #pump(): void {
    const now = performance.now();
    const wanted: Followed[] = [];
    for (const [name, followed] of this.#followed) {
      if (followed.waiters.size === 0 && now - followed.usedAt > GRACE_MS) {
        this.#release(followed);
        this.#followed.delete(name);
      } else if (followed.held === undefined && (followed.waiters.size > 0 || this.#heldBytes < HELD_BYTES)) wanted.push(followed);
    }
    if (wanted.length === 0) return;
    if (this.#main.asked === undefined) void this.#fetch(this.#main, wanted, WAIT_MS.main);
    else if (this.#side.asked === undefined) {
      const late = wanted.filter((followed) => this.#main.asked?.get(followed) !== followed.position);
      if (late.length > 0) void this.#fetch(this.#side, late, WAIT_MS.side);
    }
  }

  async #fetch(request: Waiting, wanted: readonly Followed[], waitMs: number): Promise<void> {
    // A full answer leaves out the last ones: another is the first each time.
    const first = this.#turn++ % wanted.length;
    const parts = [...wanted.slice(first), ...wanted.slice(0, first)];
    const asked = new Map(parts.map((followed) => [followed, followed.position]));
    request.asked = asked;
    try {
      const connection = await this.#broker.connection('follow', request.index);
      const partitions = [...asked].map(([{ topic, partition }, from]) => ({ topic, partition, from, maxBytes: PARTITION_BYTES }));
      const answers = await this.#broker.sendOn(connection, fetchCall(partitions, waitMs, REQUEST_BYTES), waitMs + this.#timeoutMs);
      request.asked = undefined;
      await Promise.all(answers.map((answer) => this.#deliver(asked, answer)));
    } catch {
      // Its readers find out by a read of their own, at the leader of then.
      request.asked = undefined;
      for (const followed of parts) this.#drop(followed);
    }
    this.#schedule();
  }

  async #deliver(asked: ReadonlyMap<Followed, number>, answer: Fetched): Promise<void> {
    const followed = this.#followed.get(`${answer.topic}/${answer.partition}`);
    if (followed === undefined) return;
    const from = asked.get(followed);
    // The other request brought it already, or the readers went elsewhere.
    if (from === undefined || from !== followed.position) return;
    if (answer.code !== 0) return this.#drop(followed);
    if (answer.records.length === 0) return;
    try {
      const batches = splitRecordSet(answer.records);
      const end = batches.at(-1)?.end;
      if (end === undefined) return;
      const records = await recordsOf(batches, from);
      if (from !== followed.position) return;
      followed.position = Math.max(from, end);
      if (records.length > 0) this.#hand(followed, from, records, answer.records.length);
    } catch (error) {
      this.#followed.delete(`${followed.topic}/${followed.partition}`);
      for (const waiter of this.#taken(followed)) waiter.reject(error);
    }
  }

  #hand(followed: Followed, from: number, records: LogRecord[], bytes: number): void {
    let taken = false;
    for (const waiter of [...followed.waiters]) {
      const wanted = waiter.from <= from ? records : records.filter(({ offset }) => offset >= waiter.from);
      if (wanted.length === 0) continue;
      taken = true;
      followed.waiters.delete(waiter);
      clearTimeout(waiter.timer);
      followed.usedAt = performance.now();
      waiter.resolve(wanted);
    }
    if (taken || followed.waiters.size > 0) return;
    followed.held = { from, records, bytes };
    this.#heldBytes += bytes;
  }

  #drop(followed: Followed): void {
    this.#release(followed);
    this.#followed.delete(`${followed.topic}/${followed.partition}`);
    for (const waiter of this.#taken(followed)) waiter.resolve(undefined);
  }

  #taken(followed: Followed): Waiter[] {
    const waiters = [...followed.waiters];
    followed.waiters.clear();
    for (const { timer } of waiters) clearTimeout(timer);
    return waiters;
  }

  /** Ends all that waits. */
  close(error: Error): void {
    for (const followed of this.#followed.values()) for (const waiter of this.#taken(followed)) waiter.reject(error);
    this.#followed.clear();
  }
}
