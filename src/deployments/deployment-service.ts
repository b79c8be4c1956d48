import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import type {
  ArtefactFields,
  BindingEntity,
  Catalog,
  FormerBinding,
  ProjectionEntity,
  ReducerEntity,
  RevisionEntity,
} from '../catalog/catalog.js';
import type { Sealer } from '../catalog/sealing.js';
import { rotateSecrets, signingSecrets } from '../catalog/webhook-secrets.js';
import type { CodeHost, CompileResult } from '../code-host/code-host.js';
import type { Clock } from '../core/clock.js';
import { StatefoldError } from '../core/errors.js';
import { isoTimestamp } from '../core/event.js';
import { uuidv7 } from '../core/ids.js';
import type { Logger } from '../core/logger.js';
import type { ProjectionLife } from '../projections/projections.js';
import { revive } from './artefact-health.js';
import type { Deployments, NotificationConfig, RevisionAnswer, SourceFile } from './deployments.js';
import { unambiguous } from './bindings.js';
import { ProjectionRevisions } from './projection-revisions.js';
import { boundClass } from './reducer-choice.js';
import { revised, revisionsOf, withRevisions } from './revisions.js';
import { UploadWaits, type LiveProjections, type ProjectionReached } from './upload-waits.js';
import { UploadChecks, type ProjectionCheck, type ReducerCheck } from './upload-checks.js';

export interface DeploymentServiceOptions {
  readonly catalog: Catalog;
  readonly codeHost: CodeHost;
  readonly sealer: Sealer;
  /** @throws StatefoldError WEBHOOK_URL_REFUSED */
  readonly checkWebhookUrl: (url: string) => Promise<void>;
  /** The last sequence of a tenant of this process. */
  readonly changesHead: (tenantId: string) => Promise<number>;
  /** The tenant's task; rejects where this process does not serve the tenant. */
  readonly projectionsOf: (tenantId: string) => Promise<LiveProjections>;
  /** Uploads of a tenant that may wait for their compilation at one time. */
  readonly maxPendingUploads?: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly observer?: { compiled?(kind: 'reducer' | 'projection', ok: boolean, seconds: number): void };
}

const RETRY_MS = 2000;
const UPLOAD_RETRY_SECONDS = 5;
const zip = promisify(gzip);
const unzip = promisify(gunzip);

/** Uploads, compilations and bindings: each step is in the catalog before the next, so that a restart goes on where it was. */
export class DeploymentService implements Deployments {
  readonly #options: DeploymentServiceOptions;
  readonly #compilations = new Map<string, Promise<void>>();
  /** Of each tenant, uploads that are being kept, and compilations that wait or are under way. */
  readonly #pending = new Map<string, number>();
  readonly #revisions: ProjectionRevisions;
  readonly #waits: UploadWaits;
  readonly #checks: UploadChecks;
  #closed = false;

  constructor(options: DeploymentServiceOptions) {
    this.#options = options;
    const { catalog, projectionsOf } = options;
    const projectionLife = async (tenantId: string, projectionId: string): Promise<ProjectionLife> =>
      (await projectionsOf(tenantId)).life(projectionId);
    this.#revisions = new ProjectionRevisions({ catalog, projectionLife, now: () => this.#now() });
    this.#waits = new UploadWaits({ catalog, projectionsOf });
    this.#checks = new UploadChecks({
      catalog,
      codeHost: options.codeHost,
      sourcesOf: (artefactId) => this.#sources(artefactId),
    });
  }

  /** Compiles what was uploaded before the service stopped, or to a process that is gone. */
  resume(serves: (tenantId: string) => boolean = () => true): void {
    const { catalog } = this.#options;
    for (const { id, value } of catalog.list('reducer', undefined))
      if (value.status === 'pending_compilation' && serves(value.tenantId))
        this.#background(value, () => this.#compileReducer(id, value));
    for (const { id, value } of catalog.list('projection', undefined))
      for (const { status, artefactId } of serves(value.tenantId) ? revisionsOf(value) : [])
        if (status === 'compiling')
          this.#background({ ...value, artefactId }, () => this.#compileProjection(id, { ...value, artefactId }));
  }

  /** Waits for the compilations under way. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.allSettled(this.#compilations.values());
  }

  async uploadReducer(tenantId: string, sources: readonly SourceFile[]): Promise<ReducerEntity> {
    return this.#counted(tenantId, () => this.#uploadReducer(tenantId, sources));
  }

  async #uploadReducer(tenantId: string, sources: readonly SourceFile[]): Promise<ReducerEntity> {
    const { catalog } = this.#options;
    const reducerId = uuidv7(this.#options.clock.now());
    await this.#keepSources(reducerId, sources);
    const reducer: ReducerEntity = {
      tenantId,
      reducerId,
      artefactId: reducerId,
      status: 'pending_compilation',
      createdAt: this.#now(),
    };
    await catalog.put('reducer', reducerId, 0, reducer);
    this.#background(reducer, () => this.#compileReducer(reducerId, reducer));
    return reducer;
  }

  async uploadProjection(
    tenantId: string,
    sources: readonly SourceFile[],
    notifications: NotificationConfig | undefined,
    redeployed: string | undefined,
  ): Promise<{ projection: ProjectionEntity; secret: string | undefined }> {
    const before = redeployed === undefined ? undefined : this.#projection(tenantId, redeployed);
    if (typeof notifications?.webhookUrl === 'string') await this.#options.checkWebhookUrl(notifications.webhookUrl);
    return this.#counted(tenantId, () => this.#uploadProjection(tenantId, sources, notifications, before, redeployed));
  }

  async #uploadProjection(
    tenantId: string,
    sources: readonly SourceFile[],
    notifications: NotificationConfig | undefined,
    before: ProjectionEntity | undefined,
    redeployed: string | undefined,
  ): Promise<{ projection: ProjectionEntity; secret: string | undefined }> {
    const { catalog, clock } = this.#options;
    const artefactId = uuidv7(clock.now());
    const projectionId = redeployed ?? artefactId;
    await this.#keepSources(artefactId, sources);
    const delivers = await this.#delivers(tenantId, notifications, before);
    const uploadedAt = this.#now();
    const newest = { artefactId, status: 'compiling' as const };
    let projection: ProjectionEntity = {
      tenantId,
      projectionId,
      ...newest,
      ...delivers(undefined),
      revision: 1,
      createdAt: uploadedAt,
    };
    if (before === undefined) await catalog.put('projection', projectionId, 0, projection);
    else
      projection = await catalog.update('projection', projectionId, (value) => {
        const { webhook: _, ...kept } = revised(value, { ...newest, uploadedAt }, uploadedAt);
        return { ...kept, ...delivers(value) };
      });
    this.#background(projection, () => this.#compileProjection(projectionId, projection));
    return { projection, secret: this.#activeSecret(projection) };
  }

  checkReducer(tenantId: string, sources: readonly SourceFile[]): Promise<ReducerCheck> {
    return this.#checks.reducer(tenantId, sources);
  }

  async checkProjection(
    tenantId: string,
    sources: readonly SourceFile[],
    notifications: NotificationConfig | undefined,
    redeployed: string | undefined,
  ): Promise<ProjectionCheck> {
    const before = redeployed === undefined ? undefined : this.#projection(tenantId, redeployed);
    if (typeof notifications?.webhookUrl === 'string') await this.#options.checkWebhookUrl(notifications.webhookUrl);
    return this.#checks.projection(tenantId, sources, before);
  }

  async configureProjection(
    tenantId: string,
    projectionId: string,
    notifications: NotificationConfig,
  ): Promise<{ projection: ProjectionEntity; secret: string | undefined }> {
    const before = this.#projection(tenantId, projectionId);
    if (typeof notifications.webhookUrl === 'string') await this.#options.checkWebhookUrl(notifications.webhookUrl);
    const delivers = await this.#delivers(tenantId, notifications, before);
    const projection = await this.#options.catalog.update('projection', projectionId, (value) => {
      const { webhook: _, ...kept } = value;
      return { ...kept, ...delivers(value) };
    });
    return { projection, secret: this.#activeSecret(projection) };
  }

  /**
   * What a config makes of the delivery of a projection as it is when it is written: a rotation, or another config, may have come
   * since the request. What takes time is done before.
   */
  async #delivers(
    tenantId: string,
    config: NotificationConfig | undefined,
    before: ProjectionEntity | undefined,
  ): Promise<(value: ProjectionEntity | undefined) => Pick<ProjectionEntity, 'sse' | 'webhook'>> {
    if (config === undefined) return deliveryOf;
    // Whoever gave a config is told the secret, and may set up the receiver before there is a URL.
    if (config.isolateSecret !== true) await this.#sharedSecret(tenantId);
    const head =
      before === undefined || typeof config.webhookUrl !== 'string'
        ? undefined
        : await this.#options.changesHead(tenantId);
    return (value) => this.#delivery(config, value, head);
  }

  /** @param head of the tenant's changes: an endpoint that is added to a projection is told what comes after */
  #delivery(
    config: NotificationConfig,
    before: ProjectionEntity | undefined,
    head: number | undefined,
  ): Pick<ProjectionEntity, 'sse' | 'webhook'> {
    const had = before?.webhook;
    const url = config.webhookUrl === undefined ? had?.url : (config.webhookUrl ?? undefined);
    const isolated = config.isolateSecret ?? had?.isolated ?? false;
    const sse = config.sse ?? before?.sse ?? false;
    if (url === undefined && !isolated) return { sse };
    const kept = isolated ? (had?.secrets ?? []) : [];
    const secrets = isolated && kept.length === 0 ? this.#rotate([]).secrets : kept;
    if (url === undefined) return { sse, webhook: { isolated, secrets } };
    const since = before === undefined ? undefined : had?.url === undefined ? head : had.since;
    // Naming the URL again enables an endpoint that had answered 410.
    const disabledAt = config.webhookUrl === undefined ? had?.disabledAt : undefined;
    return {
      sse,
      webhook: {
        url,
        isolated,
        secrets,
        ...(since === undefined ? {} : { since }),
        ...(disabledAt === undefined ? {} : { disabledAt }),
      },
    };
  }

  /** The tenant's first webhook makes its shared secret. */
  async #sharedSecret(tenantId: string): Promise<void> {
    await this.#options.catalog.update('tenant', tenantId, (tenant) =>
      tenant.webhookSecrets.length > 0 ? undefined : { ...tenant, webhookSecrets: this.#rotate([]).secrets },
    );
  }

  #rotate(secrets: Parameters<typeof rotateSecrets>[1]): ReturnType<typeof rotateSecrets> {
    return rotateSecrets(this.#options.sealer, secrets, this.#options.clock.now());
  }

  #activeSecret({ tenantId, webhook }: ProjectionEntity): string | undefined {
    const secrets =
      webhook?.isolated === true
        ? webhook.secrets
        : (this.#options.catalog.get('tenant', tenantId)?.value.webhookSecrets ?? []);
    return signingSecrets(this.#options.sealer, secrets, this.#options.clock.now())[0];
  }

  reducerReached(uploaded: ReducerEntity, signal: AbortSignal): Promise<ReducerEntity> {
    return this.#waits.reducer(uploaded, signal);
  }

  projectionReached(uploaded: ProjectionEntity, signal: AbortSignal): Promise<ProjectionReached> {
    return this.#waits.projection(uploaded, signal);
  }

  async deleteProjection(tenantId: string, projectionId: string): Promise<void> {
    this.#projection(tenantId, projectionId);
    // Its compilation may write it meanwhile.
    await this.#options.catalog.remove('projection', projectionId);
  }

  rollbackProjection(tenantId: string, projectionId: string, revision: number | undefined): Promise<RevisionAnswer> {
    return this.#revisions.rollback(this.#projection(tenantId, projectionId), revision);
  }

  rebuildProjection(tenantId: string, projectionId: string): Promise<RevisionAnswer> {
    return this.#revisions.rebuild(this.#projection(tenantId, projectionId));
  }

  reviveProjection(tenantId: string, projectionId: string): Promise<RevisionAnswer> {
    return this.#revisions.revive(this.#projection(tenantId, projectionId));
  }

  async reviveReducer(tenantId: string, reducerId: string): Promise<ReducerEntity> {
    const reducer = this.#options.catalog.get('reducer', reducerId)?.value;
    if (reducer?.tenantId !== tenantId) throw noReducer(reducerId);
    await revive(this.#options.catalog, reducer.artefactId);
    return reducer;
  }

  cancelBuild(tenantId: string, projectionId: string): Promise<void> {
    return this.#revisions.cancelBuild(this.#projection(tenantId, projectionId));
  }

  /** Marked first: a binding that is made meanwhile, by another process perhaps, sees the mark or is seen. */
  async deleteReducer(tenantId: string, reducerId: string): Promise<void> {
    const { catalog } = this.#options;
    const reducer = catalog.get('reducer', reducerId)?.value;
    if (reducer?.tenantId !== tenantId) throw noReducer(reducerId);
    if (reducer.status === 'pending_compilation')
      throw new StatefoldError(
        'REDUCER_NOT_COMPILED',
        `reducer '${reducerId}' is still being compiled; delete it when that is over`,
      );
    const refuseBound = (): void => {
      const types = catalog
        .list('binding', tenantId)
        .flatMap(({ value }) => (value.reducerId === reducerId ? [value.aggregateType] : []));
      if (types.length > 0)
        throw new StatefoldError(
          'REDUCER_BOUND',
          `reducer '${reducerId}' is bound to ${types.join(', ')}; bind another one first with PUT /aggregate-types/{type}`,
        );
    };
    refuseBound();
    await catalog.update('reducer', reducerId, (value) => ({ ...value, deletedAt: value.deletedAt ?? this.#now() }));
    try {
      refuseBound();
    } catch (error) {
      await catalog.update('reducer', reducerId, ({ deletedAt: _, ...value }) => value);
      throw error;
    }
    await catalog.remove('reducer', reducerId);
    await catalog.artefacts.delete(reducer.artefactId);
  }

  async bind(
    tenantId: string,
    aggregateType: string,
    reducerId: string,
    className: string | undefined,
  ): Promise<BindingEntity> {
    return this.#bind(
      tenantId,
      aggregateType,
      reducerId,
      boundClass(this.#options.catalog, tenantId, aggregateType, reducerId, className).className,
    );
  }

  async #bind(tenantId: string, aggregateType: string, reducerId: string, className: string): Promise<BindingEntity> {
    const { catalog } = this.#options;
    const id = `${tenantId}/${aggregateType}`;
    for (;;) {
      const entry = catalog.get('binding', id);
      const bound = entry?.value;
      if (bound?.reducerId === reducerId && bound.className === className) return bound;
      const fields = {
        tenantId,
        aggregateType,
        reducerId,
        className,
        boundAt: this.#now(),
        generation: (bound?.generation ?? 0) + 1,
      };
      const binding: BindingEntity =
        bound === undefined
          ? fields
          : { ...fields, earlier: [...(bound.earlier ?? []), formerOf(bound)].slice(-REMEMBERED_BINDINGS) };
      try {
        await catalog.put('binding', id, entry?.version ?? 0, binding);
      } catch (error) {
        if (error instanceof StatefoldError && error.code === 'ALREADY_EXISTS') continue;
        throw error;
      }
      const reducer = catalog.get('reducer', reducerId)?.value;
      if (reducer !== undefined && reducer.deletedAt === undefined) return binding;
      // Its deletion has not seen the binding: the one before holds.
      if (bound === undefined) await catalog.delete('binding', id, (entry?.version ?? 0) + 1);
      else
        await catalog.put('binding', id, (entry?.version ?? 0) + 1, { ...bound, generation: binding.generation + 1 });
      throw noReducer(reducerId);
    }
  }

  async rotateProjectionSecret(tenantId: string, projectionId: string): Promise<string> {
    const { webhook } = this.#projection(tenantId, projectionId);
    if (webhook === undefined)
      throw new StatefoldError(
        'WEBHOOK_NOT_CONFIGURED',
        `projection '${projectionId}' has no webhook and no secret of its own; upload it with isolateSecret: true`,
      );
    if (!webhook.isolated)
      throw new StatefoldError(
        'WEBHOOK_SECRET_SHARED',
        `projection '${projectionId}' uses the tenant's shared secret; rotate that with POST /webhooks/rotate, or upload with isolateSecret: true`,
      );
    let secret = '';
    await this.#options.catalog.update('projection', projectionId, (projection) => {
      if (projection.webhook === undefined) return undefined;
      const rotated = this.#rotate(projection.webhook.secrets);
      secret = rotated.secret;
      return { ...projection, webhook: { ...projection.webhook, secrets: rotated.secrets } };
    });
    return secret;
  }

  async rotateTenantSecret(tenantId: string): Promise<string> {
    let secret = '';
    await this.#options.catalog.update('tenant', tenantId, (tenant) => {
      const rotated = this.#rotate(tenant.webhookSecrets);
      secret = rotated.secret;
      return { ...tenant, webhookSecrets: rotated.secrets };
    });
    return secret;
  }

  #projection(tenantId: string, projectionId: string): ProjectionEntity {
    const projection = this.#options.catalog.get('projection', projectionId)?.value;
    if (projection?.tenantId !== tenantId)
      throw new StatefoldError('NOT_FOUND', `there is no projection '${projectionId}'`);
    return projection;
  }

  #now(): string {
    return isoTimestamp(this.#options.clock.now());
  }

  async #keepSources(artefactId: string, sources: readonly SourceFile[]): Promise<void> {
    await this.#options.catalog.artefacts.put(artefactId, 'sources', await zip(JSON.stringify(sources)));
  }

  async #sources(artefactId: string): Promise<readonly SourceFile[]> {
    const bytes = await this.#options.catalog.artefacts.get(artefactId, 'sources');
    if (bytes === undefined) throw new Error(`the sources of artefact ${artefactId} are not in the log`);
    return JSON.parse((await unzip(bytes)).toString()) as SourceFile[];
  }

  /** @throws StatefoldError RATE_LIMITED where as many uploads of the tenant wait as may */
  async #counted<T>(tenantId: string, keep: () => Promise<T>): Promise<T> {
    const most = this.#options.maxPendingUploads ?? Infinity;
    if ((this.#pending.get(tenantId) ?? 0) >= most)
      throw new StatefoldError(
        'RATE_LIMITED',
        `${most} uploads of this tenant wait for their compilation, the most that may (MAX_PENDING_UPLOADS); send this one again when some are compiled`,
        { retryAfterSeconds: UPLOAD_RETRY_SECONDS },
      );
    this.#count(tenantId, 1);
    try {
      return await keep();
    } finally {
      // What is compiled now counts for itself.
      this.#count(tenantId, -1);
    }
  }

  #count(tenantId: string, by: 1 | -1): void {
    const count = (this.#pending.get(tenantId) ?? 0) + by;
    if (count === 0) this.#pending.delete(tenantId);
    else this.#pending.set(tenantId, count);
  }

  /**
   * Tries until it has an outcome; what is left at the end of the process goes on at the next start. Once an artefact, however often
   * it is asked for.
   */
  #background({ tenantId, artefactId }: ArtefactFields, work: () => Promise<void>): void {
    if (this.#compilations.has(artefactId)) return;
    const attempt = async (): Promise<void> => {
      while (!this.#closed) {
        try {
          return await work();
        } catch (error) {
          this.#options.logger.warn({ err: error }, 'a compilation did not end; it is tried again');
          await new Promise((resolve) => setTimeout(resolve, RETRY_MS).unref());
        }
      }
    };
    this.#count(tenantId, 1);
    this.#compilations.set(
      artefactId,
      attempt().finally(() => {
        this.#compilations.delete(artefactId);
        this.#count(tenantId, -1);
      }),
    );
  }

  async #compile(kind: 'reducer' | 'projection', fields: ArtefactFields): Promise<CompileResult> {
    const { codeHost, catalog, observer } = this.#options;
    // Read at their turn: what waits takes no memory.
    const sources = (): Promise<readonly SourceFile[]> => this.#sources(fields.artefactId);
    const started = performance.now();
    const result = await codeHost.compile({ tenantId: fields.tenantId, kind, sources });
    observer?.compiled?.(kind, result.ok, (performance.now() - started) / 1000);
    if (result.ok) await catalog.artefacts.put(fields.artefactId, 'assembly', result.assembly);
    return result;
  }

  async #compileReducer(reducerId: string, reducer: ReducerEntity): Promise<void> {
    const result = await this.#compile('reducer', reducer);
    const outcome = outcomeOf(result, this.#now());
    await this.#finish(async () => {
      // Bound before it is shown as compiled: who waits for that finds its types bound.
      if (result.ok)
        for (const [aggregateType, className] of unambiguous(result.discovered))
          await this.#bind(reducer.tenantId, aggregateType, reducerId, className);
      await this.#options.catalog.update('reducer', reducerId, (value) => ({ ...value, ...outcome }));
    });
  }

  async #compileProjection(projectionId: string, projection: ProjectionEntity): Promise<void> {
    const result = await this.#compile('projection', projection);
    const outcome = outcomeOf(result, this.#now());
    // A newer upload may have come meanwhile: the outcome belongs to its own revision only.
    const mine = ({ artefactId, status }: RevisionEntity): boolean =>
      artefactId === projection.artefactId && status === 'compiling';
    const { diagnostics: _, ...short } = outcome;
    await this.#finish(() =>
      this.#options.catalog.update('projection', projectionId, (value) => {
        if (value.artefactId === projection.artefactId && value.status === 'compiling') return { ...value, ...outcome };
        return revisionsOf(value).some(mine)
          ? withRevisions(value, (one) => (mine(one) ? short : undefined))
          : undefined;
      }),
    );
  }

  async #finish(update: () => Promise<unknown>): Promise<void> {
    try {
      await update();
    } catch (error) {
      if (!(error instanceof StatefoldError && error.code === 'NOT_FOUND')) throw error; // deleted meanwhile
    }
  }
}

const REMEMBERED_BINDINGS = 50;
const noReducer = (reducerId: string): StatefoldError =>
  new StatefoldError('NOT_FOUND', `there is no reducer '${reducerId}'`);
const formerOf = ({ reducerId, className, boundAt, generation }: BindingEntity): FormerBinding => ({
  reducerId,
  className,
  boundAt,
  generation,
});

const deliveryOf = (projection: ProjectionEntity | undefined): Pick<ProjectionEntity, 'sse' | 'webhook'> => ({
  sse: projection?.sse ?? false,
  ...(projection?.webhook === undefined ? {} : { webhook: projection.webhook }),
});

type Outcome = Pick<ArtefactFields, 'compiledAt' | 'discovered' | 'compilationError' | 'diagnostics'> & {
  readonly status: 'compiled' | 'failed';
};

function outcomeOf(result: CompileResult, compiledAt: string): Outcome {
  const { diagnostics } = result;
  if (result.ok)
    return {
      status: 'compiled',
      compiledAt,
      discovered: result.discovered,
      ...(diagnostics.length > 0 ? { diagnostics } : {}),
    };
  return { status: 'failed', compiledAt, compilationError: result.compilationError, diagnostics };
}
