import { z } from 'zod';
import { StatefoldError } from '../../core/errors.js';
import { MAX_STATE_KEY } from '../../core/names.js';
import { integerFrom, nameUpTo } from '../parameters.js';
import { requireProjection } from '../require-projection.js';
import { aggregateId, aggregateType, component, integer, state, text, timestamp, version } from '../schema.js';
import { EVENT_STREAM } from '../sse/event-streams.js';
import { route } from './dependencies.js';

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
    cause: z.enum(['build', 'redeploy', 'rollback', 'rebuild', 'revive', 'retry', 'skip']).optional(),
  }),
);
export type Notification = z.infer<typeof Notification>;

/** The last sequence that the client has, which may be past the newest; and the state key to which the changes are limited. */
const followed = { afterSequence: integerFrom(0), key: nameUpTo(MAX_STATE_KEY) };

const common = {
  method: 'GET',
  tag: 'Notifications',
  servedBy: 'notifier',
  credentials: 'tenant',
  ofCatalog: true,
} as const;

const pollNotifications = route({
  ...common,
  path: '/projections/{id}/notifications',
  operationId: 'pollNotifications',
  summary: 'Poll for changes',
  lasting: true,
  query: { ...followed, limit: integerFrom(1, 1_000, 100), waitSeconds: integerFrom(0, MAX_WAIT_SECONDS, 0) },
  answers: { 200: z.strictObject({ notifications: z.array(Notification), cursor: integer.optional() }) },
  errors: ['CURSOR_EXPIRED', 'NOT_FOUND'],
  serve: ({ channels }, call) => {
    const { afterSequence: after, limit, key, waitSeconds } = call.query();
    return channels.polling.answer(call, { projectionId: call.parameter('id'), after, limit, key }, waitSeconds);
  },
});

const followByEvents = route({
  ...common,
  path: '/projections/{id}/sse',
  operationId: 'followByEvents',
  summary: 'Follow changes as server-sent events',
  lasting: true,
  query: followed,
  headers: { 'Last-Event-ID': { type: 'integer', minimum: 0 } },
  answers: { 200: { media: EVENT_STREAM } },
  errors: ['CURSOR_EXPIRED', 'NOT_FOUND', 'SSE_DISABLED'],
  serve: ({ channels }, call) =>
    channels.events.answer(call, () => {
      const { afterSequence: after, key } = call.query();
      return { projectionId: call.parameter('id'), after, key };
    }),
});

const followByWebSocket = route({
  ...common,
  path: '/projections/{id}/stream',
  operationId: 'followByWebSocket',
  summary: 'Follow changes over a WebSocket (an upgrade)',
  query: followed,
  answers: { 101: null },
  errors: ['CURSOR_EXPIRED', 'NOT_FOUND'],
  serve: ({ catalog }, call) => {
    requireProjection(catalog, call.tenantId, call.parameter('id'));
    throw new StatefoldError(
      'INVALID_REQUEST',
      'this path speaks WebSocket only: connect with an upgrade, or use /sse or /notifications',
    );
  },
  upgrade: ({ channels }, upgrade) =>
    channels.sockets.take(upgrade, () => {
      const { afterSequence: after, key } = upgrade.query();
      return { projectionId: upgrade.parameter('id'), after, key };
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
