import { changeBytes, type Change } from '../core/change.js';
import { eventLoop } from '../core/event-loop.js';
import { inSlices, nextTurn, overSlices, type Sliced } from '../core/slices.js';
import type { FollowedFeed } from '../feed/feed.js';
import type { KeyState, PartitionTables } from '../store/partition-tables.js';
import type { ChangesWriter } from './changes-writer.js';
import type { ProjectionCursor } from './projection-cursor.js';
import type { ProjectionSnapshot, SnapshotQuery } from './projections.js';
import { whenFound } from './when-found.js';

/** How much is held, and done at a time. Tests take less. */
export interface SnapshotBounds {
  /** States of one snapshot of which it is known at once where they are; for more, all rows are looked at once more. */
  readonly located: number;
  /** The same of all snapshots of a tenant: further ones wait. */
  readonly locatedOfTenant: number;
  readonly pageRows: number;
  readonly pageBytes: number;
}

const SNAPSHOT_BOUNDS: SnapshotBounds = {
  located: 131_072,
  locatedOfTenant: 2 * 131_072,
  pageRows: 128,
  pageBytes: 256 * 1024,
};

export interface ProjectionSnapshotsOptions {
  readonly tables: PartitionTables;
  readonly changes: Pick<ChangesWriter, 'lastSequence' | 'lastRecorded' | 'isTrimmed'> & {
    of(projectionId: string): Pick<FollowedFeed<Change>, 'read' | 'subscribe'>;
  };
  readonly cursor: Pick<ProjectionCursor, 'stored' | 'onStored'>;
  /** Calls the listener when a revision went live, or the tenant is served no more. */
  readonly onLive: (listener: () => void) => () => void;
  /** @throws NotOwnerError where this process does not serve the tenant, as far as it knows */
  readonly mustServe: () => void;
  readonly bounds?: SnapshotBounds;
}

/** Where a state is, by its place among those that are told. */
interface Located {
  readonly sequence: number;
  readonly key: string;
  readonly className: string;
}

const SLICE_MS = 5;
const ROWS_PER_LOOK = 64;
const CHANGES_PER_READ = 256;

/**
 * The states of a projection, told as changes: first those that are there when it begins, by the sequence of their last changes, then
 * what changed meanwhile; what comes behind its end is told by the feed. Rows lie by their keys, so the next ones by sequence are looked
 * for among all, as many at a time as may be held; what is told of a row is what it has then. A row that changed since it was found is
 * passed over: its change comes later. So memory does not grow with the states, and a reader that is slow holds nothing up.
 */
export class ProjectionSnapshots {
  readonly #options: ProjectionSnapshotsOptions;
  readonly #bounds: SnapshotBounds;
  readonly #places: Places;

  constructor(options: ProjectionSnapshotsOptions) {
    this.#options = options;
    this.#bounds = options.bounds ?? SNAPSHOT_BOUNDS;
    this.#places = new Places(this.#bounds.locatedOfTenant);
  }

  /** @throws NotOwnerError while it is read, when the tenant is served here no more; CURSOR_EXPIRED where it took longer than changes are kept */
  async *of(query: SnapshotQuery): ProjectionSnapshot {
    const { changes, mustServe } = this.#options;
    const { projectionId, signal } = query;
    mustServe();
    const feed = changes.of(projectionId);
    // Somebody follows: the tenant is not idle.
    const unfollow = feed.subscribe(() => undefined);
    try {
      // All that was told by now: when the inputs of those changes are passed, their states are in the rows of the live revision.
      const from = changes.lastSequence();
      await this.#stored(changes.lastRecorded(), signal);
      yield* query.keys === undefined ? this.#all(query, from) : this.#some(query, query.keys, from);
      const upTo = changes.lastSequence();
      yield* this.#changed(query, feed, from, upTo);
      return upTo;
    } finally {
      unfollow();
    }
  }

  /** Resolves when the changes of all inputs up to this one are in the rows. */
  #stored(input: number, signal: AbortSignal): Promise<unknown> {
    const { cursor, changes, mustServe, onLive } = this.#options;
    return whenFound(
      () => {
        mustServe();
        signal.throwIfAborted();
        // What retention took before it was read here is made anew by the code.
        return cursor.stored > input && !changes.isTrimmed(cursor.stored) ? true : undefined;
      },
      signal,
      (look) => cursor.onStored(look),
      (look) => onLive(look),
    );
  }

  /** The rows of some keys are few. */
  async *#some(
    { projectionId }: SnapshotQuery,
    keys: ReadonlySet<string>,
    from: number,
  ): AsyncGenerator<readonly Change[], void, void> {
    const { tables } = this.#options;
    for (let isWhole = false; !isWhole;) {
      const { revision, classNames } = tables.liveProjection(projectionId) ?? { revision: 0, classNames: [] };
      const rows = [...keys].flatMap((key) =>
        classNames.map((className, classIndex) => ({ key, className, classIndex })),
      );
      const found: Located[] = [];
      // Few as they are, each may be a megabyte.
      await overSlices('pages', rows, ({ key, className, classIndex }) => {
        const row = tables.keyState(projectionId, revision, key, classIndex);
        const sequence = row && sequenceBy(row, from);
        if (sequence !== undefined) found.push({ sequence, key, className });
      });
      // The rows of a revision go with it.
      isWhole = (tables.liveProjection(projectionId)?.revision ?? 0) === revision;
      if (isWhole) yield* this.#told(projectionId, found.sort(compare));
    }
  }

  async *#all({ projectionId, signal }: SnapshotQuery, from: number): AsyncGenerator<readonly Change[], void, void> {
    for (let after: Located | undefined; ;) {
      const places = await this.#places.take(this.#bounds.located, signal);
      try {
        const lowest = await this.#located(projectionId, after, from, signal);
        const found = await inSlices(lowest.sorted());
        places.keep(found.length);
        yield* this.#told(projectionId, found);
        after = found.at(-1);
        if (!lowest.cut || after === undefined) return;
      } finally {
        places.giveBack();
      }
    }
  }

  /** The lowest ones past `after`, of those that were there at `from`. */
  async #located(projectionId: string, after: Located | undefined, from: number, signal: AbortSignal): Promise<Lowest> {
    const { tables, mustServe } = this.#options;
    for (let begun: number | undefined, lowest = new Lowest(0), at: readonly [string, number] | undefined; ;) {
      signal.throwIfAborted();
      mustServe();
      const live = tables.liveProjection(projectionId);
      if (live === undefined) return lowest;
      if (begun !== live.revision) {
        // The rows of another revision may have their classes in another order.
        [begun, lowest, at] = [live.revision, new Lowest(this.#bounds.located), undefined];
      }
      const done = eventLoop.slice('pages', () => {
        const until = performance.now() + SLICE_MS;
        let rows = 0;
        let read = 0;
        for (const [key, classIndex, row] of tables.keyStates(projectionId, live.revision, '', at)) {
          at = [key, classIndex];
          const className = live.classNames[classIndex];
          const sequence = sequenceBy(row, from);
          if (className !== undefined && sequence !== undefined) {
            const one = { sequence, key, className };
            if (after === undefined || compare(one, after) > 0) lowest.offer(one);
          }
          read += row.state?.length ?? 0;
          if (++rows % ROWS_PER_LOOK !== 0 && read < this.#bounds.pageBytes) continue;
          read = 0;
          if (performance.now() >= until) return false;
        }
        return true;
      });
      if (done) return lowest;
      await nextTurn();
    }
  }

  /** As they are now, those that are what they were. */
  async *#told(projectionId: string, found: readonly Located[]): AsyncGenerator<readonly Change[], void, void> {
    for (let next = 0; next < found.length;) {
      this.#options.mustServe();
      const page: Change[] = [];
      next = eventLoop.slice('pages', () => this.#page(projectionId, found, next, page));
      if (page.length > 0) yield page;
      await nextTurn();
    }
  }

  #page(projectionId: string, found: readonly Located[], first: number, page: Change[]): number {
    const { tables } = this.#options;
    const { pageRows, pageBytes } = this.#bounds;
    const live = tables.liveProjection(projectionId);
    let bytes = 0;
    let next = first;
    for (; next < found.length && next - first < pageRows && bytes < pageBytes; next++) {
      const { key, className, sequence } = found[next] as Located;
      const classIndex = live?.classNames.indexOf(className) ?? -1;
      if (live === undefined || classIndex < 0) continue;
      const row = tables.keyState(projectionId, live.revision, key, classIndex);
      if (row === undefined) continue;
      if (row.sequence !== sequence && row.fault === undefined) {
        bytes += row.state?.length ?? 0;
        continue;
      }
      const change = changeOfState(projectionId, live.revision, className, key, { ...row, sequence });
      bytes += changeBytes(change);
      page.push(change);
    }
    return next;
  }

  /** What was told meanwhile, of each key the last alone where that is known. */
  async *#changed(
    { projectionId, keys, signal }: SnapshotQuery,
    feed: Pick<FollowedFeed<Change>, 'read'>,
    from: number,
    upTo: number,
  ): AsyncGenerator<readonly Change[], void, void> {
    for (let next = from + 1; next <= upTo;) {
      signal.throwIfAborted();
      const { items, end } = await feed.read(next, { items: CHANGES_PER_READ, bytes: this.#bounds.pageBytes });
      const page = items.filter(
        (change) =>
          change.sequence <= upTo && keys?.has(change.key) !== false && !this.#isToldLater(projectionId, change, upTo),
      );
      if (page.length > 0) yield page;
      if (end <= next) return;
      next = end;
      await nextTurn();
    }
  }

  #isToldLater(projectionId: string, { key, className, sequence }: Change, upTo: number): boolean {
    const { tables } = this.#options;
    const live = tables.liveProjection(projectionId);
    const classIndex = live?.classNames.indexOf(className) ?? -1;
    if (live === undefined || classIndex < 0) return false;
    const row = tables.keyState(projectionId, live.revision, key, classIndex);
    // A fault is not told.
    return row !== undefined && row.fault === undefined && row.sequence > sequence && row.sequence <= upTo;
  }
}

/** Where the state was at `from`; undefined: it came later. What stopped a key is not told, so that its state is told here. */
const sequenceBy = ({ sequence, fault }: KeyState, from: number): number | undefined =>
  sequence <= from ? sequence : fault === undefined ? undefined : from;

const changeOfState = (
  projectionId: string,
  revision: number,
  className: string,
  key: string,
  { state, sequence, lastModified, origin }: KeyState,
): Change => ({
  sequence,
  projectionId,
  revision,
  className,
  key,
  ...origin,
  state,
  timestamp: lastModified,
  cause: undefined,
  fault: undefined,
});

/** Several may have one sequence: those whose changes retention took before they were read. */
function compare(a: Located, b: Located): number {
  if (a.sequence !== b.sequence) return a.sequence - b.sequence;
  if (a.key !== b.key) return a.key < b.key ? -1 : 1;
  if (a.className === b.className) return 0;
  return a.className < b.className ? -1 : 1;
}

/** The lowest of all that were offered, as many as it may hold: a heap with the highest of them on top. */
class Lowest {
  readonly #most: number;
  readonly #heap: Located[] = [];
  /** There are more. */
  cut = false;

  constructor(most: number) {
    this.#most = most;
  }

  offer(one: Located): void {
    const heap = this.#heap;
    if (heap.length < this.#most) {
      heap.push(one);
      this.#rise(heap.length - 1);
      return;
    }
    this.cut = true;
    const [highest] = heap;
    if (highest === undefined || compare(one, highest) >= 0) return;
    heap[0] = one;
    this.#sink(heap.length);
  }

  /** Ascending; nothing is offered any more. The highest goes to the end, then the highest of the rest: a slice at a time. */
  *sorted(): Sliced<readonly Located[]> {
    const heap = this.#heap;
    let until = performance.now() + SLICE_MS;
    for (let rest = heap.length - 1; rest > 0; rest--) {
      this.#swap(0, rest);
      this.#sink(rest);
      if (rest % ROWS_PER_LOOK !== 0 || performance.now() < until) continue;
      yield;
      until = performance.now() + SLICE_MS;
    }
    return heap;
  }

  #rise(from: number): void {
    const heap = this.#heap;
    for (let at = from; at > 0;) {
      const parent = (at - 1) >> 1;
      if (compare(heap[at] as Located, heap[parent] as Located) <= 0) return;
      this.#swap(at, parent);
      at = parent;
    }
  }

  /** Of the first so many. */
  #sink(length: number): void {
    const heap = this.#heap;
    for (let at = 0; ;) {
      let highest = at;
      for (const child of [2 * at + 1, 2 * at + 2])
        if (child < length && compare(heap[child] as Located, heap[highest] as Located) > 0) highest = child;
      if (highest === at) return;
      this.#swap(at, highest);
      at = highest;
    }
  }

  #swap(a: number, b: number): void {
    const heap = this.#heap;
    [heap[a], heap[b]] = [heap[b] as Located, heap[a] as Located];
  }
}

interface Taken {
  /** So many are needed of what was taken. */
  keep(places: number): void;
  giveBack(): void;
}

/** What may be held of located states, by all snapshots of a tenant: who comes first is given first. */
class Places {
  #free: number;
  readonly #waiting: { readonly places: number; readonly give: () => void }[] = [];

  constructor(all: number) {
    this.#free = all;
  }

  /** Resolves when there are as many. @throws the signal's reason */
  take(places: number, signal: AbortSignal): Promise<Taken> {
    return new Promise((resolve, reject) => {
      const aborted = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
        reject(signal.reason instanceof Error ? signal.reason : new Error('nobody waits any more'));
        this.#pump();
      };
      const waiter = {
        places,
        give: () => {
          signal.removeEventListener('abort', aborted);
          resolve(this.#taken(places));
        },
      };
      if (signal.aborted) return void reject(new Error('nobody waits any more'));
      signal.addEventListener('abort', aborted, { once: true });
      this.#waiting.push(waiter);
      this.#pump();
    });
  }

  #taken(places: number): Taken {
    let held = places;
    const keep = (left: number): void => {
      this.#free += held - left;
      held = left;
      this.#pump();
    };
    return { keep, giveBack: () => keep(0) };
  }

  #pump(): void {
    for (let [first] = this.#waiting; first !== undefined && first.places <= this.#free; [first] = this.#waiting) {
      this.#waiting.shift();
      this.#free -= first.places;
      first.give();
    }
  }
}
