import type { Catalog, ProjectionEntity, RevisionEntity } from '../catalog/catalog.js';
import { StatefoldError } from '../core/errors.js';
import { revisionUnit } from '../core/ids.js';
import type { ProjectionLife } from '../projections/projections.js';
import { isHalted, revive } from './artefact-health.js';
import type { CatalogRoom } from '../catalog/catalog-room.js';
import type { RevisionAnswer } from './deployments.js';
import { inUseOf, previousOf, revised, revisionsOf, withRevisions } from './revisions.js';

export interface ProjectionRevisionsOptions {
  readonly catalog: Catalog;
  readonly room: CatalogRoom;
  /** Of a tenant of this process. */
  readonly projectionLife: (tenantId: string, projectionId: string) => Promise<ProjectionLife>;
  /** ISO 8601. */
  readonly now: () => string;
}

/** An earlier revision again, the live one from the start, and a build that is called off: each is a further revision, or what is said of one, in the catalog. */
export class ProjectionRevisions {
  readonly #options: ProjectionRevisionsOptions;

  constructor(options: ProjectionRevisionsOptions) {
    this.#options = options;
  }

  /** To the revision that was live before, unless one is named. */
  async rollback(projection: ProjectionEntity, revision: number | undefined): Promise<RevisionAnswer> {
    const { tenantId, projectionId } = projection;
    const life = await this.#options.projectionLife(tenantId, projectionId);
    const { live, building } = life;
    if (live === undefined)
      throw new StatefoldError(
        'NO_EARLIER_REVISION',
        `no revision of projection '${projectionId}' is live yet; upload a corrected one, or call the build off with DELETE /projections/${projectionId}/build`,
      );
    const to =
      revision === undefined
        ? previousOf(projection, life)
        : revisionsOf(projection).find((one) => one.revision === revision);
    if (to === undefined && revision !== undefined)
      throw new StatefoldError(
        'NOT_FOUND',
        `projection '${projectionId}' has no revision ${revision}; GET /projections/${projectionId}/revisions lists them`,
      );
    if (to === undefined)
      throw new StatefoldError(
        'NO_EARLIER_REVISION',
        `projection '${projectionId}' had no other code live before revision ${live.revision}; GET /projections/${projectionId}/revisions lists what there is`,
      );
    if (to.status !== 'compiled')
      throw new StatefoldError(
        'REVISION_NOT_COMPILED',
        `revision ${to.revision} of projection '${projectionId}' is ${to.status === 'failed' ? 'not compilable' : 'still being compiled'}; name another one`,
      );
    // The same request again, after an answer that was lost, finds it done, or under way.
    if (building?.artefactId === to.artefactId)
      return {
        projectionId,
        revision: building.revision,
        of: to.revision,
        artefactId: to.artefactId,
        status: 'building',
      };
    if (live.artefactId === to.artefactId && building?.final !== true) {
      await this.#callOff(projectionId, live.revision);
      return { projectionId, revision: live.revision, of: to.revision, artefactId: to.artefactId, status: 'live' };
    }
    return this.#again(projection, to, 'rollback');
  }

  /** The live code from the start, beside what is live. */
  async rebuild(projection: ProjectionEntity): Promise<RevisionAnswer> {
    const { tenantId, projectionId } = projection;
    const { live, building } = await this.#options.projectionLife(tenantId, projectionId);
    if (live === undefined)
      throw new StatefoldError(
        'PROJECTION_NOT_LIVE',
        `no revision of projection '${projectionId}' is live yet, there is nothing to rebuild`,
      );
    if (building?.cause === 'rebuild' && building.artefactId === live.artefactId)
      return {
        projectionId,
        revision: building.revision,
        of: live.revision,
        artefactId: live.artefactId,
        status: 'building',
      };
    if (building !== undefined)
      throw new StatefoldError(
        'BUILD_UNDER_WAY',
        `revision ${building.revision} of projection '${projectionId}' is being built; wait until it is live, or call it off with DELETE /projections/${projectionId}/build`,
      );
    return this.#liveAgain(projection, live, 'rebuild');
  }

  /** Code with too many strikes once more: a live revision as a further one that goes on from its states, a build from where it was. */
  async revive(projection: ProjectionEntity): Promise<RevisionAnswer> {
    const { catalog } = this.#options;
    const { tenantId, projectionId } = projection;
    const { live, building } = await this.#options.projectionLife(tenantId, projectionId);
    const faulted = (revision: number | undefined): boolean =>
      revision !== undefined && isHalted(catalog, revisionUnit(projectionId, revision));
    if (building !== undefined) {
      if (faulted(building.revision)) await revive(catalog, revisionUnit(projectionId, building.revision));
      else if (building.cause !== 'revive' && faulted(live?.revision))
        throw new StatefoldError(
          'BUILD_UNDER_WAY',
          `revision ${building.revision} of projection '${projectionId}' is being built, and replaces the faulted one; or call it off with DELETE /projections/${projectionId}/build, and revive then`,
        );
      return {
        projectionId,
        revision: building.revision,
        of: live?.artefactId === building.artefactId ? live.revision : building.revision,
        artefactId: building.artefactId,
        status: 'building',
      };
    }
    if (live === undefined)
      throw new StatefoldError(
        'PROJECTION_NOT_LIVE',
        `no revision of projection '${projectionId}' is live or being built, there is nothing to revive`,
      );
    if (!faulted(live.revision))
      return { projectionId, revision: live.revision, of: live.revision, artefactId: live.artefactId, status: 'live' };
    return this.#liveAgain(projection, live, 'revive');
  }

  /** What is not live yet is not to be: the newest upload, while it is compiled or built. */
  async cancelBuild({ tenantId, projectionId }: ProjectionEntity): Promise<void> {
    const { live, building } = await this.#options.projectionLife(tenantId, projectionId);
    const none = (why: string): StatefoldError =>
      new StatefoldError('NO_BUILD', `${why}; GET /projections/${projectionId}/revisions says what is live`);
    if (building?.final === true)
      throw none(
        `revision ${building.revision} of projection '${projectionId}' is about to be live: roll back when it is`,
      );
    if (!(await this.#callOff(projectionId, live?.revision ?? 0)))
      throw none(`projection '${projectionId}' has no build under way`);
  }

  #liveAgain(
    projection: ProjectionEntity,
    live: { readonly revision: number; readonly artefactId: string },
    cause: 'rebuild' | 'revive',
  ): Promise<RevisionAnswer> {
    const { projectionId } = projection;
    const code = revisionsOf(projection).findLast((one) => one.artefactId === live.artefactId);
    if (code === undefined)
      throw new StatefoldError(
        'NO_EARLIER_REVISION',
        `the code of the live revision ${live.revision} of projection '${projectionId}' is not remembered any more; upload it again`,
      );
    return this.#again(projection, { ...code, revision: live.revision }, cause);
  }

  async #again(
    { tenantId, projectionId }: ProjectionEntity,
    code: RevisionEntity,
    cause: 'rollback' | 'rebuild' | 'revive',
  ): Promise<RevisionAnswer> {
    this.#options.room.require(tenantId);
    const { artefactId, uploadedAt, compiledAt, discovered, revision: of } = code;
    const newest = {
      artefactId,
      status: 'compiled' as const,
      uploadedAt,
      ...(compiledAt === undefined ? {} : { compiledAt }),
      ...(discovered === undefined ? {} : { discovered }),
      cause,
      of,
    };
    const inUse = inUseOf(await this.#options.projectionLife(tenantId, projectionId));
    const { revision } = await this.#options.catalog.update('projection', projectionId, (value) =>
      revised(value, newest, this.#options.now(), inUse),
    );
    return { projectionId, revision, of, artefactId, status: 'building' };
  }

  /** False where no revision past that one could still become the live one. */
  async #callOff(projectionId: string, above: number): Promise<boolean> {
    const waits = (one: RevisionEntity): boolean =>
      one.revision > above && one.status !== 'failed' && one.cancelledAt === undefined;
    let found = false;
    await this.#options.catalog.update('projection', projectionId, (value) => {
      found = revisionsOf(value).some(waits);
      return found
        ? withRevisions(value, (one) => (waits(one) ? { cancelledAt: this.#options.now() } : undefined))
        : undefined;
    });
    return found;
  }
}
