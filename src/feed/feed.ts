import type { Advanced } from './signal.js';

/** About how much a reader takes at a time, whichever is reached first; at least one item wherever there is one. */
export interface Budget {
  readonly bytes?: number;
  readonly items?: number;
}

/** A part of a feed: all that it has from where it was asked up to `end`, exclusive, which is where to go on. */
export interface Page<T> {
  /** Ascending. */
  readonly items: readonly T[];
  readonly end: number;
}

/**
 * A sequence that grows at its end: a tenant's accepted records, its events, or the changes of its projections. Each item has a
 * position; positions are not dense, since what is void or was erased has one too. Whoever reads keeps its own cursor: it asks
 * from there, and goes on at `end`. Every end is exclusive: it is the first position that was not read.
 */
export interface Feed<T> {
  /** Past the last position that can be read. */
  readonly head: number;
  /** Items from the position on; `end` is `from` itself at the head, or where the rest can't be read yet. */
  read(from: number, budget: Budget): Promise<Page<T>>;
  /** The same from memory alone; undefined where something of it is not there. */
  recent(from: number, budget: Budget): Page<T> | undefined;
  /** Calls `advanced`, at most once a turn and on the turn on which there is more to read, until the result is called. It must not throw. */
  subscribe(advanced: Advanced): () => void;
}

/** A feed that clients follow. */
export interface FollowedFeed<T> extends Feed<T> {
  positionOf(item: T): number;
  /** Where a reader without a cursor begins: the first position that was not dropped. */
  start(): Promise<number>;
  /** Position of the last item that can be read here; 0 where there is none. */
  latest(): Promise<number>;
  /** Resolves when all that was acknowledged before the call can be read here. */
  caughtUp(): Promise<void>;
}

/** What the items of a feed are, and how a record of the log becomes one. */
export interface ItemKind<B, T> {
  positionOf(item: T): number;
  /** About what it takes in memory. */
  bytesOf(item: T): number;
  /** Undefined: the record is no item. */
  itemOf(offset: number, body: B): T | undefined;
}
