import type { CatalogChange } from '../catalog/catalog.js';
import type { RecordBytes } from '../feed/record-bytes.js';
import type { FollowedFeed } from '../feed/feed.js';
import type { LineBuffer } from '../feed/line-buffer.js';
import type { FeedHub } from '../feed/hub.js';
import { PrefacedSubscription, type Preface, type PrefacedSubscriber } from '../feed/prefaced-subscription.js';
import type { Subscriber, Subscription } from '../feed/subscription.js';
import type { Polled } from '../feed/poll.js';
import type { Source } from '../feed/tenant-feeds.js';
import type { InTime } from './deadlines.js';

/** A feed as a client follows it, by whichever channel: a route's entry says what it is, the channels know of no feed by name. */
export interface Followed<T> {
  readonly source: Source<T>;
  /** The bytes of an item on each channel. */
  readonly encode: (item: T) => RecordBytes;
  /** Writes the line of an item, the same bytes as `encode` gives, where it is for a single reader. False: it goes to many, and is to be encoded. */
  readonly writeLine?: (item: T, lines: LineBuffer) => boolean;
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
  /** The header in which a poll's answer tells the newest place there is: a sequence is another number than a position of the feed. */
  readonly newest: 'Statefold-Position' | 'Statefold-Sequence';
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
async function firstOf<T>(feed: FollowedFeed<T>, after: number | undefined, inTime: InTime): Promise<number> {
  if (after === undefined) {
    await inTime(feed.caughtUp());
    return (await feed.latest()) + 1;
  }
  // One item shows it: the rest is read in turns, by the subscription.
  await feed.read(after + 1, { items: 1, bytes: 1 });
  return after + 1;
}

/** What a stream tells before the feed that it follows. */
export interface Before<T> {
  /** @throws StatefoldError where it can't be told here */
  open(tenantId: string, signal: AbortSignal): Promise<Preface<T>>;
  /** The bytes of an item of it on each channel. */
  readonly encode: (item: T) => RecordBytes;
  /** The word that it is over, and up to which position it holds. */
  readonly end: (position: number) => RecordBytes;
}

/** What a channel is asked for. */
export interface FollowQuery<T> {
  readonly followed: Followed<T>;
  /** The last position that the client has. Undefined: a poll begins at the oldest that is kept, a stream is live only. */
  readonly after: number | undefined;
  /** Of a stream without `after`: told first. */
  readonly before?: Before<T> | undefined;
}

/** Where a stream begins: at a position, or with a preface whose end tells it. */
export interface Beginning<T> {
  readonly from: number | undefined;
  readonly preface: { readonly pages: Preface<T>; readonly left: AbortController } | undefined;
}

/** @throws StatefoldError as `firstOf`, or where what comes before the feed can't be told here */
export async function beginningOf<T>(
  tenantId: string,
  feed: FollowedFeed<T>,
  { after, before }: FollowQuery<T>,
  inTime: InTime,
): Promise<Beginning<T>> {
  if (before === undefined) return { from: await firstOf(feed, after, inTime), preface: undefined };
  const left = new AbortController();
  return { from: undefined, preface: { pages: await before.open(tenantId, left.signal), left } };
}

/** A subscription that is not started yet. */
export function subscribe<T>(
  hub: FeedHub,
  tenantId: string,
  { source, wanted }: Followed<T>,
  { from, preface }: Beginning<T>,
  subscriber: Subscriber<T> & PrefacedSubscriber<T>,
): Subscription {
  const live = hub.subscribe({ tenantId, source, from, wanted }, subscriber);
  return preface === undefined ? live : new PrefacedSubscription(live, preface.pages, subscriber, preface.left);
}
