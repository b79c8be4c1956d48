import { z } from 'zod';
import type { Catalog } from '../../catalog/catalog.js';
import type { Change } from '../../core/change.js';
import { StatefoldError } from '../../core/errors.js';
import { MAX_STATE_KEY } from '../../core/names.js';
import { notificationBytes, snapshotBytes, snapshotEndBytes } from '../../feed/notification-record.js';
import type { Polled } from '../../feed/poll.js';
import { changesOf } from '../../feed/sources.js';
import type { Before, Followed } from '../followed.js';
import { described, flag, integerFrom, nameUpTo, repeated, TICKET, type Values } from '../parameters.js';
import { WAIT_FOR } from '../position-waits.js';
import { requireProjection } from '../../catalog/require.js';
import { aggregateId, aggregateType, component, integer, state, text, timestamp, version } from '../schema.js';
import { EVENT_STREAM } from '../sse/event-streams.js';
import { route, type RouteDependencies } from './dependencies.js';

/** Most that a poll may wait. */
const MAX_WAIT_SECONDS = 60;

export const Notification = component(
  'Notification',
  z.strictObject({
    sequence: version,
    projectionId: text,
    className: text,
    key: text,
    aggregateId,
    aggregateType,
    version,
    state,
    timestamp,
    eventId: text,
    cause: z
      .enum(['build', 'redeploy', 'rollback', 'rebuild', 'revive', 'retry', 'skip', 'snapshot'])
      .describe('Absent for a live event; snapshot: a state that a stream with snapshot=true tells first.')
      .optional(),
  }),
);
export type Notification = z.infer<typeof Notification>;

type Keys = ReadonlySet<string> | undefined;

/** The last sequence that the client has, which may be past the newest; and the state keys to which the changes are limited. */
const cursorAndKeys = {
  afterSequence: integerFrom(0),
  key: described(repeated(nameUpTo(MAX_STATE_KEY)), 'Only changes of these state keys.'),
};

/** What streams take besides. */
const streamed = {
  ...cursorAndKeys,
  snapshot: described(flag, 'The current states come first, then what changes. Not with afterSequence.'),
  ticket: TICKET,
};

/** The changes of a projection, of some state keys where they are given. */
const changes = (catalog: Pick<Catalog, 'get'>, projectionId: string, keys: Keys): Followed<Change> => ({
  source: changesOf(projectionId),
  encode: notificationBytes,
  newest: 'Statefold-Sequence',
  // A client whose keys are rare would read what lies between again with every poll, and each time it connects.
  ...(keys === undefined
    ? { wanted: undefined }
    : {
        wanted: ({ key }) => keys.has(key),
        told: ({ end }: Polled) => ['cursor', end - 1] as const,
        tellsPosition: true,
      }),
  guard: (tenantId) => void requireProjection(catalog, tenantId, projectionId),
  words: {
    items: 'notifications',
    cursor: 'afterSequence',
    gone: 'the projection was deleted',
    expired: 'changes past the cursor are no longer kept: start from the states',
  },
});

/** The states first, for streams that ask for them: of the tenant's owner, who alone has them. */
const statesFirst = (
  tenants: RouteDependencies['tenants'],
  projectionId: string,
  { snapshot, afterSequence, key: keys }: Values<typeof streamed>,
): Before<Change> | undefined => {
  if (!snapshot) return undefined;
  if (afterSequence !== undefined)
    throw new StatefoldError(
      'INVALID_REQUEST',
      'snapshot=true tells the states of now and goes on behind them, so afterSequence must be left out; to resume, leave out snapshot',
    );
  return {
    open: async (tenantId, signal) => {
      const { projections } = await tenants.open(tenantId);
      return projections.snapshot({ projectionId, keys, signal });
    },
    encode: snapshotBytes,
    end: (sequence) => snapshotEndBytes({ sequence }),
  };
};

/** The same for as long as the projection's configuration has `sse`. */
const withSse = (catalog: Pick<Catalog, 'get'>, projectionId: string, keys: Keys): Followed<Change> => ({
  ...changes(catalog, projectionId, keys),
  guard: (tenantId) => {
    if (!requireProjection(catalog, tenantId, projectionId).sse)
      throw new StatefoldError(
        'SSE_DISABLED',
        'this projection was uploaded without "sse": true in its notification configuration',
      );
  },
  endedBy: (change) => change.kind === 'projection' && change.id === projectionId && change.value?.sse === false,
});

const common = {
  method: 'GET',
  tag: 'Notifications',
  servedBy: 'notifier',
  credentials: 'tenant',
  scope: 'read',
  ofCatalog: true,
} as const;

const pollNotifications = route({
  ...common,
  path: '/projections/{id}/notifications',
  operationId: 'pollNotifications',
  summary: 'Poll for changes',
  lasting: true,
  // A standby does not know of events without a change that they were folded.
  ownerWith: 'waitFor',
  query: {
    ...cursorAndKeys,
    limit: integerFrom(1, 1_000, 100),
    waitSeconds: described(
      integerFrom(0, MAX_WAIT_SECONDS),
      'How long to wait for a change where there is none. With waitFor (then up to 30): how long to wait for that, 5 unless it is given.',
    ),
    waitFor: WAIT_FOR.waitFor,
  },
  answers: { 200: z.strictObject({ notifications: z.array(Notification), cursor: integer.optional() }) },
  answerHeaders: {
    'Statefold-Sequence': {
      type: 'integer',
      minimum: 0,
      description:
        'The newest sequence there is, whatever the answer holds; 0 where there is none. What comes from now on is behind it.',
    },
  },
  errors: ['CURSOR_EXPIRED', 'NOT_CAUGHT_UP', 'NOT_FOUND'],
  serve: async ({ channels, catalog, tenants }, call) => {
    const { afterSequence: after, limit, key, waitSeconds, waitFor } = call.query();
    const { projectionId } = requireProjection(catalog, call.tenantId, call.parameter('id'));
    if (waitFor !== undefined) {
      const { projections } = await tenants.open(call.tenantId);
      await channels.positionWaits.projection(call, projections, projectionId, { waitFor, waitSeconds });
    }
    const longPollSeconds = waitFor === undefined ? (waitSeconds ?? 0) : 0;
    await channels.polling.answer(
      call,
      { followed: changes(catalog, projectionId, key), after, limit },
      longPollSeconds,
    );
  },
});

const followByEvents = route({
  ...common,
  path: '/projections/{id}/sse',
  operationId: 'followByEvents',
  summary: 'Follow changes as server-sent events',
  lasting: true,
  tickets: true,
  // A standby lacks states that no change of it tells.
  ownerWith: 'snapshot',
  query: streamed,
  headers: { 'Last-Event-ID': { type: 'integer', minimum: 0 } },
  answers: { 200: { media: EVENT_STREAM } },
  errors: ['CURSOR_EXPIRED', 'NOT_FOUND', 'SSE_DISABLED'],
  serve: ({ channels, catalog, tenants }, call) =>
    channels.events.answer(call, () => {
      const [id, query] = [call.parameter('id'), call.query()];
      const before = statesFirst(tenants, id, query);
      return { followed: withSse(catalog, id, query.key), after: query.afterSequence, before };
    }),
});

const followByWebSocket = route({
  ...common,
  path: '/projections/{id}/stream',
  operationId: 'followByWebSocket',
  summary: 'Follow changes over a WebSocket (an upgrade)',
  tickets: true,
  // A standby lacks states that no change of it tells.
  ownerWith: 'snapshot',
  query: streamed,
  answers: { 101: null },
  errors: ['CURSOR_EXPIRED', 'NOT_FOUND'],
  serve: ({ catalog }, call) => {
    requireProjection(catalog, call.tenantId, call.parameter('id'));
    throw new StatefoldError(
      'INVALID_REQUEST',
      'this path speaks WebSocket only: connect with an upgrade, or use /sse or /notifications',
    );
  },
  upgrade: ({ channels, catalog, tenants }, upgrade) =>
    channels.sockets.take(upgrade, () => {
      const [id, query] = [upgrade.parameter('id'), upgrade.query()];
      const before = statesFirst(tenants, id, query);
      return { followed: changes(catalog, id, query.key), after: query.afterSequence, before };
    }),
});

const getAsyncApi = route({
  method: 'GET',
  path: '/asyncapi.json',
  operationId: 'getAsyncApi',
  tag: 'System',
  summary: 'The channels of notification, in AsyncAPI',
  servedBy: 'any',
  credentials: 'none',
  answers: { 200: z.object({ asyncapi: z.string() }).loose() },
  serve: ({ channels }, call) => call.answer(200, channels.description),
});

export const NOTIFICATIONS = [pollNotifications, followByEvents, followByWebSocket, getAsyncApi];
