import type { Transport } from './transport.js';
import type { FeedErasure, FeedEvent, Notification, Operations } from './wire.js';

/** Ways to what a subscription follows, the liveliest first. `ndjson` is of the feed alone. */
export type Channel = 'websocket' | 'sse' | 'ndjson' | 'poll';

/** What a subscription follows: where it is, and how its items are told. */
export interface Followed<T extends object> {
  /** Paths of its channels; one that it hasn't is left out. */
  readonly paths: Readonly<Partial<Record<Channel, string>> & { poll: string }>;
  readonly filters: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** The parameter to resume with. */
  readonly cursor: string;
  /** What an item is called among the messages of a stream. */
  readonly type: string;
  readonly placeOf: (item: T) => number;
  /** It is a state that is told first: its place is none to go on from. */
  readonly isSnapshot?: (item: T) => boolean;
  /** What is in a page, and how far that goes; undefined: as far as its last item. */
  readonly pageOf: (answer: unknown) => {
    readonly items: readonly (T | FeedErasure)[];
    readonly reached: number | undefined;
  };
  /** The newest place, where the service tells it. */
  readonly newest?: (transport: Transport, signal: AbortSignal) => Promise<number | undefined>;
}

/** The changes of a projection, of one of its keys or more. */
export const changesOf = (
  projectionId: string,
  key: string | readonly string[] | undefined,
): Followed<Notification> => {
  const path = `/projections/${encodeURIComponent(projectionId)}`;
  return {
    paths: { websocket: `${path}/stream`, sse: `${path}/sse`, poll: `${path}/notifications` },
    filters: { key },
    cursor: 'afterSequence',
    type: 'state_changed',
    placeOf: ({ sequence }) => sequence,
    isSnapshot: ({ cause }) => cause === 'snapshot',
    pageOf: (answer) => {
      const { notifications, cursor } = answer as Operations['pollNotifications']['answer'];
      return { items: notifications, reached: cursor };
    },
    // Past all that there are, so that none is read.
    newest: newestOf(
      `${path}/notifications?limit=1&afterSequence=${Number.MAX_SAFE_INTEGER - 1}`,
      'statefold-sequence',
    ),
  };
};

/** Events that are wanted: of one of the values of each name. */
export interface FeedFilters {
  readonly aggregateType?: string | readonly string[] | undefined;
  readonly eventType?: string | readonly string[] | undefined;
  readonly aggregateId?: string | readonly string[] | undefined;
}

/** All events of the tenant that pass the filters. */
export const eventsOf = ({ aggregateType, eventType, aggregateId }: FeedFilters): Followed<FeedEvent> => ({
  paths: { websocket: '/feed/stream', sse: '/feed/sse', ndjson: '/feed', poll: '/feed' },
  filters: { aggregateType, eventType, aggregateId },
  cursor: 'after',
  type: 'event',
  placeOf: ({ position }) => position,
  pageOf: (answer) => {
    const { events, position } = answer as Operations['readFeed']['answer'];
    return { items: events, reached: position };
  },
  newest: newestOf('/feed?limit=1', 'statefold-position'),
});

/** The newest place, as a header of the answer tells it; a service of before may not. */
function newestOf(path: string, header: string): NonNullable<Followed<never>['newest']> {
  return async (transport, signal) => {
    const { headers } = await transport.send({ method: 'GET', path, key: 'tenant', repeatable: true, signal });
    const place = Number(headers.get(header) ?? Number.NaN);
    return Number.isSafeInteger(place) ? place : undefined;
  };
}
