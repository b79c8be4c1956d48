import type { StoredCommit } from '../core/event.js';
import { RETRY_MS } from '../jobs/steps.js';
import { pause } from '../log/journal/retry.js';
import type { Logger } from '../core/logger.js';
import { inputBytes, type Input } from '../feed/inputs.js';
import type { TenantCode } from '../code-host/tenant-code.js';
import type { Feed } from '../feed/feed.js';
import type { BoundReducer } from './bindings.js';
import type { Reducers } from './reducers.js';
import type { KeptStates } from '../store/kept-states.js';
import type { CatchUpProgress, PartitionTables } from '../store/partition-tables.js';
import type { Progress } from '../core/progress.js';

export interface ReducerCatchUpsOptions {
  readonly tables: PartitionTables;
  readonly kept: KeptStates;
  readonly inputs: Feed<Input>;
  readonly reducers: Reducers;
  /** Of a halted artefact the catch-up waits until it is revived. */
  readonly code: TenantCode;
  readonly listener: CatchUpListener;
  readonly logger: Logger;
}

export interface CatchUpListener {
  /** A catch-up has come further. */
  caughtUpFurther(): void;
}

interface Window {
  /** Commits of the type, those of an aggregate together. */
  readonly groups: readonly (readonly StoredCommit[])[];
  readonly events: number;
  readonly next: number;
}

interface Run {
  readonly reducer: BoundReducer;
  progress: CatchUpProgress;
  readonly startedAt: number;
  readonly startedFrom: number;
  failed: boolean;
  cancelled: boolean;
}

const READ_BYTES = 512 * 1024;
/** Of history together, in which an aggregate's commits are folded in one go. */
const WINDOW = { bytes: 16 * 1024 * 1024, commits: 40_000 };
const STANDING_AT_ONCE = 256;

/** After a binding: folds the aggregates of the type over history, in the background; appends and reads fold theirs on demand meanwhile. */
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
    const through = inputs.head;
    const from = goesOn || revivals !== undefined ? 0 : Math.min(kept.position(reducer), through);
    if (stored !== undefined && stored.generation < generation)
      kept.superseded(
        reducer,
        stored.generation,
        Math.min(stored.done ? through : stored.position, this.#firstFault(reducer.aggregateType, stored.generation)),
      );
    const progress = goesOn
      ? stored
      : {
          generation,
          position: from,
          through,
          processed: 0,
          done: from === through && this.#standing(reducer).length === 0,
          ...(revivals === undefined ? {} : { revivals }),
        };
    const run: Run = {
      reducer,
      progress,
      startedAt: performance.now(),
      startedFrom: progress.processed,
      failed: false,
      cancelled: false,
    };
    this.#runs.set(reducer.aggregateType, run);
    if (!goesOn) tables.setCatchUp(reducer.aggregateType, progress);
    if (!progress.done) void this.#run(run);
  }

  /** Aggregates that stood at a fault when another code was bound, and have not been looked at since. */
  #standing({ aggregateType, generation }: BoundReducer): string[] {
    const { tables } = this.#options;
    return [...tables.faults.aggregates(aggregateType, '')].filter(
      (aggregateId) => tables.reducerState(aggregateId)?.generation !== generation,
    );
  }

  /** Log offset from which on aggregates are behind for a fault of the binding: what it made of them is not kept. Infinity: none is. */
  #firstFault(aggregateType: string, generation: number): number {
    const { tables } = this.#options;
    let first = Infinity;
    for (const aggregateId of tables.faults.aggregates(aggregateType, '')) {
      const row = tables.reducerState(aggregateId);
      if (row?.generation === generation) first = Math.min(first, row.offset);
    }
    return first;
  }

  progress(aggregateType: string): Progress | undefined {
    const run = this.#runs.get(aggregateType);
    if (run === undefined) return undefined;
    const { position, through, processed, done } = run.progress;
    const seconds = Math.max(0.001, (performance.now() - run.startedAt) / 1000);
    return {
      status: done ? 'done' : run.failed ? 'failed' : 'running',
      processed: Math.min(position, through),
      total: through,
      eventsPerSecond: done ? 0 : Math.round((processed - run.startedFrom) / seconds),
    };
  }

  /** Catch-ups have folded all below this offset; Infinity: none is under way. */
  get end(): number {
    let through = Infinity;
    for (const { progress } of this.#runs.values()) if (!progress.done) through = Math.min(through, progress.position);
    return through;
  }

  close(): void {
    this.#closed = true;
  }

  async #run(run: Run): Promise<void> {
    const { tables, reducers, code, listener, logger } = this.#options;
    const { aggregateType } = run.reducer;
    let ahead: Promise<Window> | undefined;
    let looked = false;
    const { artefactId } = run.reducer;
    while (!this.#closed && !run.cancelled && !run.progress.done) {
      if (code.isHalted(artefactId)) {
        run.failed = true;
        await pause(RETRY_MS);
        continue;
      }
      try {
        // These first: an alert on them is to end with what caused it.
        const standing = looked ? [] : this.#standing(run.reducer);
        for (let at = 0; at < standing.length && !this.#closed && !run.cancelled; at += STANDING_AT_ONCE)
          await Promise.all(
            standing.slice(at, at + STANDING_AT_ONCE).map((aggregateId) => reducers.ensure(aggregateId)),
          );
        if (this.#closed || run.cancelled) return;
        if (code.isHalted(artefactId)) continue;
        looked = true;
        const { position, through } = run.progress;
        const { groups, events, next } = await (ahead ?? this.#window(aggregateType, position, through));
        // The next one is read while this is folded.
        ahead = next < through && next > position ? this.#window(aggregateType, next, through) : undefined;
        ahead?.catch(() => undefined);
        await reducers.catchUp(groups);
        if (this.#closed || run.cancelled) return;
        if (code.isHalted(artefactId)) {
          // Not all of it was folded.
          ahead = undefined;
          continue;
        }
        run.progress = {
          ...run.progress,
          position: next,
          processed: run.progress.processed + events,
          done: next >= through || next === position,
        };
        run.failed = false;
        tables.setCatchUp(aggregateType, run.progress);
        listener.caughtUpFurther();
      } catch (error) {
        if (this.#closed) return;
        ahead = undefined;
        run.failed = true;
        logger.warn({ err: error, aggregateType }, 'a catch-up stopped; it goes on from where it was');
        await pause(RETRY_MS);
      }
    }
  }

  /** From an offset on. */
  async #window(aggregateType: string, from: number, through: number): Promise<Window> {
    const { inputs } = this.#options;
    const byAggregate = new Map<string, StoredCommit[]>();
    let next = from;
    let events = 0;
    for (let bytes = 0, count = 0; next < through && bytes < WINDOW.bytes && count < WINDOW.commits && !this.#closed;) {
      const page = await inputs.read(next, { bytes: READ_BYTES });
      if (page.end === next) break;
      next = page.end;
      for (const input of page.items) {
        bytes += inputBytes(input);
        if (input.kind !== 'commit' || input.commit.aggregateType !== aggregateType) continue;
        count++;
        events += input.commit.eventCount ?? input.commit.events.length;
        const { aggregateId } = input.commit;
        const commits = byAggregate.get(aggregateId);
        if (commits === undefined) byAggregate.set(aggregateId, [input.commit]);
        else commits.push(input.commit);
      }
    }
    return { groups: [...byAggregate.values()], events, next };
  }
}

const sameRun = (
  a: Pick<BoundReducer, 'generation' | 'revivals'>,
  b: Pick<BoundReducer, 'generation' | 'revivals'>,
): boolean => a.generation === b.generation && (a.revivals ?? 0) === (b.revivals ?? 0);
