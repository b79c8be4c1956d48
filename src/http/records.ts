import type {
  ArtefactFields,
  Catalog,
  KeyEntity,
  ProjectionEntity,
  ReducerEntity,
  TenantEntity,
} from '../catalog/catalog.js';
import { projectionFault, type ArtefactFaultRecord } from '../deployments/artefact-health.js';
import type { UnboundType } from '../deployments/binding-records.js';
import type { Notified } from '../deployments/deployments.js';
import { SCOPES } from '../core/scopes.js';
import type { Progress } from '../core/progress.js';
import type { ProjectionLife } from '../projections/projections.js';
import { firstEndpointOf, isActive } from '../webhooks/endpoint-entities.js';
import { badCursor } from './parameters.js';

/** The block `notifications` of an answer. */
export const notificationsJson = ({ projection, endpoint, secret }: Notified): object => ({
  webhook: { enabled: isActive(endpoint), secret, isolated: endpoint?.isolated ?? false },
  sse: projection.sse,
});

/** Answers' shapes of what the catalog holds. A member that is undefined is left out by JSON. */
export const reducerRecord = (
  reducer: ReducerEntity,
  unbound: readonly UnboundType[] = [],
  faulted?: ArtefactFaultRecord,
): object => ({
  id: reducer.reducerId,
  status: reducer.status,
  kind: 'reducer',
  ...compiled(reducer),
  unboundTypes: unbound.length === 0 ? undefined : unbound,
  faulted,
});

/** What the tenant's own task has of a projection, beside what the catalog has. */
export interface ProjectionNow {
  readonly life: ProjectionLife;
  readonly build: Progress | undefined;
  /** Undefined: the states have all events, or no revision is live. `since`: ISO 8601. */
  readonly lag: { readonly commits: number; readonly events: number | undefined; readonly since: string } | undefined;
  /** Where the tenant's changes end; undefined: none is live. */
  readonly lastSequence: number | undefined;
  /** That it has worked off of late; undefined: none is live, or nobody knows. */
  readonly eventsPerSecond: number | undefined;
  readonly faultCount: number;
  /** The first of them; undefined: they are not told. */
  readonly faults?: readonly object[];
}

/** Of a list and of the one: `now` is undefined where no revision of it can be live. */
export function projectionRecord(catalog: Catalog, projection: ProjectionEntity, now?: ProjectionNow): object {
  const endpoint = firstEndpointOf(catalog, projection);
  const { live, building, erasedSinceBuild } = now?.life ?? {};
  return {
    id: projection.projectionId,
    status: projection.status,
    kind: 'projection',
    ...compiled(projection),
    revision: projection.revision,
    sse: projection.sse,
    webhook: endpoint && { url: endpoint.url, isolated: endpoint.isolated, disabledAt: endpoint.disabledAt },
    cancelledAt: projection.cancelledAt,
    live: live && { revision: live.revision, artefactId: live.artefactId },
    build: now?.build && { revision: building?.revision, cause: building?.cause, ...now.build },
    lag: now?.lag,
    lastSequence: now?.lastSequence,
    eventsPerSecond: rateOf(now?.eventsPerSecond),
    faults: now?.faults?.length === 0 ? undefined : now?.faults,
    faultCount: now?.faultCount,
    erasedSinceBuild: erasedSinceBuild === true ? true : undefined,
    faulted: projectionFault(catalog, projection, now?.life),
  };
}

/** To two decimals: one event in a minute shows. */
export const rateOf = (eventsPerSecond: number | undefined): number | undefined =>
  eventsPerSecond === undefined ? undefined : Math.round(eventsPerSecond * 100) / 100;

const compiled = (artefact: ArtefactFields): object => ({
  ...(artefact.compilationError === undefined
    ? { discovered: artefact.discovered }
    : { compilationError: artefact.compilationError, diagnostics: artefact.diagnostics }),
  createdAt: artefact.createdAt,
  compiledAt: artefact.compiledAt,
});

/** Of a tenant of one partition nothing is said of partitions; quotas are those of its own. */
export const tenantRecord = ({
  tenantId,
  name,
  createdAt,
  partitions,
  suspendedAt,
  importing,
  quotas,
}: TenantEntity): object => ({
  tenantId,
  name,
  createdAt,
  partitions: partitions > 1 ? partitions : undefined,
  suspended: suspendedAt === undefined ? undefined : true,
  suspendedAt,
  importingSince: importing?.startedAt,
  quotas,
});

export const keyRecord = ({
  keyId,
  tenantId,
  name,
  scopes = SCOPES,
  prefix,
  createdAt,
  expiresAt,
  revokedAt,
}: KeyEntity): object => ({
  keyId,
  tenantId,
  name,
  scopes,
  prefix,
  createdAt,
  expiresAt,
  revokedAt,
});

export interface PageAsked {
  readonly limit: number;
  readonly cursor: string | undefined;
}

/** The last id of the page before; empty on the first one. @throws StatefoldError INVALID_REQUEST */
export function idOfCursor(cursor: string | undefined): string {
  const id = Buffer.from(cursor ?? '', 'base64url').toString('utf8');
  if (Buffer.from(id).toString('base64url') !== (cursor ?? '')) throw badCursor();
  return id;
}
