import { missingReducer, requireProjection, requireReducer } from '../catalog/require.js';
import { PackedSources } from '../code-host/packed-sources.js';
import {
  artefactsOf,
  type BindingEntity,
  type Catalog,
  type EndpointEntity,
  type FormerBinding,
  type ProjectionEntity,
  type ReducerEntity,
  type RevisionEntity,
} from '../catalog/catalog.js';
import type { CodeHost, CompileResult } from '../code-host/code-host.js';
import type { Clock } from '../core/clock.js';
import { isClosed, onSuspension } from '../catalog/suspension.js';
import { StatefoldError } from '../core/errors.js';
import { isoTimestamp } from '../core/event.js';
import { uuidv7 } from '../core/ids.js';
import { quotaExceeded, rateLimited, type QuotaOf } from '../core/quotas.js';
import { inSlices } from '../core/slices.js';
import type { Logger } from '../core/logger.js';
import { Tally } from '../core/tally.js';
import type { ProjectionLife } from '../projections/projections.js';
import type { Endpoints } from '../webhooks/endpoints.js';
import { revive } from './artefact-health.js';
import { CatalogRoom } from '../catalog/catalog-room.js';
import { Compilations, outcomeOf, type Compilation, type CompilationsOptions } from './compilations.js';
import type { Deployments, NotificationConfig, Notified, RevisionAnswer } from './deployments.js';
import {
  describeStates,
  knownStates,
  type DescribedPage,
  type DescribedStates,
  type KnownState,
} from './described-states.js';
import type { SourceFile } from './source-file.js';
import { boundTypes, unambiguous } from './binding-records.js';
import { ProjectionRevisions } from './projection-revisions.js';
import { boundClass } from './reducer-choice.js';
import { inUseOf, revised, revisionsOf, withRevisions } from './revisions.js';
import { UnusedCode } from './unused-code.js';
import { UploadWaits, type LiveProjections, type ProjectionReached } from './upload-waits.js';
import { UploadChecks, type ProjectionCheck, type ReducerCheck } from './upload-checks.js';

export interface DeploymentServiceOptions extends Pick<CompilationsOptions, 'retry' | 'observer'> {
  readonly catalog: Catalog;
  readonly codeHost: CodeHost;
  readonly endpoints: Endpoints;
  /** The tenant's task; rejects where this process does not serve the tenant. */
  readonly projectionsOf: (tenantId: string) => Promise<LiveProjections>;
  /** What tenants may have; nothing is bounded without it. */
  readonly quotaOf?: QuotaOf;
  /** This process compiles what is uploaded for the tenant. */
  readonly serves: (tenantId: string) => boolean;
  /** Why nothing more of the tenant may be stored. */
  readonly storageRefusal?: (tenantId: string) => Promise<StatefoldError | undefined>;
  /** For one tenant's entities in the catalog; nothing is bounded without it. */
  readonly room?: CatalogRoom;
  /** Milliseconds that somebody who waits for a compilation waits for its turn. */
  readonly checkWaitMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

const UPLOAD_RETRY_SECONDS = 5;
/** Types that a reducer is bound to, in a refusal. */
const TYPES_TOLD = 20;

/** Uploads, compilations and bindings: each step is in the catalog before the next, so that a restart goes on where it was. */
export class DeploymentService implements Deployments {
  readonly #options: DeploymentServiceOptions;
  /** Of each tenant, uploads that are being kept, and compilations that wait or are under way. */
  readonly #pending = new Tally();
  /** Of each tenant and kind, uploads that are not in the catalog yet. */
  readonly #being = new Tally();
  readonly #revisions: ProjectionRevisions;
  readonly #waits: UploadWaits;
  readonly #checks: UploadChecks;
  readonly #room: CatalogRoom;
  readonly #unused: UnusedCode;
  readonly #compilations: Compilations;
  readonly #projectionLife: (tenantId: string, projectionId: string) => Promise<ProjectionLife>;

  constructor(options: DeploymentServiceOptions) {
    this.#options = options;
    const { catalog, codeHost, projectionsOf, room = new CatalogRoom(catalog, Infinity), logger } = options;
    const sourcesOf = (artefactId: string): Promise<PackedSources> => this.#sources(artefactId);
    this.#room = room;
    const projectionLife = async (tenantId: string, projectionId: string): Promise<ProjectionLife> =>
      (await projectionsOf(tenantId)).life(projectionId);
    this.#projectionLife = projectionLife;
    this.#revisions = new ProjectionRevisions({ catalog, room: this.#room, projectionLife, now: () => this.#now() });
    this.#unused = new UnusedCode({
      catalog,
      serves: options.serves,
      runs: async (tenantId, projectionId, artefactId) =>
        inUseOf(await projectionLife(tenantId, projectionId)).has(artefactId),
      logger,
    });
    this.#compilations = new Compilations({
      ...{ catalog, codeHost, room, sourcesOf, logger },
      pending: this.#pending,
      unnamed: (artefactId) => this.#unused.remove(artefactId),
      retry: options.retry,
      observer: options.observer,
    });
    onSuspension(catalog, ({ tenantId }, suspended) => {
      // At its start the service resumes all of them.
      if (!suspended && options.serves(tenantId)) this.#resume(tenantId);
    });
    this.#waits = new UploadWaits({ catalog, projectionsOf });
    this.#checks = new UploadChecks({
      ...{ catalog, codeHost, sourcesOf },
      waitMs: options.checkWaitMs,
    });
  }

  /** Compiles what was uploaded before the service stopped, or to a process that is gone. */
  resume(): void {
    this.#resume(undefined);
  }

  #resume(tenantId: string | undefined): void {
    const { catalog } = this.#options;
    const serves = (id: string): boolean => this.#options.serves(id) && !isClosed(catalog, id);
    for (const { id, value } of catalog.list('reducer', tenantId))
      if (value.status === 'pending_compilation' && serves(value.tenantId))
        this.#compilations.begin(this.#ofReducer(id, value));
    for (const { id, value } of catalog.list('projection', tenantId))
      for (const { status, artefactId } of serves(value.tenantId) ? revisionsOf(value) : [])
        if (status === 'compiling') this.#compilations.begin(this.#ofProjection(id, { ...value, artefactId }));
  }

  /** Waits for the compilations under way. */
  async close(): Promise<void> {
    this.#unused.close();
    await this.#compilations.close();
  }

  async uploadReducer(tenantId: string, sources: readonly SourceFile[]): Promise<ReducerEntity> {
    return this.#counted(tenantId, 'reducers', () => this.#uploadReducer(tenantId, sources));
  }

  async #uploadReducer(tenantId: string, sources: readonly SourceFile[]): Promise<ReducerEntity> {
    const { catalog } = this.#options;
    const reducerId = uuidv7(this.#options.clock.now());
    const codeBytes = await this.#keepSources(reducerId, sources);
    const reducer: ReducerEntity = {
      tenantId,
      reducerId,
      artefactId: reducerId,
      status: 'pending_compilation',
      createdAt: this.#now(),
      codeBytes,
    };
    await this.#naming(reducerId, () => catalog.put('reducer', reducerId, 0, reducer));
    this.#compilations.begin(this.#ofReducer(reducerId, reducer));
    return reducer;
  }

  async uploadProjection(
    tenantId: string,
    sources: readonly SourceFile[],
    notifications: NotificationConfig | undefined,
    redeployed: string | undefined,
  ): Promise<Notified> {
    const kind = redeployed === undefined ? 'projections' : undefined;
    return this.#counted(tenantId, kind, () => this.#uploadProjection(tenantId, sources, notifications, redeployed));
  }

  async #uploadProjection(
    tenantId: string,
    sources: readonly SourceFile[],
    notifications: NotificationConfig | undefined,
    redeployed: string | undefined,
  ): Promise<Notified> {
    const { catalog, clock, endpoints } = this.#options;
    const before = redeployed === undefined ? undefined : this.#projection(tenantId, redeployed);
    const configure =
      notifications === undefined ? undefined : await endpoints.configuring(tenantId, notifications, before);
    const artefactId = uuidv7(clock.now());
    const projectionId = redeployed ?? artefactId;
    const codeBytes = await this.#keepSources(artefactId, sources);
    const uploadedAt = this.#now();
    const newest = { artefactId, status: 'compiling' as const, codeBytes };
    const first: ProjectionEntity = {
      tenantId,
      projectionId,
      ...newest,
      sse: notifications?.sse ?? false,
      revision: 1,
      createdAt: uploadedAt,
    };
    const projection = await this.#naming(artefactId, async () => {
      if (before === undefined) {
        await catalog.put('projection', projectionId, 0, first);
        return first;
      }
      const inUse = inUseOf(await this.#projectionLife(tenantId, projectionId));
      return catalog.update('projection', projectionId, (value) => ({
        ...revised(value, { ...newest, uploadedAt }, uploadedAt, inUse),
        sse: notifications?.sse ?? value.sse,
      }));
    });
    this.#compilations.begin(this.#ofProjection(projectionId, projection));
    return this.#notified(projection, await configure?.(projectionId));
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
    if (notifications !== undefined) await this.#options.endpoints.check(tenantId, notifications);
    return this.#checks.projection(tenantId, sources, before);
  }

  async configureProjection(
    tenantId: string,
    projectionId: string,
    notifications: NotificationConfig,
  ): Promise<Notified> {
    const { catalog, endpoints } = this.#options;
    const configure = await endpoints.configuring(tenantId, notifications, this.#projection(tenantId, projectionId));
    const projection = await catalog.update('projection', projectionId, (value) =>
      notifications.sse === undefined || notifications.sse === value.sse
        ? undefined
        : { ...value, sse: notifications.sse },
    );
    return this.#notified(projection, await configure(projectionId));
  }

  #notified(projection: ProjectionEntity, endpoint: EndpointEntity | undefined): Notified {
    return { projection, endpoint, secret: this.#options.endpoints.activeSecret(projection) };
  }

  reducerReached(uploaded: ReducerEntity, signal: AbortSignal): Promise<ReducerEntity> {
    return this.#waits.reducer(uploaded, signal);
  }

  projectionReached(uploaded: ProjectionEntity, signal: AbortSignal): Promise<ProjectionReached> {
    return this.#waits.projection(uploaded, signal);
  }

  async deleteProjection(tenantId: string, projectionId: string): Promise<void> {
    const projection = this.#projection(tenantId, projectionId);
    // Its compilation may write it meanwhile.
    await this.#options.catalog.remove('projection', projectionId);
    await this.#options.endpoints.removeOf(projection);
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
    const reducer = requireReducer(this.#options.catalog, tenantId, reducerId);
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
    if (reducer?.tenantId !== tenantId) throw missingReducer(reducerId);
    if (reducer.status === 'pending_compilation')
      throw new StatefoldError(
        'REDUCER_NOT_COMPILED',
        `reducer '${reducerId}' is still being compiled; delete it when that is over`,
      );
    const refuseBound = async (): Promise<void> => {
      const types = await inSlices(boundTypes(catalog, tenantId, reducerId));
      if (types.length === 0) return;
      const more = types.length > TYPES_TOLD ? ` and ${types.length - TYPES_TOLD} more` : '';
      throw new StatefoldError(
        'REDUCER_BOUND',
        `reducer '${reducerId}' is bound to ${types.slice(0, TYPES_TOLD).join(', ')}${more}; bind another one first with PUT /aggregate-types/{type}`,
      );
    };
    await refuseBound();
    await catalog.update('reducer', reducerId, (value) => ({ ...value, deletedAt: value.deletedAt ?? this.#now() }));
    try {
      await refuseBound();
    } catch (error) {
      await catalog.update('reducer', reducerId, ({ deletedAt: _, ...value }) => value);
      throw error;
    }
    await catalog.remove('reducer', reducerId);
  }

  async bind(
    tenantId: string,
    aggregateType: string,
    reducerId: string,
    className: string | undefined,
  ): Promise<BindingEntity> {
    this.#room.require(tenantId);
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
    let bound = undefined as BindingEntity | undefined;
    const entry = await catalog.upsert('binding', id, (had) => {
      bound = had;
      if (had?.reducerId === reducerId && had.className === className) return undefined;
      return {
        tenantId,
        aggregateType,
        reducerId,
        className,
        boundAt: this.#now(),
        generation: (had?.generation ?? 0) + 1,
        ...(had && { earlier: [...(had.earlier ?? []), formerOf(had)].slice(-REMEMBERED_BINDINGS) }),
      };
    });
    if (entry === undefined || entry.value === bound) return bound as BindingEntity;
    const { version, value: binding } = entry;
    const reducer = catalog.get('reducer', reducerId)?.value;
    if (reducer !== undefined && reducer.deletedAt === undefined) return binding;
    // Its deletion has not seen the binding: the one before holds.
    if (bound === undefined) await catalog.delete('binding', id, version);
    else await catalog.put('binding', id, version, { ...bound, generation: binding.generation + 1 });
    throw missingReducer(reducerId);
  }

  async rotateProjectionSecret(tenantId: string, projectionId: string): Promise<string> {
    return this.#options.endpoints.rotateOfProjection(this.#projection(tenantId, projectionId));
  }

  rotateTenantSecret(tenantId: string): Promise<string> {
    return this.#options.endpoints.rotateShared(tenantId);
  }

  /** @throws StatefoldError NOT_FOUND */
  #projection(tenantId: string, projectionId: string): ProjectionEntity {
    return requireProjection(this.#options.catalog, tenantId, projectionId);
  }

  #now(): string {
    return isoTimestamp(this.#options.clock.now());
  }

  /** Its sources are in the log by now. Where what is to name them is refused, they go again. */
  async #naming<T>(artefactId: string, name: () => Promise<T>): Promise<T> {
    try {
      return await name();
    } catch (error) {
      // Else it may be there, or come to be.
      if (error instanceof StatefoldError && !error.retryable) this.#unused.remove(artefactId);
      throw error;
    }
  }

  /** Resolves with the bytes that they take. */
  async #keepSources(artefactId: string, sources: readonly SourceFile[]): Promise<number> {
    const { bytes } = await PackedSources.pack(sources);
    await this.#options.catalog.artefacts.put(artefactId, 'sources', bytes);
    return bytes.length;
  }

  async #sources(artefactId: string): Promise<PackedSources> {
    const sources = await this.#keptSources(artefactId);
    if (sources === undefined) throw new Error(`the sources of artefact ${artefactId} are not in the log`);
    return sources;
  }

  async uploadedSources(artefactId: string): Promise<PackedSources> {
    const sources = await this.#keptSources(artefactId);
    if (sources === undefined)
      throw new StatefoldError('NOT_FOUND', `the sources of artefact ${artefactId} are not kept any more`);
    return sources;
  }

  async #keptSources(artefactId: string): Promise<PackedSources | undefined> {
    const bytes = await this.#options.catalog.artefacts.get(artefactId, 'sources');
    return bytes && new PackedSources(bytes);
  }

  async describeStates(tenantId: string, page: DescribedPage): Promise<DescribedStates> {
    const { catalog, codeHost, projectionsOf, checkWaitMs } = this.#options;
    const sourcesOf = (artefactId: string): Promise<PackedSources> => this.#sources(artefactId);
    return describeStates(
      { catalog, codeHost, sourcesOf, waitMs: checkWaitMs },
      tenantId,
      await projectionsOf(tenantId),
      page,
    );
  }

  async knownStates(tenantId: string): Promise<readonly KnownState[]> {
    return knownStates(this.#options.catalog, tenantId, await this.#options.projectionsOf(tenantId));
  }

  /** Uploads of the tenant that wait for their compilation. */
  pendingUploads(tenantId: string): number {
    return this.#pending.of(tenantId);
  }

  /** @throws StatefoldError RATE_LIMITED where as many uploads of the tenant wait as may */
  requireFewerUploads(tenantId: string): void {
    const most = this.#options.quotaOf?.(tenantId, 'pendingUploads') ?? Infinity;
    const pending = this.pendingUploads(tenantId);
    if (pending >= most)
      throw rateLimited(
        'pendingUploads',
        most,
        `${pending} uploads of this tenant wait for their compilation, the most that may; send this one again when some are compiled`,
        UPLOAD_RETRY_SECONDS,
      );
  }

  /**
   * `kind`: what the upload makes one more of.
   * @throws StatefoldError RATE_LIMITED where as many uploads of the tenant wait as may, QUOTA_EXCEEDED
   */
  async #counted<T>(
    tenantId: string,
    kind: 'reducers' | 'projections' | undefined,
    keep: () => Promise<T>,
  ): Promise<T> {
    const full = await this.#options.storageRefusal?.(tenantId);
    if (full !== undefined) throw full;
    this.#room.require(tenantId);
    this.requireFewerUploads(tenantId);
    const { quotaOf = () => Infinity } = this.#options;
    if (kind === undefined) return this.#pending.during(tenantId, keep);
    const being = `${tenantId}/${kind}`;
    const has =
      this.#being.of(being) + this.#options.catalog.count(kind === 'reducers' ? 'reducer' : 'projection', tenantId);
    const may = quotaOf(tenantId, kind);
    if (has >= may) throw quotaExceeded(kind, has, may, kind);
    // What is compiled then counts for itself.
    return this.#being.during(being, () => this.#pending.during(tenantId, keep));
  }

  #ofReducer(reducerId: string, reducer: ReducerEntity): Compilation {
    const finish = async (result: CompileResult): Promise<void> => {
      const outcome = outcomeOf(result, this.#now(), reducer.codeBytes);
      // Bound before it is shown as compiled: who waits for that finds its types bound.
      if (result.ok)
        for (const [aggregateType, className] of unambiguous(result.discovered))
          await this.#bind(reducer.tenantId, aggregateType, reducerId, className);
      await this.#options.catalog.update('reducer', reducerId, (value) => ({ ...value, ...outcome }));
    };
    const isNamed = (): boolean => this.#options.catalog.get('reducer', reducerId) !== undefined;
    return { kind: 'reducer', fields: reducer, finish, isNamed };
  }

  #ofProjection(projectionId: string, projection: ProjectionEntity): Compilation {
    // A newer upload may have come meanwhile: the outcome belongs to its own revision only.
    const mine = ({ artefactId, status }: RevisionEntity): boolean =>
      artefactId === projection.artefactId && status === 'compiling';
    const finish = async (result: CompileResult): Promise<void> => {
      const outcome = outcomeOf(result, this.#now(), projection.codeBytes);
      const { diagnostics: _, ...short } = outcome;
      await this.#options.catalog.update('projection', projectionId, (value) => {
        if (value.artefactId === projection.artefactId && value.status === 'compiling') return { ...value, ...outcome };
        return revisionsOf(value).some(mine)
          ? withRevisions(value, (one) => (mine(one) ? short : undefined))
          : undefined;
      });
    };
    const isNamed = (): boolean => {
      const value = this.#options.catalog.get('projection', projectionId)?.value;
      return value !== undefined && artefactsOf(value).includes(projection.artefactId);
    };
    return { kind: 'projection', fields: projection, finish, isNamed };
  }
}

const REMEMBERED_BINDINGS = 50;
const formerOf = ({ reducerId, className, boundAt, generation }: BindingEntity): FormerBinding => ({
  reducerId,
  className,
  boundAt,
  generation,
});
