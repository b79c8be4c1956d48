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
  type TopicSpec,
} from '../../src/log/log.js';
import type { Action, Scheduler, SimProcess } from './scheduler.js';

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

/** How the log behaves where that is not up to the seed: the contract's suite asks what it is given against real time. */
export interface SimLogOptions {
  /** Reads give all that there is, and not any part of it. */
  readonly whole?: boolean;
  /** Runs what a read that waits gives up by; none unless given, as the world is done when nothing is left to happen. */
  readonly after?: (milliseconds: number, run: () => void) => void;
  /** Milliseconds; the scheduler's steps unless given. */
  readonly now?: () => number;
}

/** A log as a cluster gives it: every call travels, is served at some moment, and its answer travels back, or doesn't. */
export class SimLog {
  readonly #scheduler: Scheduler;
  readonly #options: SimLogOptions;
  readonly #topics = new Map<string, TopicSpec>();
  /** Appends of one client to one partition, which land in the order of the calls. */
  readonly #landing = new Map<string, (() => void)[]>();
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

  constructor(scheduler: Scheduler, faults: LogFaults, options: SimLogOptions = {}) {
    this.#scheduler = scheduler;
    this.#options = options;
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

  /** Cleans up by each topic's own rule, all that may go. */
  clean(): void {
    for (const { topic, partitions, cleanup } of this.#topics.values())
      for (let partition = 0; partition < partitions; partition++) {
        const records = this.#partition({ topic, partition });
        if (cleanup.policy === 'delete') {
          const kept = records.findIndex(({ timestamp }) => timestamp >= this.#now() - cleanup.retentionMs);
          const start = Math.max(this.#starts.get(records) ?? 0, kept < 0 ? records.length : kept);
          for (const record of records.slice(0, start)) record.gone = true;
          this.#starts.set(records, start);
          continue;
        }
        const last = new Map<string, number>();
        for (const { key, value, offset } of records)
          if (cleanup.policy === 'latest' || value === null) last.set(key.toString('latin1'), offset);
        for (const record of records)
          if (record.offset < (last.get(record.key.toString('latin1')) ?? 0)) record.gone = true;
      }
  }

  /** The log as one process reaches it. */
  client(owner: SimProcess): Log {
    let closed = false;
    const served = <T>(label: string, serve: () => T, readable = true): Promise<T> =>
      this.#served(owner, label, serve, readable);
    return {
      maxAppendBytes: MAX_APPEND_BYTES,
      ensureTopics: (specs) => served('topics', () => this.#ensure(specs), false),
      deleteTopic: (topic) => served('delete topic', () => this.#delete(topic), false),
      append: (to, records) =>
        closed ? Promise.reject(new AppendRefusedError('the log is closed')) : this.#append(owner, to, records),
      endOffset: (of) => served(`end of ${short(of)}`, () => this.deposed?.(owner, of) ?? this.#known(of).length),
      startOffset: (of) => served('start', () => this.#starts.get(this.#known(of)) ?? 0),
      read: (of, from, _bytes, waitMs = 0) => {
        const read = (): Promise<LogPage> =>
          served(`read ${short(of)} from ${from}`, () => {
            const partition = this.#known(of);
            const end = this.#knownEnd(owner, of);
            const records = partition.slice(from, end).filter(({ gone }) => !gone);
            if (this.#options.whole === true) return { records, end };
            return { records: records.slice(0, 1 + this.#scheduler.random.below(Math.max(1, records.length))), end };
          });
        return waitMs > 0 ? this.#ahead(owner, of, from, waitMs, read) : read();
      },
      readAt: (of, offsets, maxBytes = Infinity) =>
        served(`read ${short(of)} at ${offsets.join(', ')}`, () => {
          const end = this.#knownEnd(owner, of);
          const there = offsets.filter((offset) => offset < end);
          const records: Stored[] = [];
          let bytes = 0;
          for (const [looked, at] of there.entries()) {
            if (bytes >= maxBytes) return { records, end, looked };
            const record = this.#partition(of)[at];
            if (record === undefined || record.gone) continue;
            records.push(record);
            bytes += record.value?.length ?? 0;
          }
          return { records, end };
        }),
      doubt: () => undefined,
      reportPositions: () => undefined,
      close: () => {
        closed = true;
        return Promise.resolve();
      },
    };
  }

  #now(): number {
    return this.#options.now?.() ?? this.#scheduler.step;
  }

  #ensure(specs: readonly TopicSpec[]): void {
    for (const spec of specs) {
      const { topic, partitions, cleanup } = spec;
      const found = this.#topics.get(topic);
      if (found !== undefined && found.partitions !== partitions)
        throw new Error(`topic ${topic} has ${found.partitions} partitions, not ${partitions}`);
      if (found !== undefined && found.cleanup.policy !== cleanup.policy)
        throw new Error(`topic ${topic} has cleanup '${found.cleanup.policy}', not '${cleanup.policy}'`);
      this.#topics.set(topic, spec);
    }
  }

  #delete(topic: string): void {
    for (let partition = 0; partition < (this.#topics.get(topic)?.partitions ?? 0); partition++)
      this.#partitions.delete(`${topic}/${partition}`);
    this.#topics.delete(topic);
  }

  /** @throws Error where there is no such partition */
  #known(of: PartitionRef): Stored[] {
    if (!this.#has(of)) throw new Error(`there is no partition ${of.partition} of a topic ${of.topic}`);
    return this.#partition(of);
  }

  #has({ topic, partition }: PartitionRef): boolean {
    return partition >= 0 && partition < (this.#topics.get(topic)?.partitions ?? 0);
  }

  #partition({ topic, partition }: PartitionRef): Stored[] {
    const name = `${topic}/${partition}`;
    let records = this.#partitions.get(name);
    if (records === undefined) this.#partitions.set(name, (records = []));
    return records;
  }

  /** How far the leader that answers knows the partition: a new one may be behind what was acknowledged. */
  #knownEnd(process: SimProcess, of: PartitionRef): number {
    const { random } = this.#scheduler;
    const { length } = this.#partition(of);
    return (
      this.lags?.(process, of, length) ?? (random.chance(this.faults.lagging / 100) ? random.below(length + 1) : length)
    );
  }

  /** Waits for a record from `from` on, as a rule: an adapter need not, and an answer may come when there is nothing. */
  #ahead(
    owner: SimProcess,
    of: PartitionRef,
    from: number,
    waitMs: number,
    read: () => Promise<LogPage>,
  ): Promise<LogPage> {
    const partition = this.#partition(of);
    const { after } = this.#options;
    if (partition.length > from || (after === undefined && this.#scheduler.random.chance(0.1))) return read();
    return new Promise((resolve, reject) => {
      const waiting = this.#waiting.get(partition) ?? [];
      this.#waiting.set(partition, waiting);
      let answered = false;
      const answer = (): void => {
        if (owner.alive && !answered) read().then(resolve, reject);
        answered = true;
      };
      waiting.push(answer);
      after?.(waitMs, answer);
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
          let settle: () => void;
          try {
            const answer = serve();
            settle = () => resolve(answer);
          } catch (error) {
            settle = () => reject(error instanceof Error ? error : new Error(String(error)));
          }
          scheduler.add({ owner, label: `${label} is answered`, weight: 1, run: settle });
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
      const timestamp = this.#now();
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
      if (!this.#has(to)) fail(new AppendRefusedError(`there is no partition ${to.partition} of a topic ${to.topic}`));
      else if (records.length === 0) fail(new AppendRefusedError('an append holds a record at least'));
      else if (bytes > MAX_APPEND_BYTES) fail(tooLarge(records.length, bytes, MAX_APPEND_BYTES));
      else if (fate === 'refused') fail(new AppendRefusedError('the disk is full'));
      else if (fate === 'dropped') fail(new AppendIndefiniteError('the connection was closed'));
      else if (fate === 'lost') {
        scheduler.add({ label: `(${owner.id}) ${what} land unheard`, weight: 0.5, run: land });
        fail(new AppendIndefiniteError('the request timed out'));
      } else
        this.#inTurn(`${owner.id} ${to.topic}/${to.partition}`, {
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

  /** Those before it of the same name have run before it may. */
  #inTurn(name: string, action: Action): void {
    const next = (): void => {
      const waiting = this.#landing.get(name) ?? [];
      const turn = waiting.shift();
      if (turn === undefined) this.#landing.delete(name);
      else turn();
    };
    const enter = (): void =>
      void this.#scheduler.add({
        ...action,
        run: () => {
          action.run();
          next();
        },
      });
    const waiting = this.#landing.get(name);
    if (waiting !== undefined) waiting.push(enter);
    else {
      this.#landing.set(name, []);
      enter();
    }
  }

  #fate(): 'lost' | 'dropped' | 'refused' | 'kept' {
    const { lost, dropped, refused } = this.faults;
    const at = this.#scheduler.random.next() * 100;
    return at < lost ? 'lost' : at < lost + dropped ? 'dropped' : at < lost + dropped + refused ? 'refused' : 'kept';
  }
}

const short = ({ topic }: PartitionRef): string => topic.slice(topic.lastIndexOf('.') + 1);
