import type { FoldItem, FoldOutcome, HostEvent } from '../code-host/code-host.js';
import type { Logger } from '../core/logger.js';
import type { TenantCode } from '../code-host/tenant-code.js';
import type { AggregateHistory } from './aggregate-history.js';
import type { Bindings, BoundReducer } from './bindings.js';
import type { ReducerFaults, Stop } from './reducer-faults.js';
import { eachEvent, eventsIn, type AggregateCommit } from '../core/event.js';
import { background } from '../core/background.js';
import type { TenantBudget } from '../core/budget.js';
import { StatefoldError } from '../core/errors.js';
import { eventLoop } from '../core/event-loop.js';
import { nextTurn, nextTurnOfAppend, ShortSlices, shortSliceMs, timedSlice } from '../core/slices.js';
import { bytesOfCommit } from '../feed/inputs.js';
import {
  isWaitedFor,
  ReducerTurns,
  type ShedListener,
  type TurnFold,
  type Ensure,
  type FoldAnswer,
  type Waiter,
  type Work,
} from './reducer-turns.js';
import type { KeptStates } from '../store/kept-states.js';
import type { ReducerMarks } from '../store/fault-tables.js';
import type { PartitionTables, ReducerState } from '../store/partition-tables.js';

export interface ReducersOptions {
  readonly tables: PartitionTables;
  readonly kept: KeptStates;
  readonly code: TenantCode;
  readonly bindings: Bindings;
  readonly history: AggregateHistory;
  /** What the log says of faults. */
  readonly faults: ReducerFaults;
  /** An append waits so long for its state, milliseconds. */
  readonly deadlineMs: number;
  /** The tenant's budget; without it nothing is bounded. */
  readonly budget?: TenantBudget | undefined;
  /** Called with commits that were not folded, since too much waits: their aggregates are behind. */
  readonly listener: ShedListener;
  readonly logger: Logger;
  readonly observer?: ReducersObserver | undefined;
}

export interface ReducersObserver {
  folded?(events: number, seconds: number): void;
  faulted?(kind: 'reducer'): void;
}

/** What one turn folds of one aggregate. */
interface Share {
  readonly aggregateId: string;
  readonly works: Work[];
  readonly ensures: Ensure[];
}
/** An aggregate's state before a fold. */
interface Standing {
  /** By whatever code. */
  readonly stored: ReducerState | undefined;
  /** By the reducer that folds it. */
  readonly row: ReducerState | undefined;
  /** As of when: how many rows the log's records had changed. Nobody else changes that of an aggregate whose turn is under way. */
  readonly rowsChanged: number;
  /** Versions that were to be passed over when the row was read, so that it has nothing of them. */
  readonly skipped: readonly number[];
}

/** What the runner is to fold of an aggregate. */
interface Plan {
  readonly reducer: BoundReducer;
  readonly before: Standing;
  readonly item: FoldItem;
  readonly commits: readonly AggregateCommit[];
  /** The version of the state when nothing throws: skipped events may follow the last one that is folded. */
  readonly toVersion: number;
  /** The fault before which the fold stops, if there is one. */
  readonly stop: Stop | undefined;
}

/** What is to be folded of a share. */
type Planned = Plan & { readonly share: Share };

/** A client waits for it, or the rows of the read store do. */
const isAwaited = ({ works, ensures }: Share): boolean => ensures.length > 0 || works.some(isWaitedFor);

/** Appends whose answers go out behind one slice while several tenants ask; two slices may be on a turn of the event loop. */
const ANSWERS_AT_ONCE = 8;

/** How many of the plans, from the index on, are taken in one slice: those for which nobody waits as there is time. */
function takenAtOnce(plans: readonly Planned[], first: number): number {
  let answers = 0;
  let count = 0;
  for (; answers < ANSWERS_AT_ONCE && first + count < plans.length; count++)
    answers += plans[first + count]?.share.works.filter(isWaitedFor).length ?? 0;
  return count;
}

const HISTORY_EVENTS = 1000;
const HISTORY_BYTES = 4 * 1024 * 1024;
/** Of the states that a frame begins with, and of those by other code that it replaces: they are read in one go, and held until it is answered. */
const FRAME_STATE_BYTES = 8 * 1024 * 1024;
const DEADLINE_TICK_MS = 50;

/** Commits of an aggregate's history that are folded together: about as many as one turn has room for. */
class HistoryPart {
  #events = 0;
  #bytes = 0;

  constructor(private readonly commits: AggregateCommit[]) {}

  get isFull(): boolean {
    return this.#events >= HISTORY_EVENTS || this.#bytes >= HISTORY_BYTES;
  }

  add(commit: AggregateCommit): void {
    this.commits.push(commit);
    this.#events += commit.events.length;
    this.#bytes += bytesOfCommit(commit);
  }

  take(): AggregateCommit[] {
    this.#events = this.#bytes = 0;
    return this.commits.splice(0);
  }
}

/**
 * States of aggregates by their bound reducers. A state that is behind (a new binding, a restart) is folded from the aggregate's
 * history on demand.
 */
export class Reducers implements TurnFold {
  readonly #options: ReducersOptions;
  readonly #turns: ReducerTurns;
  readonly #waiters = new Set<Waiter>();
  /** What is stored and answered of earlier folds, while several tenants ask. */
  #taking: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  /** Bytes of states that were read for turns. */
  #read = 0;
  #closed = false;

  constructor(options: ReducersOptions) {
    this.#options = options;
    this.#turns = new ReducerTurns(options.tables.section.tenantId, this, options.budget, options.listener);
  }

  /** Folds an accepted commit of a bound type; answers with the state at its last version, at the latest at the deadline. */
  fold(commit: AggregateCommit): Promise<FoldAnswer> {
    return new Promise((resolve) => {
      const waiter: Waiter = { deadline: performance.now() + this.#options.deadlineMs, answer: undefined };
      waiter.answer = (answer) => {
        waiter.answer = undefined;
        this.#waiters.delete(waiter);
        resolve(answer);
      };
      this.#waiters.add(waiter);
      this.#timer ??= setInterval(() => this.#expire(), DEADLINE_TICK_MS).unref();
      this.#turns.fold({ commit, waiter, bytes: bytesOfCommit(commit) });
    });
  }

  /** Folds the aggregate up to its head, as of the call. Rejects when the runner is away. */
  ensure(aggregateId: string): Promise<void> {
    return this.#options.tables.section.isFull ? this.#ensureLater(aggregateId) : this.#turns.ensure(aggregateId);
  }

  /** The local store is being written, which makes room for what is folded; where it can't be, the fold is refused. */
  async #ensureLater(aggregateId: string): Promise<void> {
    const { section } = this.#options.tables;
    if ((await section.roomSoon(() => !this.#closed && !section.isFailing)) === false)
      throw new StatefoldError(
        'UNAVAILABLE',
        'the state can not be computed now, since the local store takes no writes (is its disk full?); send the request again later',
        { retryAfterSeconds: 5 },
      );
    return this.#turns.ensure(aggregateId);
  }

  /** Folds commits of a catch-up, grouped by aggregate, when nothing else waits; those that are folded already are passed over. */
  catchUp(groups: readonly (readonly AggregateCommit[])[]): Promise<void> {
    return this.#turns.catchUp(groups);
  }

  close(): void {
    this.#closed = true;
    clearInterval(this.#timer);
    for (const waiter of this.#waiters) waiter.answer?.({ status: 'unavailable' });
    this.#turns.close();
  }

  #expire(): void {
    const now = performance.now();
    for (const waiter of this.#waiters) if (waiter.deadline <= now) waiter.answer?.({ status: 'deadline' });
    if (this.#waiters.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** After a close the gathered commits may have holes, and the runner belongs to the next task. */
  #mustRun(): void {
    if (this.#closed) throw new Error('the tenant is closed');
  }

  /** What a catch-up folds would pile up before the store, and be written in one go. Where that can't be written memory is what bounds it. */
  async room(): Promise<void> {
    const { section } = this.#options.tables;
    // It is tried again by itself each second.
    if (!section.isFailing) await section.room().catch(() => undefined);
  }

  /** One turn: all that was gathered for it goes to the runner as one frame, or as several where the states before it are large. */
  async foldTurn(works: readonly Work[], ensures: readonly Ensure[]): Promise<Error | undefined> {
    const shares = new Map<string, Share>();
    const shareOf = (aggregateId: string): Share => {
      let share = shares.get(aggregateId);
      if (share === undefined) shares.set(aggregateId, (share = { aggregateId, works: [], ensures: [] }));
      return share;
    };
    for (const work of works) shareOf(work.commit.aggregateId).works.push(work);
    for (const ensure of ensures) shareOf(ensure.aggregateId).ensures.push(ensure);
    try {
      const items: Planned[] = [];
      let begun = this.#read;
      const slices: { awaited?: ShortSlices; others?: ShortSlices } = {};
      for (const share of shares.values()) {
        // What a client waits for goes on at once while no other tenant's does.
        if (background.clientsAreAbout && (background.isShared || !isAwaited(share))) {
          const turn = isAwaited(share)
            ? (slices.awaited ??= new ShortSlices(nextTurnOfAppend)).next()
            : (slices.others ??= new ShortSlices(nextTurn)).next();
          if (turn !== undefined) await turn;
        }
        const prepared = await this.#prepare(share);
        if (prepared !== undefined) items.push({ share, ...prepared });
        if (this.#read - begun < FRAME_STATE_BYTES) continue;
        await (items.length > 0 ? this.#foldFrame(items.splice(0)) : nextTurnOfAppend());
        begun = this.#read;
      }
      if (items.length > 0) await this.#foldFrame(items);
      return undefined;
    } catch (error) {
      if (!this.#closed) this.#options.logger.warn({ err: error }, 'states could not be folded');
      for (const { works: open, ensures: waiting } of shares.values()) {
        for (const { waiter } of open) waiter?.answer?.({ status: 'unavailable' });
        for (const ensure of waiting) ensure.reject(error as Error);
      }
      return error as Error;
    }
  }

  async #foldFrame(items: readonly Planned[]): Promise<void> {
    this.#mustRun();
    const started = performance.now();
    const outcomes = await this.#options.code.runner.fold(items.map(({ item }) => item));
    const events = items.reduce((sum, { item }) => sum + item.events.length, 0);
    this.#options.observer?.folded?.(events, (performance.now() - started) / 1000);
    await this.#taken(items, outcomes);
  }

  /** What the runner made is stored and answered: while several tenants ask, behind what it made before. */
  async #taken(plans: readonly Planned[], outcomes: readonly FoldOutcome[]): Promise<void> {
    if (!background.isShared) return this.#takenInSlices(plans, outcomes);
    const taken = this.#taking.then(() => this.#takenInSlices(plans, outcomes));
    // Not on the turn of its last answers either.
    this.#taking = taken.catch(() => undefined).then(nextTurnOfAppend);
    return taken;
  }

  /** While several tenants ask others have their turn between the slices. */
  async #takenInSlices(plans: readonly Planned[], outcomes: readonly FoldOutcome[]): Promise<void> {
    const take = (plan: Planned, i: number): void => {
      const outcome = outcomes[i];
      if (outcome !== undefined) this.#answer(plan.share, outcome, this.#store(plan, outcome));
    };
    for (let at = 0; at < plans.length;) {
      if (at > 0) await nextTurnOfAppend();
      at = eventLoop.slice('reducers', () => {
        if (background.isShared) return timedSlice(plans, at, take, { most: takenAtOnce(plans, at) });
        if (background.clientsAreAbout && !plans.some(({ share }) => isAwaited(share)))
          return timedSlice(plans, at, take, { sliceMs: shortSliceMs() });
        for (let i = at; i < plans.length; i++) take(plans[i] as Planned, i);
        return plans.length;
      });
    }
  }

  /** What is to be folded of the share; undefined when it is answered already. Folds a long history first. */
  async #prepare(share: Share): Promise<Plan | undefined> {
    const { tables, faults } = this.#options;
    if (tables.isErased(share.aggregateId)) {
      this.#answer(share, undefined, undefined);
      return undefined;
    }
    // Commits that were shed between two of them are read from the history, with all before.
    const run = lastRun(share.works);
    const [work] = run;
    const head = work !== undefined && share.ensures.length === 0 ? undefined : tables.head(share.aggregateId);
    const type = work?.commit.aggregateType ?? head?.type;
    const reducer = type === undefined ? undefined : this.#options.bindings.of(type);
    if (reducer === undefined) {
      this.#answer(share, undefined, undefined);
      return undefined;
    }
    if (this.#halted(share, reducer)) return undefined;
    const loading = this.#options.code.load(reducer.artefactId);
    if (loading !== undefined) await loading;
    const stop = faults.stopOf(share.aggregateId, reducer);
    const most = stop === undefined ? Infinity : stop.fault.version - 1;
    let before = this.#standing(share.aggregateId, reducer);
    this.#read += before.stored?.state?.length ?? 0;
    if (before.row !== before.stored) this.#read += before.row?.state?.length ?? 0;
    const target = Math.min(most, head?.version ?? lastVersion(share.works.at(-1)?.commit) ?? 0);
    const first = Math.min(most, work?.commit.baseVersion ?? target);
    let commits: AggregateCommit[] = [];
    if (before.row?.fault === undefined && (before.row?.version ?? 0) < first) {
      const folded = await this.#foldUpTo(first, share, reducer, before, stop);
      if (folded === undefined) return undefined;
      ({ before, commits } = folded);
    }
    const { row } = before;
    const reached = row?.version ?? 0;
    if (row?.fault !== undefined || (reached >= target && commits.length === 0)) {
      this.#answerStored(share, reducer, before, reached === most ? stop : undefined);
      return undefined;
    }
    // A read may have folded commits that wait for an answer of their own: `reached` is past those.
    for (const { commit } of run) if ((lastVersion(commit) ?? 0) > reached) commits.push(commit);
    const known = commits.length === 0 ? reached : (lastVersion(commits.at(-1)) ?? 0);
    if (target > known && !(await this.#gather(commits, share.aggregateId, known + 1, target)))
      this.#ensureAgain(share);
    const stateAt = share.works
      .filter((one) => isWaitedFor(one) && (lastVersion(one.commit) ?? 0) > reached)
      .map(({ commit }) => lastVersion(commit) ?? 0);
    const plan = this.#plan(reducer, before, commits, stateAt, stop);
    if (plan.item.events.length > 0) return plan;
    this.#answer(share, undefined, this.#store(plan, { states: [] }));
    return undefined;
  }

  /**
   * Folds the aggregate's history up to the version, but for its last commits, which go with those of the turn. Undefined: the code was
   * halted meanwhile, and who waits is answered.
   */
  async #foldUpTo(
    version: number,
    share: Share,
    reducer: BoundReducer,
    from: Standing,
    stop: Stop | undefined,
  ): Promise<{ readonly before: Standing; readonly commits: AggregateCommit[] } | undefined> {
    let before = from;
    const commits: AggregateCommit[] = [];
    const part = new HistoryPart(commits);
    const { aggregateId } = share;
    for await (const chunk of this.#options.history.commits(aggregateId, (from.row?.version ?? 0) + 1, version)) {
      for (const commit of chunk) part.add(commit);
      if (!part.isFull) continue;
      const taken = part.take();
      const row = await this.#foldHistory(reducer, before, taken, stop);
      before = this.#standingAt(aggregateId, reducer, before, row);
      if (row.fault !== undefined) break;
      // Where the code was halted within the part it may be revived by now: what comes next isn't what the state is waiting for.
      if (this.isHalted(reducer) || row.version < (lastVersion(taken.at(-1)) ?? 0)) {
        this.#answerHalted(share, row);
        return undefined;
      }
    }
    return { before: this.#standingAt(aggregateId, reducer, before, before.row), commits };
  }

  /** There is nothing to fold: what is stored is the answer. `stop`: where the aggregate stands. */
  #answerStored(share: Share, reducer: BoundReducer, { stored, row }: Standing, stop: Stop | undefined): void {
    const { aggregateId } = share;
    if (row?.fault !== undefined) return this.#answer(share, undefined, row);
    if (stop !== undefined) return this.#answer(share, undefined, this.#stand(aggregateId, reducer, row, stop, stored));
    // A former binding's state that is good for this one replaces what other code stored since, its fault too.
    if (row !== undefined && stored?.generation !== row.generation) this.#setRow(aggregateId, reducer, row, stored);
    this.#answer(share, undefined, row);
  }

  /** Adds commits of the history to those that are folded in one turn. @returns whether these are all */
  async #gather(commits: AggregateCommit[], aggregateId: string, first: number, last: number): Promise<boolean> {
    const part = new HistoryPart(commits);
    for await (const chunk of this.#options.history.commits(aggregateId, first, last))
      for (const commit of chunk) {
        if (part.isFull) return false;
        part.add(commit);
      }
    return true;
  }

  /** Who reads the aggregate waits for another turn, which goes on where this one ends. */
  #ensureAgain({ aggregateId, ensures }: Share): void {
    for (const ensure of ensures.splice(0))
      this.#turns.ensure(aggregateId).then(
        () => ensure.resolve(),
        (error: unknown) => ensure.reject(error as Error),
      );
  }

  /** The reducer's artefact has too many strikes. */
  isHalted({ artefactId }: BoundReducer): boolean {
    return this.#options.code.isHalted(artefactId);
  }

  /** True: nothing is folded, and who waits is answered. */
  #halted(share: Share, reducer: BoundReducer): boolean {
    if (!this.isHalted(reducer)) return false;
    this.#answerHalted(share, this.#row(share.aggregateId, reducer));
    return true;
  }

  #answerHalted(share: Share, row: ReducerState | undefined): void {
    this.#answer(share, { states: [], halted: true }, row);
  }

  /** The state as it is stored, and whether the aggregate has a fault that may be in the log in a moment. */
  stored(aggregateId: string, reducer: BoundReducer, inTables?: ReducerState): ReducerState | undefined {
    const row = this.#row(aggregateId, reducer, inTables);
    const stop =
      row === undefined || row.fault !== undefined ? undefined : this.#options.faults.stopOf(aggregateId, reducer);
    return row !== undefined && stop?.fault.version === row.version + 1 ? { ...row, fault: stop.fault } : row;
  }

  #standing(aggregateId: string, reducer: BoundReducer): Standing {
    const { tables, faults } = this.#options;
    const stored = tables.reducerState(aggregateId);
    const marks = faults.marks(aggregateId, reducer);
    const row = this.#rowOf(aggregateId, reducer, stored, marks);
    return { stored, row, rowsChanged: faults.rowsChanged, skipped: marks.skipped };
  }

  /** As of now, but for the row, which was folded from that of `before`: what was skipped since may be in it. */
  #standingAt(aggregateId: string, reducer: BoundReducer, before: Standing, row: ReducerState | undefined): Standing {
    return { ...this.#standing(aggregateId, reducer), row, skipped: before.skipped };
  }

  #row(
    aggregateId: string,
    reducer: BoundReducer,
    inTables = this.#options.tables.reducerState(aggregateId),
  ): ReducerState | undefined {
    return this.#rowOf(aggregateId, reducer, inTables, this.#options.faults.marks(aggregateId, reducer));
  }

  /** The reducer's row, by what the log has now: a fault that was released since is left out. */
  #rowOf(
    aggregateId: string,
    reducer: BoundReducer,
    stored: ReducerState | undefined,
    { skipped, stop }: ReducerMarks,
  ): ReducerState | undefined {
    const row =
      stored?.generation === reducer.generation ? stored : this.#options.kept.find(aggregateId, stored, reducer);
    if (row === undefined || (stop !== undefined && row.version >= stop.version)) return undefined;
    const { fault } = row;
    const released =
      fault !== undefined && (skipped.includes(fault.version) || (fault.stopped === true && stop === undefined));
    return released ? { ...row, fault: undefined } : row;
  }

  #plan(
    reducer: BoundReducer,
    before: Standing,
    commits: readonly AggregateCommit[],
    stateAt: readonly number[],
    stop: Stop | undefined,
  ): Plan {
    const { row, skipped } = before;
    const baseVersion = row?.version ?? 0;
    const aggregateId = commits[0]?.aggregateId ?? '';
    const toVersion = Math.max(
      baseVersion,
      Math.min(stop === undefined ? Infinity : stop.fault.version - 1, lastVersion(commits.at(-1)) ?? baseVersion),
    );
    const isFolded = (version: number): boolean =>
      version > baseVersion && version <= toVersion && !skipped.includes(version);
    const events: HostEvent[] = [];
    let reached = baseVersion;
    for (const commit of commits) {
      if (commit.baseVersion >= toVersion) break;
      if (commit.baseVersion > reached)
        throw new Error(`${aggregateId} was to be folded from version ${reached} on with ${commit.baseVersion + 1}`);
      reached = lastVersion(commit) ?? reached;
      eachEvent(commit, (event) => {
        if (isFolded(event.version)) events.push(event);
      });
    }
    if (reached < toVersion)
      throw new Error(`${aggregateId} was to be folded up to ${toVersion}, but not past ${reached}`);
    const unit = { artefactId: reducer.artefactId, className: reducer.className };
    const { code } = this.#options;
    const item = {
      unit,
      aggregateId,
      baseVersion,
      baseState: () => row?.state ?? null,
      events,
      stateAt: stateAt.filter(isFolded),
      halted: () => code.isHalted(unit.artefactId),
    };
    return { reducer, before, item, commits, toVersion, stop };
  }

  async #foldHistory(
    reducer: BoundReducer,
    before: Standing,
    commits: readonly AggregateCommit[],
    stop: Stop | undefined,
  ): Promise<ReducerState> {
    this.#mustRun();
    const plan = this.#plan(reducer, before, commits, [], stop);
    const [outcome] =
      plan.item.events.length === 0 ? [{ states: [] }] : await this.#options.code.runner.fold([plan.item]);
    if (outcome === undefined) throw new Error('the runner gave no outcome');
    return this.#store(plan, outcome);
  }

  /** Stores the state, without a fault that is not in the log yet; gives it with the fault. */
  #store(plan: Plan, outcome: FoldOutcome): ReducerState {
    const { reducer, item, commits, toVersion, stop } = plan;
    const { faults, observer } = this.#options;
    if (faults.marks(item.aggregateId, reducer).skipped.length !== plan.before.skipped.length)
      throw new Error('an event is to be passed over that was being folded: it is folded again');
    // What came of it is of the state that it was folded from; what is replaced may be another one by now.
    const { row: before, rowsChanged } = plan.before;
    const stored =
      rowsChanged === faults.rowsChanged ? plan.before.stored : this.#options.tables.reducerState(item.aggregateId);
    const last = outcome.states.at(-1);
    const end = outcome.halted === true ? (last?.version ?? item.baseVersion) : toVersion;
    const version = outcome.fault === undefined ? end : outcome.fault.version - 1;
    const reached = commits.findLast((commit) => commit.baseVersion < version);
    const row: ReducerState = {
      generation: reducer.generation,
      version,
      state: last === undefined ? (before?.state ?? null) : last.state,
      lastModified: reached?.timestamp ?? before?.lastModified ?? 0,
      offset: reached?.offset ?? before?.offset ?? 0,
      fault: outcome.fault,
    };
    if (row.fault !== undefined) observer?.faulted?.('reducer');
    if (row.fault === undefined && stop !== undefined && version === stop.fault.version - 1)
      return this.#stand(item.aggregateId, reducer, row, stop, stored);
    if (row.fault?.stopped === true) {
      this.#setRow(item.aggregateId, reducer, { ...row, fault: undefined }, stored);
      faults.stopped(item.aggregateId, reducer, row.fault);
    } else this.#setRow(item.aggregateId, reducer, row, stored);
    return row;
  }

  /** The aggregate is folded up to its stop: stores the fault too, if that is in the log. */
  #stand(
    aggregateId: string,
    reducer: BoundReducer,
    row: ReducerState | undefined,
    { fault, recorded }: Stop,
    stored: ReducerState | undefined,
  ): ReducerState {
    const good = row ?? {
      generation: reducer.generation,
      version: 0,
      state: null,
      lastModified: 0,
      offset: 0,
      fault: undefined,
    };
    this.#setRow(aggregateId, reducer, recorded ? { ...good, fault } : good, stored);
    return { ...good, fault };
  }

  #setRow(
    aggregateId: string,
    reducer: BoundReducer,
    row: ReducerState,
    /** What is stored, by whatever code. */
    before: ReducerState | undefined,
  ): void {
    const { tables, kept } = this.#options;
    if (tables.isErased(aggregateId)) return;
    if (before?.fault !== undefined || row.fault !== undefined)
      tables.faults.setAggregate(reducer.aggregateType, aggregateId, row.fault !== undefined);
    if (before !== undefined && before.generation !== row.generation) kept.replaced(aggregateId, before, reducer);
    tables.setReducerState(aggregateId, row, before);
  }

  #answer(share: Share, outcome: FoldOutcome | undefined, row: ReducerState | undefined): void {
    for (const { commit, waiter } of share.works) {
      if (waiter?.answer === undefined) continue;
      const version = lastVersion(commit) ?? 0;
      const at =
        outcome?.states.find((state) => state.version === version) ?? (row?.version === version ? row : undefined);
      if (at !== undefined) waiter.answer({ state: at.state });
      else if (outcome?.halted === true) waiter.answer({ status: 'faulted' });
      else
        waiter.answer({
          status: row === undefined ? 'unavailable' : row.fault !== undefined ? 'faulted' : 'superseded',
        });
    }
    for (const ensure of share.ensures) ensure.resolve();
  }
}

/** The last of an aggregate's works between which no commit is missing, in their order. */
function lastRun(works: readonly Work[]): readonly Work[] {
  let first = works.length - 1;
  while (first > 0 && works[first]?.commit.baseVersion === lastVersion(works[first - 1]?.commit)) first--;
  return first > 0 ? works.slice(first) : works;
}

const lastVersion = (commit: AggregateCommit | undefined): number | undefined =>
  commit === undefined ? undefined : commit.baseVersion + eventsIn(commit);
