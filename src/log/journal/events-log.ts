import { randomUUID } from 'node:crypto';
import { inParts } from '../../core/parts.js';
import { READ_BYTES } from '../../core/reads.js';
import { InvariantError } from '../../core/errors.js';
import { Gathered } from '../../core/gathered.js';
import { overSlices } from '../../core/slices.js';
import { redactionsTopicSpec, redactionsRef } from '../topics.js';
import type { Log, LogPage, LogRecord, PartitionRef, PickedPage } from '../log.js';
import { ByOffset } from './by-offset.js';
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

/**
 * What is known of a redaction, of which a tenant may have as many as transactions: all else of it stays in the log, and is read when
 * it is asked for.
 */
interface Kept {
  /** Its offset in the topic of redactions. */
  readonly place: number;
  /** Of all that is read of it. */
  readonly bytes: number;
  /** Of two for one record the one with less counts. */
  readonly left: number;
}

/** As numbers, which take a quarter of the memory. */
class KeptByOffset {
  readonly #rows = new ByOffset(3);

  get isEmpty(): boolean {
    return this.#rows.isEmpty;
  }

  get(offset: number): Kept | undefined {
    const row = this.#rows.get(offset);
    return row && keptOf(row);
  }

  set(offset: number, { place, bytes, left }: Kept): void {
    this.#rows.set(offset, [place, bytes, left]);
  }

  /** Ascending, both ends inclusive. */
  *within(first: number, last: number): Generator<readonly [offset: number, by: Kept]> {
    for (const [offset, row] of this.#rows.within(first, last)) yield [offset, keptOf(row)];
  }
}

const keptOf = (row: readonly number[]): Kept => {
  const [place, bytes, left] = row as [number, number, number];
  return { place, bytes, left };
};

/** Redactions that are read at a time, those that are large fewer. */
const PART = { bytes: READ_BYTES, items: 256 };

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
  /** By the offsets of the records that they stand in for. */
  readonly #known = new KeptByOffset();
  /** Of each aggregate the records that were redacted since it was erased: mostly one. */
  readonly #offsets = new Map<string, number | ByOffset>();
  /** Those that others took the place of, and whose tombstones are due. */
  #superseded: Kept[] = [];
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
    if (last - from + 1 === records.length && this.#known.isEmpty) return page;
    if (last - from + 1 !== records.length) await this.refresh();
    const [redacted] = this.#known.within(from, last);
    if (redacted === undefined) return page;
    // What is left of records may be far more than what a page of the log had: it is cut off, perhaps before the first of them.
    return { records: await this.#standIn(merged(records, this.#known.within(from, last), maxBytes)), end };
  }

  async readAt(of: PartitionRef, offsets: readonly number[], maxBytes = Infinity): Promise<PickedPage> {
    const page = await this.#log.readAt(of, offsets, maxBytes);
    if (!this.#isOurs(of)) return page;
    const { records, end, looked = offsets.length } = page;
    const asked = offsets.slice(0, looked);
    if (records.length < asked.filter((offset) => offset < end).length) await this.refresh();
    const redacted = asked.flatMap((offset) => {
      const kept = this.#known.get(offset);
      return kept === undefined ? [] : [[offset, kept] as const];
    });
    if (redacted.length === 0) return page;
    // What is left of records may be far more than what the log had.
    const all = merged(records, redacted, maxBytes);
    const last = all.at(-1)?.offset ?? -1;
    const isCut = Math.max(records.at(-1)?.offset ?? -1, redacted.at(-1)?.[0] ?? -1) > last;
    return { records: await this.#standIn(all), end, looked: isCut ? asked.indexOf(last) + 1 : page.looked };
  }

  /** What stands at each place: void for every reader, as the record was; where nothing is left of it, no reader needs it. */
  async #standIn(all: readonly (LogRecord | Redacted)[]): Promise<readonly LogRecord[]> {
    const found = await this.#at(all.flatMap((one) => (isRedacted(one) ? [one.by] : [])));
    const records: LogRecord[] = [];
    for (const one of all) {
      if (isRedacted(one)) {
        const { offset, key, timestamp, value = null } = found.get(one.by.place) ?? (await this.#successorOf(one));
        records.push({ offset, key, timestamp, value });
      } else records.push(one);
    }
    return records;
  }

  /** By their places. One that is not there is gone from the log. */
  async #at(kept: readonly Kept[]): Promise<ReadonlyMap<number, Redaction>> {
    const places = kept.map(({ place }) => place).sort((a, b) => a - b);
    const found = new Map<number, Redaction>();
    await overSlices('pages', await recordsAt(this.#log, this.#redactions, places), ({ offset, value }) => {
      if (value !== null) found.set(offset, decoded(value));
    });
    return found;
  }

  /** It is gone from the log: another process has found one that has less left, and that is in the log before the other one goes. */
  async #successorOf({ offset, by }: Redacted): Promise<Redaction> {
    await this.refresh();
    const kept = this.#known.get(offset);
    if (kept === undefined || kept.place === by.place)
      throw new InvariantError('a redaction of the log is gone, and nothing took its place: the log is damaged');
    return (await this.#at([kept])).get(kept.place) ?? this.#successorOf({ offset, by: kept });
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
      for (const { offset, value } of records) if (value !== null) this.#take(offset, value.length, decoded(value));
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
  #take(place: number, bytes: number, { offset, erased, value }: Redaction): void {
    const kept = { place, bytes, left: value === undefined ? -1000 : -erased.length };
    const before = this.#known.get(offset);
    const isNewer = before === undefined || kept.left < before.left;
    if (before !== undefined) this.#superseded.push(isNewer ? before : kept);
    if (isNewer) this.#known.set(offset, kept);
    for (const aggregateId of erased) {
      const offsets = this.#offsets.get(aggregateId);
      if (offsets === undefined) this.#offsets.set(aggregateId, offset);
      else if (typeof offsets === 'object') offsets.set(offset, []);
      else if (offsets !== offset) {
        const several = new ByOffset(0);
        for (const one of [offsets, offset]) several.set(one, []);
        this.#offsets.set(aggregateId, several);
      }
    }
  }

  /** Offsets of the records that were redacted since the aggregate was erased, as far as redactions were read. */
  redactedOf(aggregateId: string): readonly number[] {
    const offsets = this.#offsets.get(aggregateId);
    return typeof offsets === 'number' ? [offsets] : (offsets?.offsets ?? []);
  }

  /** Whether the record at the offset is among them. */
  isRedactedOf(aggregateId: string, offset: number): boolean {
    const offsets = this.#offsets.get(aggregateId);
    return typeof offsets === 'object' ? offsets.has(offset) : offsets === offset;
  }

  /** The aggregates whose events are gone from the records at these offsets, of those that are redacted, as far as redactions were read. */
  async erasedFrom(offsets: readonly number[]): Promise<ReadonlyMap<number, readonly string[]>> {
    const redacted = offsets.flatMap((offset) => {
      const by = this.#known.get(offset);
      return by === undefined ? [] : [{ offset, by }];
    });
    const erased = new Map<number, readonly string[]>();
    for (const some of inParts(redacted, ({ by }) => by.bytes, PART)) {
      const found = await this.#at(some.map(({ by }) => by));
      for (const one of some)
        erased.set(one.offset, (found.get(one.by.place) ?? (await this.#successorOf(one))).erased);
    }
    return erased;
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
    for (const some of inParts([...this.#superseded], ({ bytes }) => bytes, PART)) {
      const places = some.map(({ place }) => place).sort((a, b) => a - b);
      const records = await recordsAt(this.#log, this.#redactions, places);
      const dead = records.flatMap(({ key, value }) => (value === null ? [] : [{ key, value: null }]));
      if (dead.length > 0) await this.#log.append(this.#redactions, dead);
      const gone = new Set(some);
      this.#superseded = this.#superseded.filter((kept) => !gone.has(kept));
    }
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

/** A record that is redacted. */
interface Redacted {
  readonly offset: number;
  readonly by: Kept;
}

const isRedacted = (one: LogRecord | Redacted): one is Redacted => 'by' in one;

/** The first ones in the order of their offsets, up to about so many bytes; a redaction, of ascending ones, takes the place of its record. */
function merged(
  records: readonly LogRecord[],
  redacted: Iterable<readonly [offset: number, by: Kept]>,
  maxBytes = Infinity,
): readonly (LogRecord | Redacted)[] {
  const all: (LogRecord | Redacted)[] = [];
  let [bytes, at] = [0, 0];
  const recordsUpTo = (end: number): void => {
    for (let next = records[at]; next !== undefined && next.offset < end && bytes < maxBytes; next = records[++at]) {
      all.push(next);
      bytes += next.value?.length ?? 0;
    }
  };
  for (const [offset, by] of redacted) {
    recordsUpTo(offset);
    if (bytes >= maxBytes) return all;
    all.push({ offset, by });
    bytes += by.bytes;
    if (records[at]?.offset === offset) at++;
  }
  recordsUpTo(Infinity);
  return all;
}

/** The length of a head in JSON, 4 bytes big endian; the head; the value, where there is one. */
function encoded({ offset, key, timestamp, erased, value }: Redaction): Buffer {
  const head = Buffer.from(
    JSON.stringify({ offset, key: key.toString('base64'), timestamp, erased, void: value === undefined }),
  );
  const length = Buffer.alloc(4);
  length.writeUInt32BE(head.length);
  return Buffer.concat([length, head, value ?? Buffer.alloc(0)]);
}

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
