import type { BindingEntity, EndpointEntity, ProjectionEntity, ReducerEntity } from '../catalog/catalog.js';
import type { EndpointConfig } from '../webhooks/endpoints.js';
import type { DescribedPage, DescribedStates, KnownState } from './described-states.js';
import type { PackedSources } from '../code-host/packed-sources.js';
import type { SourceFile } from './source-file.js';
import type { ProjectionReached } from './upload-waits.js';
import type { ProjectionCheck, ReducerCheck } from './upload-checks.js';

/** What is undefined stays as it was set before; at first there is no webhook, no secret of its own and no SSE. */
export interface NotificationConfig extends EndpointConfig {
  readonly sse: boolean | undefined;
}

/** How a projection notifies. */
export interface Notified {
  readonly projection: ProjectionEntity;
  /** Its first endpoint, as the config that was given has made it; undefined: it has none, or no config was given. */
  readonly endpoint: EndpointEntity | undefined;
  /** With which its webhooks are signed, in clear. */
  readonly secret: string | undefined;
}

/** The revision that a projection is on the way to; `live`: it is there already. */
export interface RevisionAnswer {
  readonly projectionId: string;
  readonly revision: number;
  /** The revision whose code it is. */
  readonly of: number;
  readonly artefactId: string;
  readonly status: 'building' | 'live';
}

/** Uploads, compilation, bindings, the life of a projection. Compilation goes on after the upload has been answered. */
export interface Deployments {
  /** Uploads of the tenant that wait for their compilation, in this process. */
  pendingUploads(tenantId: string): number;
  /** What is refused for it need not be read. @throws StatefoldError RATE_LIMITED where as many uploads of the tenant wait as may */
  requireFewerUploads(tenantId: string): void;
  uploadReducer(tenantId: string, sources: readonly SourceFile[]): Promise<ReducerEntity>;
  /** `projectionId`: redeploys that one (`NOT_FOUND` when it isn't the tenant's). */
  uploadProjection(
    tenantId: string,
    sources: readonly SourceFile[],
    notifications: NotificationConfig | undefined,
    projectionId: string | undefined,
  ): Promise<Notified>;
  /** What becomes of an upload: as it is when it is compiled and bound, or has failed, or when `signal` aborts. `NOT_FOUND`: deleted meanwhile. */
  reducerReached(uploaded: ReducerEntity, signal: AbortSignal): Promise<ReducerEntity>;
  /** The same of a projection: as it is when the uploaded revision is live, or can't become so, or when `signal` aborts. */
  projectionReached(uploaded: ProjectionEntity, signal: AbortSignal): Promise<ProjectionReached>;
  /** What an upload would be refused for, without one: nothing is stored. */
  checkReducer(tenantId: string, sources: readonly SourceFile[]): Promise<ReducerCheck>;
  /** The same of a projection. `NOT_FOUND`, `WEBHOOK_URL_REFUSED` as an upload has them. */
  checkProjection(
    tenantId: string,
    sources: readonly SourceFile[],
    notifications: NotificationConfig | undefined,
    projectionId: string | undefined,
  ): Promise<ProjectionCheck>;
  /** Changes the notifications of a projection, and no code: no revision comes of it. `NOT_FOUND`, `WEBHOOK_URL_REFUSED`. */
  configureProjection(tenantId: string, projectionId: string, notifications: NotificationConfig): Promise<Notified>;
  /** As they were uploaded. `NOT_FOUND`: they are not kept any more. */
  uploadedSources(artefactId: string): Promise<PackedSources>;
  deleteProjection(tenantId: string, projectionId: string): Promise<void>;
  /** To the code that was live before, or to that of `revision`. `NO_EARLIER_REVISION`, `NOT_FOUND`, `REVISION_NOT_COMPILED`. */
  rollbackProjection(tenantId: string, projectionId: string, revision: number | undefined): Promise<RevisionAnswer>;
  /** Folds the live code again from the start. `PROJECTION_NOT_LIVE`, `BUILD_UNDER_WAY` */
  rebuildProjection(tenantId: string, projectionId: string): Promise<RevisionAnswer>;
  /** Lets code with too many strikes run again, from where it was halted. `PROJECTION_NOT_LIVE`, `BUILD_UNDER_WAY` */
  reviveProjection(tenantId: string, projectionId: string): Promise<RevisionAnswer>;
  reviveReducer(tenantId: string, reducerId: string): Promise<ReducerEntity>;
  /** Calls off what is not live yet. `NO_BUILD` */
  cancelBuild(tenantId: string, projectionId: string): Promise<void>;
  /** `REDUCER_BOUND` while a type is bound to it. */
  deleteReducer(tenantId: string, reducerId: string): Promise<void>;
  bind(
    tenantId: string,
    aggregateType: string,
    reducerId: string,
    className: string | undefined,
  ): Promise<BindingEntity>;
  /** What the states are of the reducers that are bound and the projections that are live, in pages: `after` is the `next` of the one before. */
  describeStates(tenantId: string, page: DescribedPage): Promise<DescribedStates>;
  /** The same, all of them at once: each is read when its schema is asked for. */
  knownStates(tenantId: string): Promise<readonly KnownState[]>;
  /** New secret in clear. `WEBHOOK_SECRET_SHARED` when the projection uses the tenant's. */
  rotateProjectionSecret(tenantId: string, projectionId: string): Promise<string>;
  rotateTenantSecret(tenantId: string): Promise<string>;
}
