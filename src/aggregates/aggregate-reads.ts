import { gone, type Head } from '../core/append-rules.js';
import { InvariantError, StatefoldError } from '../core/errors.js';
import { GENERATION_STRIDE, type Fault, type OrderedState } from '../core/event.js';
import type { AggregateHistory } from './aggregate-history.js';
import type { Bindings } from './bindings.js';
import { decodeCursor, encodeCursor } from '../core/cursor.js';
import { costOfListed, LISTED_AT_ONCE, type Turn } from '../core/turns.js';
import { firstOf, jsonBytes, LIST_BYTES, PAGE_BYTES, STATES_READ_BYTES } from '../core/reads.js';
import type { FoldAnswer } from './reducer-turns.js';
import type { Reducers } from './reducers.js';
import { TYPES_AT_ONCE } from '../store/event-type-counts.js';
import type { PartitionTables, ReducerState } from '../store/partition-tables.js';
import type {
  AggregatesPage,
  AggregatesQuery,
  TypesQuery,
  AggregateState,
  AggregateTypeSummary,
  EventsPage,
  EventsQuery,
  EventTypesPage,
  EventTypeSummary,
} from './aggregates.js';

/** The partition of the log that answers rest on. */
export interface AnsweringPartition {
  /** Resolves when all that was acknowledged before the call is folded here. @throws NotOwnerError where another process answers */
  caughtUpAsOwner(): Promise<void>;
  /** @throws NotOwnerError where this process answers no more */
  mustAnswer(): void;
}

export interface AggregateReadsOptions {
  readonly tables: PartitionTables;
  readonly history: AggregateHistory;
  readonly reducers: Reducers;
  readonly bindings: Bindings;
  readonly partition: AnsweringPartition;
}

/** Of aggregates that were faulted so many are looked at for a page: states of a binding before this one have no faults any more. */
const LOOKED_AT = 1_000;

export interface TypeFaultsQuery {
  readonly aggregateType: string;
  /** Of aggregates behind this id. */
  readonly after: string;
  readonly limit: number;
  readonly turn: Turn;
}

export interface TypeFaults {
  readonly faults: readonly Fault[];
  /** Up to this id; undefined: there are no more. */
  readonly upTo: string | undefined;
}

const ALL_TYPES: TypesQuery = { after: '', limit: Infinity };

/** What a partition answers of its aggregates, from its local store and the log. */
export class AggregateReads {
  readonly #options: AggregateReadsOptions;

  constructor(options: AggregateReadsOptions) {
    this.#options = options;
  }

  #bound(aggregateType: string): boolean {
    return this.#options.bindings.of(aggregateType) !== undefined;
  }

  /** The state at exactly that version, for an append that was answered before. */
  async stateAt(aggregateId: string, aggregateType: string, endVersion: number): Promise<FoldAnswer> {
    try {
      if (this.#options.tables.head(aggregateId)?.version === endVersion)
        await this.#options.reducers.ensure(aggregateId);
    } catch {
      return { status: 'unavailable' };
    }
    const row = this.row(aggregateId, aggregateType);
    if (row?.version === endVersion) return { state: row.state };
    return { status: row?.fault === undefined && !this.#halted(aggregateType) ? 'superseded' : 'faulted' };
  }

  /** The stored state of the reducer that is bound now. `inTables`: what the tables have of the aggregate, where it was read already. */
  row(aggregateId: string, aggregateType: string, inTables?: ReducerState): ReducerState | undefined {
    const reducer = this.#options.bindings.of(aggregateType);
    return reducer === undefined ? undefined : this.#options.reducers.stored(aggregateId, reducer, inTables);
  }

  /** Faults of the type's aggregates, ascending by id. */
  async faults({ aggregateType, after, limit, turn }: TypeFaultsQuery): Promise<TypeFaults> {
    await this.#options.partition.caughtUpAsOwner();
    const { tables } = this.#options;
    const faults: Fault[] = [];
    let upTo: string | undefined;
    let [bytes, read, looked] = [0, 0, 0];
    for (;;) {
      await this.#turn(turn, Math.min(limit, LISTED_AT_ONCE));
      const most = { read: read + STATES_READ_BYTES, looked: looked + LISTED_AT_ONCE };
      let isEnd = true;
      for (const aggregateId of tables.faults.aggregates(aggregateType, upTo ?? after)) {
        if (looked === LOOKED_AT || read >= PAGE_BYTES) return { faults, upTo };
        isEnd = looked < most.looked && read < most.read;
        if (!isEnd) break;
        looked++;
        const stored = tables.reducerState(aggregateId);
        read += stored?.state?.length ?? 0;
        const fault = stored && this.row(aggregateId, aggregateType, stored)?.fault;
        if (fault !== undefined) {
          if (faults.length === limit || bytes >= LIST_BYTES) return { faults, upTo };
          faults.push(fault);
          bytes += jsonBytes(fault);
        }
        upTo = aggregateId;
      }
      if (isEnd) return { faults, upTo: undefined };
    }
  }

  faultCount(aggregateType: string): number {
    return this.#bound(aggregateType) ? this.#options.tables.faults.aggregateCount(aggregateType) : 0;
  }

  async events(query: EventsQuery): Promise<EventsPage> {
    await this.#options.partition.caughtUpAsOwner();
    this.#mustBeLeft(query.aggregateId);
    const head = this.#options.tables.head(query.aggregateId);
    if (head === undefined) throw noAggregate(query.aggregateId);
    let refused: unknown;
    const turn: Turn = async (cost) => {
      try {
        await query.turn?.(cost);
        // What is read behind a turn is of this process still.
        this.#options.partition.mustAnswer();
      } catch (error) {
        refused = error;
        throw error;
      }
    };
    try {
      const page = await this.#options.history.events({ ...query, ...(query.turn && { turn }) }, head.version);
      // The aggregate may have been erased while its events were read, or the partition given up.
      this.#mustBeLeft(query.aggregateId);
      this.#options.partition.mustAnswer();
      const fault = this.row(query.aggregateId, head.type)?.fault;
      return fault === undefined ? page : { ...page, fault };
    } catch (error) {
      if (error === refused || error instanceof InvariantError || error instanceof StatefoldError) throw error;
      throw new StatefoldError('UNAVAILABLE', 'the log could not be read now; send the request again', {
        cause: error,
      });
    }
  }

  #mustBeLeft(aggregateId: string): void {
    if (this.#options.tables.isErased(aggregateId)) throw gone(aggregateId);
  }

  /** What is read behind a turn is of this process still. */
  async #turn(turn: Turn, items: number): Promise<void> {
    await turn(costOfListed(items));
    this.#options.partition.mustAnswer();
  }

  async list({ aggregateType, limit, cursor, turn }: AggregatesQuery): Promise<AggregatesPage> {
    await this.#options.partition.caughtUpAsOwner();
    const aggregates: AggregatesPage['aggregates'][number][] = [];
    for (let after = cursor === undefined ? '' : decodeCursor(cursor, ['string'])[0]; ;) {
      if (turn !== undefined) await this.#turn(turn, LISTED_AT_ONCE);
      const ids =
        aggregateType === undefined ? this.#ids(after) : this.#options.tables.aggregatesOfType(aggregateType, after);
      let read = 0;
      for (const aggregateId of firstOf(ids, LISTED_AT_ONCE)) {
        if (aggregates.length === limit)
          return { aggregates, nextCursor: encodeCursor([aggregates.at(-1)?.aggregateId ?? '']) };
        after = aggregateId;
        read++;
        const head = this.#options.tables.head(aggregateId);
        if (head === undefined) continue;
        const { type, version, timestamp } = head;
        aggregates.push({ aggregateId, aggregateType: type, version, lastModified: timestamp });
      }
      if (read < LISTED_AT_ONCE) return { aggregates, nextCursor: undefined };
    }
  }

  *#ids(after: string): Generator<string> {
    for (const [aggregateId] of this.#options.tables.heads(after)) yield aggregateId;
  }

  async types({ after, limit, turn }: TypesQuery = ALL_TYPES): Promise<readonly AggregateTypeSummary[]> {
    await this.#options.partition.caughtUpAsOwner();
    const types: AggregateTypeSummary[] = [];
    for (let from = after; ;) {
      if (turn !== undefined) await this.#turn(turn, LISTED_AT_ONCE);
      const most = Math.min(LISTED_AT_ONCE, limit - types.length);
      let read = 0;
      for (const [aggregateType, aggregates] of firstOf(this.#options.tables.typeCounts(from), most)) {
        types.push({ aggregateType, aggregates });
        from = aggregateType;
        read++;
      }
      if (read < most || types.length === limit) return types;
    }
  }

  async eventTypes({ after, limit, turn }: TypesQuery): Promise<EventTypesPage> {
    await this.#options.partition.caughtUpAsOwner();
    const types: EventTypeSummary[] = [];
    const page = (upTo: string | undefined): EventTypesPage => {
      return { eventTypes: types, upTo, others: this.#options.tables.eventTypes.others };
    };
    for (let [from, bytes] = [after, 0]; ;) {
      // The first part too: of all who asked meanwhile the log answered at once.
      if (turn !== undefined) await this.#turn(turn, TYPES_AT_ONCE);
      let read = 0;
      for (const type of firstOf(this.#options.tables.eventTypes.past(from), TYPES_AT_ONCE)) {
        if (types.length === limit || bytes >= LIST_BYTES) return page(from);
        types.push(type);
        bytes += type.aggregateTypes.reduce((sum, { length }) => sum + length, type.eventType.length);
        from = type.eventType;
        read++;
      }
      if (read < TYPES_AT_ONCE) return page(undefined);
    }
  }

  async eventType(eventType: string): Promise<EventTypeSummary | undefined> {
    await this.#options.partition.caughtUpAsOwner();
    return this.#options.tables.eventTypes.of(eventType);
  }

  async state(aggregateType: string, aggregateId: string): Promise<AggregateState> {
    await this.#options.partition.caughtUpAsOwner();
    this.#mustBeLeft(aggregateId);
    if (!this.#bound(aggregateType))
      throw new StatefoldError(
        'NO_REDUCER_BOUND',
        `no reducer is bound to aggregate type '${aggregateType}'; upload one, or bind one with PUT /aggregate-types/${aggregateType}`,
      );
    const head = this.#options.tables.head(aggregateId);
    if (head?.type !== aggregateType) throw noAggregate(aggregateId);
    const current = this.row(aggregateId, aggregateType);
    if (current?.version !== head.version && current?.fault === undefined) await this.#ensured(aggregateId);
    this.#mustBeLeft(aggregateId);
    const row = this.row(aggregateId, aggregateType);
    return {
      aggregateId,
      aggregateType,
      version: row?.version ?? 0,
      state: row?.state ?? null,
      lastModified: row === undefined || row.version === 0 ? undefined : row.lastModified,
      fault: row?.fault,
      ...(row?.fault === undefined && row?.version !== head.version && this.#halted(aggregateType)
        ? { stateStatus: 'faulted' as const }
        : {}),
    };
  }

  /** The artefact of the type's reducer has too many strikes: states stay as they were then. */
  #halted(aggregateType: string): boolean {
    const reducer = this.#options.bindings.of(aggregateType);
    return reducer !== undefined && this.#options.reducers.isHalted(reducer);
  }

  async #ensured(aggregateId: string): Promise<void> {
    try {
      await this.#options.reducers.ensure(aggregateId);
    } catch (error) {
      if (error instanceof StatefoldError) throw error;
      throw new StatefoldError('UNAVAILABLE', 'the state could not be computed now; send the request again', {
        cause: error,
      });
    }
  }

  async aggregateStates(
    aggregateIds: readonly string[],
    end: number,
    lastOnly = false,
  ): Promise<readonly OrderedState[]> {
    const { bindings, tables, reducers } = this.#options;
    if (bindings.isEmpty) return [];
    const states: OrderedState[] = [];
    const behind: string[] = [];
    const tell = (aggregateId: string, again = false): void => {
      const head = tables.head(aggregateId);
      if (head === undefined || !this.#bound(head.type)) return;
      const row = this.row(aggregateId, head.type);
      if (lastOnly && row !== undefined && row.offset >= end) return;
      if (!again && !this.#isThere(aggregateId, row, head, end)) behind.push(aggregateId);
      else if (row !== undefined) states.push(orderedState(aggregateId, head.type, row));
    };
    for (const aggregateId of aggregateIds) tell(aggregateId);
    if (behind.length > 0) await Promise.all(behind.map((aggregateId) => reducers.ensure(aggregateId)));
    for (const aggregateId of behind) tell(aggregateId, true);
    return states;
  }

  /** The state has all commits below the offset, the last of them whole. Later ones are not waited for: a catch-up folds them in its turn. */
  #isThere(aggregateId: string, row: ReducerState | undefined, head: Head, end: number): boolean {
    if (row === undefined) return false;
    if (row.version === head.version || row.offset >= end || row.fault !== undefined) return true;
    const [next] = this.#options.tables.commitOffsets(aggregateId, row.version, head.version - 1);
    return next !== undefined && next[0] === row.version && next[1] >= end;
  }
}

const orderedState = (
  aggregateId: string,
  aggregateType: string,
  { version, state, lastModified, generation, offset }: ReducerState,
): OrderedState => ({
  ...{ aggregateId, aggregateType, version, state, lastModified },
  logOffset: generation * GENERATION_STRIDE + offset,
});

const noAggregate = (aggregateId: string): StatefoldError =>
  new StatefoldError('NOT_FOUND', `there is no aggregate '${aggregateId}'`);
