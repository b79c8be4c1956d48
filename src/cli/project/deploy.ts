import type { CodeHost, Diagnostic } from '../../code-host/code-host.js';
import { confirm } from '../ask.js';
import { CliError, CommandRefusedError, type CliIo } from '../io.js';
import { Application, NotCompiledThere, type Applied } from './apply.js';
import { CompileError, compileProject, type CompiledProject } from '../../fixtures/compile.js';
import { formatDiagnostics, plural } from './diagnostics.js';
import { notificationPlan, type NotificationPlan } from './notifications.js';
import { formatDryRun, formatPlan, isUnchanged, planOf, targetOf, type Plan, type Same } from './plan.js';
import type { CheckRecord, DryRunRecord, ProjectionRecord, Remote } from './remote.js';
import { MANIFEST, readProject, type Project } from './sources.js';
import { styleFor, type Style } from './style.js';
import type { FixturesRun } from '../../fixtures/fixture-run.js';
import { fixturesOf, runCases } from './test-command.js';

export interface DeployOptions {
  readonly yes: boolean;
  /** Only show what would change. */
  readonly planOnly: boolean;
  readonly tryFirst: boolean;
  /** Deploy although fixtures fail, or states stop. */
  readonly force: boolean;
  /** Redeploy this one, by its id or class. */
  readonly projection: string | undefined;
}

/** What came of a deployment, for those who want it as JSON. */
export interface Deployed {
  readonly plan: Plan;
  readonly fixtures: Pick<FixturesRun, 'passed' | 'failed'>;
  readonly dryRuns: readonly DryRunRecord[];
  /** What is against it. */
  readonly problems: readonly string[];
  readonly deployed: boolean;
  /** Some of them can't be passed over, or were not. */
  readonly blocked: boolean;
  /** There was nothing to do. */
  readonly unchanged: boolean;
  readonly reducerId?: string;
  readonly projectionId?: string;
  readonly webhook?: {
    readonly url: string | undefined;
    readonly secret: string | undefined;
    readonly isolated: boolean | undefined;
  };
}

/** The project does not compile, here or at the service. */
export class NotCompiled extends Error {
  override readonly name = 'NotCompiled';
}

interface Problem {
  readonly text: string;
  /** `--force` passes it over. */
  readonly forced: boolean;
}

/** One deployment of a project: checks, a plan, a question, the uploads, and the wait until they are caught up. */
export class Deployment {
  readonly #io: CliIo;
  readonly #remote: Remote;
  readonly #project: Project;
  readonly #style: Style;
  /** Where what is going on is told; of a command that answers in JSON not on its output. */
  readonly #out: CliIo['stdout'];
  readonly #problems: Problem[] = [];

  constructor(io: CliIo, remote: Remote, directory: string | undefined, json: boolean) {
    this.#io = io;
    this.#remote = remote;
    this.#project = readProject(directory);
    this.#out = json ? io.stderr : io.stdout;
    this.#style = styleFor(this.#out, io.env);
  }

  /** @throws NotCompiled when it has told why; CliError */
  async run(host: CodeHost, { yes, planOnly, tryFirst, force, projection }: DeployOptions): Promise<Deployed> {
    const compiled = await compileProject(host, this.#project.sources).catch((error: unknown) => this.#refused(error));
    this.#out.write(formatDiagnostics(compiled.diagnostics, this.#project.sources, this.#style));
    const fixtures = await this.#fixtures(host, compiled);
    const target = targetOf(compiled, await this.#remote.projections(), projection);
    // A list leaves out what is live.
    const before = target.projection === undefined ? undefined : await this.#remote.projection(target.projection.id);
    const notifications = this.#notifications(compiled, before);
    const plan = planOf(
      compiled,
      await this.#remote.types(),
      before,
      notifications,
      await this.#checked(compiled, before, notifications),
    );
    this.#out.write(formatPlan(plan, this.#project, this.#remote.url, this.#style));
    const dryRuns = tryFirst && this.#problems.every(({ forced }) => forced) ? await this.#tryOut(plan) : [];
    const unchanged = isUnchanged(plan) && this.#problems.length === 0;
    const blocked = this.#problems.some(({ forced }) => !forced || !force);
    const asPlanned: Deployed = {
      plan,
      fixtures,
      dryRuns,
      problems: this.#problems.map(({ text }) => text),
      blocked,
      deployed: false,
      unchanged,
    };
    for (const { text, forced } of this.#problems)
      this.#out.write(forced && force ? this.#style.yellow(`${text}\n`) : this.#style.red(`${text}\n`));
    if (blocked) {
      this.#out.write(
        `Nothing was deployed. ${this.#problems.every(({ forced }) => forced) ? 'Mend it, or say --force to deploy it all the same.' : 'Mend it and run this again.'}\n`,
      );
      return asPlanned;
    }
    if (unchanged) this.#out.write('Everything is deployed already: there is nothing to do.\n');
    if (planOnly || unchanged) return asPlanned;
    if (!(yes || (await confirm('Deploy this?', this.#io)))) {
      this.#out.write('It was not confirmed: nothing was deployed.\n');
      return asPlanned;
    }
    const applied = await new Application(this.#remote, this.#project.sources, this.#out)
      .run(plan, before)
      .catch((error: unknown) => this.#failed(error));
    return { ...asPlanned, deployed: true, ...this.#told(plan, applied) };
  }

  #refused(error: unknown): never {
    if (!(error instanceof CompileError)) throw error;
    this.#out.write(formatDiagnostics(error.diagnostics, this.#project.sources, this.#style));
    throw new NotCompiled('the project does not compile');
  }

  #failed(error: unknown): never {
    if (!(error instanceof NotCompiledThere)) throw error;
    this.#notCompiledThere(error.diagnostics, undefined);
    this.#io.stderr.write(`${error.message}\n`);
    throw new NotCompiled('the service refused the project');
  }

  /** It compiles here and not there: the service may be another version, or stricter. */
  #notCompiledThere(diagnostics: readonly Diagnostic[], text: string | undefined): void {
    this.#out.write('The service does not compile it:\n');
    this.#out.write(
      diagnostics.length > 0 ? formatDiagnostics(diagnostics, this.#project.sources, this.#style) : `${text ?? ''}\n`,
    );
  }

  /** Those that fail are told. */
  async #fixtures(host: CodeHost, compiled: CompiledProject): Promise<Pick<FixturesRun, 'passed' | 'failed'>> {
    const fixtures = fixturesOf(this.#project, undefined);
    const { passed, failed, cases } = await runCases(host, compiled, fixtures, this.#project, undefined);
    if (failed > 0) {
      const names = cases.flatMap(({ status, file, name }) => (status === 'failed' ? [`  ${file}: ${name}`] : []));
      this.#problems.push({
        text: `${plural(failed, 'fixture')} of ${cases.length} failed; \`statefold test\` shows why:\n${names.join('\n')}`,
        forced: true,
      });
    }
    return { passed, failed };
  }

  #notifications({ projection }: CompiledProject, live: ProjectionRecord | undefined): NotificationPlan {
    const { notifications } = this.#project;
    if (projection === undefined && notifications !== undefined)
      this.#out.write(
        this.#style.yellow(
          `${MANIFEST} has notifications, and the project has no projection that they could be of: they are passed over.\n`,
        ),
      );
    return notificationPlan(notifications, live);
  }

  /** What the service would refuse, it is asked for before anything is changed. */
  async #checked(
    { reducer, projection }: CompiledProject,
    before: ProjectionRecord | undefined,
    { config }: NotificationPlan,
  ): Promise<Same> {
    const { sources } = this.#project;
    const reducers = reducer === undefined ? undefined : await this.#check(() => this.#remote.checkReducer(sources));
    const projections =
      projection === undefined
        ? undefined
        : await this.#check(() => this.#remote.checkProjection(sources, before?.id, config));
    return { reducerId: reducers?.sameAs, revision: projections?.sameAs };
  }

  async #check<T>(ask: () => Promise<CheckRecord<T>>): Promise<CheckRecord<T> | undefined> {
    let check: CheckRecord<T>;
    try {
      check = await ask();
    } catch (error) {
      if (!(error instanceof CommandRefusedError)) throw error;
      const about =
        error.code === 'WEBHOOK_URL_REFUSED' || /\bfield config\b/.test(error.message) ? `${MANIFEST}: ` : '';
      this.#problems.push({
        text: `${about}${error.message.replaceAll('The field config is invalid', 'notifications is invalid')}`,
        forced: false,
      });
      return undefined;
    }
    if (check.status === 'compiled') return check;
    this.#notCompiledThere(check.diagnostics, check.compilationError);
    throw new NotCompiled('the service refused the project');
  }

  /** A dry run that can't be done is no reason not to deploy. */
  async #tryOut({ types, projection }: Plan): Promise<DryRunRecord[]> {
    const bound = new Set(
      types.flatMap(({ change, aggregates, aggregateType }) =>
        change === 'bind' && aggregates > 0 ? [aggregateType] : [],
      ),
    );
    const kinds: (readonly ['reducer' | 'projection', string | undefined])[] = [];
    if (bound.size > 0) kinds.push(['reducer', undefined]);
    if (projection?.change === 'new' || projection?.change === 'redeploy')
      kinds.push(['projection', projection.projectionId]);
    const results: DryRunRecord[] = [];
    for (const [kind, id] of kinds) {
      try {
        const result = await this.#remote.dryRun(kind, this.#project.sources, id);
        if (result.status !== 'compiled') continue;
        this.#out.write(formatDryRun(result, this.#style));
        results.push(result);
        this.#stops(result, (type) => type === undefined || bound.has(type));
      } catch (error) {
        if (!(error instanceof CliError)) throw error;
        this.#out.write(this.#style.yellow(`It was not tried over the stored history: ${error.message}\n\n`));
      }
    }
    return results;
  }

  /** States that an event of the history stops. */
  #stops({ classes = [] }: DryRunRecord, concerns: (aggregateType: string | undefined) => boolean): void {
    for (const { className, aggregateType, faulted, faultedBefore } of classes) {
      if (faulted === 0 || !concerns(aggregateType)) continue;
      const what = plural(faulted, aggregateType === undefined ? 'key' : 'aggregate');
      this.#problems.push({
        text: `${className} stops ${what} at an event of the history (${faultedBefore === 0 ? 'none is' : `${faultedBefore.toLocaleString('en-US')} are`} stopped now).`,
        forced: true,
      });
    }
  }

  #told({ projection }: Plan, { notifications, ...ids }: Applied): Partial<Deployed> {
    if (projection === undefined || notifications?.webhook.enabled !== true) return ids;
    const { secret, isolated } = notifications.webhook;
    const config: { readonly webhook?: { readonly url?: string } } | undefined = projection.notifications.config;
    if (projection.notifications.newSecret)
      this.#out.write(
        `webhook: signed with ${secret ?? ''} (${isolated === true ? "the projection's own secret" : "the tenant's shared secret"}, shown only now)\n`,
      );
    return { ...ids, webhook: { url: config?.webhook?.url, secret, isolated } };
  }
}
