import type { Change, SwapCause } from '../core/change.js';
import type { Fault } from '../core/event.js';
import type { Progress } from '../core/progress.js';
import type { Turn } from '../core/turns.js';

/** The projections of one tenant. All calls reject with a `StatefoldError`: `UNAVAILABLE` where another process serves it. */
export interface Projections {
  /** Keys of all classes of a projection, ascending by (key, className). */
  states(query: ProjectionStatesQuery): Promise<ProjectionStatesPage>;
  /** The states of one key, one for each class that has any: a page of them, behind the cursor. */
  statesOf(query: KeyStatesQuery): Promise<ProjectionStatesPage>;
  /**
   * The states as they are now, as changes in pages, ascending by sequence, and at last the sequence up to which they hold. Reading it goes
   * on for as long as its reader takes.
   * @throws StatefoldError while it is read: UNAVAILABLE when another process serves the tenant, CURSOR_EXPIRED where reading took longer
   * than changes are kept
   */
  snapshot(query: SnapshotQuery): ProjectionSnapshot;
  /** Resolves with true when the projection is live and has all that it ever will of the inputs through the place, with false when the signal aborts before. */
  includes(projectionId: string, place: number, signal: AbortSignal): Promise<boolean>;
  /** The first place that the projections have not all of yet. */
  readonly reached: number;
  /** Progress of a projection's build over history; undefined when it is live. */
  build(projectionId: string): Progress | undefined;
  /**
   * How many events a second a live projection has worked off over the last minute, those that it makes nothing of too: their changes are
   * acknowledged. Less where this process serves the tenant since. Undefined: nobody knows, since there are very many projections.
   */
  eventsPerSecond(projectionId: string): number | undefined;
  /** Which of a projection's revisions has states here; undefined members: none is live, or under way. */
  life(projectionId: string): ProjectionLife;
  /** Calls the listener when a revision of any projection went live, and when the tenant is served here no more; gives what ends the subscription. */
  onLive(listener: () => void): () => void;
}

/** A projection's revisions as their tenant's task has them. */
export interface ProjectionLife {
  readonly live: { readonly revision: number; readonly artefactId: string } | undefined;
  /** `final`: its swap may be in the log, it can't be called off. */
  readonly building:
    | { readonly revision: number; readonly artefactId: string; readonly cause: SwapCause; readonly final: boolean }
    | undefined;
  /** Former ones that could be live again without a build from the start. */
  readonly kept: readonly { readonly revision: number; readonly artefactId: string }[];
  /** Those that were live, the last of them now, oldest first; `changed`: the keys that were other than before. */
  readonly past: readonly { readonly revision: number; readonly artefactId: string; readonly changed: number }[];
  /** An aggregate was erased whose events may be in the states that are live. */
  readonly erasedSinceBuild: boolean;
}

export interface SnapshotQuery {
  readonly projectionId: string;
  /** Of these state keys alone. */
  readonly keys: ReadonlySet<string> | undefined;
  /** Nobody wants it any more. */
  readonly signal: AbortSignal;
}

/** A key that changes meanwhile may come again, later. Several may share a sequence: those whose changes are kept no longer. */
export type ProjectionSnapshot = AsyncGenerator<readonly Change[], number, void>;

export interface ProjectionStatesQuery {
  readonly projectionId: string;
  readonly prefix: string;
  readonly limit: number;
  /** About, of one page; `PAGE_BYTES` unless given. */
  readonly bytes?: number | undefined;
  readonly cursor: string | undefined;
  /** Asked for before each part of the page is read; without it all of it is read at once. */
  readonly turn?: Turn;
}

/** Of all classes. */
export type KeyStatesQuery = Pick<ProjectionStatesQuery, 'projectionId' | 'cursor' | 'turn'> & { readonly key: string };

export interface ProjectionStatesPage {
  readonly states: readonly ProjectionState[];
  readonly nextCursor: string | undefined;
}

export interface ProjectionState {
  readonly key: string;
  readonly className: string;
  readonly state: Buffer | null;
  readonly sequence: number;
  readonly lastModified: number;
  readonly fault: Fault | undefined;
}
