import { randomUUID } from 'node:crypto';
import { InvariantError } from '../../core/errors.js';
import { redactionsTopicSpec, redactionsRef } from '../topics.js';
import type { Log, LogPage, LogRecord, NewRecord, PartitionRef } from '../log.js';
import { readBelow } from './known-end.js';

/** What stands in for a record of a partition's events from now on. */
export interface Redaction {
  readonly offset: number;
  /** Of the record that it stands in for. */
  readonly key: Buffer;
  readonly timestamp: number;
  /** Aggregates whose events are gone from it. */
  readonly erased: readonly string[];
  /** Undefined: the record was void, and is to be void for whoever folds what is left; or nothing of it is left. */
  readonly value: Buffer | undefined;
}

interface Kept extends Redaction {
  /** Keys in the topic of redactions: this one's, and those of what it took the place of. */
  readonly keys: readonly Buffer[];
}

const READ_BYTES = 1024 * 1024;

/**
 * A partition of a tenant's events as all of its readers see it. A transaction over several aggregates is one record, which can't be
 * taken out of the log when one of them is erased: others still need their parts. So a record without the erased parts is written to
 * `statefold.<tenant>.redactions` first, then the original is tombstoned; here the one stands in for the other, at its offset.
 *
 * Redactions are written before anything of the aggregate is tombstoned. So whoever meets a gap reads the redactions to their end, and
 * has all that concern any record which rests on what is missing; who meets none needs none.
 */
export class EventsLog implements Log {
  readonly maxAppendBytes: number;
  readonly #log: Log;
  readonly #ref: PartitionRef;
  readonly #redactions: PartitionRef;
  readonly #partitions: number;
  readonly #known = new Map<number, Kept>();
  #read = 0;
  #ensured: Promise<void> | undefined;
  #refreshing: { readonly running: Promise<void>; next: Promise<void> | undefined } | undefined;

  constructor(log: Log, ref: PartitionRef, partitions: number) {
    this.#log = log;
    this.#ref = ref;
    this.#redactions = redactionsRef(ref);
    this.#partitions = partitions;
    this.maxAppendBytes = log.maxAppendBytes;
  }

  async read(of: PartitionRef, from: number, maxBytes: number, waitMs?: number): Promise<LogPage> {
    const page = await this.#log.read(of, from, maxBytes, waitMs);
    if (!this.#isOurs(of)) return page;
    const { records, end } = page;
    const last = records.at(-1)?.offset ?? end - 1;
    // A page without a record tells that all up to the end is gone: as far as the one who answers knows it.
    if (last - from + 1 === records.length && this.#known.size === 0) return page;
    if (last - from + 1 !== records.length) await this.refresh();
    return this.#known.size === 0 ? page : { records: this.#standIn(records, from, last), end };
  }

  async readAt(of: PartitionRef, offsets: readonly number[]): Promise<LogPage> {
    const page = await this.#log.readAt(of, offsets);
    if (!this.#isOurs(of)) return page;
    const { records, end } = page;
    if (records.length < offsets.filter((offset) => offset < end).length) await this.refresh();
    if (this.#known.size === 0) return page;
    const there = new Map(records.map((record) => [record.offset, record]));
    for (const offset of offsets) this.#put(there, offset);
    return { records: offsets.flatMap((offset) => there.get(offset) ?? []), end };
  }

  #standIn(records: readonly LogRecord[], from: number, last: number): readonly LogRecord[] {
    const there = new Map(records.map((record) => [record.offset, record]));
    for (const offset of this.#known.keys()) if (offset >= from && offset <= last) this.#put(there, offset);
    return [...there.values()].sort((a, b) => a.offset - b.offset);
  }

  #put(there: Map<number, LogRecord>, offset: number): void {
    const redaction = this.#known.get(offset);
    if (redaction === undefined) return;
    const { key, timestamp, value } = redaction;
    // Void for every reader, as the record was; where nothing is left of it, no reader needs it.
    there.set(offset, { offset, key, timestamp, value: value ?? null });
  }

  #isOurs({ topic, partition }: PartitionRef): boolean {
    return topic === this.#ref.topic && partition === this.#ref.partition;
  }

  /** Reads the redactions to their end as of the call. Calls gather. */
  refresh(): Promise<void> {
    if (this.#refreshing === undefined) {
      const running = this.#refresh().finally(() => (this.#refreshing = undefined));
      this.#refreshing = { running, next: undefined };
      return running;
    }
    const current = this.#refreshing;
    current.next ??= current.running.then(
      () => this.refresh(),
      () => this.refresh(),
    );
    return current.next;
  }

  async #refresh(): Promise<void> {
    await this.#ensure();
    const end = await this.#log.endOffset(this.#redactions);
    while (this.#read < end) {
      const { records, next } = await readBelow(this.#log, this.#redactions, this.#read, end, READ_BYTES);
      for (const { key, value } of records) if (value !== null) this.#take(key, value);
      this.#read = next;
    }
  }

  #ensure(): Promise<void> {
    this.#ensured ??= this.#log
      .ensureTopics([redactionsTopicSpec(this.#ref, this.#partitions)])
      .catch((error: unknown) => {
        this.#ensured = undefined;
        throw error;
      });
    return this.#ensured;
  }

  /** Of several for one record the one counts that has less left, whatever their order: a late one of a former owner changes nothing. */
  #take(key: Buffer, value: Buffer): void {
    const redaction = decoded(value);
    const before = this.#known.get(redaction.offset);
    const keys = [...(before?.keys ?? []), key];
    const isNewer = before === undefined || leaves(redaction) < leaves(before);
    this.#known.set(redaction.offset, isNewer ? { ...redaction, keys: keys.reverse() } : { ...before, keys });
  }

  /** What stands in for the record, as far as it was read. */
  redaction(offset: number): Redaction | undefined {
    return this.#known.get(offset);
  }

  /** All that were read. */
  redactions(): Iterable<Redaction> {
    return this.#known.values();
  }

  /** Resolves when it is in the log. */
  async redact(redaction: Redaction): Promise<void> {
    await this.#ensure();
    const key = Buffer.from(`${redaction.offset}#${randomUUID()}`);
    await this.#log.append(this.#redactions, [{ key, value: encoded(redaction) }]);
    await this.refresh();
  }

  /** Tombstones those that others took the place of: they hold what is to be gone. Resolves when that is in the log. */
  async tidy(): Promise<void> {
    const dead: NewRecord[] = [];
    for (const [offset, kept] of this.#known) {
      const [first, ...others] = kept.keys;
      if (first === undefined || others.length === 0) continue;
      for (const key of others) dead.push({ key, value: null });
      this.#known.set(offset, { ...kept, keys: [first] });
    }
    if (dead.length > 0) await this.#log.append(this.#redactions, dead);
  }

  ensureTopics(...specs: Parameters<Log['ensureTopics']>): Promise<void> {
    return this.#log.ensureTopics(...specs);
  }
  deleteTopic(topic: string): Promise<void> {
    return this.#log.deleteTopic(topic);
  }
  append(...args: Parameters<Log['append']>): ReturnType<Log['append']> {
    return this.#log.append(...args);
  }
  endOffset(of: PartitionRef): Promise<number> {
    return this.#log.endOffset(of);
  }
  startOffset(of: PartitionRef): Promise<number> {
    return this.#log.startOffset(of);
  }
  doubt(of: PartitionRef): void {
    this.#log.doubt(of);
  }
  reportPositions(...args: Parameters<Log['reportPositions']>): void {
    this.#log.reportPositions(...args);
  }
  /** The log is others' too. */
  close(): Promise<void> {
    return Promise.resolve();
  }
}

const leaves = ({ value, erased }: Redaction): number => (value === undefined ? -1000 : -erased.length);

/** The length of a head in JSON, 4 bytes big endian; the head; the value, where there is one. */
function encoded({ offset, key, timestamp, erased, value }: Redaction): Buffer {
  const head = Buffer.from(
    JSON.stringify({ offset, key: key.toString('base64'), timestamp, erased, void: value === undefined }),
  );
  const length = Buffer.alloc(4);
  length.writeUInt32BE(head.length);
  return Buffer.concat([length, head, value ?? Buffer.alloc(0)]);
}

function decoded(bytes: Buffer): Redaction {
  const end = 4 + bytes.readUInt32BE(0);
  if (end > bytes.length) throw new InvariantError('a redaction of the log is cut off: the log is damaged');
  const head = JSON.parse(bytes.toString('utf8', 4, end)) as {
    readonly offset: number;
    readonly key: string;
    readonly timestamp: number;
    readonly erased: readonly string[];
    readonly void: boolean;
  };
  return {
    offset: head.offset,
    key: Buffer.from(head.key, 'base64'),
    timestamp: head.timestamp,
    erased: head.erased,
    value: head.void ? undefined : bytes.subarray(end),
  };
}
