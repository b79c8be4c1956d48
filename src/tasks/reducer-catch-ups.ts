import type { StoredCommit } from '../core/event.js';
import type { Logger } from '../core/logger.js';
import type { CommitReader } from './commit-reader.js';
import type { BoundReducer, Reducers } from './reducers.js';
import type { CatchUpProgress, PartitionTables } from './store/partition-tables.js';
import type { CatchUp } from './tenant.js';

export interface ReducerCatchUpsOptions {
  readonly tables: PartitionTables;
  readonly reader: CommitReader;
  readonly reducers: Reducers;
  readonly position: () => number;
  readonly logger: Logger;
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
const RETRY_MS = 1000;

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
    const { tables, position } = this.#options;
    const known = this.#runs.get(reducer.aggregateType);
    if (this.#closed || known?.reducer.generation === reducer.generation) return;
    if (known !== undefined) known.cancelled = true;
    const stored = tables.catchUp(reducer.aggregateType);
    const progress =
      stored?.generation === reducer.generation ? stored : { generation: reducer.generation, position: 0, through: position(), processed: 0, done: position() === 0 };
    const run: Run = { reducer, progress, startedAt: performance.now(), startedFrom: progress.processed, failed: false, cancelled: false };
    this.#runs.set(reducer.aggregateType, run);
    if (stored?.generation !== reducer.generation) tables.setCatchUp(reducer.aggregateType, progress);
    if (!progress.done) void this.#run(run);
  }

  progress(aggregateType: string): CatchUp | undefined {
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

  close(): void {
    this.#closed = true;
  }

  async #run(run: Run): Promise<void> {
    const { tables, reader, reducers, logger } = this.#options;
    const { aggregateType } = run.reducer;
    while (!this.#closed && !run.cancelled && !run.progress.done) {
      try {
        const { position, through } = run.progress;
        const { inputs, next } = await reader.read(position, READ_BYTES);
        const commits: StoredCommit[] = [];
        for (const input of inputs) if (input.kind === 'commit' && input.commit.aggregateType === aggregateType) commits.push(input.commit);
        if (commits.length > 0) await reducers.catchUp(commits);
        if (this.#closed || run.cancelled) return;
        const processed = run.progress.processed + commits.reduce((sum, commit) => sum + commit.events.length, 0);
        run.progress = { ...run.progress, position: next, processed, done: next >= through || next === position };
        run.failed = false;
        tables.setCatchUp(aggregateType, run.progress);
      } catch (error) {
        if (this.#closed) return;
        run.failed = true;
        logger.warn({ err: error, aggregateType }, 'a catch-up stopped; it goes on from where it was');
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS).unref());
      }
    }
  }
}
