import type { ProjectionEntity, RevisionEntity } from '../catalog/catalog.js';
import type { BuildTarget } from '../projections/projection-builds.js';
import type { ProjectionLife } from '../projections/projections.js';

/** So many are remembered, of so many bytes as JSON; of those past it the failed ones are forgotten first. */
const REMEMBERED = 50;
const REMEMBERED_BYTES = 256 * 1024;
/** Of a failure of the past the beginning is enough. */
const ERROR_CHARACTERS = 2000;

/** What became of a revision. `kept`: its states are there, so that it could be live again without a build from the start. */
export type RevisionStatus = 'compiling' | 'failed' | 'building' | 'live' | 'kept' | 'cancelled' | 'gone';

export interface RevisionRecord {
  readonly revision: number;
  readonly status: RevisionStatus;
  readonly cause: 'upload' | 'rollback' | 'rebuild' | 'revive';
  readonly of: number | undefined;
  readonly artefactId: string;
  readonly createdAt: string;
  readonly uploadedAt: string;
  readonly compiledAt: string | undefined;
  readonly compilationError: string | undefined;
  /** The keys that were notified when it went live; undefined while it did not. */
  readonly changedKeys: number | undefined;
}

/** All that are remembered, oldest first. */
export function revisionsOf(projection: ProjectionEntity): readonly RevisionEntity[] {
  return [...(projection.earlier ?? []), newestOf(projection)];
}

function newestOf(projection: ProjectionEntity): RevisionEntity {
  const {
    revision,
    artefactId,
    status,
    createdAt,
    revisedAt = createdAt,
    uploadedAt = revisedAt,
    compiledAt,
    discovered,
    compilationError,
    cause,
    of,
    cancelledAt,
    codeBytes,
  } = projection;
  return {
    ...{ revision, artefactId, status, createdAt: revisedAt, uploadedAt },
    ...(compiledAt === undefined ? {} : { compiledAt }),
    ...(discovered === undefined ? {} : { discovered }),
    ...(compilationError === undefined ? {} : { compilationError: compilationError.slice(0, ERROR_CHARACTERS) }),
    ...(cause === undefined ? {} : { cause }),
    ...(of === undefined ? {} : { of }),
    ...(cancelledAt === undefined ? {} : { cancelledAt }),
    ...(codeBytes === undefined ? {} : { codeBytes }),
  };
}

type Newest = Pick<RevisionEntity, 'artefactId' | 'status' | 'uploadedAt'> &
  Partial<Pick<RevisionEntity, 'compiledAt' | 'discovered' | 'cause' | 'of' | 'codeBytes'>>;

/** The projection with a further revision, the newest one. Those whose code is `inUse` are not forgotten for it. */
export function revised(
  projection: ProjectionEntity,
  newest: Newest,
  at: string,
  inUse: ReadonlySet<string>,
): ProjectionEntity {
  const { tenantId, projectionId, createdAt, revision, sse, webhook } = projection;
  const earlier = [...revisionsOf(projection)];
  const sizes = earlier.map((one) => JSON.stringify(one).length);
  let bytes = sizes.reduce((sum, size) => sum + size, 0);
  while (earlier.length > REMEMBERED || bytes > REMEMBERED_BYTES) {
    const failed = earlier.findIndex(({ status }) => status === 'failed');
    const forgotten = failed >= 0 ? failed : earlier.findIndex(({ artefactId }) => !inUse.has(artefactId));
    if (forgotten < 0) break;
    earlier.splice(forgotten, 1);
    bytes -= sizes.splice(forgotten, 1)[0] ?? 0;
  }
  return {
    tenantId,
    projectionId,
    createdAt,
    sse,
    ...(webhook === undefined ? {} : { webhook }),
    ...newest,
    revision: revision + 1,
    revisedAt: at,
    earlier,
  };
}

/** Ids of the code that runs, or may at once: live, being built, or kept for a rollback. */
export const inUseOf = ({ live, building, kept }: ProjectionLife): ReadonlySet<string> =>
  new Set([live, building, ...kept].flatMap((one) => one?.artefactId ?? []));

/** The projection with every revision replaced by what `change` makes of it. */
export function withRevisions(
  projection: ProjectionEntity,
  change: (revision: RevisionEntity) => Partial<RevisionEntity> | undefined,
): ProjectionEntity {
  const earlier = projection.earlier?.map((one) => ({ ...one, ...change(one) }));
  return { ...projection, ...change(newestOf(projection)), ...(earlier === undefined ? {} : { earlier }) };
}

/** The revision that is to be live: the newest one that can be. */
export function targetOf(projection: ProjectionEntity): BuildTarget | undefined {
  const found = revisionsOf(projection).findLast(
    ({ status, cancelledAt }) => status === 'compiled' && cancelledAt === undefined,
  );
  if (found === undefined) return undefined;
  const { revision, artefactId, discovered = [], cause } = found;
  return {
    projectionId: projection.projectionId,
    revision,
    artefactId,
    classNames: discovered.map(({ className }) => className),
    ...(cause === undefined ? {} : { cause }),
  };
}

/** The last one that was live before, of other code than the live one. */
export function previousOf(projection: ProjectionEntity, { live, past }: ProjectionLife): RevisionEntity | undefined {
  const revisions = revisionsOf(projection);
  for (const { artefactId } of [...past].reverse()) {
    const found =
      artefactId === live?.artefactId
        ? undefined
        : revisions.findLast((one) => one.artefactId === artefactId && one.status === 'compiled');
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Newest first. */
export function historyOf(projection: ProjectionEntity, life: ProjectionLife): RevisionRecord[] {
  const { live, building, kept, past } = life;
  const target = targetOf(projection)?.revision ?? 0;
  const statusOf = ({ revision, artefactId, status, cancelledAt }: RevisionEntity): RevisionStatus => {
    if (revision === live?.revision) return 'live';
    if (revision === building?.revision) return 'building';
    if (cancelledAt !== undefined) return 'cancelled';
    if (status !== 'compiled') return status;
    if (revision === target && revision > (live?.revision ?? 0)) return 'building';
    return kept.some((one) => one.artefactId === artefactId) ? 'kept' : 'gone';
  };
  return revisionsOf(projection)
    .map((one) => ({
      revision: one.revision,
      status: statusOf(one),
      cause: one.cause ?? ('upload' as const),
      of: one.of,
      artefactId: one.artefactId,
      createdAt: one.createdAt,
      uploadedAt: one.uploadedAt,
      compiledAt: one.compiledAt,
      compilationError: one.compilationError,
      changedKeys: past.find(({ revision }) => revision === one.revision)?.changed,
    }))
    .reverse();
}
