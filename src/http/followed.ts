import type { CatalogChange } from '../catalog/catalog.js';
import type { RecordBytes } from '../feed/record-bytes.js';
import type { FollowedFeed } from '../feed/feed.js';
import type { Polled } from '../feed/poll.js';
import type { Source } from '../feed/tenant-feeds.js';

/** A feed as a client follows it, by whichever channel: a route's entry says what it is, the channels know of no feed by name. */
export interface Followed<T> {
  readonly source: Source<T>;
  /** The bytes of an item on each channel. */
  readonly encode: (item: T) => RecordBytes;
  /** Items that the client doesn't want are passed over; undefined: it wants all. */
  readonly wanted: ((item: T) => boolean) | undefined;
  /** Asked before anything is sent, more than once. @throws StatefoldError where the tenant may not follow it, NOT_FOUND where it has none such. */
  guard(tenantId: string): void;
  /** Streams of it end with the change: whoever follows connects again, and is answered by the guard. */
  endedBy?(change: CatalogChange): boolean;
  readonly words: FollowedWords;
  /** What a poll's answer tells besides its items: how far it came, under a name. */
  readonly told?: (polled: Polled) => readonly [name: string, position: number];
  /** Streams tell now and then how far they are, also past items that the client does not want. */
  readonly tellsPosition?: true;
}

/** What clients are told of the feed. */
export interface FollowedWords {
  /** The member of a poll's answer that holds the items. */
  readonly items: string;
  /** The query parameter to resume with. */
  readonly cursor: string;
  /** Why a WebSocket is closed: what was followed is no more. */
  readonly gone: string;
  /** Why a WebSocket is closed: what lies behind the cursor is kept no longer. */
  readonly expired: string;
}

/**
 * Where a stream begins that was asked for what comes after `after`; undefined: for what comes from now on, without anything that was
 * answered before. @throws StatefoldError CURSOR_EXPIRED, which shows only in a read, and is worth an answer in HTTP
 */
export async function firstOf<T>(feed: FollowedFeed<T>, after: number | undefined): Promise<number> {
  if (after === undefined) {
    await feed.caughtUp();
    return (await feed.latest()) + 1;
  }
  await feed.read(after + 1, { items: 1 });
  return after + 1;
}

/** What a channel is asked for. */
export interface FollowQuery<T> {
  readonly followed: Followed<T>;
  /** The last position that the client has. Undefined: a poll begins at the oldest that is kept, a stream is live only. */
  readonly after: number | undefined;
}
