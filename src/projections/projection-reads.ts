import { decodeCursor, encodeCursor } from '../core/cursor.js';
import type { KeyState, PartitionTables } from '../store/partition-tables.js';
import type { ProjectionState, ProjectionStatesPage, ProjectionStatesQuery } from '../tenancy/tenant.js';

export interface ProjectionReadsOptions {
  readonly tables: PartitionTables;
  /** Throws where this process does not serve the tenant, as far as it knows. */
  readonly mustServe: () => void;
}

/** What a tenant answers of its projections, from its local store. */
export class ProjectionReads {
  readonly #options: ProjectionReadsOptions;

  constructor(options: ProjectionReadsOptions) {
    this.#options = options;
  }

  async projectionStates({
    projectionId,
    prefix,
    limit,
    cursor,
  }: ProjectionStatesQuery): Promise<ProjectionStatesPage> {
    await Promise.resolve();
    this.#options.mustServe();
    const live = this.#options.tables.liveProjection(projectionId);
    const states: ProjectionState[] = [];
    if (live === undefined) return { states, nextCursor: undefined };
    const after = cursor === undefined ? undefined : decodeCursor(cursor, ['string', 'number']);
    let last: readonly [string, number] = ['', 0];
    for (const [key, classIndex, row] of this.#options.tables.keyStates(projectionId, live.revision, prefix, after)) {
      if (states.length === limit) return { states, nextCursor: encodeCursor(last) };
      last = [key, classIndex];
      states.push(projectionStateOf(key, live.classNames[classIndex] ?? '', row));
    }
    return { states, nextCursor: undefined };
  }

  async projectionState(projectionId: string, key: string): Promise<readonly ProjectionState[]> {
    await Promise.resolve();
    this.#options.mustServe();
    const live = this.#options.tables.liveProjection(projectionId);
    return (live?.classNames ?? []).flatMap((className, classIndex) => {
      const row = this.#options.tables.keyState(projectionId, live?.revision ?? 0, key, classIndex);
      return row === undefined ? [] : [projectionStateOf(key, className, row)];
    });
  }
}

const projectionStateOf = (
  key: string,
  className: string,
  { state, sequence, lastModified, fault }: KeyState,
): ProjectionState => ({ key, className, state, sequence, lastModified, fault });
