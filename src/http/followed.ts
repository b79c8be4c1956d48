import type { CatalogChange } from '../catalog/catalog.js';
import type { NotificationBytes } from '../feed/notification-record.js';
import type { Source } from '../feed/tenant-feeds.js';

/** A feed as a client follows it, by whichever channel: a route's entry says what it is, the channels know of no feed by name. */
export interface Followed<T> {
  readonly source: Source<T>;
  /** The bytes of an item on each channel. */
  readonly encode: (item: T) => NotificationBytes;
  /** Items that the client doesn't want are passed over; undefined: it wants all. */
  readonly wanted: ((item: T) => boolean) | undefined;
  /** Asked before anything is sent, more than once. @throws StatefoldError where the tenant may not follow it, NOT_FOUND where it has none such. */
  guard(tenantId: string): void;
  /** Streams of it end with the change: whoever follows connects again, and is answered by the guard. */
  endedBy?(change: CatalogChange): boolean;
  readonly words: FollowedWords;
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

/** What a channel is asked for. */
export interface FollowQuery<T> {
  readonly followed: Followed<T>;
  /** The last position that the client has. Undefined: a poll begins at the oldest that is kept, a stream is live only. */
  readonly after: number | undefined;
}
