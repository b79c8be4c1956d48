import { z } from 'zod';
import { StatefoldError } from '../../core/errors.js';
import { MAX_STATE_KEY, isName } from '../../core/names.js';
import { json } from '../bodies.js';
import { requireProjection } from '../../catalog/require.js';
import { component, text, timestamp } from '../schema.js';
import { plainPath } from '../tickets.js';
import { route } from './dependencies.js';

// Tickets, which open one stream in place of the API key: for browsers, whose WebSocket and EventSource send no headers.

const MOST_KEYS = 100;
const USUAL_SECONDS = 60;
const MOST_SECONDS = 300;

const stateKey = z
  .string('must be a state key')
  .refine(
    (key) => isName(key, MAX_STATE_KEY),
    `must have 1 to ${MAX_STATE_KEY} characters, none of them a control character`,
  )
  .meta({ minLength: 1, maxLength: MAX_STATE_KEY });
const seconds = `must be a whole number of seconds from 1 to ${MOST_SECONDS}`;

const CreateTicket = z.object({
  path: z
    .string('must be the path of a stream, for instance /projections/{id}/stream')
    .describe('Of the stream: /projections/{id}/stream, /projections/{id}/sse, /feed/stream or /feed/sse.'),
  key: z
    .union([stateKey, z.array(stateKey).min(1, 'must name a key').max(MOST_KEYS, `may name ${MOST_KEYS} keys`)])
    .describe('Of a projection: the state keys that may be followed; all, unless given.')
    .optional(),
  expiresInSeconds: z
    .int(seconds)
    .min(1, seconds)
    .max(MOST_SECONDS, seconds)
    .describe(`How long it opens the stream, ${USUAL_SECONDS} unless given. What is open then stays open.`)
    .optional(),
});

export const Ticket = component('Ticket', z.strictObject({ ticket: text, expiresAt: timestamp }));
export type Ticket = z.infer<typeof Ticket>;

const createTicket = route({
  method: 'POST',
  path: '/auth/tickets',
  operationId: 'createTicket',
  tag: 'Notifications',
  summary: 'Make a ticket that opens one stream in place of the API key',
  servedBy: 'any',
  credentials: 'tenant',
  scope: 'read',
  body: json(CreateTicket, { path: '/feed/stream' }),
  answers: { 201: Ticket },
  errors: ['NOT_FOUND'],
  serve: async ({ admission, catalog, ticketed }, call) => {
    const { path: given, key, expiresInSeconds = USUAL_SECONDS } = await call.body();
    const path = plainPath(given);
    const stream = path === undefined ? undefined : ticketed(path);
    if (path === undefined || stream === undefined)
      throw new StatefoldError(
        'INVALID_REQUEST',
        '/path must be the path of a stream without its query: /projections/{id}/stream, /projections/{id}/sse, /feed/stream or /feed/sse.',
      );
    if (stream.projectionId !== undefined) requireProjection(catalog, call.tenantId, stream.projectionId);
    else if (key !== undefined)
      throw new StatefoldError(
        'INVALID_REQUEST',
        '/key is for streams of projections: events of the feed have no state key.',
      );
    const keyEnds = catalog.get('key', call.keyId)?.value.expiresAt;
    const expiresAt = Math.min(
      Date.now() + expiresInSeconds * 1000,
      keyEnds === undefined ? Infinity : Date.parse(keyEnds),
    );
    const ticket = admission.tickets.issue({
      tenantId: call.tenantId,
      keyId: call.keyId,
      path,
      expiresAt,
      ...(key !== undefined && { keys: typeof key === 'string' ? [key] : key }),
    });
    call.response.setHeader('Cache-Control', 'no-store');
    call.answer(201, { ticket, expiresAt: new Date(expiresAt).toISOString() });
  },
});

export const TICKETS = [createTicket];
