import type { Span } from '../../core/tracing.js';

/** A record that the owner wants to write. */
export interface Draft<B> {
  readonly body: B;
  /** The record's key is this, then `#` and the id of the attempt: no two records share a key. */
  readonly keyPrefix: string;
  /** Of what waits for it. */
  readonly span?: Span | undefined;
}

/** A record as the fold found it. */
export interface Folded<B> {
  readonly offset: number;
  readonly body: B;
  readonly accepted: boolean;
}

/** What a fenced partition carries: its pure rules and what is to be done with each record. */
export interface PartitionHandler<B> {
  /** Pure on what was folded so far: does the body count at this place? Asked only for the current epoch and owner. */
  judge(body: B, offset: number): boolean;
  /** Called for every record of ours but claims, in log order, once. `draft` when this process wrote it and still waits for it. */
  fold(record: Folded<B>, draft: Draft<B> | undefined): void;
  /** How many of the drafts are encoded, or folded, in one turn at most, from the index on; as many as there is time for without it. */
  atOnce?(step: 'encoded' | 'folded', drafts: readonly Draft<B>[], first: number): number;
  /** It stands before the first claim that retention left, and so counts for nobody as a record; called before all others. */
  trimmed?(body: B): void;
  /** The fold begins at this offset, since all before it was dropped; called before any record from there on. */
  anchored?(start: number): void;
  /** All up to this offset is folded next; undefined: it is. Nothing is asked of the partition between. */
  restoring?(end: number | undefined): void;
  /**
   * Asked before much is folded that others wrote: resolves when there is room for what the fold keeps; false when there is none in
   * time, or nobody wants it any more. Undefined: there is room.
   */
  untilRoom?(wanted: () => boolean): Promise<boolean> | undefined;
  /**
   * The partition is idle and ours, or shared: what to write next, in one produce; none when nothing waits. About `most` bytes, where the
   * log refused more at once, or what can't be parted.
   */
  gather(most: number): Draft<B>[];
  /** They are on their way into the log. If nothing of others lies between, the first of them will have this offset, and they count. */
  underWay?(drafts: readonly Draft<B>[], offset: number): void;
  /** Not accepted, and never will be: each is to be decided again. */
  undecided(drafts: readonly Draft<B>[]): void;
  /**
   * Certainly not written: the log takes nothing now (a full disk, say). Those that are to be tried again are handed out by the next
   * `gather`, which comes after a pause that grows; the first refusal is logged, and that the log takes writes again.
   */
  refused(drafts: readonly Draft<B>[], error: Error): void;
  /** Only of a shared partition: the log can't be reached, so it is not known whether they were written. They are not followed up. */
  unknown?(drafts: readonly Draft<B>[], error: Error): void;
  /**
   * The partition is not ours any more, or broken; nothing more is folded. Of the drafts some may have been written, or folded
   * already, unless the error is a NotOwnerError: then none was, nor will be.
   */
  stopped(error: Error, drafts: readonly Draft<B>[]): void;
}
