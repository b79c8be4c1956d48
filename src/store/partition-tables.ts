import { descendingOnce } from '../core/descending.js';
import type { SwapCause } from '../core/change.js';
import type { Head, RememberedCommand } from '../core/append-rules.js';
import type { Fault } from '../core/event.js';
import type { FenceState } from '../core/fence.js';
import { ChangeIndex } from './change-index.js';
import { EventTypeCounts } from './event-type-counts.js';
import { FaultTables } from './fault-tables.js';
import { KeptRevisions, type KeptRevision } from './kept-revisions.js';
import { padded, pastAll, SEPARATOR } from './keys.js';
import type { StoreSection } from './store-section.js';
import { ErasedRows } from './erased-rows.js';
import { PendingDrops } from './pending-drops.js';
import { RecordedRows } from './recorded-rows.js';
import { keptBytes, stateBytes, StoredBytes, type KeptRow, type StoredBytesRow } from './stored-bytes.js';
import { TABLES } from './tables.js';

/** State of one aggregate by its bound reducer. */
export interface ReducerState {
  /** Generation of the binding that folded it. */
  readonly generation: number;
  readonly version: number;
  readonly state: Buffer | null;
  /** Timestamp of the last event folded, milliseconds. */
  readonly lastModified: number;
  /** Log offset of the last commit folded. */
  readonly offset: number;
  readonly fault: Fault | undefined;
}

/** State of one key of a projection's class. */
export interface KeyState {
  readonly state: Buffer | null;
  readonly sequence: number;
  readonly lastModified: number;
  readonly fault: Fault | undefined;
  /** The event that made it, for the notification of a build. */
  readonly origin: {
    readonly eventId: string;
    readonly aggregateId: string;
    readonly aggregateType: string;
    readonly version: number;
  };
}

/** The revision of a projection that follows the log live. */
export interface LiveProjection {
  readonly revision: number;
  readonly artefactId: string;
  readonly classNames: readonly string[];
  /** The last ones that went live, this one too: what became of them, oldest first. */
  readonly past?: readonly LivePast[];
  /** An aggregate was erased whose events may be in its states; so it is until another revision is live. */
  readonly erased?: true;
}

export interface LivePast {
  readonly revision: number;
  readonly artefactId: string;
  /** Notifications of its swap: keys that were other than before. */
  readonly changed: number;
}

/** A revision that is being folded over history beside the live one. */
export interface BuildProgress {
  readonly revision: number;
  readonly artefactId: string;
  readonly classNames: readonly string[];
  /** Next log offset to fold. */
  readonly position: number;
  readonly processed: number;
  /** The swap is in the log. */
  readonly proposed: boolean;
  readonly cause: SwapCause;
  /** An aggregate was erased whose events may be in the states that it has so far. */
  readonly erased?: true;
  /** The former revision of the same code whose states it took over. */
  readonly adopted?: KeptRevision;
  /** Of a revival: the states of this revision, the live one, are taken over first. */
  readonly seedFrom?: number;
  /** As far as they are: up to this key. They are of all inputs below `end`. */
  readonly seeded?: { readonly end: number; readonly after?: readonly [key: string, classIndex: number] };
}

/** A swap in the middle: what a restart goes on from. Of a swap that is at another place, or was begun in another way, it says nothing. */
export interface SwapProgress {
  readonly revision: number;
  /** Of the swap, in the tenant's order. */
  readonly offset: number;
  /** Of the revision's states. */
  readonly place: string;
  /** The new states are those that the code made, or, on a standby, those that the owner told. */
  readonly from: 'code' | 'changes';
  readonly cursor: SwapCursor;
}

/** All rows of earlier phases, and those of this one up to the key, are done; so many changes were told of them. */
export interface SwapCursor {
  readonly phase: number;
  readonly after?: readonly [key: string, classIndex: number];
  readonly told: number;
}

/** An aggregate that was erased; the row stays for ever, so that its id is not used again. */
export interface ErasureRow {
  /** `erased`: the log has tombstones for all that it had of the aggregate. */
  readonly status: 'erasing' | 'erased';
  readonly aggregateType: string;
  /** Of the record that erased it, in the partition. */
  readonly offset: number;
  /** Milliseconds since the epoch. */
  readonly timestamp: number;
}

/** Input of a change: offset in the events topic, number among the changes of that record. */
export type InputPosition = readonly [offset: number, index: number];

/** The last input of which a projection has a change; `parted`: its changes come in parts. */
export type LastInput = readonly [offset: number, index: number, parted?: true];

export interface Checkpoint {
  readonly events: FenceState;
  readonly changes: FenceState;
  /** Next log offset that projections fold: all changes of those before are acknowledged. With an order, the place in it. */
  readonly projected: number;
  /** Of a tenant of several partitions, where partition 0 is. */
  readonly order?: OrderCheckpoint;
  /** Absent where retention has taken no change that this store does not have. */
  readonly trimmed?: TrimmedInputs;
  /** Of what is folded; the tables put it there. */
  readonly bytes?: StoredBytesRow;
}

/** Inputs whose changes were told, and then dropped by retention before they were read here. */
export interface TrimmedInputs {
  /** All inputs below. */
  readonly inputsTo: number;
  /** The sequence of the last change that is gone. */
  readonly last: number;
  /** While it is not known yet which inputs: the highest one of the changes that were read since; -1: none. */
  readonly lastSeen?: number;
}

/** How far the order of a tenant of several partitions is read. */
export interface OrderCheckpoint {
  readonly position: number;
  /** recordId of the record before. */
  readonly lastRecordId: string;
  /** Of each partition the offset below which it is placed. */
  readonly ends: readonly number[];
}

/** A run of records of one partition in the tenant's order: `from` stands at place `base`, the others follow. */
export interface OrderSpan {
  readonly base: number;
  readonly partition: number;
  readonly from: number;
  /** Exclusive. */
  readonly end: number;
}

/** Records of both topics that are folded. */
export const recordsOf = ({ events, changes }: Pick<Checkpoint, 'events' | 'changes'>): number =>
  events.position + changes.position;

export interface CatchUpProgress {
  readonly generation: number;
  /** Next log offset to fold. */
  readonly position: number;
  /** Exclusive. */
  readonly end: number;
  readonly processed: number;
  readonly done: boolean;
  /** Of the artefact, when this one began. */
  readonly revivals?: number;
}

/** Rows as they lie in the store, which keeps the word of the first release for an end: `through`. */
type StoredBuild = Omit<BuildProgress, 'seeded'> & {
  readonly seeded?: Omit<NonNullable<BuildProgress['seeded']>, 'end'> & { readonly through: number };
};
type StoredCatchUp = Omit<CatchUpProgress, 'end'> & { readonly through: number };
/** Snapshots have it so too. */
export type StoredCheckpoint = Omit<Checkpoint, 'order'> & {
  readonly order?: Omit<OrderCheckpoint, 'ends'> & { readonly throughs: readonly number[] };
};

function checkpointOf({ order, ...rest }: StoredCheckpoint): Checkpoint {
  if (order === undefined) return rest;
  const { throughs: ends, ...read } = order;
  return { ...rest, order: { ...read, ends } };
}
function storedCheckpoint({ order, ...rest }: Checkpoint): StoredCheckpoint {
  if (order === undefined) return rest;
  const { ends: throughs, ...read } = order;
  return { ...rest, order: { ...read, throughs } };
}
function buildOf({ seeded, ...rest }: StoredBuild): BuildProgress {
  if (seeded === undefined) return rest;
  const { through: end, ...more } = seeded;
  return { ...rest, seeded: { end, ...more } };
}
function storedBuild({ seeded, ...rest }: BuildProgress): StoredBuild {
  if (seeded === undefined) return rest;
  const { end: through, ...more } = seeded;
  return { ...rest, seeded: { through, ...more } };
}

export const CHECKPOINT_KEY = TABLES.checkpoint;

/**
 * An aggregate's version, type and time, and of its last commits the version before each and its offset, in pairs: so a commit
 * changes one row. When there are many the pairs go to a row of their own, under the first one's version.
 */
type HeadRow = (number | string)[];
const LAST_COMMITS = 3;
const COMMITS_PER_ROW = 16;

/** As lists: the names of fields would be written with each row. */
type ReducerRow = readonly [
  generation: number,
  version: number,
  state: Buffer | null,
  lastModified: number,
  offset: number,
  fault: Fault | null,
];
type KeyRow = readonly [
  state: Buffer | null,
  sequence: number,
  lastModified: number,
  fault: Fault | null,
  eventId: string,
  aggregateId: string,
  aggregateType: string,
  version: number,
];

const keyStateOf = ([
  state,
  sequence,
  lastModified,
  fault,
  eventId,
  aggregateId,
  aggregateType,
  version,
]: KeyRow): KeyState => ({
  state,
  sequence,
  lastModified,
  fault: fault ?? undefined,
  origin: { eventId, aggregateId, aggregateType, version },
});
const headOf = ([version, type, timestamp]: HeadRow): Head => ({
  version: version as number,
  type: type as string,
  timestamp: timestamp as number,
});

function* ascending(pairs: readonly number[], from: number, to: number): Generator<readonly [number, number]> {
  for (let i = 0; i < pairs.length; i += 2)
    if ((pairs[i] ?? 0) >= from && (pairs[i] ?? 0) <= to) yield [pairs[i] ?? 0, pairs[i + 1] ?? 0];
}

function* descending(pairs: readonly number[], from: number, to: number): Generator<readonly [number, number]> {
  for (let i = pairs.length - 2; i >= 0; i -= 2)
    if ((pairs[i] ?? 0) >= from && (pairs[i] ?? 0) <= to) yield [pairs[i] ?? 0, pairs[i + 1] ?? 0];
}

function* offsetsOf(rows: Iterable<readonly [unknown, unknown]>): Generator<number> {
  for (const [, offset] of rows) yield offset as number;
}

/** The tables of one tenant partition: typed names over one section of the local store. */
export class PartitionTables {
  readonly section: StoreSection;
  readonly kept: KeptRevisions;
  readonly faults: FaultTables;
  readonly drops: PendingDrops;
  readonly erasedRows: ErasedRows;
  readonly recorded: RecordedRows;
  /** Which sequences each projection's changes have. */
  readonly changes: ChangeIndex;
  /** Of the records that are folded. */
  readonly bytes: StoredBytes;
  readonly eventTypes: EventTypeCounts;
  /** By aggregate, rows that were set since the section's last write began: they are changed in place. */
  #unwrittenHeads = new Map<string, HeadRow>();
  #unwrittenSince = -1;
  /** By aggregate, rows as they are stored that are about to be written: an append asks for one when it is decided, judged and folded. */
  #readHeads = new Map<string, HeadRow>();
  #erasures: boolean | undefined;

  constructor(section: StoreSection) {
    this.section = section;
    this.kept = new KeptRevisions(section);
    this.faults = new FaultTables(section, this.kept);
    this.bytes = new StoredBytes(this.checkpoint()?.bytes);
    this.eventTypes = new EventTypeCounts(section);
    this.drops = new PendingDrops(section, {
      // Of what is dropped the states of projections count as stored.
      from: TABLES.keyStates,
      bytesOf: (key, value) => stateBytes(key, { state: (value as KeyRow)[0] }),
      dropped: (bytes) => this.bytes.changeState(bytes, 0),
    });
    this.erasedRows = new ErasedRows(section);
    this.recorded = new RecordedRows(section, this.drops);
    this.changes = new ChangeIndex(section);
  }

  checkpoint(): Checkpoint | undefined {
    const stored = this.section.get(CHECKPOINT_KEY) as StoredCheckpoint | undefined;
    return stored && checkpointOf(stored);
  }
  setCheckpoint(checkpoint: Checkpoint): void {
    this.eventTypes.save();
    this.section.set(CHECKPOINT_KEY, storedCheckpoint({ ...checkpoint, bytes: this.bytes.row }));
  }

  /** Undefined: there is no such aggregate, or it was erased. */
  head(aggregateId: string): Head | undefined {
    if (this.isErased(aggregateId)) return undefined;
    const row = this.#headRow(aggregateId);
    return row === undefined ? undefined : headOf(row);
  }
  #headRow(aggregateId: string): HeadRow | undefined {
    const unwritten = this.#unwrittenSince === this.section.writes ? this.#unwrittenHeads.get(aggregateId) : undefined;
    return (
      unwritten ??
      this.#readHeads.get(aggregateId) ??
      (this.section.get(`${TABLES.heads}${aggregateId}`) as HeadRow | undefined)
    );
  }
  /** As `head`, and the row is kept until a commit of the aggregate is folded, or `forgetHeads` is called. */
  headToWrite(aggregateId: string): Head | undefined {
    if (this.isErased(aggregateId)) return undefined;
    const row = this.#headRow(aggregateId);
    if (row === undefined) return undefined;
    this.#readHeads.set(aggregateId, row);
    return headOf(row);
  }
  /** What is written from here on is other than before. */
  forgetHeads(): void {
    if (this.#readHeads.size > 0) this.#readHeads.clear();
  }
  /** The head after a commit, which starts after `baseVersion` and lies at `offset`. */
  addCommit(aggregateId: string, { version, type, timestamp }: Head, baseVersion: number, offset: number): void {
    if (this.#unwrittenSince !== this.section.writes) {
      this.#unwrittenSince = this.section.writes;
      this.#unwrittenHeads = new Map();
    }
    const unwritten = this.#unwrittenHeads.get(aggregateId);
    const before = unwritten ?? this.#headRow(aggregateId);
    this.#readHeads.delete(aggregateId);
    const isFull = before !== undefined && before.length >= LAST_COMMITS + 2 * COMMITS_PER_ROW;
    if (isFull) {
      const full = before.slice(LAST_COMMITS);
      this.section.set(`${TABLES.commits}${aggregateId}${SEPARATOR}${padded(full[0] as number)}`, full);
    }
    if (unwritten !== undefined) {
      if (isFull) unwritten.length = LAST_COMMITS;
      [unwritten[0], unwritten[2]] = [version, timestamp];
      unwritten.push(baseVersion, offset);
      return;
    }
    const head = [version, before?.[1] ?? type, timestamp];
    const kept = before === undefined || isFull ? [] : before.slice(LAST_COMMITS);
    // As long as it is: many are kept until they are written, and what grows by `push` takes room for sixteen more.
    const row = head.concat(kept, [baseVersion, offset]);
    this.#unwrittenHeads.set(aggregateId, row);
    this.section.set(`${TABLES.heads}${aggregateId}`, row);
  }
  /** Ids after `cursor`, ascending. */
  *heads(cursor: string): Generator<readonly [string, Head]> {
    for (const [key, value] of this.section.range(`${TABLES.heads}${cursor}${SEPARATOR}`, pastAll(TABLES.heads)))
      if (!this.isErased(key.slice(1))) yield [key.slice(1), headOf(value as HeadRow)];
  }

  /** Most tenants have erased nothing, and are not asked for each aggregate. */
  get hasErasures(): boolean {
    return (this.#erasures ??=
      [...this.section.range(TABLES.erasures, pastAll(TABLES.erasures), { limit: 1 })].length > 0);
  }
  isErased(aggregateId: string): boolean {
    return this.hasErasures && this.section.get(`${TABLES.erasures}${aggregateId}`) !== undefined;
  }
  erasure(aggregateId: string): ErasureRow | undefined {
    return this.hasErasures
      ? (this.section.get(`${TABLES.erasures}${aggregateId}`) as ErasureRow | undefined)
      : undefined;
  }
  /** The next ones behind the id, at most so many, ascending. */
  erasures(after: string, limit: number): (readonly [aggregateId: string, row: ErasureRow])[] {
    if (!this.hasErasures) return [];
    const from = TABLES.erasures + (after === '' ? '' : after + SEPARATOR);
    const rows = this.section.range(from, pastAll(TABLES.erasures), { limit });
    return Array.from(rows, ([key, row]) => [key.slice(1), row as ErasureRow] as const);
  }
  /** States by former reducers, which are only a saving. */
  dropKeptStates(aggregateId: string): void {
    const kept = this.section.get(`${TABLES.keptStates}${aggregateId}`) as readonly KeptRow[] | undefined;
    if (kept === undefined) return;
    this.bytes.changeState(keptBytes(aggregateId, kept), 0);
    this.section.delete(`${TABLES.keptStates}${aggregateId}`);
  }
  /** The aggregate is gone: all that is kept of it, but for the index of its records, which are to be tombstoned, and what goes in slices. */
  erase(aggregateId: string, row: Omit<ErasureRow, 'status'>): void {
    const type = this.head(aggregateId)?.type;
    if (type !== undefined) {
      this.section.delete(`${TABLES.typeMembers}${type}${SEPARATOR}${aggregateId}`);
      const left = this.typeCount(type) - 1;
      this.section.set(`${TABLES.typeCounts}${type}`, left > 0 ? left : undefined);
      this.faults.setAggregate(type, aggregateId, false);
    }
    this.dropReducerState(aggregateId);
    this.dropKeptStates(aggregateId);
    this.section.delete(`${TABLES.reducerMarks}${aggregateId}`);
    this.erasedRows.add(TABLES.commands, aggregateId);
    this.section.set(`${TABLES.erasures}${aggregateId}`, { ...row, status: 'erasing' } satisfies ErasureRow);
    this.#erasures = true;
  }
  /** The log has tombstones for all of its records: nothing needs to find them any more. */
  erased(aggregateId: string): void {
    const row = this.erasure(aggregateId);
    if (row === undefined) return;
    this.section.set(`${TABLES.erasures}${aggregateId}`, { ...row, status: 'erased' } satisfies ErasureRow);
    this.#unwrittenHeads.delete(aggregateId);
    this.#readHeads.delete(aggregateId);
    this.section.delete(`${TABLES.heads}${aggregateId}`);
    this.erasedRows.add(TABLES.commits, aggregateId);
    // At once: one that a former owner writes from here on is to be found.
    const controls = `${TABLES.controls}${aggregateId}${SEPARATOR}`;
    for (const key of this.section.keys(controls, pastAll(controls), Infinity)) this.section.delete(key);
  }
  /** Of a record that is no commit and says something of the aggregate: it is found again when that is erased. */
  addControl(aggregateId: string, offset: number): void {
    this.section.set(`${TABLES.controls}${aggregateId}${SEPARATOR}${padded(offset)}`, offset);
  }
  /** Where the log has records of the aggregate that count, the last one first: there may be as many as events. */
  recordsOf(aggregateId: string): Generator<number> {
    const base = `${TABLES.controls}${aggregateId}${SEPARATOR}`;
    const controls = this.section.range(base, pastAll(base), { reverse: true });
    const commits = this.commitOffsets(aggregateId, 0, Number.MAX_SAFE_INTEGER, true);
    return descendingOnce(offsetsOf(commits), offsetsOf(controls));
  }

  addToType(aggregateType: string, aggregateId: string): void {
    this.section.set(`${TABLES.typeMembers}${aggregateType}${SEPARATOR}${aggregateId}`, 1);
    this.section.set(`${TABLES.typeCounts}${aggregateType}`, this.typeCount(aggregateType) + 1);
  }
  typeCount(aggregateType: string): number {
    return (this.section.get(`${TABLES.typeCounts}${aggregateType}`) as number | undefined) ?? 0;
  }
  /** Ascending by type, of those behind `past`. */
  *typeCounts(past: string): Generator<readonly [aggregateType: string, aggregates: number]> {
    for (const [key, value] of this.section.range(`${TABLES.typeCounts}${past}`, pastAll(TABLES.typeCounts)))
      if (key !== `${TABLES.typeCounts}${past}`) yield [key.slice(1), value as number];
  }
  *aggregatesOfType(aggregateType: string, cursor: string): Generator<string> {
    const prefix = `${TABLES.typeMembers}${aggregateType}${SEPARATOR}`;
    for (const [key] of this.section.range(cursor === '' ? prefix : `${prefix}${cursor}${SEPARATOR}`, pastAll(prefix)))
      yield key.slice(prefix.length);
  }

  /** [baseVersion, offset] of the commits that start in [fromBase, toBase], ascending or descending. */
  *commitOffsets(
    aggregateId: string,
    fromBase: number,
    toBase: number,
    reverse = false,
  ): Generator<readonly [number, number]> {
    const last = (this.#headRow(aggregateId)?.slice(LAST_COMMITS) ?? []) as number[];
    const within = reverse ? descending : ascending;
    if (reverse) yield* within(last, fromBase, toBase);
    const prefix = `${TABLES.commits}${aggregateId}${SEPARATOR}`;
    const before = Math.min(toBase, (last[0] ?? 0) - 1);
    if (before >= fromBase) {
      // The row that may hold the first is the last one that does not start after it.
      let start = prefix + padded(fromBase);
      for (const [key] of this.section.range(prefix, prefix + padded(fromBase + 1), { limit: 1, reverse: true }))
        start = key;
      for (const [, row] of this.section.range(start, prefix + padded(before + 1), { reverse }))
        yield* within(row as number[], fromBase, toBase);
    }
    if (!reverse) yield* within(last, fromBase, toBase);
  }
  /** The start of the commit that holds `version`. */
  commitBaseOf(aggregateId: string, version: number): number | undefined {
    for (const [base] of this.commitOffsets(aggregateId, 0, version - 1, true)) return base;
    return undefined;
  }

  command(aggregateId: string, commandId: string): RememberedCommand | undefined {
    // They are removed bit by bit.
    if (this.isErased(aggregateId)) return undefined;
    return this.section.get(`${TABLES.commands}${aggregateId}${SEPARATOR}${commandId}`) as
      RememberedCommand | undefined;
  }
  setCommand(aggregateId: string, commandId: string, command: RememberedCommand): void {
    this.section.set(`${TABLES.commands}${aggregateId}${SEPARATOR}${commandId}`, command);
    this.section.set(`${TABLES.commandOffsets}${padded(command.offset)}`, [aggregateId, commandId]);
  }
  /** Drops commands of commits before `offset`, a bounded number a call. */
  forgetCommands(offset: number): void {
    const end = TABLES.commandOffsets + padded(Math.max(0, offset));
    for (const [key, value] of [...this.section.range(TABLES.commandOffsets, end, { limit: 1000 })]) {
      const [aggregateId, commandId] = value as [string, string];
      // It may have been used again since, and then counts from there.
      const used = this.command(aggregateId, commandId);
      if (used !== undefined && used.offset < offset)
        this.section.delete(`${TABLES.commands}${aggregateId}${SEPARATOR}${commandId}`);
      this.section.delete(key);
    }
  }

  /** Offsets of void records: few, only zombies and lost races leave them. */
  addVoid(topic: 'events' | 'changes', offset: number): void {
    this.section.set(`${TABLES.voids}${topic}${SEPARATOR}${padded(offset)}`, offset);
  }
  *voids(topic: 'events' | 'changes'): Generator<number> {
    const base = `${TABLES.voids}${topic}${SEPARATOR}`;
    for (const [, value] of this.section.range(base, pastAll(base))) yield value as number;
  }

  reducerState(aggregateId: string): ReducerState | undefined {
    const row = this.section.get(`${TABLES.reducerStates}${aggregateId}`) as ReducerRow | undefined;
    if (row === undefined) return undefined;
    const [generation, version, state, lastModified, offset, fault] = row;
    return { generation, version, state, lastModified, offset, fault: fault ?? undefined };
  }
  setReducerState(
    aggregateId: string,
    { generation, version, state, lastModified, offset, fault }: ReducerState,
    /** The one that is stored, for who knows it. */
    before = this.reducerState(aggregateId),
  ): void {
    // What was under way when the aggregate was erased comes to nothing.
    if (this.isErased(aggregateId)) return;
    this.bytes.changeState(stateBytes(aggregateId, before), stateBytes(aggregateId, { state }));
    const row: ReducerRow = [generation, version, state, lastModified, offset, fault ?? null];
    this.section.set(`${TABLES.reducerStates}${aggregateId}`, row);
  }
  dropReducerState(aggregateId: string): void {
    this.bytes.changeState(stateBytes(aggregateId, this.reducerState(aggregateId)), 0);
    this.section.delete(`${TABLES.reducerStates}${aggregateId}`);
  }
  catchUp(aggregateType: string): CatchUpProgress | undefined {
    const stored = this.section.get(`${TABLES.catchUps}${aggregateType}`) as StoredCatchUp | undefined;
    if (stored === undefined) return undefined;
    const { through: end, ...rest } = stored;
    return { ...rest, end };
  }
  setCatchUp(aggregateType: string, { end: through, ...rest }: CatchUpProgress): void {
    const stored: StoredCatchUp = { ...rest, through };
    this.section.set(`${TABLES.catchUps}${aggregateType}`, stored);
  }

  setSpan({ base, partition, from, end }: OrderSpan): void {
    this.section.set(`${TABLES.spans}${padded(base)}`, [partition, from, end]);
    this.section.set(`${TABLES.spanPlaces}${padded(partition)}${padded(from)}`, base);
  }
  /** The span that holds the partition's offset. */
  spanOf(partition: number, offset: number): OrderSpan | undefined {
    const of = `${TABLES.spanPlaces}${padded(partition)}`;
    for (const [, base] of this.section.range(of, of + padded(offset + 1), { limit: 1, reverse: true })) {
      const span = this.spanAt(base as number);
      if (span?.partition === partition && span.from <= offset && offset < span.end) return span;
    }
    return undefined;
  }
  /** The span that holds the place, or the last one before it. */
  spanAt(place: number): OrderSpan | undefined {
    for (const [key, value] of place < 0
      ? []
      : this.section.range(TABLES.spans, `${TABLES.spans}${padded(place + 1)}`, { limit: 1, reverse: true })) {
      const [partition, from, end] = value as [number, number, number];
      return { base: parseInt(key.slice(1), 36), partition, from, end };
    }
    return undefined;
  }

  liveProjections(): (readonly [string, LiveProjection])[] {
    return [...this.section.range(TABLES.liveProjections, pastAll(TABLES.liveProjections))].map(
      ([key, value]) => [key.slice(1), value as LiveProjection] as const,
    );
  }
  liveProjection(projectionId: string): LiveProjection | undefined {
    return this.section.get(`${TABLES.liveProjections}${projectionId}`) as LiveProjection | undefined;
  }
  setLiveProjection(projectionId: string, live: LiveProjection | undefined): void {
    this.section.set(`${TABLES.liveProjections}${projectionId}`, live);
  }
  /** Live projections may have folded what is gone now; so may former revisions, whose states are not kept for it, whether one is live or not. */
  markErased(): void {
    for (const [projectionId, live] of this.liveProjections())
      if (live.erased !== true) this.setLiveProjection(projectionId, { ...live, erased: true });
    for (const projectionId of this.kept.projections())
      for (const { revision } of this.kept.giveUp(projectionId)) this.dropRevision(projectionId, revision);
  }
  builds(): (readonly [string, BuildProgress])[] {
    return [...this.section.range(TABLES.builds, pastAll(TABLES.builds))].map(
      ([key, value]) => [key.slice(1), buildOf(value as StoredBuild)] as const,
    );
  }
  setBuild(projectionId: string, build: BuildProgress | undefined): void {
    this.section.set(`${TABLES.builds}${projectionId}`, build && storedBuild(build));
  }

  #keyPrefix(projectionId: string, revision: number): string {
    return `${TABLES.keyStates}${projectionId}@${this.kept.placeOf(projectionId, revision)}${SEPARATOR}`;
  }
  keyState(projectionId: string, revision: number, key: string, classIndex: number): KeyState | undefined {
    const row = this.section.get(`${this.#keyPrefix(projectionId, revision)}${key}${SEPARATOR}${classIndex}`) as
      KeyRow | undefined;
    return row === undefined ? undefined : keyStateOf(row);
  }
  setKeyState(
    projectionId: string,
    revision: number,
    key: string,
    classIndex: number,
    { state, sequence, lastModified, fault, origin }: KeyState,
  ): void {
    const row: KeyRow = [
      state,
      sequence,
      lastModified,
      fault ?? null,
      origin.eventId,
      origin.aggregateId,
      origin.aggregateType,
      origin.version,
    ];
    const name = `${this.#keyPrefix(projectionId, revision)}${key}${SEPARATOR}${classIndex}`;
    this.bytes.changeState(this.#keyStateBytes(name), stateBytes(name, { state }));
    this.section.set(name, row);
  }
  /** Keys that start with `prefix`, after `cursor` (a key, then a class), ascending. */
  *keyStates(
    projectionId: string,
    revision: number,
    prefix = '',
    cursor?: readonly [string, number],
  ): Generator<readonly [string, number, KeyState]> {
    const base = this.#keyPrefix(projectionId, revision);
    const from = cursor === undefined ? base + prefix : `${base}${cursor[0]}${SEPARATOR}${cursor[1]}${SEPARATOR}`;
    for (const [key, value] of this.section.range(from, pastAll(base))) {
      if (!key.startsWith(prefix, base.length)) return;
      const end = key.lastIndexOf(SEPARATOR);
      yield [key.slice(base.length, end), Number(key.slice(end + 1)), keyStateOf(value as KeyRow)];
    }
  }
  /** Of the revision there is nothing from here on; its rows are removed by and by. */
  dropRevision(projectionId: string, revision: number): void {
    let dropped = false;
    for (const base of [this.#keyPrefix(projectionId, revision), this.faults.giveUp(projectionId, revision)])
      dropped = this.drops.add(base, pastAll(base)) || dropped;
    if (dropped) this.kept.renew(projectionId, revision);
  }
  /** A key without a state, and without a fault, of which nobody was told. */
  dropKeyState(projectionId: string, revision: number, key: string, classIndex: number): void {
    const name = `${this.#keyPrefix(projectionId, revision)}${key}${SEPARATOR}${classIndex}`;
    this.bytes.changeState(this.#keyStateBytes(name), 0);
    this.section.delete(name);
  }
  #keyStateBytes(name: string): number {
    const row = this.section.get(name) as KeyRow | undefined;
    return row === undefined ? 0 : stateBytes(name, { state: row[0] });
  }

  /** The log has dropped the changes below `sequence`: they are forgotten at once, and their index is removed by and by. */
  trimChanges(projectionId: string, sequence: number): void {
    const last = this.changes.lastBelow(projectionId, sequence);
    if (last === undefined) return;
    this.setTrimmed(projectionId, last);
    const { from, to } = this.changes.below(projectionId, sequence);
    if (from < to) this.drops.add(from, to);
  }
  /** Never back: what this process indexed before may end long before what it found dropped. */
  setTrimmed(projectionId: string, sequence: number): void {
    if (sequence > this.trimmed(projectionId)) this.section.set(`${TABLES.trimmed}${projectionId}`, sequence);
  }
  /** The last change of the projection that was trimmed; 0: none. */
  trimmed(projectionId: string): number {
    return (this.section.get(`${TABLES.trimmed}${projectionId}`) as number | undefined) ?? 0;
  }
  lastInput(projectionId: string): LastInput | undefined {
    return this.section.get(`${TABLES.lastInputs}${projectionId}`) as LastInput | undefined;
  }
  setLastInput(projectionId: string, input: LastInput | undefined): void {
    this.section.set(`${TABLES.lastInputs}${projectionId}`, input);
  }
  /** How far the swap of a projection is that is under way. */
  swap(projectionId: string): SwapProgress | undefined {
    return this.section.get(`${TABLES.swaps}${projectionId}`) as SwapProgress | undefined;
  }
  setSwap(projectionId: string, swap: SwapProgress | undefined): void {
    this.section.set(`${TABLES.swaps}${projectionId}`, swap);
  }
  /** Of the projection there is nothing from here on; its rows are removed by and by. */
  dropProjection(projectionId: string): void {
    for (const table of [TABLES.liveProjections, TABLES.builds, TABLES.trimmed, TABLES.swaps])
      this.section.delete(`${table}${projectionId}`);
    this.kept.drop(projectionId);
    this.faults.dropProjection(projectionId);
    const { from, to } = this.changes.forget(projectionId);
    this.drops.add(from, to);
    for (const base of [`${TABLES.keyStates}${projectionId}@`, `${TABLES.faultedKeys}${projectionId}@`])
      this.drops.add(base, pastAll(base));
  }
}
