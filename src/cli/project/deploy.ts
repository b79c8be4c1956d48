import type { CodeHost, Diagnostic } from '../../code-host/code-host.js';
import { CliError, type CliIo } from '../io.js';
import { confirm } from './ask.js';
import { CompileError, compileProject } from './compile.js';
import { formatDiagnostics, plural } from './diagnostics.js';
import { formatDryRun, formatPlan, planOf, type Plan } from './plan.js';
import { poll, Progress } from './progress.js';
import type { DryRunRecord, Remote } from './remote.js';
import { readProject, type Project } from './sources.js';
import { styleFor, type Style } from './style.js';

export interface DeployOptions {
  readonly yes: boolean;
  /** Only show what would change. */
  readonly planOnly: boolean;
  readonly tryFirst: boolean;
  /** Redeploy this one. */
  readonly projectionId: string | undefined;
}

/** What came of a deployment, for those who want it as JSON. */
export interface Deployed {
  readonly plan: Plan;
  readonly dryRuns: readonly DryRunRecord[];
  readonly reducerId?: string;
  readonly projectionId?: string;
  readonly deployed: boolean;
}

/** The project does not compile, here or at the service. */
export class NotCompiled extends Error {
  override readonly name = 'NotCompiled';
}

/** One deployment of a project: a plan, a question, the uploads, and the wait until they are caught up. */
export class Deployment {
  readonly #io: CliIo;
  readonly #remote: Remote;
  readonly #project: Project;
  readonly #style: Style;
  /** Where what is going on is told; of a command that answers in JSON not on its output. */
  readonly #out: CliIo['stdout'];

  constructor(io: CliIo, remote: Remote, directory: string | undefined, json: boolean) {
    this.#io = io;
    this.#remote = remote;
    this.#project = readProject(directory);
    this.#out = json ? io.stderr : io.stdout;
    this.#style = styleFor(this.#out, io.env);
  }

  /** @throws NotCompiled when it has told why; CliError */
  async run(host: CodeHost, { yes, planOnly, tryFirst, projectionId }: DeployOptions): Promise<Deployed> {
    const compiled = await compileProject(host, this.#project).catch((error: unknown) => this.#refused(error));
    this.#out.write(formatDiagnostics(compiled.diagnostics, this.#project.sources, this.#style));
    const plan = planOf(compiled, await this.#remote.types(), await this.#remote.projections(), projectionId);
    this.#out.write(formatPlan(plan, this.#project, this.#remote.url, this.#style));
    const dryRuns = tryFirst ? await this.#tryOut(plan) : [];
    if (planOnly || !(yes || (await confirm('Deploy this?', this.#io)))) return { plan, dryRuns, deployed: false };
    const reducerId = plan.types.length > 0 ? await this.#deployReducers() : undefined;
    const deployedId =
      plan.projection === undefined ? undefined : await this.#deployProjection(plan.projection.projectionId);
    return {
      plan,
      dryRuns,
      deployed: true,
      ...(reducerId === undefined ? {} : { reducerId }),
      ...(deployedId === undefined ? {} : { projectionId: deployedId }),
    };
  }

  #refused(error: unknown): never {
    if (!(error instanceof CompileError)) throw error;
    this.#out.write(formatDiagnostics(error.diagnostics, this.#project.sources, this.#style));
    throw new NotCompiled('the project does not compile');
  }

  /** A dry run that can't be done is no reason not to deploy. */
  async #tryOut({ types, projection }: Plan): Promise<DryRunRecord[]> {
    const kinds: (readonly ['reducer' | 'projection', string | undefined])[] = [];
    if (types.some(({ aggregates }) => aggregates > 0)) kinds.push(['reducer', undefined]);
    if (projection !== undefined) kinds.push(['projection', projection.projectionId]);
    const results: DryRunRecord[] = [];
    for (const [kind, id] of kinds) {
      try {
        const result = await this.#remote.dryRun(kind, this.#project.sources, id);
        if (result.status !== 'compiled') continue;
        this.#out.write(formatDryRun(result, this.#style));
        results.push(result);
      } catch (error) {
        if (!(error instanceof CliError)) throw error;
        this.#out.write(this.#style.yellow(`It was not tried over the stored history: ${error.message}\n\n`));
      }
    }
    return results;
  }

  async #deployReducers(): Promise<string> {
    const id = await this.#remote.uploadReducer(this.#project.sources);
    const compiled = await poll(async () => {
      const reducer = await this.#remote.reducer(id);
      return reducer.status === 'pending_compilation' ? undefined : reducer;
    });
    if (compiled.status === 'failed') this.#failedThere(compiled.diagnostics ?? [], compiled.compilationError);
    this.#out.write(`reducers: uploaded as ${id}\n`);
    for (const { aggregateType, reason } of compiled.unboundTypes ?? [])
      this.#out.write(this.#style.yellow(`${aggregateType}: not bound: ${reason}\n`));
    const unbound = new Set((compiled.unboundTypes ?? []).map(({ aggregateType }) => aggregateType));
    const types = new Set(
      (compiled.discovered ?? []).flatMap(({ aggregateType }) =>
        aggregateType === undefined || unbound.has(aggregateType) ? [] : [aggregateType],
      ),
    );
    for (const type of types) await awaitCatchUp(this.#remote, this.#out, type);
    return id;
  }

  async #deployProjection(before: string | undefined): Promise<string> {
    const id = await this.#remote.uploadProjection(this.#project.sources, before, this.#project.notifications);
    const compiled = await poll(async () => {
      const projection = await this.#remote.projection(id);
      return projection.status === 'compiling' ? undefined : projection;
    });
    if (compiled.status === 'failed') this.#failedThere(compiled.diagnostics ?? [], compiled.compilationError);
    this.#out.write(`projection: uploaded as revision ${compiled.revision} of ${id}\n`);
    await awaitRevision(this.#remote, this.#out, id, compiled.revision);
    return id;
  }

  /** It compiles here and not there: the service may be another version, or stricter. */
  #failedThere(diagnostics: readonly Diagnostic[], text: string | undefined): never {
    this.#out.write(
      diagnostics.length > 0 ? formatDiagnostics(diagnostics, this.#project.sources, this.#style) : `${text ?? ''}\n`,
    );
    throw new NotCompiled('the service refused the project');
  }
}

/** Waits until all aggregates of a type are folded. @throws CliError when that failed */
export async function awaitCatchUp(remote: Remote, output: CliIo['stdout'], aggregateType: string): Promise<void> {
  const progress = new Progress(output, aggregateType);
  try {
    const { catchUp, faultCount = 0 } = await poll(async () => {
      const type = await remote.type(aggregateType);
      if (type.faulted !== undefined)
        throw new CliError(
          `The code bound to ${aggregateType} is not run any more: it ${type.faulted.message ?? 'overran its limits too often'}. \`statefold rollback ${aggregateType}\` goes back to what was bound before.`,
        );
      if (type.catchUp?.status !== 'running') return type;
      progress.show(type.catchUp);
      return undefined;
    });
    if (catchUp?.status === 'failed')
      throw new CliError(
        `The catch-up of ${aggregateType} failed; its states are folded when they are asked for. The service's log says why.`,
      );
    progress.done(
      `caught up${faultCount > 0 ? `, ${plural(faultCount, 'aggregate')} stopped by an event: see /aggregate-types/${aggregateType}/faults` : ''}`,
    );
  } finally {
    progress.stop();
  }
}

/** Waits until a revision, or a later one, is live. @throws CliError when it can't come to be */
export async function awaitRevision(
  remote: Remote,
  output: CliIo['stdout'],
  projectionId: string,
  revision: number,
): Promise<void> {
  const progress = new Progress(output, 'projection');
  try {
    const { live, faultCount = 0 } = await poll(async () => {
      const projection = await remote.projection(projectionId);
      if ((projection.live?.revision ?? 0) >= revision) return projection;
      if (projection.build?.status === 'failed')
        throw new CliError(
          `The build of revision ${revision} of projection ${projectionId} failed; what was live stays. The service's log says why.`,
        );
      if (projection.cancelledAt !== undefined)
        throw new CliError(`The build of revision ${revision} of projection ${projectionId} was called off.`);
      if (projection.faulted !== undefined && (projection.faulted.revision ?? 0) >= revision)
        throw new CliError(
          `The code of revision ${projection.faulted.revision} of projection ${projectionId} is not run any more: it ${projection.faulted.message ?? 'overran its limits too often'}. What was live stays.`,
        );
      if (projection.status === 'failed')
        throw new CliError(`A newer revision of projection ${projectionId} was uploaded meanwhile and failed.`);
      if (projection.build !== undefined) progress.show(projection.build);
      return undefined;
    });
    progress.done(
      `revision ${live?.revision ?? revision} is live${faultCount > 0 ? `, ${plural(faultCount, 'key')} stopped by an event: see /projections/${projectionId}/status` : ''}`,
    );
  } finally {
    progress.stop();
  }
}
