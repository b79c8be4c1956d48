import { CliError, CommandRefusedError, type CliIo } from '../io.js';
import type { Diagnostic } from '../../code-host/code-host.js';
import { awaitCatchUp, awaitRevision } from './await.js';
import { configOf, deliveryOf } from './notifications.js';
import type { Plan, ProjectionPlan, TypePlan } from './plan.js';
import { poll } from './progress.js';
import type { NotificationsRecord, ProjectionRecord, Remote } from './remote.js';
import type { ProjectFile } from '../../fixtures/fixtures.js';

/** What came of a plan that was applied. */
export interface Applied {
  readonly reducerId?: string;
  readonly projectionId?: string;
  /** Of the projection, where its notifications were set. */
  readonly notifications?: NotificationsRecord;
}

/** The service refused code that it had compiled a moment before. */
export class NotCompiledThere extends CliError {
  readonly diagnostics: readonly Diagnostic[];

  constructor(text: string | undefined, diagnostics: readonly Diagnostic[]) {
    super(`The service did not compile it: ${text ?? 'it did not say why'}`);
    this.diagnostics = diagnostics;
  }
}

/** Takes a step back; says what came of it. */
type Undo = () => Promise<string>;

/**
 * Applies a plan, all of it or nothing. The projection comes first: it is built beside what is live, so that it can be called off
 * without a trace; types are bound when it is live. When a step fails, those before it are taken back.
 */
export class Application {
  readonly #remote: Remote;
  readonly #sources: readonly ProjectFile[];
  readonly #output: CliIo['stdout'];
  readonly #undo: Undo[] = [];

  constructor(remote: Remote, sources: readonly ProjectFile[], output: CliIo['stdout']) {
    this.#remote = remote;
    this.#sources = sources;
    this.#output = output;
  }

  /** @param before the projection as it was; undefined: there was none @throws CliError which says what was taken back, and what could not be */
  async run(plan: Plan, before: ProjectionRecord | undefined): Promise<Applied> {
    try {
      const projection =
        plan.projection === undefined || plan.projection.change === 'unchanged'
          ? {}
          : await this.#projection(plan.projection, before);
      const types = plan.types.filter(({ change }) => change === 'bind');
      const reducerId =
        types.length === 0
          ? plan.reducerId
          : plan.reducerId === undefined
            ? await this.#upload(types)
            : await this.#bind(types, plan.reducerId);
      return { ...(plan.types.length === 0 || reducerId === undefined ? {} : { reducerId }), ...projection };
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
      throw await this.#takenBack(error);
    }
  }

  async #projection(
    { change, projectionId, notifications, revision }: ProjectionPlan,
    before: ProjectionRecord | undefined,
  ): Promise<Applied> {
    if (projectionId !== undefined && before !== undefined)
      this.#undo.push(() => this.#restore(before, notifications.changed));
    if (change === 'notifications' && projectionId !== undefined) {
      const set = await this.#remote.configure(projectionId, notifications.config ?? {});
      this.#output.write(`projection: the notifications of ${projectionId} are changed\n`);
      return { projectionId, notifications: set };
    }
    const uploaded = await this.#remote.uploadProjection(this.#sources, projectionId, notifications.config);
    const id = uploaded.projectionId;
    if (projectionId === undefined) this.#undo.push(() => this.#delete(id));
    const compiled = await poll(async () => {
      const projection = await this.#remote.projection(id);
      return projection.status === 'compiling' ? undefined : projection;
    });
    if (compiled.status === 'failed') throw new NotCompiledThere(compiled.compilationError, compiled.diagnostics ?? []);
    this.#output.write(`projection: uploaded as revision ${Math.max(revision, compiled.revision)} of ${id}\n`);
    await awaitRevision(this.#remote, this.#output, id, compiled.revision);
    return {
      projectionId: id,
      ...(uploaded.notifications === undefined ? {} : { notifications: uploaded.notifications }),
    };
  }

  async #upload(types: readonly TypePlan[]): Promise<string> {
    // Whatever becomes of the request, what it bound is seen by asking.
    this.#undo.push(() => this.#rebind(types));
    const id = await this.#remote.uploadReducer(this.#sources);
    const compiled = await poll(async () => {
      const reducer = await this.#remote.reducer(id);
      return reducer.status === 'pending_compilation' ? undefined : reducer;
    });
    if (compiled.status === 'failed') throw new NotCompiledThere(compiled.compilationError, compiled.diagnostics ?? []);
    this.#output.write(`reducers: uploaded as ${id}\n`);
    for (const { aggregateType, reason } of compiled.unboundTypes ?? [])
      this.#output.write(`${aggregateType}: not bound: ${reason}\n`);
    for (const { aggregateType } of types) await awaitCatchUp(this.#remote, this.#output, aggregateType);
    return id;
  }

  async #bind(types: readonly TypePlan[], reducerId: string): Promise<string> {
    this.#undo.push(() => this.#rebind(types));
    for (const { aggregateType, classNames } of types)
      await this.#remote.bind(aggregateType, reducerId, classNames[0] ?? '');
    this.#output.write(`reducers: bound to ${reducerId}, which has the same code\n`);
    for (const { aggregateType } of types) await awaitCatchUp(this.#remote, this.#output, aggregateType);
    return reducerId;
  }

  /** The last step first. */
  async #takenBack(error: CliError): Promise<CliError> {
    const lines: string[] = [];
    for (const undo of this.#undo.reverse()) {
      try {
        lines.push(await undo());
      } catch (second) {
        if (!(second instanceof CliError)) throw second;
        lines.push(`It could not be taken back whole: ${second.message} \`statefold history\` shows what holds now.`);
      }
    }
    const told = lines.filter((line) => line !== '');
    const text = `${error.message}\n${told.length === 0 ? 'Nothing was changed.' : told.join('\n')}`;
    return error instanceof NotCompiledThere
      ? Object.assign(new NotCompiledThere(undefined, error.diagnostics), { message: text })
      : new CliError(text);
  }

  async #rebind(types: readonly TypePlan[]): Promise<string> {
    const now = await this.#remote.types();
    const lines: string[] = [];
    for (const { aggregateType, before, reducerBefore } of types) {
      const bound = now.find((type) => type.aggregateType === aggregateType);
      if (bound?.reducerId === reducerBefore && bound?.className === before) continue;
      if (before === undefined || reducerBefore === undefined) {
        lines.push(
          `${aggregateType} had no reducer before, and stays bound to ${bound?.className} (${bound?.reducerId}): mend the code and deploy it again.`,
        );
        continue;
      }
      await this.#remote.bind(aggregateType, reducerBefore, before);
      lines.push(`${aggregateType} is bound to ${before} (${reducerBefore}) again.`);
    }
    return lines.join('\n');
  }

  async #delete(projectionId: string): Promise<string> {
    await this.#remote.deleteProjection(projectionId);
    return `The new projection ${projectionId} is deleted again.`;
  }

  async #restore(before: ProjectionRecord, configured: boolean): Promise<string> {
    const { id } = before;
    const lines: string[] = [];
    if (configured) {
      await this.#remote.configure(id, configOf(deliveryOf(before)));
      lines.push(`The notifications of projection ${id} are as they were.`);
    }
    const { live, status, revision, build } = await this.#remote.projection(id);
    const was = before.live?.revision ?? before.revision;
    if (revision > before.revision && (live?.revision ?? 0) <= before.revision) {
      if (status === 'failed' && build === undefined)
        lines.push(`Revision ${revision} of projection ${id} failed; what was live stays.`);
      else if (await this.#calledOff(id))
        lines.push(`The build of revision ${revision} of projection ${id} is called off; what was live stays.`);
    }
    const now = await this.#remote.projection(id);
    if (now.live !== undefined && now.live.revision > before.revision) {
      const done = await this.#remote.rollbackProjection(id, was);
      await awaitRevision(this.#remote, this.#output, id, done.revision);
      lines.push(`Projection ${id} is back at the code of revision ${was}, as revision ${done.revision}.`);
    }
    return lines.join('\n');
  }

  /** False: it is live by now, or was called off already. */
  async #calledOff(id: string): Promise<boolean> {
    try {
      await this.#remote.cancelBuild(id);
      return true;
    } catch (error) {
      if (error instanceof CommandRefusedError && error.code === 'NO_BUILD') return false;
      throw error;
    }
  }
}
