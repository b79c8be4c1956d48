import { eventLoop } from '../core/event-loop.js';
import { decodeCursor, encodeCursor } from '../core/cursor.js';
import { PAGE_BYTES, STATES_READ_BYTES } from '../core/reads.js';
import { costOfBytes, costOfListed, LISTED_AT_ONCE, type Turn } from '../core/turns.js';
import { SEPARATOR } from '../store/keys.js';
import type { KeyState, PartitionTables } from '../store/partition-tables.js';
import type { Progress } from '../core/progress.js';
import type { ProjectionBuilds } from './projection-builds.js';
import type { ProjectionCursor } from './projection-cursor.js';
import { ProjectionSnapshots, type ProjectionSnapshotsOptions } from './projection-snapshot.js';
import type {
  KeyStatesQuery,
  ProjectionLife,
  Projections,
  ProjectionSnapshot,
  ProjectionState,
  ProjectionStatesPage,
  ProjectionStatesQuery,
  SnapshotQuery,
} from './projections.js';
import { whenFound } from './when-found.js';

/** The projections that answers rest on. */
export interface ServedProjections {
  /** @throws NotOwnerError where this process does not serve the tenant, as far as it knows */
  mustServe(): void;
  /** As `Projections.eventsPerSecond`. */
  eventsPerSecond(projectionId: string): number | undefined;
}

export interface ProjectionReadsOptions {
  readonly tables: PartitionTables;
  readonly builds: ProjectionBuilds;
  readonly projections: ServedProjections;
  readonly cursor: Pick<ProjectionCursor, 'stored' | 'onStored'>;
  readonly changes: ProjectionSnapshotsOptions['changes'];
}

/** What is around a state in an answer, about. */
const STATE_BYTES = 150;
const bytesOf = ({ key, state }: ProjectionState): number => STATE_BYTES + key.length + (state?.length ?? 0);

/** What a tenant answers of its projections, from its local store. */
export class ProjectionReads implements Projections {
  readonly #options: ProjectionReadsOptions;
  readonly #listeners = new Set<() => void>();

  readonly #snapshots: ProjectionSnapshots;

  constructor(options: ProjectionReadsOptions) {
    this.#options = options;
    const { tables, changes, cursor, projections } = options;
    this.#snapshots = new ProjectionSnapshots({
      tables,
      changes,
      cursor,
      onLive: (listener) => this.onLive(listener),
      mustServe: () => projections.mustServe(),
    });
  }

  snapshot(query: SnapshotQuery): ProjectionSnapshot {
    return this.#snapshots.of(query);
  }

  onLive(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** A revision went live, or the tenant is not served any more. */
  livesChanged(): void {
    for (const listener of this.#listeners) listener();
  }

  async states(query: ProjectionStatesQuery): Promise<ProjectionStatesPage> {
    await Promise.resolve();
    const { turn } = query;
    return turn === undefined ? this.#part(query) : this.#inParts(query, turn);
  }

  /** Begins again where another revision goes live meanwhile: a page is of one. */
  async #inParts(query: ProjectionStatesQuery, turn: Turn): Promise<ProjectionStatesPage> {
    const { projectionId, limit, bytes: mostBytes = PAGE_BYTES } = query;
    let states: ProjectionState[] = [];
    let { cursor } = query;
    let cost = costOfListed(LISTED_AT_ONCE);
    for (let bytes = 0, revision: number | undefined; ;) {
      await turn(cost);
      const live = this.#options.tables.liveProjection(projectionId)?.revision;
      if (live !== revision && states.length > 0) {
        states = [];
        ({ cursor } = query);
        bytes = 0;
      }
      revision = live;
      const most = Math.min(LISTED_AT_ONCE, limit - states.length);
      const part = this.#part({ ...query, limit: most, bytes: Math.min(mostBytes - bytes, STATES_READ_BYTES), cursor });
      const had = bytes;
      for (const state of part.states) {
        states.push(state);
        bytes += bytesOf(state);
      }
      cost = Math.max(costOfListed(LISTED_AT_ONCE), costOfBytes(bytes - had));
      cursor = part.nextCursor;
      if (cursor === undefined || states.length >= limit || bytes >= mostBytes) return { states, nextCursor: cursor };
    }
  }

  #part(query: ProjectionStatesQuery): ProjectionStatesPage {
    return eventLoop.slice('pages', () => this.#states(query));
  }

  #states({
    projectionId,
    prefix,
    limit,
    bytes: mostBytes = PAGE_BYTES,
    cursor,
  }: ProjectionStatesQuery): ProjectionStatesPage {
    this.#options.projections.mustServe();
    const live = this.#options.tables.liveProjection(projectionId);
    const states: ProjectionState[] = [];
    if (live === undefined) return { states, nextCursor: undefined };
    const after = cursor === undefined ? undefined : decodeCursor(cursor, ['string', 'number']);
    let last: readonly [string, number] = ['', 0];
    let bytes = 0;
    for (const [key, classIndex, row] of this.#options.tables.keyStates(projectionId, live.revision, prefix, after)) {
      if (states.length === limit || bytes >= mostBytes) return { states, nextCursor: encodeCursor(last) };
      last = [key, classIndex];
      const state = projectionStateOf(key, live.classNames[classIndex] ?? '', row);
      bytes += bytesOf(state);
      states.push(state);
    }
    return { states, nextCursor: undefined };
  }

  /** Ids of projections that have states, ascending. */
  get live(): readonly string[] {
    return this.#options.tables.liveProjections().map(([projectionId]) => projectionId);
  }

  statesOf({ key, ...query }: KeyStatesQuery): Promise<ProjectionStatesPage> {
    // Of this key alone: no key has the character.
    return this.states({ ...query, prefix: key + SEPARATOR, limit: Infinity });
  }

  get reached(): number {
    return this.#options.cursor.stored;
  }

  includes(projectionId: string, place: number, signal: AbortSignal): Promise<boolean> {
    const { tables, projections, cursor } = this.#options;
    return whenFound<boolean>(
      () => {
        projections.mustServe();
        if (cursor.stored > place && tables.liveProjection(projectionId) !== undefined) return true;
        return signal.aborted ? false : undefined;
      },
      signal,
      (look) => cursor.onStored(look),
      (look) => this.onLive(look),
    );
  }

  eventsPerSecond(projectionId: string): number | undefined {
    return this.#options.projections.eventsPerSecond(projectionId);
  }

  build(projectionId: string): Progress | undefined {
    return this.#options.builds.progress(projectionId);
  }

  life(projectionId: string): ProjectionLife {
    return this.#options.builds.life(projectionId);
  }
}

const projectionStateOf = (
  key: string,
  className: string,
  { state, sequence, lastModified, fault }: KeyState,
): ProjectionState => ({ key, className, state, sequence, lastModified, fault });
