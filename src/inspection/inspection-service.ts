import { requireProjection } from '../catalog/require.js';
import { PackedSources } from '../code-host/packed-sources.js';
import type { Catalog } from '../catalog/catalog.js';
import type { CodeHost, CompileRequest, CompileResult, Unit } from '../code-host/code-host.js';
import { gone } from '../core/append-rules.js';
import { StatefoldError } from '../core/errors.js';
import { revisionUnit } from '../core/ids.js';
import type { SourceFile } from '../deployments/source-file.js';
import { isHalted } from '../deployments/artefact-health.js';
import { boundClass } from '../deployments/reducer-choice.js';
import { CompileError, compileProject, type CompiledProject } from '../fixtures/compile.js';
import type { Fixture } from '../fixtures/fixtures.js';
import type { ReadStore } from '../read-store/read-store.js';
import type { AggregateSource } from '../aggregates/aggregate-source.js';
import type { Inspectable } from '../tenancy/inspection.js';
import type { ProjectionSource } from '../projections/projection-source.js';
import type { DryRun, ProjectionDryRunOptions, ReducerDryRunOptions } from './dry-run.js';
import { DryRunTally } from './dry-run-tally.js';
import type { Inspections, ReducerChoice } from './inspections.js';
import { runFixtures, type FixturesOutcome } from './fixtures-run.js';
import { FixturesTally } from './fixtures-tally.js';
import { dryRunProjection } from './projection-dry-run.js';
import { aggregateRows, keyRows, type AggregateRow } from './read-store-rows.js';
import { dryRunReducer } from './reducer-dry-run.js';
import { Refold } from './refold.js';
import { scratchName } from './scratch-priority.js';
import { type Bench, DeadlinePassedError, inTime, ScratchRunner } from './scratch-runner.js';
import { foldStateAt, versionOf, type StateAt, type StateAtQuery } from './fold-state-at.js';
import { TenantTurns } from './tenant-turns.js';
import type { AggregatesToVerify, AggregatesVerified, KeysToVerify, KeysVerified } from './verification.js';
import { verifyAggregates } from './verify-aggregates.js';
import { verifyProjection } from './verify-projection.js';
import { VerifyTally } from './verify-tally.js';

export interface InspectionServiceOptions {
  readonly tenants: Inspectable;
  readonly catalog: Catalog;
  readonly codeHost: CodeHost;
  readonly readStore: Pick<ReadStore, 'query'>;
  /** Of one inspection, its compilation aside. */
  readonly deadlineMs: number;
  /** States that one holds. */
  readonly maxBytes: number;
}

/** Dry runs, runs of fixtures and verifications at once, of all tenants; of each tenant one. */
const AT_ONCE = 2;
/** After how long without use a process of these ends. */
const IDLE_MS = 15_000;
/** Keys of a projection that one verification compares. */
const VERIFIED_KEYS = 10_000;
/** So that nothing that is done here under an artefact's name, a strike not either, is taken for what its live states do. */
const again = (artefactId: string): string => `${artefactId}~again`;
const DRY_RUN = 'dry-run';

/** Each tenant has a process for what is asked in passing, and one for what takes longer. */
export class InspectionService implements Inspections {
  readonly #options: InspectionServiceOptions;
  readonly #scratch = new Map<string, ScratchRunner>();
  readonly #turns = new TenantTurns(AT_ONCE, 'a dry run, a run of fixtures or a verification');

  constructor(options: InspectionServiceOptions) {
    this.#options = options;
  }

  async stateAt(
    tenantId: string,
    aggregateType: string,
    choice: ReducerChoice,
    query: StateAtQuery,
  ): Promise<StateAt & { readonly className: string }> {
    const { deadlineMs } = this.#options;
    const { source, unit, headVersion, version } = await inTime(
      deadlineMs,
      this.#asked(tenantId, aggregateType, choice, query),
    );
    return this.#use(tenantId, 'at', async (bench) => {
      const refold = new Refold(
        await this.#load(bench, unit),
        source,
        query.aggregateId,
        version,
        source.marks(query.aggregateId, unit),
      );
      const state = await foldStateAt(bench, refold, query);
      return { ...state, className: unit.className, headVersion };
    }).catch((error: unknown) => {
      if (error instanceof DeadlinePassedError)
        throw late(
          `the ${version} versions could not be folded within ${deadlineMs} ms; ask for an earlier one`,
          error,
        );
      throw error;
    });
  }

  /** What a question for a state is about. */
  async #asked(
    tenantId: string,
    aggregateType: string,
    { reducerId, className }: ReducerChoice,
    query: StateAtQuery,
  ): Promise<{
    readonly source: AggregateSource;
    readonly unit: Unit;
    readonly headVersion: number;
    readonly version: number;
  }> {
    const source = await this.#options.tenants.aggregateSource(tenantId, query.aggregateId);
    await source.caughtUpAsOwner();
    const unit =
      reducerId === undefined
        ? source.bound(aggregateType)
        : boundClass(this.#options.catalog, tenantId, aggregateType, reducerId, className);
    if (unit === undefined) throw noReducer(aggregateType);
    if (source.isErased(query.aggregateId)) throw gone(query.aggregateId);
    const head = source.head(query.aggregateId);
    if (head?.type !== aggregateType)
      throw new StatefoldError('NOT_FOUND', `there is no aggregate '${query.aggregateId}'`);
    return { source, unit, headVersion: head.version, version: await versionOf(source, head.version, query) };
  }

  async dryRunReducers(
    tenantId: string,
    sources: readonly SourceFile[],
    options: ReducerDryRunOptions,
  ): Promise<DryRun> {
    return this.#turns.once(tenantId, async () => {
      const compiled = await this.#compile({ tenantId, kind: 'reducer', sources: await PackedSources.pack(sources) });
      if (!compiled.ok)
        return { status: 'failed', compilationError: compiled.compilationError, diagnostics: compiled.diagnostics };
      const classes = classesOf(compiled, options);
      const partitions = await this.#partitions(tenantId);
      return this.#dryRun(tenantId, compiled, options.show, async (bench, tally) => {
        const cuts: string[] = [];
        for (const { className, aggregateType } of classes) {
          const unit = { artefactId: DRY_RUN, className };
          const cut = await dryRunReducer(
            { bench, sources: partitions, tally, options, loadBound: (bound) => this.#load(bench, bound) },
            unit,
            aggregateType,
          );
          if (cut !== undefined) cuts.push(cut);
        }
        return cuts.length === 0 ? undefined : cuts.join('; ');
      });
    });
  }

  async dryRunProjection(
    tenantId: string,
    sources: readonly SourceFile[],
    options: ProjectionDryRunOptions,
  ): Promise<DryRun> {
    if (options.projectionId !== undefined) requireProjection(this.#options.catalog, tenantId, options.projectionId);
    return this.#turns.once(tenantId, async () => {
      const compiled = await this.#compile({
        tenantId,
        kind: 'projection',
        sources: await PackedSources.pack(sources),
      });
      if (!compiled.ok)
        return { status: 'failed', compilationError: compiled.compilationError, diagnostics: compiled.diagnostics };
      const units = compiled.discovered.map(({ className }) => ({
        id: `${DRY_RUN}@1`,
        artefactId: DRY_RUN,
        className,
      }));
      const source = await this.#projections(tenantId);
      return this.#dryRun(tenantId, compiled, options.show, (bench, tally) =>
        dryRunProjection({ bench, source, units, tally, options, maxBytes: this.#options.maxBytes }),
      );
    });
  }

  #compile(request: CompileRequest): Promise<CompileResult> {
    const { codeHost, deadlineMs } = this.#options;
    return codeHost.compile({ ...request, waitMs: deadlineMs });
  }

  async runFixtures(
    tenantId: string,
    sources: readonly SourceFile[],
    fixtures: readonly Fixture[],
  ): Promise<FixturesOutcome> {
    return this.#turns.once(tenantId, async () => {
      let project: CompiledProject;
      try {
        project = await compileProject({ compile: (request) => this.#compile({ ...request, tenantId }) }, sources);
      } catch (error) {
        if (!(error instanceof CompileError)) throw error;
        const { compilationError, diagnostics } = error;
        return { status: 'failed', compilationError, diagnostics };
      }
      const tally = new FixturesTally(fixtures.length);
      const { cut, seconds } = await this.#measured(tenantId, tally, async (bench) => {
        await runFixtures(bench, project, fixtures, tally);
        return undefined;
      });
      return { status: 'compiled', diagnostics: project.diagnostics, cases: tally.cases, cut, seconds };
    });
  }

  async verifyAggregates(
    tenantId: string,
    aggregateType: string,
    which: AggregatesToVerify,
  ): Promise<AggregatesVerified> {
    return this.#turns.once(tenantId, async () => {
      const partitions = await this.#partitions(tenantId);
      const bound = partitions[0]?.bound(aggregateType);
      if (bound === undefined) throw noReducer(aggregateType);
      let unknown: readonly string[] = [];
      const verified = await this.#verify(tenantId, async (bench, tally) => {
        const unit = await this.#load(bench, bound);
        const readStoreRows = (ids: readonly string[]): Promise<ReadonlyMap<string, AggregateRow> | undefined> =>
          aggregateRows(this.#options.readStore, tenantId, aggregateType, ids).catch(() => undefined);
        unknown = await verifyAggregates(
          { bench, sources: partitions, aggregateType, bound, unit, tally, readStoreRows },
          which,
        );
        return undefined;
      });
      return { aggregateType, reducerClass: bound.className, unknown, ...verified };
    });
  }

  async verifyProjection(tenantId: string, projectionId: string, which: KeysToVerify): Promise<KeysVerified> {
    requireProjection(this.#options.catalog, tenantId, projectionId);
    return this.#turns.once(tenantId, async () => {
      const source = await this.#projections(tenantId);
      const live = source.live(projectionId);
      if (live === undefined)
        throw new StatefoldError(
          'PROJECTION_NOT_LIVE',
          `projection '${projectionId}' has no live revision yet; verify it when its build is done`,
        );
      if (isHalted(this.#options.catalog, revisionUnit(projectionId, live.revision)))
        throw new StatefoldError(
          'PROJECTION_NOT_LIVE',
          `the code of projection '${projectionId}' is faulted, so that its states are not followed; revive it first`,
        );
      const unknown: string[] = [];
      const verified = await this.#verify(tenantId, async (bench, tally) => {
        const { artefactId } = await this.#load(bench, { artefactId: live.artefactId, className: '' });
        const units = live.classNames.map((className) => ({
          id: `${revisionUnit(projectionId, live.revision)}~again`,
          artefactId,
          className,
        }));
        for (const { id } of units) bench.forget(id);
        return verifyProjection(
          {
            ...{ bench, source, projectionId, live, units, tally, unknown },
            maxKeys: Math.max(VERIFIED_KEYS, which.keys?.length ?? 0) * units.length,
            maxBytes: this.#options.maxBytes,
            readStoreRows: (keys) =>
              keyRows(this.#options.readStore, tenantId, projectionId, keys).catch(() => undefined),
          },
          which,
        );
      });
      return { projectionId, revision: live.revision, unknown, ...verified };
    });
  }

  async #partitions(tenantId: string): Promise<readonly AggregateSource[]> {
    return inTime(
      this.#options.deadlineMs,
      (async () => {
        const partitions = await (await this.#options.tenants.inspection(tenantId)).aggregates();
        await Promise.all(partitions.map((partition) => partition.caughtUpAsOwner()));
        return partitions;
      })(),
    );
  }

  async #projections(tenantId: string): Promise<ProjectionSource> {
    return (await inTime(this.#options.deadlineMs, this.#options.tenants.inspection(tenantId))).projections;
  }

  #use<T>(tenantId: string, what: 'at' | 'dry', work: (bench: Bench) => Promise<T>): Promise<T> {
    const name = scratchName(tenantId, what);
    let scratch = this.#scratch.get(name);
    if (scratch === undefined)
      this.#scratch.set(
        name,
        (scratch = new ScratchRunner({
          codeHost: this.#options.codeHost,
          name,
          idleMs: IDLE_MS,
          onIdle: () => void this.#scratch.delete(name),
        })),
      );
    return scratch.use(this.#options.deadlineMs, work);
  }

  /** The unit as it is called in the bench. */
  async #load(bench: Bench, { artefactId, className }: Unit): Promise<Unit> {
    await bench.load(again(artefactId), async () => {
      const assembly = await this.#options.catalog.artefacts.get(artefactId, 'assembly');
      if (assembly === undefined)
        throw new StatefoldError('UNAVAILABLE', `the compiled code of artefact ${artefactId} is not in the log`);
      return assembly;
    });
    return { artefactId: again(artefactId), className };
  }

  async #dryRun(
    tenantId: string,
    { assembly, diagnostics }: CompileResult & { ok: true },
    show: number,
    work: (bench: Bench, tally: DryRunTally) => Promise<string | undefined>,
  ): Promise<DryRun> {
    const tally = new DryRunTally(show);
    const { cut, seconds } = await this.#measured(tenantId, tally, async (bench) => {
      bench.unload(DRY_RUN);
      await bench.load(DRY_RUN, () => Promise.resolve(assembly));
      return work(bench, tally);
    });
    const { classes, changes, faults, events } = tally;
    return {
      status: 'compiled',
      diagnostics,
      complete: cut === undefined,
      cut,
      classes,
      changes,
      faults,
      events,
      seconds,
    };
  }

  async #verify(
    tenantId: string,
    work: (bench: Bench, tally: VerifyTally) => Promise<string | undefined>,
  ): Promise<Omit<KeysVerified, 'projectionId' | 'revision' | 'unknown'>> {
    const tally = new VerifyTally();
    const { cut, seconds } = await this.#measured(tenantId, tally, (bench) => work(bench, tally));
    const { differences, events } = tally;
    return { complete: cut === undefined, cut, ...tally.figures, differences, events, seconds };
  }

  /** What was done until the deadline counts. */
  async #measured(
    tenantId: string,
    tally: { readonly reached?: string },
    work: (bench: Bench) => Promise<string | undefined>,
  ): Promise<{ readonly cut: string | undefined; readonly seconds: number }> {
    const { deadlineMs } = this.#options;
    return this.#turns.take(tenantId, deadlineMs, async () => {
      const started = performance.now();
      let cut: string | undefined;
      try {
        cut = await this.#use(tenantId, 'dry', work);
      } catch (error) {
        if (!(error instanceof DeadlinePassedError)) throw error;
        cut = `the time: ${deadlineMs} ms were over${tally.reached === undefined ? '' : `, ${tally.reached}`}`;
      }
      return { cut, seconds: (performance.now() - started) / 1000 };
    });
  }
}

/** The classes to run, each with the type whose aggregates it folds. */
function classesOf(
  { discovered }: CompileResult & { ok: true },
  { aggregateType, className }: ReducerDryRunOptions,
): readonly { readonly className: string; readonly aggregateType: string }[] {
  const named = className === undefined ? discovered : discovered.filter((one) => one.className === className);
  if (named.length === 0)
    throw new StatefoldError(
      'REDUCER_CLASS_NOT_FOUND',
      `the reducer has no class '${className}'; it has ${discovered.map((one) => one.className).join(', ')}`,
    );
  if (aggregateType === undefined)
    return named.flatMap((one) =>
      one.aggregateType === undefined ? [] : [{ className: one.className, aggregateType: one.aggregateType }],
    );
  const forType = named.filter((one) => one.aggregateType === aggregateType);
  // As a binding can be made to a type other than the class's own.
  const chosen = forType.length > 0 ? forType : className !== undefined ? named : [];
  if (chosen.length === 0)
    throw new StatefoldError(
      'REDUCER_CLASS_NOT_FOUND',
      `no class of the reducer is for aggregate type '${aggregateType}'; name one with className: ${discovered.map((one) => one.className).join(', ')}`,
    );
  return chosen.map((one) => ({ className: one.className, aggregateType }));
}

const noReducer = (aggregateType: string): StatefoldError =>
  new StatefoldError(
    'NO_REDUCER_BOUND',
    `no reducer is bound to aggregate type '${aggregateType}'; upload one, or bind one with PUT /aggregate-types/${aggregateType}`,
  );

const late = (message: string, cause: unknown): StatefoldError =>
  new StatefoldError('INSPECTION_DEADLINE', message, { cause });
