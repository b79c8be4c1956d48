import { z } from 'zod';
import { ERROR_CODES } from '../../core/errors.js';
import { faultForClients } from '../../core/event.js';
import { MAX_AGGREGATE_ID } from '../../core/names.js';
import { APPEND_QUERY, APPENDING } from '../append-route.js';
import { Append, AppendBatch, BulkLine, Transaction } from '../append-schema.js';
import { json, ndjson } from '../bodies.js';
import { BULK_QUERY, BULK_TYPE } from '../bulk/bulk-route.js';
import { eventJson } from '../event-json.js';
import { JsonWriter } from '../json-writer.js';
import { described, integerFrom, oneOf, only, requireName } from '../parameters.js';
import { memoryOf, turnsOf } from '../request-memory.js';
import {
  aggregateId,
  aggregateType,
  component,
  Event,
  expectedVersion,
  Fault,
  integer,
  state,
  text,
  timestamp,
  version,
} from '../schema.js';
import { route } from './dependencies.js';

const DEFAULT_EVENTS = 1_000;
const MAX_EVENTS = 10_000;

const made = {
  state: state.optional(),
  stateStatus: z
    .enum(['deadline', 'faulted', 'superseded', 'unavailable'])
    .describe('Why there is no state although a reducer is bound.')
    .optional(),
};
export const Appended = component(
  'Appended',
  z.strictObject({ eventId: text, aggregateId, aggregateType, version, timestamp, ...made }),
);
export type Appended = z.infer<typeof Appended>;
export const BatchAppended = component(
  'BatchAppended',
  z.strictObject({
    aggregateId,
    aggregateType,
    startVersion: version,
    endVersion: version,
    eventIds: z.array(text),
    timestamp,
    ...made,
  }),
);
export type BatchAppended = z.infer<typeof BatchAppended>;

/** Of an append; its handler reads them itself, before the express router. */
const appending = {
  servedBy: 'appended',
  credentials: 'tenant',
  scope: APPENDING,
  query: APPEND_QUERY,
  strictQuery: true,
  headers: { 'Idempotency-Key': { type: 'string', minLength: 1, maxLength: 255 } },
  answerHeaders: {
    'Statefold-Position': {
      type: 'integer',
      minimum: 1,
      description:
        'Where the last event is in the feed, for waitFor. Of a tenant of several partitions it is left out where it was not known in time.',
    },
  },
  errors: [
    'AGGREGATE_TYPE_MISMATCH',
    'GONE',
    'IDEMPOTENCY_KEY_REUSED',
    'QUOTA_EXCEEDED',
    'SCHEMA_VIOLATION',
    'VERSION_CONFLICT',
  ],
} as const;

const appendEvent = route({
  method: 'POST',
  path: '/events',
  operationId: 'appendEvent',
  tag: 'Events',
  summary: 'Append one event',
  ...appending,
  body: json(Append, {
    aggregateId: 'order-1001',
    eventType: 'OrderPlaced',
    data: { total: 42.5 },
    expectedVersion: 0,
    correlationId: 'checkout-7',
  }),
  answers: { 201: Appended },
  serve: ({ append }, { request, response, requestId }) => append(request, response, requestId, 'single'),
});

const appendBatch = route({
  method: 'POST',
  path: '/events/batch',
  operationId: 'appendBatch',
  tag: 'Events',
  summary: 'Append several events to one aggregate, all or none',
  ...appending,
  body: json(AppendBatch, {
    aggregateId: 'order-1001',
    events: [
      { eventType: 'ItemAdded', data: { sku: 'A-1', quantity: 2 } },
      { eventType: 'OrderPaid', data: { amount: 42.5 } },
    ],
    expectedVersion: 1,
  }),
  answers: { 201: BatchAppended },
  serve: ({ append }, { request, response, requestId }) => append(request, response, requestId, 'batch'),
});

export const TransactionAppended = component(
  'TransactionAppended',
  z.strictObject({
    position: version
      .describe('Of the last event in the feed, as the header Statefold-Position has it; left out as the header is.')
      .optional(),
    timestamp,
    appends: z
      .array(
        z.strictObject({
          aggregateId,
          aggregateType,
          startVersion: version,
          endVersion: version,
          eventIds: z.array(text),
          ...made,
        }),
      )
      .describe('In the order of the request.'),
  }),
);
export type TransactionAppended = z.infer<typeof TransactionAppended>;

const appendTransaction = route({
  method: 'POST',
  path: '/events/transaction',
  operationId: 'appendTransaction',
  tag: 'Events',
  summary: 'Append events to several aggregates, all or none',
  ...appending,
  query: {},
  body: json(Transaction, {
    appends: [
      {
        aggregateId: 'account-ann',
        expectedVersion: 'exists',
        events: [{ eventType: 'TransferSent', data: { transferId: 't-7', cents: 500 } }],
      },
      {
        aggregateId: 'account-bob',
        events: [{ eventType: 'TransferReceived', data: { transferId: 't-7', cents: 500 } }],
      },
    ],
    correlationId: 'transfer-t-7',
  }),
  answers: { 201: TransactionAppended },
  errors: [...appending.errors, 'CROSS_PARTITION'],
  serve: ({ append }, { request, response, requestId }) => append(request, response, requestId, 'transaction'),
});

const BulkAppended = component(
  'BulkAppended',
  z.strictObject({
    line: version,
    status: z.literal(201),
    eventId: text,
    aggregateId,
    version,
    timestamp,
    position: version.describe('Of the event in the feed, as the header Statefold-Position has it.').optional(),
    ...made,
  }),
);
const BulkRefused = component(
  'BulkRefused',
  z
    .object({
      line: version,
      status: z.int().min(400).max(599),
      code: z.enum(ERROR_CODES),
      detail: text,
      pointer: text.describe('RFC 6901: the first place in the line that is wrong.').optional(),
      retryable: z.literal(true).optional(),
      expectedVersion: expectedVersion.optional(),
      currentVersion: integer.optional(),
    })
    .loose(),
);
/** A line of the answer. */
export const BulkAnswer = component('BulkAnswer', z.union([BulkAppended, BulkRefused]));
export type BulkAnswer = z.infer<typeof BulkAnswer>;

const appendBulk = route({
  method: 'POST',
  path: '/events/bulk',
  operationId: 'appendBulk',
  tag: 'Events',
  summary: 'Append any number of events, line by line, each on its own',
  servedBy: 'appended',
  credentials: 'tenant',
  scope: APPENDING,
  lasting: true,
  query: { state: described(BULK_QUERY.state, 'Adds the state of each line, where a reducer is bound.') },
  strictQuery: true,
  body: ndjson(BulkLine, {
    aggregateId: 'order-1001',
    eventType: 'ItemAdded',
    data: { sku: 'A-1', quantity: 2 },
    idempotencyKey: 'import-7-1',
  }),
  answers: { 200: { media: BULK_TYPE, lines: BulkAnswer } },
  serve: ({ bulk }, { request, response, requestId }) => bulk.serve(request, response, requestId),
});

const listEvents = route({
  method: 'GET',
  path: '/events/{aggregateId}',
  operationId: 'listEvents',
  tag: 'Events',
  summary: 'List the events of an aggregate',
  servedBy: { aggregate: 'aggregateId' },
  credentials: 'tenant',
  scope: 'read',
  query: {
    fromVersion: integerFrom(0),
    toVersion: integerFrom(0),
    limit: integerFrom(1, MAX_EVENTS, DEFAULT_EVENTS),
    direction: oneOf('forward', 'backward', 'forward'),
    include: described(
      only('metadata'),
      'Adds aggregateType, and correlationId, causationId and metadata where they were sent.',
    ),
  },
  answers: {
    200: z.strictObject({ events: z.array(Event), nextVersion: integer.optional(), fault: Fault.optional() }),
  },
  errors: ['GONE', 'NOT_FOUND'],
  serve: async ({ tenants }, call) => {
    const aggregateId = requireName(call.parameter('aggregateId'), 'aggregateId', MAX_AGGREGATE_ID);
    const { include, ...asked } = call.query();
    await memoryOf(call.request)?.pageOf(call.response);
    const turn = turnsOf(call);
    const page = await (await tenants.home(call.tenantId, aggregateId)).events({ aggregateId, ...asked, turn });
    const writer = new JsonWriter().text('{"events":[');
    await writer.listOnTurns(page.events, turn, (event) => eventJson(writer, event, include === 'metadata'));
    writer.text(']');
    if (page.nextVersion !== undefined) writer.member('nextVersion', page.nextVersion);
    if (page.fault !== undefined) writer.member('fault', faultForClients(page.fault));
    call.answer(200, writer.text('}').endInParts());
  },
});

/** "batch" is an aggregate id as any other, at a path that has a route of its own. */
const listEventsOfBatch = {
  ...listEvents,
  path: '/events/batch',
  operationId: 'listEventsOfBatch',
  parameters: { aggregateId: 'batch' },
  described: false,
} as const;

/** So is "bulk". */
const listEventsOfBulk = {
  ...listEvents,
  path: '/events/bulk',
  operationId: 'listEventsOfBulk',
  parameters: { aggregateId: 'bulk' },
  described: false,
} as const;

/** So is "transaction". */
const listEventsOfTransaction = {
  ...listEvents,
  path: '/events/transaction',
  operationId: 'listEventsOfTransaction',
  parameters: { aggregateId: 'transaction' },
  described: false,
} as const;

export const EVENTS = [
  appendEvent,
  appendBatch,
  appendTransaction,
  appendBulk,
  listEvents,
  listEventsOfBatch,
  listEventsOfTransaction,
  listEventsOfBulk,
];
