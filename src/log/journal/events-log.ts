import { randomUUID } from 'node:crypto';
import { firstIndex } from '../../core/first-index.js';
import { InvariantError } from '../../core/errors.js';
import { Gathered } from '../../core/gathered.js';
import { redactionsTopicSpec, redactionsRef } from '../topics.js';
import type { Log, LogPage, LogRecord, NewRecord, PartitionRef } from '../log.js';
import { readBelow, recordsAt } from './known-end.js';

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

/** What is known of a redaction: what is left of the record stays in the log, and is read when it is asked for. */
interface Kept extends Omit<Redaction, 'value'> {
  /** Nothing stands in: the value is undefined. */
  readonly isVoid: boolean;
  /** Of the value. */
  readonly bytes: number;
  /** Its offset in the topic of redactions. */
  readonly place: number;
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
  /** The offsets of those that are known, ascending; undefined: some came since. */
  #ascending: readonly number[] | undefined;
  #read = 0;
  #ensured: Promise<void> | undefined;
  readonly #refreshed = new Gathered(() => this.#refresh());

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
    const redacted = this.#redactedIn(from, last);
    if (redacted.length === 0) return page;
    return { records: await this.#standIn(upTo(maxBytes, merged(records, redacted))), end };
  }

  async readAt(of: PartitionRef, offsets: readonly number[]): Promise<LogPage> {
    const page = await this.#log.readAt(of, offsets);
    if (!this.#isOurs(of)) return page;
    const { records, end } = page;
    if (records.length < offsets.filter((offset) => offset < end).length) await this.refresh();
    if (this.#known.size === 0) return page;
    const redacted = offsets.flatMap((offset) => this.#known.get(offset) ?? []);
    return { records: await this.#standIn(merged(records, redacted)), end };
  }

  #redactedIn(first: number, last: number): readonly Kept[] {
    this.#ascending ??= [...this.#known.keys()].sort((a, b) => a - b);
    const found: Kept[] = [];
    for (let at = firstFrom(this.#ascending, first); at < this.#ascending.length; at++) {
      const offset = this.#ascending[at] as number;
      if (offset > last) break;
      found.push(this.#known.get(offset) as Kept);
    }
    return found;
  }

  /** What stands at each place: void for every reader, as the record was; where nothing is left of it, no reader needs it. */
  async #standIn(all: readonly (LogRecord | Kept)[]): Promise<readonly LogRecord[]> {
    const places = all.flatMap((one) => (isKept(one) && !one.isVoid ? [one.place] : []));
    const found = new Map(
      (
        await recordsAt(
          this.#log,
          this.#redactions,
          places.sort((a, b) => a - b),
        )
      ).map(({ offset, value }) => [offset, value]),
    );
    const records: LogRecord[] = [];
    for (const one of all) {
      const value = isKept(one) && !one.isVoid ? found.get(one.place) : null;
      if (!isKept(one)) records.push(one);
      else if (value === undefined || (value === null && !one.isVoid)) records.push(...(await this.#successorOf(one)));
      else records.push({ offset: one.offset, key: one.key, timestamp: one.timestamp, value: value && valueOf(value) });
    }
    return records;
  }

  /** It is gone from the log: another process has found one that has less left, and that is in the log before the other one goes. */
  async #successorOf({ offset, place }: Kept): Promise<readonly LogRecord[]> {
    await this.refresh();
    const kept = this.#known.get(offset);
    if (kept === undefined || kept.place === place)
      throw new InvariantError('a redaction of the log is gone, and nothing took its place: the log is damaged');
    return this.#standIn([kept]);
  }

  #isOurs({ topic, partition }: PartitionRef): boolean {
    return topic === this.#ref.topic && partition === this.#ref.partition;
  }

  /** Reads the redactions to their end as of the call. Calls gather. */
  refresh(): Promise<void> {
    return this.#refreshed.asked();
  }

  async #refresh(): Promise<void> {
    await this.#ensure();
    const end = await this.#log.endOffset(this.#redactions);
    while (this.#read < end) {
      const { records, next } = await readBelow(this.#log, this.#redactions, this.#read, end, READ_BYTES);
      for (const { offset, key, value } of records) if (value !== null) this.#take(offset, key, value);
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
  #take(place: number, key: Buffer, value: Buffer): void {
    const { value: left, ...redaction } = decoded(value);
    const before = this.#known.get(redaction.offset);
    // Copies: neither keeps what it was read with.
    const keys = [...(before?.keys ?? []), Buffer.from(key)];
    const kept = { ...redaction, isVoid: left === undefined, bytes: left?.length ?? 0, place };
    const isNewer = before === undefined || leaves(kept) < leaves(before);
    this.#known.set(redaction.offset, isNewer ? { ...kept, keys: keys.reverse() } : { ...before, keys });
    if (before === undefined) this.#ascending = undefined;
  }

  /** What is known of the redaction of the record, as far as they were read. */
  redaction(offset: number): Pick<Redaction, 'erased'> | undefined {
    return this.#known.get(offset);
  }

  /** All that were read. */
  redactions(): Iterable<Pick<Redaction, 'offset' | 'erased'>> {
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

const leaves = ({ isVoid, erased }: Pick<Kept, 'isVoid' | 'erased'>): number => (isVoid ? -1000 : -erased.length);

const isKept = (one: LogRecord | Kept): one is Kept => 'place' in one;

/** In the order of their offsets; a redaction takes the place of its record. */
function merged(records: readonly LogRecord[], redacted: readonly Kept[]): readonly (LogRecord | Kept)[] {
  const all = new Map<number, LogRecord | Kept>();
  for (const one of [...records, ...redacted]) all.set(one.offset, one);
  return [...all.values()].sort((a, b) => a.offset - b.offset);
}

/** The first ones, up to about so many bytes: what is left of records may be far more than what a page of the log had. */
function upTo(maxBytes: number, all: readonly (LogRecord | Kept)[]): readonly (LogRecord | Kept)[] {
  let bytes = 0;
  const end = all.findIndex((one) => (bytes += isKept(one) ? one.bytes : (one.value?.length ?? 0)) >= maxBytes);
  return end === -1 ? all : all.slice(0, end + 1);
}

/** The index of the first of ascending numbers that is not less. */
const firstFrom = (ascending: readonly number[], least: number): number =>
  firstIndex(ascending.length, (i) => (ascending[i] as number) >= least);

/** The length of a head in JSON, 4 bytes big endian; the head; the value, where there is one. */
function encoded({ offset, key, timestamp, erased, value }: Redaction): Buffer {
  const head = Buffer.from(
    JSON.stringify({ offset, key: key.toString('base64'), timestamp, erased, void: value === undefined }),
  );
  const length = Buffer.alloc(4);
  length.writeUInt32BE(head.length);
  return Buffer.concat([length, head, value ?? Buffer.alloc(0)]);
}

/** What is left of the record, where it is not void. */
const valueOf = (redaction: Buffer): Buffer => redaction.subarray(endOfHead(redaction));

function endOfHead(redaction: Buffer): number {
  const end = 4 + redaction.readUInt32BE(0);
  if (end > redaction.length) throw new InvariantError('a redaction of the log is cut off: the log is damaged');
  return end;
}

function decoded(bytes: Buffer): Redaction {
  const end = endOfHead(bytes);
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
