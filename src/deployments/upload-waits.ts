import type { Catalog, ProjectionEntity, ReducerEntity, RevisionEntity } from '../catalog/catalog.js';
import type { Diagnostic } from '../code-host/code-host.js';
import { StatefoldError } from '../core/errors.js';
import { revisionUnit } from '../core/ids.js';
import type { Projections } from '../projections/projections.js';
import { isHalted } from './artefact-health.js';
import { revisionsOf, targetOf } from './revisions.js';

/** What of a tenant tells that a revision went live. */
export type LiveProjections = Pick<Projections, 'life' | 'onLive'>;

export interface UploadWaitsOptions {
  readonly catalog: Catalog;
  /** Rejects where this process does not serve the tenant. */
  readonly projectionsOf: (tenantId: string) => Promise<LiveProjections>;
}

/** How far an upload of a projection has come. */
export interface ProjectionReached {
  readonly status: RevisionEntity['status'];
  readonly compilationError: string | undefined;
  readonly diagnostics: readonly Diagnostic[] | undefined;
  /** The upload's own revision, once it is the live one. */
  readonly live: { readonly revision: number; readonly artefactId: string } | undefined;
}

/**
 * Waits for what becomes of uploads. It is read from the catalog, so it does not matter which process compiles; whether a
 * revision is live is asked of the tenant's task, which is here as long as this process owns the tenant.
 */
export class UploadWaits {
  readonly #options: UploadWaitsOptions;
  /** Those who wait, by the id of what they wait for. */
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(options: UploadWaitsOptions) {
    this.#options = options;
    options.catalog.onChange(({ kind, id }) => {
      // The strikes of a revision are held against `<projectionId>@<revision>`.
      if (kind === 'reducer' || kind === 'projection' || kind === 'artefact') this.#wake(id.split('@', 1)[0] ?? id);
    });
  }

  /** Until it is compiled, and so bound, or has failed. @throws StatefoldError NOT_FOUND when it was deleted meanwhile */
  async reducer({ tenantId, reducerId }: ReducerEntity, signal: AbortSignal): Promise<ReducerEntity> {
    for (;;) {
      const reducer = this.#options.catalog.get('reducer', reducerId)?.value;
      if (reducer?.tenantId !== tenantId || reducer.deletedAt !== undefined)
        throw new StatefoldError('NOT_FOUND', `reducer ${reducerId} was deleted while it was being compiled`);
      if (reducer.status !== 'pending_compilation' || signal.aborted) return reducer;
      await this.#change(reducerId, signal);
    }
  }

  /** Until the uploaded revision is live, or can't become so as things are. @throws StatefoldError NOT_FOUND when the projection was deleted meanwhile */
  async projection(
    { tenantId, projectionId, revision }: ProjectionEntity,
    signal: AbortSignal,
  ): Promise<ProjectionReached> {
    for (;;) {
      const projection = this.#options.catalog.get('projection', projectionId)?.value;
      if (projection?.tenantId !== tenantId)
        throw new StatefoldError(
          'NOT_FOUND',
          `projection ${projectionId} was deleted while it was being compiled or built`,
        );
      const { status = 'compiled', compilationError } =
        revisionsOf(projection).find((one) => one.revision === revision) ?? {};
      const diagnostics = projection.revision === revision ? projection.diagnostics : undefined;
      const reached = {
        status,
        compilationError: projection.revision === revision ? projection.compilationError : compilationError,
        diagnostics,
        live: undefined,
      };
      if (status === 'failed' || signal.aborted) return reached;
      if (status === 'compiling') {
        await this.#change(projectionId, signal);
        continue;
      }
      // In the loop: the task that was asked before may have ended.
      const tenant = await this.#tenant(tenantId, signal);
      const live = tenant?.life(projectionId).live;
      if (live?.revision === revision) return { ...reached, live: { revision, artefactId: live.artefactId } };
      // A later revision takes its place, it was called off, or it has too many strikes.
      const ended =
        targetOf(projection)?.revision !== revision ||
        isHalted(this.#options.catalog, revisionUnit(projectionId, revision));
      if (tenant === undefined || ended) return reached;
      const unsubscribe = tenant.onLive(() => this.#wake(projectionId));
      try {
        await this.#change(projectionId, signal);
      } finally {
        unsubscribe();
      }
    }
  }

  /** Undefined where this process can't tell: the tenant is another's by now, or it takes too long to be restored. */
  async #tenant(tenantId: string, signal: AbortSignal): Promise<LiveProjections | undefined> {
    let giveUp: () => void = () => undefined;
    const aborted = new Promise<undefined>((resolve) => {
      giveUp = () => resolve(undefined);
      signal.addEventListener('abort', giveUp, { once: true });
    });
    try {
      return await Promise.race([this.#options.projectionsOf(tenantId), aborted]);
    } catch (error) {
      if (error instanceof StatefoldError) return undefined;
      throw error;
    } finally {
      signal.removeEventListener('abort', giveUp);
    }
  }

  /** Resolves at the next change of it, or when the signal aborts. */
  #change(id: string, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(id) ?? new Set();
      this.#waiting.set(id, waiting);
      const done = (): void => {
        signal.removeEventListener('abort', done);
        waiting.delete(done);
        if (waiting.size === 0 && this.#waiting.get(id) === waiting) this.#waiting.delete(id);
        resolve();
      };
      waiting.add(done);
      signal.addEventListener('abort', done, { once: true });
    });
  }

  #wake(id: string): void {
    for (const done of [...(this.#waiting.get(id) ?? [])]) done();
  }
}
