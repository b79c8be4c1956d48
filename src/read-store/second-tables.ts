import type { SinkStream } from './read-store.js';

/**
 * ```
 * (none) ─ make ─► preparing ─ mark ─► filling ─ mark ─► swapping ─ exchange … ─► (none)
 *                      ▲                  │
 *                      └──── mark ◄───────┘ (more is to be filled)
 * any ─ drop ─► (none)
 * ```
 * It stands in the store, so that whoever starts after a crash goes on with it.
 */
export type RebuildPhase = 'preparing' | 'filling' | 'swapping';

/** A rebuild that is under way. */
export interface RebuildRecord {
  /** Milliseconds since the epoch. */
  readonly since: number;
  readonly phase: RebuildPhase;
  /** Whose rows are filled from the log, among those of all others as they are; undefined: everyone's are. */
  readonly tenantIds?: readonly string[] | undefined;
}

/** A stream of which the live tables have more than the second set. */
export interface Lagging {
  readonly tenantId: string;
  readonly incarnation: string | undefined;
  readonly stream: SinkStream;
}

/**
 * A second set of the tables, which a rebuild fills beside the live ones and puts in their place. One process works on it at a time,
 * and each of its steps may be asked for again. All reject with StatefoldError UNAVAILABLE while the engine is away.
 */
export interface SecondTables {
  /**
   * The rebuild that the tables tell of, whoever began it; undefined: there is none, or tables of it are gone. Tables of an earlier version
   * are to be made anew: it is being prepared.
   */
  find(): Promise<RebuildRecord | undefined>;
  /** Drops what is there of a set, and makes an empty one. */
  make(record: RebuildRecord): Promise<void>;
  /** Durable when it resolves. */
  mark(record: RebuildRecord): Promise<void>;
  /**
   * Puts the live rows and watermarks of some tenants, or of all but some, in the place of what the set has of them. Nobody writes
   * rows of those tenants meanwhile, to either. When the signal is aborted it rejects, and the set may have some of them.
   */
  copy(
    whose: { readonly of: readonly string[] } | { readonly butOf: readonly string[] },
    signal?: AbortSignal,
  ): Promise<void>;
  /** By watermarks. */
  lagging(): Promise<readonly Lagging[]>;
  /**
   * Puts one more table in the place of the live one, in one step for who reads it, the watermarks last. To be called until there is
   * none left before anything is written: until then some live tables are the new ones, and some the former.
   * @returns whether one was left
   */
  exchange(): Promise<boolean>;
  /** Drops what is there of a set that is not, or no longer, on its way. Statements that read the tables come to their end. */
  drop(): Promise<void>;
  /** Nothing more is asked; what is under way is given up. */
  close(): Promise<void>;
}
