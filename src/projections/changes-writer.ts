import { changeBytes, type Change } from '../core/change.js';
import { UNBOUNDED, type Hold, type TenantBudget } from '../core/budget.js';
import { InvariantError, StatefoldError } from '../core/errors.js';
import type { Logger } from '../core/logger.js';
import { inParts } from '../core/parts.js';
import type { ChangesBody, ChangeValue } from '../core/records.js';
import { changeOf, CHANGES, type TenantChanges } from '../feed/changes.js';
import { LogFeed } from '../feed/log-feed.js';
import type { BodyCodec, RecordCodec } from '../log/codec/codec.js';
import { FencedPartition, type EpochSource, type PartitionObserver } from '../log/journal/fenced-partition.js';
import type { Draft, Folded, PartitionHandler } from '../log/journal/partition-handler.js';
import { reached } from '../log/journal/retry.js';
import type { Log, PartitionRef } from '../log/log.js';
import { bytesOfValue, GATHERED } from './portions.js';
import { ProjectionChanges, type AcceptedChanges } from './projection-changes.js';
import type {
  Checkpoint,
  InputPosition,
  LastInput,
  PartitionTables,
  TrimmedInputs,
} from '../store/partition-tables.js';
import { RecordedChanges } from '../store/recorded-changes.js';

/** Of commits; or of a swap or a release, which is begun again at the same place and goes on behind what the log has of it, wherever that ends. */
type ChangesOf = 'commits' | 'control';

/** Changes that go in one produce: of whole inputs, or a part of those of one input. */
interface Group {
  drafts: ChangeDraft[];
  open: number;
  /** That are held for it. */
  readonly bytes: number;
  readonly of: ChangesOf;
  readonly acked: (changes: readonly Change[]) => void;
  readonly done: Change[];
}

/** What tells a change apart: which one it is of those that a projection made of an input. */
type ChangePlace = Pick<ChangeValue, 'projectionId' | 'inputOffset' | 'inputIndex'>;

class ChangeDraft implements Draft<ChangesBody> {
  readonly keyPrefix: string;
  body: ChangesBody;
  constructor(
    value: ChangeValue,
    readonly group: Group,
  ) {
    this.body = { kind: 'Change', value };
    this.keyPrefix = `${value.projectionId}/${value.key}`;
  }
}

/** Told of each accepted change, and of claims, in log order, on the turn in which it is folded. */
export interface ChangesListener {
  recorded(change: Change, inputOffset: number): void;
  /** A claim of this process counts from here on. */
  claimed(): void;
  /** Nothing more is folded. */
  stopped(error: Error): void;
}

export interface ChangesObserver {
  produced?(topic: 'changes', records: number, seconds: number): void;
  voided?(): void;
}

export interface ChangesWriterOptions {
  readonly log: Log;
  readonly ref: PartitionRef;
  readonly codec: RecordCodec<ChangesBody> & BodyCodec<ChangesBody>;
  /** Id of this process, new at each start. */
  readonly owner: string;
  readonly logger: Logger;
  readonly tables: PartitionTables;
  /** How far the tables are folded. */
  readonly from: Pick<Checkpoint, 'changes' | 'trimmed'>;
  readonly epochs: EpochSource;
  readonly tailBytes: number;
  readonly listener: ChangesListener;
  /** Of the tenant; without it nothing is bounded. */
  readonly budget?: TenantBudget | undefined;
  readonly changesPerProduce?: number | undefined;
  readonly observer?: ChangesObserver | undefined;
}

export const inputAfter = (a: InputPosition, b: LastInput): boolean => a[0] > b[0] || (a[0] === b[0] && a[1] > b[1]);

/** Owner of a tenant's changes: writes what the projector makes, folds what is accepted, and feeds the notifier from it. */
export class ChangesWriter implements PartitionHandler<ChangesBody>, PartitionObserver, TenantChanges, AcceptedChanges {
  readonly ref: PartitionRef;
  /** How far it is folded, whose it is, and how it is taken. */
  readonly partition: Pick<FencedPartition<ChangesBody>, 'fence' | 'trimmedBefore' | 'open' | 'claim' | 'repeatClaim'>;
  /** Accepted changes of all projections, faults too. */
  readonly all: LogFeed<ChangesBody, Change>;
  readonly #options: ChangesWriterOptions;
  readonly #partition: FencedPartition<ChangesBody>;
  readonly #recorded: RecordedChanges;
  /** Feeds of projections that somebody follows. */
  readonly #followed = new Map<string, Set<ProjectionChanges>>();
  /** Changes that are not in the log yet. */
  readonly #hold: Hold;
  #queue: Group[] = [];
  /** The first change of each projection that its subscribers have not got yet. */
  readonly #fresh = new Map<string, number>();
  /** As above, of what is folded and not told yet: some of what was written with it is not folded. */
  readonly #untold = new Map<string, number>();
  /** Groups of which some changes are folded, and some are not. */
  readonly #begun = new Set<Group>();
  #publishing = false;
  #lastSequence = 0;
  #stopped: Error | undefined;
  #lastTrimmed: number;
  #inputsTrimmedTo: number;
  /** Until `restored` tells what that means: a checkpoint between must say it too. */
  #anchoredAt: number | undefined;
  /** The highest input of the changes that could still be read since then, dropped ones too; -1: none. */
  #lastSeen = -1;
  /** Retention went on since the checkpoint: what was seen before says nothing of what it took. */
  #anchoredAnew = false;

  constructor(options: ChangesWriterOptions) {
    this.#options = options;
    const { log, ref, codec, owner, logger, tables, tailBytes, epochs } = options;
    const { changes: from, trimmed } = options.from;
    this.ref = ref;
    this.#hold = (options.budget ?? UNBOUNDED.tenant('')).hold('changes');
    this.#partition = new FencedPartition({
      log,
      ref,
      codec,
      owner,
      logger,
      from,
      epochs,
      handler: this,
      observer: this,
    });
    this.partition = this.#partition;
    this.all = new LogFeed({
      log,
      ref,
      codec,
      kind: CHANGES,
      tailBytes,
      tails: options.budget?.process.caches.tails,
      start: from.position,
      first: (trimmed?.last ?? -1) + 1,
      voids: tables.voids('changes'),
      folded: this.#partition,
    });
    this.#lastSequence = Math.max(0, from.position - 1);
    this.#recorded = new RecordedChanges(tables);
    this.#inputsTrimmedTo = trimmed?.inputsTo ?? 0;
    this.#lastTrimmed = trimmed?.last ?? 0;
    if (trimmed?.lastSeen !== undefined) [this.#anchoredAt, this.#lastSeen] = [trimmed.last + 1, trimmed.lastSeen];
  }

  async close(): Promise<void> {
    await this.#partition.close();
    this.all.close();
  }

  /** Writes the changes in one produce; `acked` when they are acknowledged and folded. Rejects nothing: a stopped writer is silent. */
  write(values: readonly ChangeValue[], acked: (changes: readonly Change[]) => void, of: ChangesOf = 'commits'): void {
    let bytes = 0;
    for (const value of values) bytes += bytesOfValue(value);
    this.#hold.add(bytes);
    const group: Group = { drafts: [], open: values.length, bytes, of, acked, done: [] };
    group.drafts = values.map((value) => new ChangeDraft(value, group));
    this.#queue.push(group);
    this.#partition.kick();
  }

  /** No more are to be made until some of those under way are in the log. */
  get isFull(): boolean {
    return this.#hold.full !== undefined;
  }

  judge(body: ChangesBody): boolean {
    const last = this.#options.tables.lastInput(body.value.projectionId);
    return last === undefined || inputAfter([body.value.inputOffset, body.value.inputIndex], last);
  }

  gather(mostBytes = Infinity): Draft<ChangesBody>[] {
    const { changesPerProduce: most = GATHERED.changes } = this.#options;
    const room = Math.min(GATHERED.bytes, mostBytes);
    const [first] = this.#queue;
    const cut = first === undefined ? undefined : this.#cut(first, mostBytes);
    if (first !== undefined && cut !== undefined) return first.drafts.splice(0, cut);
    const drafts: Draft<ChangesBody>[] = [];
    let bytes = 0;
    let taken = 0;
    for (const group of this.#queue) {
      bytes += group.bytes;
      if (taken > 0 && (bytes > room || drafts.length + group.drafts.length > most)) break;
      drafts.push(...group.drafts);
      taken++;
    }
    this.#queue.splice(0, taken);
    return drafts;
  }

  /**
   * How many of the first drafts the log may take, where it has refused to take all of them at once; undefined: all. An input that is
   * not written as a whole comes in parts, and says so; one of which the log may have something stays whole.
   */
  #cut({ drafts, of }: Group, mostBytes: number): number | undefined {
    if (mostBytes === Infinity) return undefined;
    const [part] = inParts(drafts, ({ body }) => bytesOfValue(body.value), { bytes: mostBytes });
    if (part === undefined || part.length === drafts.length) return undefined;
    if (of === 'control') return part.length;
    const inputOf = ({ body }: ChangeDraft): number => body.value.inputOffset;
    const next = drafts[part.length] as ChangeDraft;
    const input = inputOf(next);
    if (inputOf(drafts[part.length - 1] as ChangeDraft) !== input || next.body.value.last !== undefined)
      return part.length;
    const own = drafts.filter((draft) => inputOf(draft) === input);
    if (input > this.#recorded.last && !this.isTrimmed(input)) {
      for (const draft of own)
        draft.body = { ...draft.body, value: { ...draft.body.value, last: draft === own.at(-1) } };
      return part.length;
    }
    const before = drafts.indexOf(own[0] as ChangeDraft);
    const whole = before > 0 ? before : own.length;
    return whole === drafts.length ? undefined : whole;
  }

  trimmed({ value }: ChangesBody): void {
    this.#anchorAnew();
    this.#lastSeen = Math.max(this.#lastSeen, value.inputOffset);
  }

  anchored(start: number): void {
    this.#anchorAnew();
    this.#anchoredAt = start;
    this.all.startsAt(start);
  }

  #anchorAnew(): void {
    if (!this.#anchoredAnew) this.#lastSeen = -1;
    this.#anchoredAnew = true;
  }

  restoring(end: number | undefined): void {
    this.#options.tables.section.bulk(end !== undefined);
  }

  untilRoom(wanted: () => boolean): Promise<boolean> | undefined {
    return this.#options.tables.section.roomSoon(wanted);
  }

  fold(record: Folded<ChangesBody>, draft: Draft<ChangesBody> | undefined): void {
    const { tables } = this.#options;
    if (!record.accepted) {
      tables.addVoid('changes', record.offset);
      this.all.addVoid(record.offset);
      return;
    }
    const { value } = record.body;
    const change = changeOf(record.offset, value);
    tables.changes.add(value.projectionId, record.offset);
    const { inputOffset, inputIndex, last } = value;
    tables.setLastInput(
      value.projectionId,
      last === undefined ? [inputOffset, inputIndex] : [inputOffset, inputIndex, true],
    );
    tables.bytes.addChange(changeBytes(change), change.timestamp);
    if (this.#anchoredAt !== undefined) this.#lastSeen = Math.max(this.#lastSeen, value.inputOffset);
    this.all.push(change);
    if (!this.#untold.has(value.projectionId)) this.#untold.set(value.projectionId, record.offset);
    this.#recorded.add(value.inputOffset, recordedName(value.projectionId, value.inputIndex), change);
    this.#options.listener.recorded(change, value.inputOffset);
    if (draft instanceof ChangeDraft) this.#ack(draft.group, change);
    // Told with all that was written with it: only then are their states in the store.
    if (this.#begun.size === 0) this.#tellTo(record.offset);
  }

  /**
   * All is folded that was there. Where retention had taken changes before this process read them, it took those of inputs up to
   * the last one that left a change, or of all `inputs` when none is left: they have been notified, and are not written again. What
   * a store has of changes before says nothing of how far it was.
   */
  restored(inputs: number, projectionIds: readonly string[]): void {
    if (this.#anchoredAt === undefined) return;
    const start = this.#anchoredAt;
    this.#anchoredAt = undefined;
    this.#lastTrimmed = start - 1;
    this.#inputsTrimmedTo = Math.max(this.#inputsTrimmedTo, this.#lastSeen < 0 ? inputs : this.#lastSeen + 1);
    this.#lastSequence = Math.max(this.#lastSequence, start - 1);
    for (const projectionId of projectionIds) this.#options.tables.setTrimmed(projectionId, start - 1);
  }

  /** For the checkpoint: who opens from it folds these inputs again. */
  get trimmedInputs(): TrimmedInputs | undefined {
    const inputsTo = this.#inputsTrimmedTo;
    if (this.#anchoredAt !== undefined) return { inputsTo, last: this.#anchoredAt - 1, lastSeen: this.#lastSeen };
    return inputsTo === 0 ? undefined : { inputsTo, last: this.#lastTrimmed };
  }

  /** The changes of the input were dropped by retention, all or some. */
  isTrimmed(inputOffset: number): boolean {
    return inputOffset < this.#inputsTrimmedTo;
  }

  /** Nothing that came after the change was dropped before it was read here. */
  isKept(change: Pick<Change, 'sequence'>): boolean {
    return change.sequence > this.#lastTrimmed;
  }

  /** The change was dropped by retention, as far as is known here: it has been told, and is not written again. */
  isTold({ projectionId, inputOffset, inputIndex }: ChangePlace): boolean {
    if (!this.isTrimmed(inputOffset)) return false;
    // Of a swap, or a release, the first part may be gone, and the last one still to be written.
    const last = this.#options.tables.lastInput(projectionId);
    if (last?.[0] !== inputOffset || inputIndex <= last[1]) return true;
    const before = this.recorded({ projectionId, inputOffset, inputIndex: last[1] });
    return before === undefined || !this.isKept(before);
  }

  /** A later input was come to: all changes of this one were told. */
  isPassed(inputOffset: number): boolean {
    return this.isTrimmed(inputOffset + 1) || this.#recorded.last > inputOffset;
  }

  /** Some input from there on has changes that come in parts, of which some are accepted, and was not passed. */
  hasParts(from: number): boolean {
    return this.#recorded.hasParts(from);
  }

  /** In place of one that was dropped by retention; undefined when it is to be written. */
  trimmedChange(value: ChangeValue): Change | undefined {
    return this.isTold(value) ? this.droppedChange(value) : undefined;
  }

  /** The highest input that has an accepted change; all before it have theirs. -1: not known of any. */
  lastRecorded(): number {
    return this.#recorded.last;
  }

  /** Inputs from `from` up to `end`, exclusive, that were not passed and have accepted changes; ascending. */
  recordedBetween(from: number, end: number): readonly number[] {
    return this.#recorded.between(from, end);
  }

  /** The accepted changes of an input that was not passed, in no order. */
  recordedOf(inputOffset: number): Iterable<Change> {
    return this.#recorded.of(inputOffset);
  }

  /** Of an input whose changes come in parts, some of which are accepted, and which was not passed: whether all are. Else undefined. */
  parts(inputOffset: number): { readonly whole: boolean } | undefined {
    return this.#recorded.parts(inputOffset);
  }

  /** As `recordedOf`, with the name of each, by which `recordedNamed` finds it. */
  recordedNames(inputOffset: number): Iterable<readonly [name: string, change: Change]> {
    return this.#recorded.named(inputOffset);
  }

  recordedNamed(inputOffset: number, name: string): Change | undefined {
    return this.#recorded.get(inputOffset, name);
  }

  /** One that was read, of which retention took some that came behind it: in its order among those, which have no other sequence. */
  asDropped(change: Change): Change {
    return { ...change, sequence: this.#lastTrimmed };
  }

  /** In place of a change that was dropped by retention before it was read. */
  droppedChange(value: ChangeValue): Change {
    return changeOf(this.#lastTrimmed, value);
  }

  /** Those of an input that was not passed behind the name, in the order of their names, as they are read from the store. */
  recordedPast(inputOffset: number, name: string): Iterable<readonly [name: string, change: Change]> {
    return this.#recorded.past(inputOffset, name);
  }

  recorded({ projectionId, inputOffset, inputIndex }: ChangePlace): Change | undefined {
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
    if (--group.open > 0) return void this.#begun.add(group);
    this.#begun.delete(group);
    this.#hold.sub(group.bytes);
    group.acked(group.done);
  }

  /** Who asks is given the changes up to here from now on, and who follows is told of them. */
  #tellTo(sequence: number): void {
    this.#lastSequence = sequence;
    for (const [projectionId, first] of this.#untold)
      if (!this.#fresh.has(projectionId)) this.#fresh.set(projectionId, first);
    this.#untold.clear();
    this.#publishSoon();
  }

  #publishSoon(): void {
    if (this.#publishing) return;
    this.#publishing = true;
    queueMicrotask(() => this.#publish());
  }

  #publish(): void {
    this.#publishing = false;
    const fresh = [...this.#fresh];
    this.#fresh.clear();
    for (const [projectionId, first] of fresh)
      for (const feed of [...(this.#followed.get(projectionId) ?? [])]) feed.tell(first);
  }

  produced(records: number, seconds: number): void {
    this.#options.observer?.produced?.('changes', records, seconds);
  }

  claimed(): void {
    this.#options.listener.claimed();
  }

  voided(): void {
    this.#options.observer?.voided?.();
  }

  undecided(drafts: readonly Draft<ChangesBody>[]): void {
    for (const { body } of drafts)
      if (!this.judge(body))
        throw new InvariantError(
          `a change of ${body.value.projectionId} at input ${body.value.inputOffset} was accepted from elsewhere: it is taken from the log when the tenant is opened again`,
        );
    this.#again(drafts);
    this.#partition.kick();
  }

  refused(drafts: readonly Draft<ChangesBody>[]): void {
    this.#again(drafts);
  }

  #again(drafts: readonly Draft<ChangesBody>[]): void {
    const groups = new Map<Group, ChangeDraft[]>();
    for (const draft of drafts)
      if (draft instanceof ChangeDraft) groups.set(draft.group, [...(groups.get(draft.group) ?? []), draft]);
    // It may have been written in part, and has the rest.
    const [first] = this.#queue;
    for (const [group, left] of groups) group.drafts = group === first ? [...left, ...group.drafts] : left;
    this.#queue.unshift(...[...groups.keys()].filter((group) => group !== first));
  }

  stopped(error: Error): void {
    this.#stopped = error;
    this.#queue = [];
    this.#hold.close();
    this.#options.listener.stopped(error);
  }

  lastSequence(): number {
    return this.#lastSequence;
  }

  caughtUp(): Promise<void> {
    return this.#partition.caughtUp();
  }

  of(projectionId: string): ProjectionChanges {
    const [followed] = this.#followed.get(projectionId) ?? [];
    return followed ?? new ProjectionChanges(this, this.#options.tables, projectionId);
  }

  mustRun(): void {
    if (this.#stopped) throw new StatefoldError('UNAVAILABLE', 'the tenant is not served now; send the request again');
  }

  trimmedTo(projectionId: string): number {
    return Math.max(this.#options.tables.trimmed(projectionId), this.#lastTrimmed) + 1;
  }

  async trim(projectionId: string): Promise<void> {
    const { log, ref, tables } = this.#options;
    tables.trimChanges(projectionId, await reached(log.startOffset(ref)));
  }

  follow(projectionId: string, feed: ProjectionChanges): () => void {
    const feeds = this.#followed.get(projectionId) ?? new Set();
    this.#followed.set(projectionId, feeds.add(feed));
    return () => {
      if (feeds.delete(feed) && feeds.size === 0) this.#followed.delete(projectionId);
    };
  }

  /** How many are told of changes of projections. */
  get subscribers(): number {
    let count = 0;
    for (const feeds of this.#followed.values()) for (const feed of feeds) count += feed.subscribers;
    return count;
  }
}

const recordedName = (projectionId: string, index: number): string => `${projectionId}/${index}`;
