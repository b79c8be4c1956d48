import { backOff } from '../core/back-off.js';
import { BytePace } from '../core/byte-pace.js';
import type { Clock } from '../core/clock.js';
import type { Logger } from '../core/logger.js';
import { descendingOnce } from '../core/descending.js';
import { chunksOf } from '../core/parts.js';
import { pause } from '../core/pause.js';
import { ERASED_BASE, type EventsBody, type TransactionValue } from '../core/records.js';
import { nextTurn } from '../core/slices.js';
import type { RecordCodec } from '../log/codec/codec.js';
import type { EventsLog } from '../log/journal/events-log.js';
import { recordsAt } from '../log/journal/known-end.js';
import { LOG_BACK_OFF_MS } from '../core/retries.js';
import type { LogRecord, PartitionRef } from '../log/log.js';
import type { PartitionTables } from '../store/partition-tables.js';
import type { AnsweringPartition } from './aggregate-reads.js';
import { aggregatesIn } from './events-writer.js';
import type { OwnedPartition } from './reducer-faults.js';

export interface ErasuresOptions {
  readonly log: EventsLog;
  readonly ref: PartitionRef;
  readonly codec: RecordCodec<EventsBody>;
  readonly tables: PartitionTables;
  readonly clock: Clock;
  readonly partition: ErasedPartition;
  readonly logger: Logger;
}

/** The partition of the log that erased aggregates lie in. */
export type ErasedPartition = OwnedPartition & AnsweringPartition;

/** How many records are read, or tombstoned, at a time. */
const AT_ONCE = 256;
/** So many keys are held between redactions and tombstones. */
const KEYS_HELD = 4096;
/** How many erasures are looked at in a turn. */
const LOOKED_AT_ONCE = 500;
/** How many of the first ones, whose size nobody knows; of the next ones as many as take about so many bytes. */
const FIRST_AT_ONCE = 8;
const BYTES_AT_ONCE = 8 * 1024 * 1024;
/**
 * Each aggregate that is erased has every transaction that it is in written again: a hundred of them in the same thousand transactions
 * are a hundred times what the tenant stores, on a disk that is everybody's.
 */
const REWRITTEN_AT_ONCE = 64 * 1024 * 1024;
const REWRITTEN_PER_SECOND = 4 * 1024 * 1024;

/**
 * The owner of the partition takes erased aggregates out of the log: it writes tombstones for all records of the aggregate, void ones
 * too, then a record that says so. An owner that finds an erasure begun finishes it. Every step is idempotent.
 */
export class Erasures {
  readonly #options: ErasuresOptions;
  readonly #waiting = new Set<string>();
  /** Behind which erasures it is still to be looked whether a former owner began, and did not finish, them; undefined: none. */
  #unlooked: string | undefined;
  readonly #pace = new BytePace(REWRITTEN_AT_ONCE, REWRITTEN_PER_SECOND);
  #running: Promise<void> | undefined;
  readonly #closing = new AbortController();

  constructor(options: ErasuresOptions) {
    this.#options = options;
  }

  /** This process serves the partition: it finishes what former owners began. */
  start(): void {
    if (!this.#options.tables.hasErasures) return;
    // A former owner may have written redactions late, with what was erased meanwhile.
    this.#unlooked = '';
    this.#run();
  }

  /** The log says that the aggregate is erased. Who does not serve the partition looks for it when it does. */
  begin(aggregateId: string): void {
    if (this.#options.partition.owned) this.straggled(aggregateId);
  }

  /** The log has another record of an aggregate that is erased. */
  straggled(aggregateId: string): void {
    this.#waiting.add(aggregateId);
    if (this.#options.partition.owned) this.#run();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running;
  }

  get #closed(): boolean {
    return this.#closing.signal.aborted;
  }

  #run(): void {
    this.#running ??= this.#work().finally(() => {
      this.#running = undefined;
      // Another erasure may have begun while the last one ended.
      if (this.#waiting.size > 0 && !this.#closed && this.#options.partition.owned) this.#run();
    });
  }

  async #work(): Promise<void> {
    const { tables, partition, logger } = this.#options;
    // After the turn on which the record is folded.
    await nextTurn();
    await this.#look();
    for (let failures = 0; !this.#closed && partition.owned;) {
      const [aggregateId] = this.#waiting;
      try {
        if (aggregateId === undefined) return await this.#options.log.tidy();
        // Before it begins: a record of it that comes meanwhile has it erased again.
        this.#waiting.delete(aggregateId);
        await this.#erase(aggregateId);
        if (tables.erasure(aggregateId)?.status === 'erasing' && !this.#closed)
          await partition.propose({ kind: 'Erased', value: { aggregateId, timestamp: this.#options.clock.now() } });
        failures = 0;
      } catch (error) {
        // It goes to the end of the queue: what keeps it back need not keep the others back.
        if (aggregateId !== undefined) this.#waiting.add(aggregateId);
        if (this.#closed || !partition.owned) return;
        if (failures === 0)
          logger.warn(
            { err: error, aggregateId },
            'the records of an erased aggregate are not out of the log yet; trying again',
          );
        await pause(backOff(failures++, LOG_BACK_OFF_MS), this.#closing);
      }
    }
  }

  /** Finds what former owners began. */
  async #look(): Promise<void> {
    while (this.#unlooked !== undefined && !this.#closed) {
      const rows = this.#options.tables.erasures(this.#unlooked, LOOKED_AT_ONCE);
      for (const [aggregateId, { status }] of rows) if (status === 'erasing') this.#waiting.add(aggregateId);
      this.#unlooked = rows.length < LOOKED_AT_ONCE ? undefined : rows.at(-1)?.[0];
      await nextTurn();
    }
  }

  /** Resolves when the log has tombstones for all that it had of the aggregate. */
  async #erase(aggregateId: string): Promise<void> {
    const { partition, log } = this.#options;
    await partition.caughtUpAsOwner();
    let keys = new Keys();
    // Once, unless a former owner writes meanwhile: its redaction of a record may be the one that counts.
    for (let isWhole = false; !isWhole && !this.#closed;) {
      await log.refresh();
      const redacted: number[] = [];
      keys = new Keys();
      for await (const part of this.#without(aggregateId)) {
        keys.add(part.dead);
        redacted.push(...part.redacted);
      }
      isWhole = await this.isTakenOut(aggregateId, redacted);
    }
    // After all redactions: a reader that finds a record gone knows what is left of the other aggregates in it.
    if (keys.held !== undefined) await this.#tombstone(keys.held);
    else for await (const { dead } of this.#without(aggregateId)) await this.#tombstone(dead);
    await log.tidy();
    if (this.#closed) throw new Error('the tenant is closed');
  }

  async #tombstone(keys: readonly string[]): Promise<void> {
    const { log, ref } = this.#options;
    for (const some of chunksOf(keys, AT_ONCE)) {
      if (this.#closed) return;
      await log.append(
        ref,
        some.map((key) => ({ key: Buffer.from(key, 'latin1'), value: null })),
      );
    }
  }

  /**
   * Redacts what the log has of the aggregate, part by part, the last record first: there may be as many as events. Who folds before
   * all are redacted sees the aggregate up to some record, and nothing of it behind. If the first were redacted first, such a reader
   * would see later parts without those that they rest on, and take whole transactions for void.
   */
  async *#without(aggregateId: string): AsyncGenerator<WithoutPart> {
    const { tables, log } = this.#options;
    const voids = new Set(tables.voids('events'));
    // The index here has nothing of what a former owner redacted, whose originals may be in the log still.
    const others = [...voids, ...log.redactedOf(aggregateId)].sort((a, b) => b - a);
    const offsets = descendingOnce(tables.recordsOf(aggregateId), others);
    try {
      for (let atOnce = FIRST_AT_ONCE; !this.#closed;) {
        const some = taken(offsets, atOnce);
        if (some.length === 0) return;
        const part = await this.#partWithout(some, aggregateId, voids);
        yield part;
        atOnce = Math.max(
          1,
          Math.min(AT_ONCE, 4 * atOnce, Math.floor((BYTES_AT_ONCE * some.length) / (part.bytes + 1))),
        );
        await nextTurn();
        const wait = this.#pace.msAfter(part.rewritten);
        if (wait > 0) await pause(wait, this.#closing);
      }
    } finally {
      offsets.return(undefined);
    }
  }

  async #partWithout(
    descending: readonly number[],
    aggregateId: string,
    voids: ReadonlySet<number>,
  ): Promise<WithoutPart> {
    const { log, ref } = this.#options;
    const ascending = descending.toReversed();
    // Before the records are read: what a former owner took out meanwhile is not said to be out of what is read without it.
    const erased = await log.erasedFrom(ascending);
    const records = await recordsAt(log, ref, ascending, () => this.#closed);
    const part = { dead: [] as string[], redacted: [] as number[], bytes: 0, rewritten: 0 };
    for (const record of records.toReversed()) {
      const { offset, key, value } = record;
      const before = erased.get(offset) ?? [];
      const { isDead, isRedacted } = await this.#recordWithout(record, { aggregateId, before, voids });
      part.bytes += value?.length ?? 0;
      if (isDead) part.dead.push(key.toString('latin1'));
      if (!isRedacted) continue;
      part.redacted.push(offset);
      part.rewritten += value?.length ?? 0;
    }
    return part;
  }

  /** The redaction that counts for each of the records is without the aggregate: only then are they tombstoned. */
  async isTakenOut(aggregateId: string, offsets: readonly number[]): Promise<boolean> {
    const erased = await this.#options.log.erasedFrom(offsets);
    return offsets.every((offset) => erased.get(offset)?.includes(aggregateId) === true);
  }

  /**
   * Whether the record is to go. A redaction first keeps what else is in it, without this aggregate and those that were taken out
   * before; an aggregate that is erased after this one is still in it.
   */
  async #recordWithout(
    record: LogRecord,
    {
      aggregateId,
      before,
      voids,
    }: { readonly aggregateId: string; readonly before: readonly string[]; readonly voids: ReadonlySet<number> },
  ): Promise<{ readonly isDead: boolean; readonly isRedacted?: true }> {
    const { codec, log } = this.#options;
    const { offset, key, timestamp, value } = record;
    if (value === null) return { isDead: log.isRedactedOf(aggregateId, offset) };
    const decoded = codec.decode(value);
    if (decoded === undefined || decoded.body.kind === 'Claim') return { isDead: false };
    const { fence, body } = decoded;
    if (!aggregatesIn(body).includes(aggregateId)) return { isDead: log.isRedactedOf(aggregateId, offset) };
    if (body.kind !== 'Transaction') return { isDead: true };
    const left = voids.has(offset) ? undefined : without(body.value, aggregateId);
    await log.redact({
      offset,
      key,
      timestamp,
      erased: [...before, aggregateId],
      value: left && codec.encode(fence, { kind: 'Transaction', value: left }),
    });
    return { isDead: true, isRedacted: true };
  }
}

interface WithoutPart {
  /** Keys of records that are to go, the last one first. As texts: a small buffer is a part of a pool, in which all that was read with it would stay. */
  readonly dead: readonly string[];
  /** Offsets of records that others stand in for from now on. */
  readonly redacted: readonly number[];
  /** Of all that was read, and of those that were redacted. */
  readonly bytes: number;
  readonly rewritten: number;
}

/** Those of an aggregate, as long as they are not many: then they are read again, since it may have more than memory holds. */
class Keys {
  #keys: string[] | undefined = [];

  get held(): readonly string[] | undefined {
    return this.#keys;
  }

  add(keys: readonly string[]): void {
    if (this.#keys === undefined) return;
    if (this.#keys.length + keys.length > KEYS_HELD) this.#keys = undefined;
    else this.#keys.push(...keys);
  }
}

/** The next ones, at most so many. */
function taken(numbers: Iterator<number, void>, most: number): readonly number[] {
  const some: number[] = [];
  while (some.length < most) {
    const next = numbers.next();
    if (next.done === true) break;
    some.push(next.value);
  }
  return some;
}

const NOTHING = Buffer.from('{}');
const NO_ID = Buffer.alloc(16);

/** The transaction with placeholders for the events of this aggregate, and of those erased before; undefined: nothing else is in it. */
function without(value: TransactionValue, erased: string): TransactionValue | undefined {
  const isGone = ({ aggregateId, baseVersion }: TransactionValue['parts'][number]): boolean =>
    baseVersion === ERASED_BASE || aggregateId === erased;
  if (value.parts.every(isGone)) return undefined;
  return {
    ...value,
    parts: value.parts.map((part) =>
      isGone(part)
        ? {
            ...part,
            baseVersion: ERASED_BASE,
            events: part.events.map(() => ({ eventId: NO_ID, eventType: '', data: NOTHING })),
          }
        : part,
    ),
  };
}
