import { z } from 'zod';
import { MAX_AGGREGATE_ID, MAX_EVENT_TYPE } from '../../core/names.js';
import { StatefoldError } from '../../core/errors.js';
import { cloudEventBytes } from '../../feed/cloud-event.js';
import { eventBytes, writeEventLine } from '../../feed/event-record.js';
import { isErasure, isEvent, type FeedItem } from '../../feed/feed-item.js';
import { ALL_EVENTS } from '../../feed/sources.js';
import type { Followed } from '../followed.js';
import {
  aggregateTypeName,
  described,
  flag,
  integerFrom,
  nameUpTo,
  repeated,
  TICKET,
  type Values,
} from '../parameters.js';
import { WAIT_FOR } from '../position-waits.js';
import {
  aggregateId,
  aggregateType,
  anyObject,
  component,
  context,
  eventType,
  integer,
  text,
  timestamp,
  version,
} from '../schema.js';
import { CLOUD_EVENTS, EVENT_STREAM, NDJSON } from '../sse/event-streams.js';
import { route } from './dependencies.js';

/** Most that a poll may wait. */
const MAX_WAIT_SECONDS = 30;
const MAX_EVENTS = 1_000;
const USUAL_EVENTS = 100;

export const FeedEvent = component(
  'FeedEvent',
  z.strictObject({
    position: version.describe('Its place in the feed: ascending, with gaps, and the same for ever.'),
    eventId: text,
    aggregateId,
    aggregateType,
    eventType,
    data: anyObject,
    version,
    timestamp,
    ...context,
  }),
);
export type FeedEvent = z.infer<typeof FeedEvent>;

export const FeedErasure = component(
  'FeedErasure',
  z.strictObject({
    type: z
      .literal('erased')
      .describe('The aggregate was erased: its events are in the feed no more. Erase your copies of them.'),
    position: version.describe('Its place in the feed, as that of an event.'),
    aggregateId,
    aggregateType,
    timestamp,
    reason: text.optional(),
  }),
);
export type FeedErasure = z.infer<typeof FeedErasure>;

/** The last position that the client has, which may be past the newest; and which events it wants: one of each kind that is named. */
const cursorAndFilters = {
  after: described(integerFrom(0), 'The last position that the client has; 0 is before the first event.'),
  aggregateType: repeated(aggregateTypeName),
  eventType: repeated(nameUpTo(MAX_EVENT_TYPE)),
  aggregateId: repeated(nameUpTo(MAX_AGGREGATE_ID)),
};
type Filters = Omit<Values<typeof cursorAndFilters>, 'after'>;

function wantedBy({ aggregateType, eventType, aggregateId }: Filters): Followed<FeedItem>['wanted'] {
  if (aggregateType === undefined && eventType === undefined && aggregateId === undefined) return undefined;
  return (event) =>
    aggregateType?.has(event.aggregateType) !== false &&
    // Who chose some types of events may have copies of an aggregate that was erased.
    (isErasure(event) || eventType?.has(event.eventType) !== false) &&
    aggregateId?.has(event.aggregateId) !== false;
}

/** The events of the tenant that the filters let pass. */
const events = (filters: Filters): Followed<FeedItem> => ({
  source: ALL_EVENTS,
  encode: eventBytes,
  writeLine: writeEventLine,
  wanted: wantedBy(filters),
  // Every tenant has it.
  guard: () => undefined,
  told: ({ reached }) => ['position', reached],
  tellsPosition: true,
  newest: 'Statefold-Position',
  words: { items: 'events', cursor: 'after', gone: 'the tenant was deleted', expired: 'events are kept for ever' },
});

/** The same as CloudEvents. An erasure is no event: what was erased is not among them, and that is all that is said. */
function cloudEvents(tenantId: string, { writeLine: _, ...followed }: Followed<FeedItem>): Followed<FeedItem> {
  const encode = cloudEventBytes(tenantId);
  return {
    ...followed,
    encode: (item) => (isEvent(item) ? encode(item) : eventBytes(item)),
    wanted: (item) => isEvent(item) && followed.wanted?.(item) !== false,
  };
}

const common = {
  method: 'GET',
  tag: 'Feed',
  servedBy: 'notifier',
  credentials: 'tenant',
  scope: 'read',
  strictQuery: true,
} as const;

const mistaken = (message: string): StatefoldError => new StatefoldError('INVALID_REQUEST', message);

const readFeed = route({
  ...common,
  path: '/feed',
  operationId: 'readFeed',
  summary: 'All events of the tenant, in its one order: by pages, or as lines of JSON',
  lasting: true,
  headers: {
    Accept: {
      type: 'string',
      description: `${NDJSON}: one event a line, all that there are. ${CLOUD_EVENTS}: the same as CloudEvents 1.0.`,
    },
  },
  query: {
    ...cursorAndFilters,
    limit: described(integerFrom(1, MAX_EVENTS), `Most events of a page, ${USUAL_EVENTS} unless it is given.`),
    waitSeconds: described(
      integerFrom(0, MAX_WAIT_SECONDS),
      'How long to wait for an event where there is none. With waitFor: how long to wait for that, 5 unless it is given.',
    ),
    waitFor: WAIT_FOR.waitFor,
    follow: described(flag, `With Accept: ${NDJSON} or ${CLOUD_EVENTS}: the lines go on with what comes.`),
  },
  answers: {
    200: z.strictObject({
      events: z.array(z.union([FeedEvent, FeedErasure])),
      position: integer.describe('Where to go on: past the last event that was read, also if the filters left it out.'),
    }),
  },
  answerHeaders: {
    'Statefold-Position': {
      type: 'integer',
      minimum: 0,
      description:
        'Of a page: the position of the newest event there is, whatever the page holds; 0 where there is none.',
    },
  },
  orAs: [NDJSON, CLOUD_EVENTS],
  errors: ['NOT_CAUGHT_UP'],
  serve: async ({ channels }, call) => {
    const { after, limit, waitSeconds, waitFor, follow, ...filters } = call.query();
    const followed = events(filters);
    const lines = linesOf(call.request.headers.accept);
    if (lines !== undefined) {
      if (limit !== undefined) throw mistaken(`limit is for pages: ${lines} has all there is`);
      if (waitSeconds !== undefined && waitFor === undefined)
        throw mistaken(`waitSeconds is for pages, and for waitFor: with ${lines}, follow=true goes on with what comes`);
      await channels.positionWaits.event(call, { waitFor, waitSeconds });
      return lines === NDJSON
        ? channels.events.lines(call, { followed, after }, follow)
        : channels.events.cloudEvents(call, { followed: cloudEvents(call.tenantId, followed), after }, follow);
    }
    if (follow) throw mistaken(`follow=true needs the header Accept: ${NDJSON}, or ${CLOUD_EVENTS}`);
    await channels.positionWaits.event(call, { waitFor, waitSeconds });
    const longPollSeconds = waitFor === undefined ? (waitSeconds ?? 0) : 0;
    return channels.polling.answer(call, { followed, after, limit: limit ?? USUAL_EVENTS }, longPollSeconds);
  },
});

const followFeedByEvents = route({
  ...common,
  path: '/feed/sse',
  operationId: 'followFeedByEvents',
  summary: 'Follow all events of the tenant as server-sent events',
  lasting: true,
  tickets: true,
  query: { ...cursorAndFilters, ticket: TICKET },
  headers: { 'Last-Event-ID': { type: 'integer', minimum: 0 } },
  answers: { 200: { media: EVENT_STREAM } },
  serve: ({ channels }, call) =>
    channels.events.answer(call, () => {
      const { after, ticket: _, ...filters } = call.query();
      return { followed: events(filters), after };
    }),
});

const followFeedByWebSocket = route({
  ...common,
  path: '/feed/stream',
  operationId: 'followFeedByWebSocket',
  summary: 'Follow all events of the tenant over a WebSocket (an upgrade)',
  tickets: true,
  query: { ...cursorAndFilters, ticket: TICKET },
  answers: { 101: null },
  serve: () => {
    throw mistaken('this path speaks WebSocket only: connect with an upgrade, or use /sse beside it, or /feed');
  },
  upgrade: ({ channels }, upgrade) =>
    channels.sockets.take(upgrade, () => {
      const { after, ticket: _, ...filters } = upgrade.query();
      return { followed: events(filters), after };
    }),
});

/** The lines that the client asks for by name, the first where it names both; for anything else it is answered a page. */
function linesOf(accept = ''): typeof NDJSON | typeof CLOUD_EVENTS | undefined {
  for (const range of accept.split(',')) {
    const media = range.split(';')[0]?.trim().toLowerCase();
    if (media === NDJSON || media === CLOUD_EVENTS) return media;
  }
  return undefined;
}

export const FEED = [readFeed, followFeedByEvents, followFeedByWebSocket];
