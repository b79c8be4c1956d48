import {
  AppendIndefiniteError,
  appendBytes,
  AppendRefusedError,
  MAX_APPEND_BYTES,
  tooLarge,
  type Log,
  type LogPage,
  type NewRecord,
  type PartitionRef,
} from '../../src/log/log.js';
import type { Scheduler, SimProcess } from './scheduler.js';

/** What becomes of a produce: of 100, so many. The rest is appended and acknowledged. */
export interface LogFaults {
  /** Lands, now or later, perhaps after the producer went on; the answer is lost. */
  readonly lost: number;
  /** Never arrives; the producer can't know. */
  readonly dropped: number;
  readonly refused: number;
  /** A read fails. */
  readonly unreadable: number;
  /** Of 100 reads so many are answered by a leader that does not know yet how far the partition goes. */
  readonly lagging: number;
}

export const NO_FAULTS: LogFaults = { lost: 0, dropped: 0, refused: 0, unreadable: 0, lagging: 0 };

interface Stored {
  readonly offset: number;
  readonly timestamp: number;
  readonly key: Buffer;
  readonly value: Buffer | null;
  /** Step in which it landed. */
  readonly step: number;
  /** Compaction or retention took it: no reader gets it any more. */
  gone: boolean;
}

/** A log as a cluster gives it: every call travels, is served at some moment, and its answer travels back, or doesn't. */
export class SimLog {
  readonly #scheduler: Scheduler;
  readonly #partitions = new Map<string, Stored[]>();
  /** Of those that retention took records from. */
  readonly #starts = new Map<Stored[], number>();
  /** Reads at the end of a partition that wait for what comes. */
  readonly #waiting = new Map<Stored[], (() => void)[]>();
  faults: LogFaults;
  /** Decides the fate of a produce in place of the seed. */
  fate:
    | ((
        process: SimProcess,
        to: PartitionRef,
        records: readonly NewRecord[],
      ) => 'lost' | 'dropped' | 'refused' | 'kept' | undefined)
    | undefined;

  /** Decides how far the leader that answers a read knows the partition, in place of the seed. */
  lags: ((process: SimProcess, of: PartitionRef, end: number) => number | undefined) | undefined;

  /** What a deposed leader, which the process is cut off with, says of where a partition ends. */
  deposed: ((process: SimProcess, of: PartitionRef) => number | undefined) | undefined;

  constructor(scheduler: Scheduler, faults: LogFaults) {
    this.#scheduler = scheduler;
    this.faults = faults;
  }

  records(topic: string): readonly Stored[] {
    return this.#partition({ topic, partition: 0 });
  }

  /** Takes the records of before `step` whose key was tombstoned later, as a cleaner does when it likes; the last record stays. */
  compact(topic: string, step: number): void {
    const records = this.#partition({ topic, partition: 0 });
    const tombstoned = new Map<string, number>();
    for (const { key, value, offset } of records) if (value === null) tombstoned.set(key.toString('latin1'), offset);
    for (const record of records.slice(0, -1))
      if (record.step < step && record.offset < (tombstoned.get(record.key.toString('latin1')) ?? 0))
        record.gone = true;
  }

  /** Takes all records below the offset, claims too, as retention does; truth still has them. */
  trim(topic: string, before: number): void {
    const records = this.#partition({ topic, partition: 0 });
    for (const record of records.slice(0, before)) record.gone = true;
    this.#starts.set(records, Math.max(before, this.start(topic)));
  }

  /** The oldest offset that is left. */
  start(topic: string): number {
    return this.#starts.get(this.#partition({ topic, partition: 0 })) ?? 0;
  }

  /** The log as one process reaches it. */
  client(owner: SimProcess): Log {
    const served = <T>(label: string, serve: () => T, readable = true): Promise<T> =>
      this.#served(owner, label, serve, readable);
    return {
      maxAppendBytes: MAX_APPEND_BYTES,
      ensureTopics: () => served('topics', () => undefined, false),
      deleteTopic: (topic) => served('delete topic', () => void this.#partitions.delete(`${topic}/0`), false),
      append: (to, records) => this.#append(owner, to, records),
      endOffset: (of) => served(`end of ${short(of)}`, () => this.deposed?.(owner, of) ?? this.#partition(of).length),
      startOffset: ({ topic }) => served('start', () => this.start(topic)),
      read: (of, from, _bytes, waitMs = 0) => {
        const read = (): Promise<LogPage> =>
          served(`read ${short(of)} from ${from}`, () => {
            const end = this.#known(owner, of);
            const records = this.#partition(of)
              .slice(from, end)
              .filter(({ gone }) => !gone);
            return { records: records.slice(0, 1 + this.#scheduler.random.below(Math.max(1, records.length))), end };
          });
        return waitMs > 0 ? this.#ahead(owner, of, from, read) : read();
      },
      readAt: (of, offsets) =>
        served(`read ${short(of)} at ${offsets.join(', ')}`, () => {
          const end = this.#known(owner, of);
          const there = offsets.filter((offset) => offset < end);
          return { records: there.flatMap((at) => this.#partition(of)[at] ?? []).filter(({ gone }) => !gone), end };
        }),
      doubt: () => undefined,
      reportPositions: () => undefined,
      close: () => Promise.resolve(),
    };
  }

  #partition({ topic, partition }: PartitionRef): Stored[] {
    const name = `${topic}/${partition}`;
    let records = this.#partitions.get(name);
    if (records === undefined) this.#partitions.set(name, (records = []));
    return records;
  }

  /** How far the leader that answers knows the partition: a new one may be behind what was acknowledged. */
  #known(process: SimProcess, of: PartitionRef): number {
    const { random } = this.#scheduler;
    const { length } = this.#partition(of);
    return (
      this.lags?.(process, of, length) ?? (random.chance(this.faults.lagging / 100) ? random.below(length + 1) : length)
    );
  }

  /** Waits for a record from `from` on, as a rule: an adapter need not, and an answer may come when there is nothing. */
  #ahead(owner: SimProcess, of: PartitionRef, from: number, read: () => Promise<LogPage>): Promise<LogPage> {
    const partition = this.#partition(of);
    if (partition.length > from || this.#scheduler.random.chance(0.1)) return read();
    return new Promise((resolve, reject) => {
      const waiting = this.#waiting.get(partition) ?? [];
      this.#waiting.set(partition, waiting);
      waiting.push(() => {
        if (owner.alive) read().then(resolve, reject);
      });
    });
  }

  #served<T>(owner: SimProcess, label: string, serve: () => T, faulty: boolean): Promise<T> {
    const scheduler = this.#scheduler;
    return new Promise((resolve, reject) => {
      const fails = faulty && scheduler.random.chance(this.faults.unreadable / 100);
      scheduler.add({
        label: `(${owner.id}) ${label} is served`,
        weight: 1,
        run: () => {
          if (fails) {
            scheduler.add({
              owner,
              label: `${label} fails`,
              weight: 1,
              run: () => reject(new Error('the connection was closed')),
            });
            return;
          }
          const answer = serve();
          scheduler.add({ owner, label: `${label} is answered`, weight: 1, run: () => resolve(answer) });
        },
      });
    });
  }

  #append(
    owner: SimProcess,
    to: PartitionRef,
    records: readonly NewRecord[],
  ): Promise<{ baseOffset: number; timestamp: number }> {
    const scheduler = this.#scheduler;
    const what = `${records.length} record${records.length === 1 ? '' : 's'} to ${short(to)}`;
    const land = (): { baseOffset: number; timestamp: number } => {
      const partition = this.#partition(to);
      const baseOffset = partition.length;
      const timestamp = scheduler.step;
      records.forEach(({ key, value }, i) =>
        partition.push({ offset: baseOffset + i, timestamp, key, value, step: scheduler.step, gone: false }),
      );
      for (const wake of this.#waiting.get(partition)?.splice(0) ?? []) wake();
      return { baseOffset, timestamp };
    };
    return new Promise((resolve, reject) => {
      const fail = (error: Error): unknown =>
        scheduler.add({ owner, label: `${what}: ${error.name}`, weight: 1, run: () => reject(error) });
      const bytes = appendBytes(records);
      const fate = this.fate?.(owner, to, records) ?? this.#fate();
      if (bytes > MAX_APPEND_BYTES) fail(tooLarge(records.length, bytes, MAX_APPEND_BYTES));
      else if (fate === 'refused') fail(new AppendRefusedError('the disk is full'));
      else if (fate === 'dropped') fail(new AppendIndefiniteError('the connection was closed'));
      else if (fate === 'lost') {
        scheduler.add({ label: `(${owner.id}) ${what} land unheard`, weight: 0.5, run: land });
        fail(new AppendIndefiniteError('the request timed out'));
      } else
        scheduler.add({
          label: `(${owner.id}) ${what} land`,
          weight: 1,
          run: () => {
            const answer = land();
            scheduler.add({
              owner,
              label: `${what} are acknowledged at ${answer.baseOffset}`,
              weight: 1,
              run: () => resolve(answer),
            });
          },
        });
    });
  }

  #fate(): 'lost' | 'dropped' | 'refused' | 'kept' {
    const { lost, dropped, refused } = this.faults;
    const at = this.#scheduler.random.next() * 100;
    return at < lost ? 'lost' : at < lost + dropped ? 'dropped' : at < lost + dropped + refused ? 'refused' : 'kept';
  }
}

const short = ({ topic }: PartitionRef): string => topic.slice(topic.lastIndexOf('.') + 1);
