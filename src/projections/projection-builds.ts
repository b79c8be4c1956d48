import type { TenantCode } from '../code-host/tenant-code.js';
import type { ProjectionCursor } from './projection-cursor.js';
import type { SwapCause } from '../core/change.js';
import { SLICE, SliceMeter, StorePace, type SliceBounds } from '../jobs/sliced-job.js';
import { RETRY_MS } from '../jobs/steps.js';
import { pause } from '../core/pause.js';
import type { Logger } from '../core/logger.js';
import type { Control, ProjectionSwapValue } from '../core/records.js';
import { revisionUnit } from '../core/ids.js';
import type { InputFeed } from '../feed/inputs.js';
import { commitsWithin, ProjectionBatch, rowAfter } from './projection-fold.js';
import { unitsOf, type Effect, type RevisionUnit } from './projection-unit.js';
import { BatchSize } from './batch-size.js';
import { Chase } from './chase.js';
import { eventLoop } from '../core/event-loop.js';
import { nextTurn, timedSlice } from '../core/slices.js';
import { takeEvents } from '../core/event.js';
import type { BuildProgress, PartitionTables } from '../store/partition-tables.js';
import type { Progress } from '../core/progress.js';
import { background } from '../core/background.js';
import { FOLD_READ_BYTES, SHORT_FOLD_READ_BYTES } from '../core/reads.js';
import { Retries } from '../core/retries.js';
import type { ProjectionLife } from './projections.js';

/** A compiled revision that is to become the live one. */
export interface BuildTarget {
  readonly projectionId: string;
  readonly revision: number;
  readonly artefactId: string;
  readonly classNames: readonly string[];
  /** A later upload unless given. */
  readonly cause?: Extract<SwapCause, 'rollback' | 'rebuild' | 'revive'>;
}

export interface ProjectionBuildsOptions {
  readonly tables: PartitionTables;
  readonly inputs: InputFeed;
  /** Of a halted revision the build waits until it is revived. */
  readonly code: TenantCode;
  /** Where swaps are put in the tenant's one order. */
  readonly controls: { propose(control: Control): Promise<number> };
  /** Of the live projections. */
  readonly cursor: ProjectionCursor;
  /** Of states that are taken over, so much at a time. */
  readonly slice?: SliceBounds | undefined;
  readonly logger: Logger;
}

const MOST_EVENTS_PER_BATCH = 1000;
/** While clients are about, unless what is there grows faster. */
const EVENTS_PER_SHORT_BATCH = 128;
/** A build this close to the live position is swapped in; the rest is folded while the live projections wait. */
const NEAR = 1000;
const STORED_MS = 50;

interface Build {
  progress: BuildProgress;
  readonly projectionId: string;
  readonly startedAt: number;
  readonly startedFrom: number;
  readonly batchSize: BatchSize;
  readonly chase: Chase;
  step: Promise<boolean> | undefined;
  /** Some rows of a batch are set: sets the others and the position, at once. */
  complete: (() => void) | undefined;
  /** Its swap was refused the last time. */
  refused: boolean;
  cancelled: boolean;
  /** The projector has come to its swap, and folds the rest. */
  swapping: boolean;
}

/** Folds new revisions of projections over history, beside the live ones, and has them swapped in when they are near the end. */
export class ProjectionBuilds {
  readonly #options: ProjectionBuildsOptions;
  readonly #builds = new Map<string, Build>();
  #closed = false;

  constructor(options: ProjectionBuildsOptions) {
    this.#options = options;
    for (const [projectionId, progress] of options.tables.builds())
      // A swap that was proposed may not have been written: it is proposed again, and a second one changes nothing.
      this.#builds.set(projectionId, build(projectionId, { ...progress, proposed: false }));
  }

  /** Goes on with the builds that the store holds. */
  resume(): void {
    for (const one of this.#builds.values()) void this.#run(one);
  }

  /** Starts the build of a revision unless it is live, or under way. */
  start(target: BuildTarget): void {
    const { projectionId, revision } = target;
    const live = this.#options.tables.liveProjection(projectionId);
    const known = this.#builds.get(projectionId);
    if (
      this.#closed ||
      (live?.revision ?? 0) >= revision ||
      (known !== undefined && known.progress.revision >= revision)
    )
      return;
    if (known !== undefined && !known.swapping) this.forget(projectionId, known.progress.revision);
    const cause = live === undefined ? 'build' : (target.cause ?? 'redeploy');
    const one = this.#begin({ ...target, cause }, this.#options.cursor.folded);
    this.#builds.set(projectionId, one);
    this.#options.tables.setBuild(projectionId, one.progress);
    void this.#run(one);
  }

  /** From states of the same code that are kept, or, where it was halted, that are live; or from the start, as a rebuild always is. */
  #begin({ projectionId, revision, artefactId, classNames, cause }: ProjectionSwapValue, end: number): Build {
    const { tables, code } = this.#options;
    const live = tables.liveProjection(projectionId);
    // What a standby had of it, which was promoted in the middle of its swap, would be folded once more.
    tables.dropRevision(projectionId, revision);
    code.runner.forget(revisionUnit(projectionId, revision));
    if (cause === 'revive' && live?.artefactId === artefactId)
      return build(projectionId, {
        revision,
        artefactId,
        classNames,
        position: 0,
        processed: 0,
        proposed: false,
        cause,
        seedFrom: live.revision,
        ...(live.erased && { erased: live.erased }),
      });
    const adopted =
      cause === 'rebuild' ? undefined : tables.kept.adopt(projectionId, { revision, artefactId, classNames }, end);
    const progress = {
      revision,
      artefactId,
      classNames,
      position: adopted?.position ?? 0,
      processed: 0,
      proposed: false,
      cause,
    };
    return build(projectionId, adopted === undefined ? progress : { ...progress, adopted });
  }

  /** Ends a build of a revision past this one: it was called off. One whose swap may be in the log already goes on. */
  cancel(projectionId: string, above: number): void {
    const one = this.#builds.get(projectionId);
    if (one !== undefined && one.progress.revision > above && !one.progress.proposed && !one.swapping)
      this.forget(projectionId);
  }

  life(projectionId: string): ProjectionLife {
    const { tables } = this.#options;
    const live = tables.liveProjection(projectionId);
    const one = this.#builds.get(projectionId);
    const under = one?.progress;
    const building = under && {
      revision: under.revision,
      artefactId: under.artefactId,
      cause: under.cause,
      final: under.proposed || one?.swapping === true,
    };
    return {
      live,
      building,
      kept: tables.kept.of(projectionId),
      past: live?.past ?? [],
      erasedSinceBuild: live?.erased === true,
    };
  }

  progress(projectionId: string): Progress | undefined {
    const one = this.#builds.get(projectionId);
    if (one === undefined) return undefined;
    const seconds = Math.max(0.001, (performance.now() - one.startedAt) / 1000);
    const { processed, position } = one.progress;
    const halted = this.#halted(one);
    return {
      status: halted ? 'failed' : 'running',
      processed: position,
      total: Math.max(position, this.#options.cursor.folded),
      eventsPerSecond: Math.round((processed - one.startedFrom) / seconds),
    };
  }

  /** Drops a build; its states too unless the revision went live, or those that it took over are kept again, which have nothing of what was erased. */
  forget(projectionId: string, revision?: number): void {
    const one = this.#builds.get(projectionId);
    if (one === undefined || (revision !== undefined && one.progress.revision !== revision)) return;
    one.complete?.(); // those that it took over are of whole inputs when they are given back
    one.cancelled = true;
    this.#builds.delete(projectionId);
    this.#options.tables.setBuild(projectionId, undefined);
    const live = this.#options.tables.liveProjection(projectionId);
    const { revision: number, adopted, position, erased } = one.progress;
    if (live?.revision === number) return;
    if (adopted !== undefined && erased !== true)
      this.#options.tables.kept.giveBack(projectionId, adopted, number, position);
    else this.#options.tables.dropRevision(projectionId, number);
  }

  /** Folds the revision exactly up to the swap, from the start when nothing is there of it. */
  async finish(projectionId: string, swap: ProjectionSwapValue, offset: number): Promise<void> {
    let one = this.#builds.get(projectionId);
    if (one?.progress.revision !== swap.revision) {
      const newer = (one?.progress.revision ?? 0) > swap.revision;
      if (!newer) this.forget(projectionId);
      one = this.#begin(swap, offset);
      if (!newer) {
        this.#builds.set(projectionId, one);
        this.#set(one, { ...one.progress, proposed: true });
      }
    }
    one.swapping = true;
    await one.step;
    while (one.progress.position < offset) {
      if (this.#closed) throw new Error('the tenant is closed');
      if (one.cancelled) throw new Error('the build was dropped');
      try {
        await this.#fold(one, offset);
      } catch (error) {
        this.#options.code.runner.forget(revisionUnit(projectionId, swap.revision));
        throw error;
      }
    }
  }

  /** An aggregate was erased: what was folded before, or is being folded, may have its events, and so may states that are to be taken over. */
  markErased(): void {
    this.#options.tables.markErased();
    for (const one of this.#builds.values())
      if (one.step !== undefined || one.progress.position > 0 || one.progress.seedFrom !== undefined)
        this.#set(one, { ...one.progress, erased: true });
  }

  /** The states of the revision that is built have what was told of events that are erased. */
  markHolding(projectionId: string, revision: number): void {
    for (const one of this.#builds.values())
      if (one.projectionId === projectionId && one.progress.revision === revision && one.progress.erased !== true)
        this.#set(one, { ...one.progress, erased: true });
  }

  close(): void {
    for (const one of this.#builds.values()) one.complete?.();
    this.#closed = true;
  }

  async #run(one: Build): Promise<void> {
    const retries = new Retries(this.#options.logger, { projectionId: one.projectionId });
    while (!this.#closed && !one.cancelled && !one.swapping) {
      if (this.#halted(one)) {
        await pause(RETRY_MS);
        continue;
      }
      try {
        const { section } = this.#options.tables;
        if (section.isFull && !(await section.untilRoom(() => !this.#closed && !one.cancelled && !one.swapping)))
          continue;
        one.step = this.#step(one);
        if (!(await one.step)) return;
        // Between two writes of the store that fail a step may well go through.
        if (!section.isFailing) retries.worked('a build goes on');
      } catch (error) {
        if (this.#closed) return;
        retries.failed(error, 'a build stopped; it goes on from where it was');
        this.#options.code.runner.forget(revisionUnit(one.projectionId, one.progress.revision));
        await pause(RETRY_MS);
      } finally {
        one.step = undefined;
      }
    }
  }

  async #step(one: Build): Promise<boolean> {
    const { cursor, controls } = this.#options;
    const { projectionId } = one;
    if (one.progress.seedFrom !== undefined || cursor.folded - one.progress.position > NEAR) {
      await this.#fold(one, cursor.folded);
      return true;
    }
    if (!one.progress.proposed) {
      this.#set(one, { ...one.progress, proposed: true });
      const { revision, artefactId, classNames, cause } = one.progress;
      // Not awaited: the projector may come to the swap, and wait for this step, before the answer is here.
      controls
        .propose({ kind: 'ProjectionSwap', value: { projectionId, revision, artefactId, classNames, cause } })
        .catch((error: unknown) => {
          if (!one.refused)
            this.#options.logger.warn({ err: error, projectionId }, 'a swap was not written; the build asks again');
          one.refused = true;
          if (!one.cancelled) this.#set(one, { ...one.progress, proposed: false });
          setTimeout(() => void this.#run(one), RETRY_MS).unref();
        });
    }
    return false;
  }

  #set(one: Build, progress: BuildProgress): void {
    one.progress = progress;
    if (this.#builds.get(one.projectionId) === one) this.#options.tables.setBuild(one.projectionId, progress);
  }

  #halted({ projectionId, progress }: Build): boolean {
    return this.#options.code.isHalted(revisionUnit(projectionId, progress.revision));
  }

  /** The states of the halted revision are where this one begins: behind the last input of which they have a change. A slice a call. */
  async #seed(one: Build, from: number, end: number): Promise<void> {
    const { tables, cursor, slice = SLICE } = this.#options;
    const { projectionId } = one;
    const { seedFrom: _, seeded, ...progress } = one.progress;
    if (seeded === undefined) {
      const [last = -1, , parted] = tables.lastInput(projectionId) ?? [];
      tables.dropRevision(projectionId, progress.revision);
      // The swap was broken off when some of it was told: which input was the last before it is not known any more.
      if (one.swapping && last >= end) return this.#set(one, progress);
      if (last >= cursor.stored && !one.swapping) return pause(STORED_MS);
      // Nor whether the halted code came to the last part of that input's changes, where they came in parts.
      if (parted === true) return this.#set(one, progress);
      return this.#set(one, { ...one.progress, seeded: { end: last + 1 } });
    }
    const meter = new SliceMeter(slice);
    for (const [key, classIndex, row] of tables.keyStates(projectionId, from, '', seeded.after)) {
      tables.setKeyState(projectionId, progress.revision, key, classIndex, row);
      if (!meter.full(row.state?.length ?? 0)) continue;
      this.#set(one, { ...one.progress, seeded: { ...seeded, after: [key, classIndex] } });
      return this.#pace(one).next();
    }
    this.#set(one, { ...progress, position: seeded.end });
  }

  async #fold(one: Build, end: number): Promise<void> {
    const { inputs: feed, code, tables } = this.#options;
    const { projectionId } = one;
    if (one.progress.seedFrom !== undefined) return this.#seed(one, one.progress.seedFrom, end);
    const times = one.chase.timesOf(this.#builds.size);
    const { items: inputs, end: next } = await feed.read(one.progress.position, {
      bytes: background.givesWay ? SHORT_FOLD_READ_BYTES * times : FOLD_READ_BYTES,
    });
    const commits = commitsWithin(inputs, one.progress.position, end);
    const units = unitsOf(projectionId, one.progress);
    const most = background.givesWay ? EVENTS_PER_SHORT_BATCH * times : MOST_EVENTS_PER_BATCH;
    const count = takeEvents(commits, Math.min(most, one.batchSize.events(units.length)));
    const position = count < commits.length ? (commits[count]?.offset ?? end) : Math.min(end, next);
    const batch = new ProjectionBatch(commits.slice(0, count));
    await code.load(one.progress.artefactId);
    if (this.#closed || one.cancelled) return;
    const { revision } = one.progress;
    const effects = await batch.fold<RevisionUnit>(code.runner, units, {
      reply: 'last',
      stateOf: ({ classIndex }, key) => {
        const row = tables.keyState(projectionId, revision, key, classIndex);
        return { state: row?.state ?? null, faulted: row?.fault !== undefined };
      },
      isHalted: () => !one.swapping && this.#halted(one),
    });
    if (this.#closed || one.cancelled) return;
    // A swap that is in the log is carried out; before it, the batch is begun again when the code is revived.
    if (effects.some(({ halted }) => halted)) return code.runner.forget(revisionUnit(projectionId, revision));
    one.batchSize.made(batch.events.length, effects);
    await this.#store(one, effects, position, batch.events.length);
    // What is there doesn't grow while a swap is carried out.
    if (!one.swapping) one.chase.took(position, this.#options.cursor.folded);
    await this.#pace(one).next();
  }

  /** The live projections wait for one that is swapped in. */
  #pace(one: Build): StorePace {
    return new StorePace(this.#options.tables.section, { isAwaited: () => one.swapping });
  }

  /** The rows of a batch, and the position past it: in slices, and written as one, since whoever goes on folds none of it again. */
  #store(one: Build, effects: readonly Effect<RevisionUnit>[], position: number, events: number): Promise<void> {
    const { tables } = this.#options;
    const { projectionId, progress } = one;
    const set = (effect: Effect<RevisionUnit>): void =>
      tables.setKeyState(projectionId, progress.revision, effect.key, effect.unit.classIndex, {
        ...rowAfter(effect),
        sequence: 0,
      });
    return tables.section.together(async () => {
      if (this.#closed || one.cancelled) return;
      let at = 0;
      one.complete = () => {
        one.complete = undefined;
        while (at < effects.length) set(effects[at++] as Effect<RevisionUnit>);
        this.#set(one, { ...one.progress, position, processed: one.progress.processed + events });
      };
      while (one.complete !== undefined) {
        at = eventLoop.slice('projections', () => timedSlice(effects, at, set));
        if (at < effects.length) await nextTurn();
        else one.complete();
      }
    });
  }
}

const build = (projectionId: string, progress: BuildProgress): Build => ({
  projectionId,
  progress,
  startedAt: performance.now(),
  startedFrom: progress.processed,
  batchSize: new BatchSize(MOST_EVENTS_PER_BATCH),
  chase: new Chase(),
  complete: undefined,
  step: undefined,
  refused: false,
  cancelled: false,
  swapping: false,
});
