import type { LogPage, LogRecord, PartitionRef } from '../log.js';
import type { Broker } from '../../kafka/broker.js';
import { fetchCall, type Fetched } from '../../kafka/calls.js';
import { CODE } from '../../kafka/kafka-error.js';
import { recordsOf } from './fetcher.js';
import { splitRecordSet } from './record-batch.js';

interface Waiter {
  readonly from: number;
  readonly timer: NodeJS.Timeout;
  resolve(page: LogPage | undefined): void;
  reject(error: unknown): void;
}

/** A partition that somebody waits on, or did a moment ago. */
interface FollowedPartition extends PartitionRef {
  /** All from here on is still to come; what was before was delivered, or is in `held`. */
  position: number;
  held: { readonly from: number; readonly page: LogPage; readonly bytes: number } | undefined;
  readonly waiters: Set<Waiter>;
  usedAt: number;
  /** When there was something last. */
  heardAt: number;
}

/** A request that waits at the broker, on a connection of its own. */
interface Waiting {
  readonly index: number;
  readonly waitMs: number;
  /** The position at which it asks for each partition; undefined while it is not under way. */
  asked: ReadonlyMap<FollowedPartition, number> | undefined;
  /** Not sent again before. */
  due: number;
}

const HOT_MS = 10_000;
/** A broker takes some microseconds for each partition of a request: large ones are not sent again at once, so that they gather. */
const PAUSE_MS_PER_PARTITION = 0.01;
const PARTITION_BYTES = 256 * 1024;
const REQUEST_BYTES = 4 * 1024 * 1024;
/** Fetched ahead of readers that are not back yet, of all partitions together. */
const HELD_BYTES = 32 * 1024 * 1024;
/** A partition is fetched ahead so long after its last reader. */
const GRACE_MS = 10_000;

/**
 * Waiting reads of the partitions that one broker leads, gathered into a few Fetches that the broker holds until there is
 * something: one for the many that are silent, one for those that are not, one for what comes while both are under way.
 * A reader that comes back for more finds its partition still asked for, at the right position: it joins nothing.
 */
export class LongFetch {
  readonly #broker: Broker;
  readonly #timeoutMs: number;
  readonly #followed = new Map<string, FollowedPartition>();
  readonly #silent: Waiting = { index: 0, waitMs: 1000, asked: undefined, due: 0 };
  readonly #lively: Waiting = { index: 1, waitMs: 250, asked: undefined, due: 0 };
  readonly #late: Waiting = { index: 2, waitMs: 50, asked: undefined, due: 0 };
  #scheduled = false;
  #timer: NodeJS.Timeout | undefined;
  #timerDue = 0;
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
   * The first records from `from` on; none when nothing came for `waitMs`, and then no end past what was delivered. Undefined: it is to be read without waiting first.
   * `checked`: the position (see above) before a read from `from` found nothing.
   */
  wait(of: PartitionRef, from: number, waitMs: number, checked: number | undefined): Promise<LogPage | undefined> {
    const name = `${of.topic}/${of.partition}`;
    let followed = this.#followed.get(name);
    if (followed === undefined) {
      followed = {
        topic: of.topic,
        partition: of.partition,
        position: from,
        held: undefined,
        waiters: new Set(),
        usedAt: 0,
        heardAt: -Infinity,
      };
      this.#followed.set(name, followed);
    }
    followed.usedAt = performance.now();
    const { held } = followed;
    if (held !== undefined && from >= held.from && from < followed.position) {
      this.#release(followed);
      this.#schedule();
      const records = after(held.page.records, from);
      if (records.length > 0) return Promise.resolve({ records, end: held.page.end });
    } else if (from < followed.position && followed.position !== checked) return Promise.resolve(undefined);
    else this.#release(followed); // whoever it was held for is past it
    const waited = followed;
    return new Promise((resolve, reject) => {
      const waiter = { from, timer: setTimeout(() => this.#expire(waited, waiter), waitMs), resolve, reject };
      waited.waiters.add(waiter);
      this.#schedule();
    });
  }

  #expire({ waiters, position }: FollowedPartition, waiter: Waiter): void {
    waiters.delete(waiter);
    waiter.resolve({ records: [], end: position });
  }

  #release(followed: FollowedPartition): void {
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
    const wanted: FollowedPartition[] = [];
    for (const [name, followed] of this.#followed) {
      if (followed.waiters.size === 0 && now - followed.usedAt > GRACE_MS) {
        this.#release(followed);
        this.#followed.delete(name);
      } else if (followed.held === undefined && (followed.waiters.size > 0 || this.#heldBytes < HELD_BYTES))
        wanted.push(followed);
    }
    const asks = ({ asked }: Waiting, followed: FollowedPartition): boolean =>
      asked?.get(followed) === followed.position;
    const silent = (followed: FollowedPartition): boolean => now - followed.heardAt > HOT_MS;
    this.#send(this.#silent, () => wanted.filter(silent), now);
    const others = (): FollowedPartition[] =>
      wanted.filter(
        (followed) => !asks(this.#silent, followed) && (this.#silent.asked !== undefined || !silent(followed)),
      );
    this.#send(this.#lively, others, now);
    if (this.#silent.asked !== undefined && this.#lively.asked !== undefined)
      this.#send(this.#late, () => others().filter((followed) => !asks(this.#lively, followed)), now);
  }

  #send(request: Waiting, choose: () => FollowedPartition[], now: number): void {
    if (request.asked !== undefined) return;
    const left = request.due - now;
    if (left > 1) return this.#pumpAt(request.due, left);
    const chosen = choose();
    if (chosen.length === 0) return;
    request.due = now + chosen.length * PAUSE_MS_PER_PARTITION;
    void this.#fetch(request, chosen);
  }

  /** The earliest counts: one request may have to wait long, for a quota. */
  #pumpAt(due: number, left: number): void {
    if (this.#timer !== undefined && this.#timerDue <= due) return;
    clearTimeout(this.#timer);
    this.#timerDue = due;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#pump();
    }, left);
  }

  async #fetch(request: Waiting, wanted: readonly FollowedPartition[]): Promise<void> {
    // A full answer leaves out the last ones: another is the first each time.
    const first = this.#turn++ % wanted.length;
    const parts = [...wanted.slice(first), ...wanted.slice(0, first)];
    const asked = new Map(parts.map((followed) => [followed, followed.position]));
    request.asked = asked;
    try {
      const { waitMs } = request;
      const connection = await this.#broker.connection('follow', request.index);
      const partitions = [...asked].map(([{ topic, partition }, from]) => ({
        topic,
        partition,
        from,
        maxBytes: PARTITION_BYTES,
      }));
      const answers = await this.#broker.sendOn(
        connection,
        fetchCall(partitions, waitMs, REQUEST_BYTES),
        waitMs + this.#timeoutMs,
      );
      request.asked = undefined;
      request.due = Math.max(request.due, performance.now() + connection.mutedMs);
      await Promise.all(answers.map((answer) => this.#deliver(asked, answer)));
    } catch {
      // Its readers find out by a read of their own, at the leader of then.
      request.asked = undefined;
      for (const followed of parts) this.#drop(followed);
    }
    this.#schedule();
  }

  async #deliver(asked: ReadonlyMap<FollowedPartition, number>, answer: Fetched): Promise<void> {
    const followed = this.#followed.get(`${answer.topic}/${answer.partition}`);
    if (followed === undefined) return;
    const from = asked.get(followed);
    // The other request brought it already, or the readers went elsewhere.
    if (from === undefined || from !== followed.position) return;
    if (answer.code === CODE.THROTTLING_QUOTA_EXCEEDED) return;
    if (answer.code !== 0) return this.#drop(followed);
    if (answer.records.length === 0) return;
    try {
      const batches = splitRecordSet(answer.records);
      const end = batches.at(-1)?.end;
      if (end === undefined) return;
      const records = await recordsOf(batches, from);
      if (from !== followed.position) return;
      followed.position = Math.max(from, end);
      followed.heardAt = performance.now();
      if (records.length > 0)
        this.#hand(followed, from, { records, end: Math.max(answer.end, end) }, answer.records.length);
    } catch (error) {
      this.#followed.delete(`${followed.topic}/${followed.partition}`);
      for (const waiter of this.#taken(followed)) waiter.reject(error);
    }
  }

  #hand(followed: FollowedPartition, from: number, page: LogPage, bytes: number): void {
    let taken = false;
    for (const waiter of [...followed.waiters]) {
      const records = waiter.from <= from ? page.records : after(page.records, waiter.from);
      if (records.length === 0) continue;
      taken = true;
      followed.waiters.delete(waiter);
      clearTimeout(waiter.timer);
      followed.usedAt = performance.now();
      waiter.resolve({ records, end: page.end });
    }
    if (taken || followed.waiters.size > 0) return;
    followed.held = { from, page, bytes };
    this.#heldBytes += bytes;
  }

  #drop(followed: FollowedPartition): void {
    this.#release(followed);
    this.#followed.delete(`${followed.topic}/${followed.partition}`);
    for (const waiter of this.#taken(followed)) waiter.resolve(undefined);
  }

  #taken(followed: FollowedPartition): Waiter[] {
    const waiters = [...followed.waiters];
    followed.waiters.clear();
    for (const { timer } of waiters) clearTimeout(timer);
    return waiters;
  }

  /** Ends all that waits. */
  close(error: Error): void {
    clearTimeout(this.#timer);
    for (const followed of this.#followed.values()) for (const waiter of this.#taken(followed)) waiter.reject(error);
    this.#followed.clear();
  }
}

const after = (records: readonly LogRecord[], from: number): LogRecord[] =>
  records.filter(({ offset }) => offset >= from);
