import type { Change, ChangeCause } from '../core/change.js';
import { InvariantError, StatefoldError } from '../core/errors.js';
import type { Fault } from '../core/event.js';
import type { Logger } from '../core/logger.js';
import type { ChangesBody, ChangeValue } from '../core/records.js';
import type { RecordCodec } from '../log/codec/codec.js';
import type { Draft, Folded, PartitionHandler } from '../log/journal/partition-handler.js';
import { readBelow, recordsAt } from '../log/journal/known-end.js';
import type { Log, LogRecord, PartitionRef } from '../log/log.js';
import { RecordedChanges } from '../store/recorded-changes.js';
import type { InputPosition, PartitionTables } from '../store/partition-tables.js';
import { Tail } from '../feed/tail.js';
import type { ChangeFeed } from '../tenancy/tenant.js';

/** Changes that go in one produce: all of the inputs that made them, so that a reader sees an input's changes all or none. */
interface Group {
  drafts: ChangeDraft[];
  open: number;
  readonly acked: (changes: readonly Change[]) => void;
  readonly done: Change[];
}

class ChangeDraft implements Draft<ChangesBody> {
  readonly keyPrefix: string;
  constructor(
    readonly body: ChangesBody,
    readonly group: Group,
  ) {
    this.keyPrefix = `${body.value.projectionId}/${body.value.key}`;
  }
}

export interface ChangesWriterOptions {
  readonly log: Log;
  readonly ref: PartitionRef;
  readonly codec: RecordCodec<ChangesBody>;
  readonly tables: PartitionTables;
  readonly tailBytes: number;
  /** Offset from which on records will be folded. */
  readonly start: number;
  readonly logger: Logger;
  readonly position: () => number;
  /** Past the last input that is known. */
  readonly inputs: () => number;
  readonly kick: () => void;
  /** Resolves when all that was acknowledged before the call has been folded. */
  readonly barrier: () => Promise<void>;
  /** Each accepted change, in log order, on the turn in which it is folded. */
  readonly onChange?: (change: Change, inputOffset: number) => void;
  readonly onStopped: (error: Error) => void;
}

const PRODUCE_BYTES = 4 * 1024 * 1024;

export const inputAfter = (a: InputPosition, b: InputPosition): boolean =>
  a[0] > b[0] || (a[0] === b[0] && a[1] > b[1]);

/** Owner of a tenant's changes: writes what the projector makes, folds what is accepted, and feeds the notifier from it. */
export class ChangesWriter implements PartitionHandler<ChangesBody>, ChangeFeed {
  readonly #options: ChangesWriterOptions;
  readonly #tail: Tail<Change>;
  readonly #listeners = new Set<(changes: readonly Change[]) => void>();
  readonly #quiet = new Set<() => void>();
  readonly #voids = new Set<number>();
  #queue: Group[] = [];
  #fresh: Change[] = [];
  #head = 0;
  #stopped: Error | undefined;
  readonly #recorded: RecordedChanges;
  #trimmedThrough = 0;
  #settledThrough = -1;
  /** Until `trimmed` tells what that means: a checkpoint between must say it too. */
  #anchoredAt: number | undefined;
  /** The highest input of the changes that count as dropped and could still be read. */
  #droppedThrough = -1;

  constructor(options: ChangesWriterOptions) {
    this.#options = options;
    this.#tail = new Tail<Change>({
      offsetOf: (change) => change.sequence,
      sizeOf: (change) => 400 + (change.state?.length ?? 0),
      maxBytes: options.tailBytes,
      start: options.start,
    });
    this.#head = Math.max(0, options.start - 1);
    for (const offset of options.tables.voids('changes')) this.#voids.add(offset);
    this.#recorded = new RecordedChanges(options.tables);
    const { settled } = options.tables.checkpoint() ?? {};
    this.#settledThrough = settled?.through ?? -1;
    this.#trimmedThrough = settled?.trimmed ?? 0;
  }

  /** Writes the changes in one produce; `acked` when they are acknowledged and folded. Rejects nothing: a stopped writer is silent. */
  write(values: readonly ChangeValue[], acked: (changes: readonly Change[]) => void): void {
    const group: Group = { drafts: [], open: values.length, acked, done: [] };
    group.drafts = values.map((value) => new ChangeDraft({ kind: 'Change', value }, group));
    this.#queue.push(group);
    this.#options.kick();
  }

  judge(body: ChangesBody): boolean {
    const last = this.#options.tables.lastInput(body.value.projectionId);
    return last === undefined || inputAfter([body.value.inputOffset, body.value.inputIndex], last);
  }

  gather(): Draft<ChangesBody>[] {
    const drafts: Draft<ChangesBody>[] = [];
    let bytes = 0;
    let taken = 0;
    for (const group of this.#queue) {
      if (bytes >= PRODUCE_BYTES) break;
      for (const draft of group.drafts) {
        drafts.push(draft);
        bytes += 400 + (draft.body.value.state?.length ?? 0);
      }
      taken++;
    }
    this.#queue.splice(0, taken);
    return drafts;
  }

  dropped({ value }: ChangesBody): void {
    this.#droppedThrough = Math.max(this.#droppedThrough, value.inputOffset);
  }

  anchored(start: number): void {
    this.#anchoredAt = start;
  }

  restoring(end: number | undefined): void {
    this.#options.tables.section.bulk(end !== undefined);
  }

  fold(record: Folded<ChangesBody>, draft: Draft<ChangesBody> | undefined): void {
    const { tables } = this.#options;
    if (!record.accepted) {
      tables.addVoid('changes', record.offset);
      this.#voids.add(record.offset);
      return;
    }
    const { value } = record.body;
    const change = changeOf(record.offset, value);
    tables.addChange(value.projectionId, record.offset);
    tables.setLastInput(value.projectionId, [value.inputOffset, value.inputIndex]);
    this.#head = record.offset;
    this.#tail.push(change);
    if (this.#fresh.push(change) === 1) queueMicrotask(() => this.#publish());
    this.#recorded.add(value.inputOffset, recordedName(value.projectionId, value.inputIndex), change);
    this.#options.onChange?.(change, value.inputOffset);
    if (draft instanceof ChangeDraft) this.#ack(draft.group, change);
  }

  /**
   * Changes below `start` were dropped by retention before this process read them. So were those of inputs up to the last one that
   * left a change, or of all `inputs` when none is left: they have been notified, and are not written again.
   */
  trimmed(start: number, inputs: number, projectionIds: readonly string[]): void {
    this.#anchoredAt = undefined;
    this.#settle(start, inputs);
    this.#head = Math.max(this.#head, start - 1);
    this.#tail.restart(start);
    for (const projectionId of projectionIds) this.#options.tables.setTrimmed(projectionId, start - 1);
  }

  #settle(start: number, inputs: number): void {
    this.#trimmedThrough = start - 1;
    const last = Math.max(this.#recorded.last, this.#droppedThrough);
    this.#settledThrough = Math.max(this.#settledThrough, last < 0 ? inputs - 1 : last);
  }

  /** For the checkpoint: who opens from it folds these inputs again. */
  get settledInputs(): { readonly through: number; readonly trimmed: number } | undefined {
    if (this.#anchoredAt !== undefined) this.#settle(this.#anchoredAt, this.#options.inputs());
    return this.#settledThrough < 0 ? undefined : { through: this.#settledThrough, trimmed: this.#trimmedThrough };
  }

  /** The changes of the input were dropped by retention, all or some. */
  isSettled(inputOffset: number): boolean {
    return inputOffset <= this.#settledThrough;
  }

  /** The change of an input whose own was dropped by retention; undefined when the input is to be written. */
  settled(value: ChangeValue): Change | undefined {
    return this.isSettled(value.inputOffset) ? changeOf(this.#trimmedThrough, value) : undefined;
  }

  /** The highest input that has an accepted change; all before it have theirs. -1: not known of any. */
  lastRecorded(): number {
    return this.#recorded.last;
  }

  /** The accepted changes of an input that was not passed, in no order. */
  recordedOf(inputOffset: number): Iterable<Change> {
    return this.#recorded.of(inputOffset);
  }

  recorded({
    projectionId,
    inputOffset,
    inputIndex,
  }: Pick<ChangeValue, 'projectionId' | 'inputOffset' | 'inputIndex'>): Change | undefined {
    return this.#recorded.get(inputOffset, recordedName(projectionId, inputIndex));
  }

  /** The states of the input's changes are in the store, and so will be the position past it. */
  passed(inputOffset: number): void {
    this.#recorded.passed(inputOffset);
  }

  /** Puts what was accepted and not passed in the store, before each checkpoint. */
  save(): void {
    this.#recorded.save();
  }

  #ack(group: Group, change: Change): void {
    group.done.push(change);
    if (--group.open === 0) group.acked(group.done);
  }

  #publish(): void {
    const changes = this.#fresh;
    this.#fresh = [];
    for (const listener of this.#quiet) listener();
    for (const listener of this.#listeners) {
      try {
        listener(changes);
      } catch (error) {
        this.#options.logger.error({ err: error }, 'a listener of changes threw');
      }
    }
  }

  undecided(drafts: readonly Draft<ChangesBody>[]): void {
    for (const { body } of drafts)
      if (!this.judge(body))
        throw new InvariantError(
          `a change of ${body.value.projectionId} at input ${body.value.inputOffset} was accepted from elsewhere: it is taken from the log when the tenant is opened again`,
        );
    this.#again(drafts);
    this.#options.kick();
  }

  refused(drafts: readonly Draft<ChangesBody>[]): void {
    this.#again(drafts);
  }

  #again(drafts: readonly Draft<ChangesBody>[]): void {
    const groups = new Map<Group, ChangeDraft[]>();
    for (const draft of drafts)
      if (draft instanceof ChangeDraft) groups.set(draft.group, [...(groups.get(draft.group) ?? []), draft]);
    this.#queue.unshift(...[...groups].map(([group, left]) => Object.assign(group, { drafts: left })));
  }

  stopped(error: Error): void {
    this.#stopped = error;
    this.#queue = [];
    this.#options.onStopped(error);
  }

  head(): number {
    return this.#head;
  }

  refresh(): Promise<void> {
    return this.#options.barrier();
  }

  tail(projectionId: string, after: number, limit: number): readonly Change[] | undefined {
    return this.#tail.filter(
      after + 1,
      limit,
      (change) => change.projectionId === projectionId && change.fault === undefined,
    );
  }

  async read(projectionId: string, after: number, limit: number): Promise<readonly Change[]> {
    if (this.#stopped) throw new StatefoldError('UNAVAILABLE', 'the tenant is not served now; send the request again');
    const recent = this.tail(projectionId, after, limit);
    if (recent !== undefined) return recent;
    const { log, ref, tables, codec } = this.#options;
    tables.trimChanges(projectionId, await log.startOffset(ref));
    const trimmed = Math.max(tables.trimmed(projectionId), this.#trimmedThrough);
    if (after < trimmed) {
      const [oldest] = tables.changesAfter(projectionId, trimmed, 1);
      const message = `changes up to sequence ${trimmed} have expired; read the states and go on from sequence ${trimmed}`;
      throw new StatefoldError('CURSOR_EXPIRED', message, { details: { oldestSequence: oldest ?? this.#head + 1 } });
    }
    const out: Change[] = [];
    for (let from = after; out.length < limit;) {
      const sequences = tables.changesAfter(projectionId, from, limit - out.length);
      if (sequences.length === 0) break;
      for (const record of await recordsAt(log, ref, sequences)) {
        const change = this.#decode(record, codec);
        if (change !== undefined && change.fault === undefined) out.push(change);
      }
      from = sequences.at(-1) ?? from;
    }
    return out;
  }

  async oldest(projectionId: string): Promise<number> {
    const { log, ref, tables } = this.#options;
    tables.trimChanges(projectionId, await log.startOffset(ref));
    return Math.max(tables.trimmed(projectionId), this.#trimmedThrough);
  }

  /** Accepted changes of all projections from an offset on, faults too; `next` is where to go on. */
  async readAll(from: number, maxBytes: number): Promise<{ changes: readonly Change[]; next: number }> {
    const end = this.#options.position();
    if (from >= end) return { changes: [], next: from };
    const recent = this.#tail.from(from, 4096);
    if (recent !== undefined)
      return { changes: recent, next: recent.length === 4096 ? (recent.at(-1)?.sequence ?? from) + 1 : end };
    const { records, next } = await readBelow(this.#options.log, this.#options.ref, from, end, maxBytes);
    const changes: Change[] = [];
    for (const record of records) {
      if (record.offset >= end) return { changes, next: end };
      const change = this.#decode(record, this.#options.codec);
      if (change !== undefined) changes.push(change);
    }
    return { changes, next };
  }

  #decode(record: LogRecord, codec: RecordCodec<ChangesBody>): Change | undefined {
    if (record.value === null || this.#voids.has(record.offset)) return undefined;
    const body = codec.decode(record.value)?.body;
    return body?.kind === 'Change' ? changeOf(record.offset, body.value) : undefined;
  }

  subscribe(listener: (changes: readonly Change[]) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** As `subscribe`, for listeners that do not keep the tenant active. */
  subscribeQuietly(listener: () => void): () => void {
    this.#quiet.add(listener);
    return () => this.#quiet.delete(listener);
  }

  get subscribers(): number {
    return this.#listeners.size;
  }
}

const recordedName = (projectionId: string, index: number): string => `${projectionId}/${index}`;

function changeOf(sequence: number, value: ChangeValue): Change {
  const { projectionId, revision, className, key, eventId, aggregateId, aggregateType, version, timestamp, state } =
    value;
  return {
    sequence,
    projectionId,
    revision,
    className,
    key,
    eventId,
    aggregateId,
    aggregateType,
    version,
    state,
    timestamp,
    cause: (value.cause ?? undefined) as ChangeCause | undefined,
    fault: value.fault === null ? undefined : (JSON.parse(value.fault.toString()) as Fault),
  };
}
