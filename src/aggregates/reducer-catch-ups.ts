import { eventsIn, partsOf, type AggregateCommit } from '../core/event.js';
import { UNBOUNDED, type Hold, type TenantBudget } from '../core/budget.js';
import { RETRY_MS } from '../jobs/steps.js';
import { chunksOf } from '../core/parts.js';
import { pause } from '../core/pause.js';
import type { Logger } from '../core/logger.js';
import { bytesOfCommit, inputBytes, type Input } from '../feed/inputs.js';
import type { TenantCode } from '../code-host/tenant-code.js';
import type { Feed, Page } from '../feed/feed.js';
import type { BoundReducer } from './bindings.js';
import type { Reducers } from './reducers.js';
import type { KeptStates } from '../store/kept-states.js';
import type { CatchUpProgress, PartitionTables } from '../store/partition-tables.js';
import type { Progress } from '../core/progress.js';
import { FOLD_READ_BYTES, PAGE_BYTES, SHORT_FOLD_READ_BYTES } from '../core/reads.js';
import { background } from '../core/background.js';

export interface ReducerCatchUpsOptions {
  readonly tables: PartitionTables;
  readonly kept: KeptStates;
  readonly inputs: Feed<Input>;
  readonly reducers: Reducers;
  /** While it has an artefact halted, the catch-up waits. */
  readonly code: TenantCode;
  readonly listener: CatchUpListener;
  /** The tenant's budget; without it nothing is bounded. */
  readonly budget?: TenantBudget | undefined;
  readonly logger: Logger;
}

export interface CatchUpListener {
  /** A catch-up has come further. */
  caughtUpFurther(): void;
}

interface Window {
  /** Commits of the type, those of an aggregate together. */
  readonly groups: readonly (readonly AggregateCommit[])[];
  readonly events: number;
  readonly next: number;
  /** The bytes of the window, until it is folded or dropped. */
  readonly hold: Hold;
}

interface Run {
  readonly reducer: BoundReducer;
  progress: CatchUpProgress;
  startedAt: number;
  startedFrom: number;
  /** The first offset whose commit was shed and which the window under way may not have; Infinity: none. */
  behindFrom: number;
  failed: boolean;
  cancelled: boolean;
}

/** How much of history is read together: an aggregate's commits in it are folded in one go. */
const WINDOW = { bytes: 16 * 1024 * 1024, commits: 40_000 };
/** The same while clients are about: collections copy what is held, and requests wait for them. */
const SHORT_WINDOW = { bytes: 1024 * 1024, commits: 2_000 };
/** Faulted aggregates that are looked at in one turn; fewer where their states, which are read with them, are large. */
export const FAULTED_PER_TURN = 500;
const STANDING_AT_ONCE = 256;

/** After a binding, folds the type's aggregates over history in the background; meanwhile appends and reads fold theirs on demand. */
export class ReducerCatchUps {
  readonly #options: ReducerCatchUpsOptions;
  readonly #runs = new Map<string, Run>();
  #closed = false;

  constructor(options: ReducerCatchUpsOptions) {
    this.#options = options;
  }

  /** Starts, or goes on with, the catch-up of this binding. */
  start(reducer: BoundReducer): void {
    const { tables, kept, inputs } = this.#options;
    const known = this.#runs.get(reducer.aggregateType);
    if (this.#closed || (known !== undefined && sameRun(known.reducer, reducer))) return;
    if (known !== undefined) known.cancelled = true;
    const stored = tables.catchUp(reducer.aggregateType);
    const { generation, revivals } = reducer;
    const goesOn = stored !== undefined && sameRun(stored, reducer);
    const end = inputs.head;
    const from = goesOn || revivals !== undefined ? 0 : this.#startOf(reducer, end);
    if (stored !== undefined && stored.generation < generation)
      kept.superseded(
        reducer,
        stored.generation,
        Math.min(stored.done ? end : stored.position, this.#firstFault(reducer.aggregateType, stored.generation)),
      );
    const progress = goesOn
      ? stored
      : {
          generation,
          position: from,
          end,
          processed: 0,
          done: from === end && !this.#mayStand(reducer),
          ...(revivals === undefined ? {} : { revivals }),
        };
    const run: Run = {
      reducer,
      progress,
      startedAt: performance.now(),
      startedFrom: progress.processed,
      behindFrom: Infinity,
      failed: false,
      cancelled: false,
    };
    this.#runs.set(reducer.aggregateType, run);
    if (!goesOn) tables.setCatchUp(reducer.aggregateType, progress);
    if (!progress.done) void this.#run(run);
  }

  /** Where history begins that is to be folded: a type without aggregates has none, however long the tenant's is. */
  #startOf(reducer: BoundReducer, end: number): number {
    const { tables, kept } = this.#options;
    return tables.typeCount(reducer.aggregateType) === 0 ? end : Math.min(kept.position(reducer), end);
  }

  /** Commits of the type from this offset on were not folded when they were appended: a catch-up folds them when nothing else waits. */
  behind(aggregateType: string, offset: number): void {
    const run = this.#runs.get(aggregateType);
    if (this.#closed || run === undefined) return;
    run.behindFrom = Math.min(run.behindFrom, offset);
    const { progress } = run;
    if (!progress.done) {
      run.progress = { ...progress, end: Math.max(progress.end, offset + 1) };
      return;
    }
    run.progress = { ...progress, position: offset, end: offset + 1, done: false };
    this.#options.tables.setCatchUp(aggregateType, run.progress);
    [run.startedAt, run.startedFrom] = [performance.now(), progress.processed];
    void this.#run(run);
  }

  /** Some aggregates were faulted when other code was bound, and have not been folded by this yet; true also where there are too many to be looked at. */
  #mayStand(reducer: BoundReducer): boolean {
    const { faults } = this.#options.tables;
    if (faults.aggregateCount(reducer.aggregateType) > FAULTED_PER_TURN) return true;
    const { ids, next } = this.#standing(reducer, '');
    return ids.length > 0 || next !== undefined;
  }

  /** Those of the next faulted aggregates behind an id, as many as are looked at in a turn. `next`: the last one that was; undefined: there are no more. */
  #standing(
    { aggregateType, generation }: BoundReducer,
    after: string,
  ): { readonly ids: readonly string[]; readonly next: string | undefined } {
    const { tables } = this.#options;
    const ids: string[] = [];
    let [looked, read] = [0, 0];
    for (const aggregateId of tables.faults.aggregates(aggregateType, after)) {
      const row = tables.reducerState(aggregateId);
      if (row?.generation !== generation) ids.push(aggregateId);
      read += row?.state?.length ?? 0;
      if (++looked === FAULTED_PER_TURN || read >= PAGE_BYTES) return { ids, next: aggregateId };
    }
    return { ids, next: undefined };
  }

  /**
   * The first log offset at which a fault of the binding left an aggregate behind, whose state is not kept. Infinity: none. 0, which
   * keeps none of its states, where too many are faulted to be looked at.
   */
  #firstFault(aggregateType: string, generation: number): number {
    const { tables } = this.#options;
    if (tables.faults.aggregateCount(aggregateType) > FAULTED_PER_TURN) return 0;
    let first = Infinity;
    let read = 0;
    for (const aggregateId of tables.faults.aggregates(aggregateType, '')) {
      const row = tables.reducerState(aggregateId);
      if ((read += row?.state?.length ?? 0) >= PAGE_BYTES) return 0;
      if (row?.generation === generation) first = Math.min(first, row.offset);
    }
    return first;
  }

  progress(aggregateType: string): Progress | undefined {
    const run = this.#runs.get(aggregateType);
    if (run === undefined) return undefined;
    const { position, end, processed, done } = run.progress;
    const seconds = Math.max(0.001, (performance.now() - run.startedAt) / 1000);
    return {
      status: done ? 'done' : run.failed ? 'failed' : 'running',
      processed: Math.min(position, end),
      total: end,
      eventsPerSecond: done ? 0 : Math.round((processed - run.startedFrom) / seconds),
    };
  }

  /** Below this offset catch-ups have folded all; Infinity: none is under way. */
  get end(): number {
    let end = Infinity;
    for (const { progress } of this.#runs.values()) if (!progress.done) end = Math.min(end, progress.position);
    return end;
  }

  close(): void {
    this.#closed = true;
  }

  async #run(run: Run): Promise<void> {
    const { tables, reducers, code, listener, logger } = this.#options;
    const { aggregateType } = run.reducer;
    let ahead: Promise<Window> | undefined;
    const drop = (): void => {
      ahead?.then(
        ({ hold }) => hold.close(),
        () => undefined,
      );
      ahead = undefined;
    };
    let looked = false;
    const { artefactId } = run.reducer;
    const isOver = (): boolean => this.#isOver(run);
    while (!isOver() && !run.progress.done) {
      if (code.isHalted(artefactId)) {
        run.failed = true;
        await pause(RETRY_MS);
        continue;
      }
      let window: Window | undefined;
      try {
        if (tables.section.isFull && !(await tables.section.untilRoom(() => !isOver()))) break;
        // Faulted aggregates first: an alert on them is to end with what caused it.
        if (!looked) await this.#foldStanding(run);
        if (isOver()) break;
        if (code.isHalted(artefactId)) continue;
        looked = true;
        if (run.behindFrom < run.progress.position) {
          run.progress = { ...run.progress, position: run.behindFrom };
          drop();
        }
        run.behindFrom = Infinity;
        const { position, end } = run.progress;
        window = await (ahead ?? this.#window(run, position, end));
        if (isOver()) break;
        const { groups, events, next } = window;
        // The next one is read while this is folded.
        ahead = next < end && next > position ? this.#window(run, next, end) : undefined;
        ahead?.catch(() => undefined);
        await reducers.catchUp(groups);
        if (isOver()) break;
        if (code.isHalted(artefactId)) {
          // Not all of the window was folded.
          drop();
          continue;
        }
        run.progress = {
          ...run.progress,
          position: next,
          processed: run.progress.processed + events,
          done: run.behindFrom === Infinity && (next >= run.progress.end || next === position),
        };
        run.failed = false;
        tables.setCatchUp(aggregateType, run.progress);
        listener.caughtUpFurther();
      } catch (error) {
        if (this.#closed) break;
        drop();
        if (!run.failed) logger.warn({ err: error, aggregateType }, 'a catch-up stopped; it goes on from where it was');
        run.failed = true;
        await pause(RETRY_MS);
      } finally {
        window?.hold.close();
      }
    }
    drop();
  }

  #isOver(run: Run): boolean {
    return this.#closed || run.cancelled;
  }

  /** Folds the aggregates that stood at a fault when other code was bound. */
  async #foldStanding(run: Run): Promise<void> {
    const { reducers } = this.#options;
    for (let after: string | undefined = ''; after !== undefined && !this.#isOver(run);) {
      const { ids, next } = this.#standing(run.reducer, after);
      for (const some of chunksOf(ids, STANDING_AT_ONCE))
        if (!this.#isOver(run)) await Promise.all(some.map((aggregateId) => reducers.ensure(aggregateId)));
      after = next;
      if (next !== undefined) await background.turn(this.#options.tables.section.tenantId);
    }
  }

  /** Reads the next window, from an offset on. That of a run which is over ends with the page that is on its way: another binding reads it all again. */
  async #window(run: Run, from: number, end: number): Promise<Window> {
    const { inputs } = this.#options;
    const { aggregateType } = run.reducer;
    const byAggregate = new Map<string, AggregateCommit[]>();
    const hold = (this.#options.budget ?? UNBOUNDED.tenant('')).hold('catch_ups');
    let next = from;
    let events = 0;
    const has = (bytes: number, count: number): boolean => {
      const most = background.clientsAreAbout ? SHORT_WINDOW : WINDOW;
      return bytes >= most.bytes || count >= most.commits;
    };
    for (let bytes = 0, count = 0; next < end && !has(bytes, count) && !this.#isOver(run);) {
      // A window is as large as there is room for, and at least one page.
      if (next > from && hold.full !== undefined) break;
      let page: Page<Input>;
      try {
        await background.turn(this.#options.tables.section.tenantId);
        page = await inputs.read(next, { bytes: background.givesWay ? SHORT_FOLD_READ_BYTES : FOLD_READ_BYTES });
      } catch (error) {
        hold.close();
        throw error;
      }
      if (page.end === next) break;
      next = page.end;
      for (const input of page.items) {
        const size = inputBytes(input);
        bytes += size;
        if (input.kind !== 'commit') continue;
        for (const part of partsOf(input.commit)) {
          if (part.aggregateType !== aggregateType) continue;
          count++;
          hold.add(part === input.commit ? size : bytesOfCommit(part));
          events += eventsIn(part);
          const commits = byAggregate.get(part.aggregateId);
          if (commits === undefined) byAggregate.set(part.aggregateId, [part]);
          else commits.push(part);
        }
      }
    }
    return { groups: [...byAggregate.values()], events, next, hold };
  }
}

const sameRun = (
  a: Pick<BoundReducer, 'generation' | 'revivals'>,
  b: Pick<BoundReducer, 'generation' | 'revivals'>,
): boolean => a.generation === b.generation && (a.revivals ?? 0) === (b.revivals ?? 0);
