import { z } from 'zod';
import type { EventTypeSummary } from '../../aggregates/aggregates.js';
import type { EventTypeEntity } from '../../catalog/catalog.js';
import { compareKeys } from '../../core/compare-keys.js';
import { StatefoldError } from '../../core/errors.js';
import { isoTimestamp } from '../../core/event.js';
import { MAX_EVENT_TYPE } from '../../core/names.js';
import type { SchemaCheck } from '../../event-schemas/event-type-service.js';
import { KEYWORDS, MAX_SCHEMA_BYTES } from '../../event-schemas/json-schema.js';
import { json } from '../bodies.js';
import { unknownMember } from '../nearest-name.js';
import { described, flag, integerFrom, paging, requireName } from '../parameters.js';
import { toldErrors } from '../problem.js';
import { answerList, memoryOfLists, pastIn } from '../list-answer.js';
import { idOfCursor } from '../records.js';
import { turnsOf } from '../request-memory.js';
import { aggregateId, anyObject, component, eventType, integer, text, timestamp, version } from '../schema.js';
import { route } from './dependencies.js';

// Types of events: what there is of each, and the schemas that their data must fit.

const jsonSchema = z.union([anyObject, z.boolean()]).describe('A JSON Schema (2020-12).');
const members = {
  eventType,
  aggregateTypes: z.array(text).describe('Of the aggregates that have such events; the first 50 of them.'),
  events: integer,
  firstSeen: timestamp.describe('Of its first event; absent while it has none.').optional(),
  lastSeen: timestamp.optional(),
  schemaVersion: version
    .describe('Counts the schemas that were put; absent where its data may be anything.')
    .optional(),
};
export const EventType = component('EventType', z.strictObject(members));
export type EventType = z.infer<typeof EventType>;
const EventTypeWithSchema = component(
  'EventTypeWithSchema',
  z.strictObject({ ...members, schema: jsonSchema.optional(), schemaChangedAt: timestamp.optional() }),
);
const place = z.strictObject({ pointer: text, message: text });
export const EventSchemaCheck = component(
  'EventSchemaCheck',
  z.strictObject({
    eventType,
    schemaVersion: version.describe('Absent of a check that changes nothing.').optional(),
    schemaChangedAt: timestamp.optional(),
    checked: integer.describe('Stored events of the type that were looked at.'),
    unfit: integer.describe('Those among them that do not fit the schema. They stay as they are.'),
    examples: z
      .array(z.strictObject({ aggregateId, version, eventId: text, timestamp, errors: z.array(place) }))
      .describe('The first ten of them.'),
    complete: z.boolean().describe('All stored events of the type were looked at.'),
    cut: text.describe('Why not, and how far it got.').optional(),
    ignored: z
      .array(place)
      .describe(
        'Keywords in the schema that JSON Schema does not know: they check nothing. The first 20, and how many more there are.',
      ),
  }),
);
export type EventSchemaCheck = z.infer<typeof EventSchemaCheck>;

const Put = z.object({
  schema: z
    .unknown()
    .refine(
      (value) => typeof value === 'boolean' || (typeof value === 'object' && value !== null && !Array.isArray(value)),
      'must be a JSON Schema: an object, or true or false',
    )
    .describe('A JSON Schema (2020-12) that the data of each event of the type must fit.'),
});

interface Told {
  readonly id: string;
  readonly value: { readonly count?: EventTypeSummary; readonly entity: EventTypeEntity | undefined };
}

const common = { tag: 'Events', servedBy: 'owner', credentials: 'tenant' } as const;

const listEventTypes = route({
  ...common,
  method: 'GET',
  path: '/event-types',
  operationId: 'listEventTypes',
  summary: 'List the types of events, with their numbers',
  scope: 'read',
  query: { ...paging, limit: integerFrom(1, 1_000, 1_000) },
  answers: {
    200: z.strictObject({
      eventTypes: z.array(EventType),
      otherEvents: integer
        .describe('Events of types that are not counted each, since there were very many types before theirs.')
        .optional(),
      nextCursor: text.optional(),
    }),
  },
  serve: async ({ tenants, eventTypes }, call) => {
    await memoryOfLists(call, tenants.partitionsOf(call.tenantId));
    const query = call.query();
    const after = idOfCursor(query.cursor);
    const turn = turnsOf(call);
    const { aggregates } = await tenants.open(call.tenantId);
    const { eventTypes: counted, others, upTo } = await aggregates.eventTypes({ after, limit: query.limit, turn });
    const told = new Map<string, Told>();
    for (const entity of eventTypes.list(call.tenantId))
      if (upTo === undefined || compareKeys(entity.eventType, upTo) <= 0)
        told.set(entity.eventType, { id: entity.eventType, value: { entity } });
    for (const count of counted) {
      const { eventType: id } = count;
      told.set(id, { id, value: { count, entity: eventTypes.get(call.tenantId, id) } });
    }
    const past = pastIn([...told.values()]);
    return answerList(call, query, {
      name: 'eventTypes',
      past,
      isCut: upTo !== undefined,
      recordOf: ({ count, entity }) => record(count, entity),
      further: { otherEvents: others === 0 ? undefined : others },
    });
  },
});

const getEventType = route({
  ...common,
  method: 'GET',
  path: '/event-types/{type}',
  operationId: 'getEventType',
  summary: 'A type of events, with its schema',
  scope: 'read',
  ofCatalog: true,
  answers: { 200: EventTypeWithSchema },
  errors: ['NOT_FOUND'],
  serve: async ({ tenants, eventTypes }, call) => {
    const eventType = requireName(call.parameter('type'), 'eventType', MAX_EVENT_TYPE);
    const entity = eventTypes.get(call.tenantId, eventType);
    const { aggregates } = await tenants.open(call.tenantId);
    const count = await aggregates.eventType(eventType);
    if (entity === undefined && count === undefined)
      throw new StatefoldError('NOT_FOUND', `there is no event of type '${eventType}', and no schema for it`);
    call.answer(200, {
      ...record(count, entity, eventType),
      schema: entity && (JSON.parse(entity.schema) as unknown),
      schemaChangedAt: entity?.changedAt,
    });
  },
});

const setEventSchema = route({
  ...common,
  method: 'PUT',
  path: '/event-types/{type}',
  operationId: 'setEventSchema',
  summary: 'Hold the events of a type to a schema, and tell which stored ones would not fit',
  scope: 'deploy',
  query: { check: described(flag, 'Tells what it would say of the stored events, and changes nothing.') },
  // A misspelt check would change what was only to be looked at.
  strictQuery: true,
  body: json(
    Put,
    {
      schema: {
        type: 'object',
        required: ['total'],
        properties: { total: { type: 'number', minimum: 0 }, note: { type: 'string', maxLength: 200 } },
        additionalProperties: false,
      },
    },
    // Of a schema its bytes are the limit, and each value has one at least.
    MAX_SCHEMA_BYTES,
  ),
  answers: { 200: EventSchemaCheck },
  errors: ['QUOTA_EXCEEDED'],
  serve: async ({ eventTypes }, call) => {
    const eventType = requireName(call.parameter('type'), 'eventType', MAX_EVENT_TYPE);
    const { check } = call.query();
    const { schema } = await call.body();
    if (check)
      return call.answer(200, checkRecord(eventType, await eventTypes.check(call.tenantId, eventType, schema)));
    const put = await eventTypes.put(call.tenantId, eventType, schema);
    call.answer(200, checkRecord(eventType, put.check, put.entity));
  },
});

const deleteEventSchema = route({
  ...common,
  method: 'DELETE',
  path: '/event-types/{type}',
  operationId: 'deleteEventSchema',
  summary: 'End the schema of a type: its events may be anything again',
  scope: 'deploy',
  ofCatalog: true,
  answers: { 204: null },
  errors: ['NOT_FOUND'],
  serve: async ({ eventTypes }, call) => {
    await eventTypes.remove(call.tenantId, requireName(call.parameter('type'), 'eventType', MAX_EVENT_TYPE));
    call.done();
  },
});

/** For another process, which has changed what appends are held to. */
const ownerKnows = route({
  method: 'POST',
  path: '/admin/tenants/{id}/partitions/{partition}/knows',
  operationId: 'ownerKnows',
  tag: 'Admin',
  summary: 'Answers when this process, as the owner of the partition, knows what the catalog has',
  described: false,
  servedBy: 'any',
  credentials: 'admin',
  answers: { 204: null },
  serve: async ({ knows }, call) => {
    const partition = Number(call.parameter('partition'));
    if (!Number.isSafeInteger(partition)) throw new StatefoldError('NOT_FOUND', 'there is no such partition');
    await knows(call.parameter('id'), partition);
    call.done();
  },
});

const record = (
  count: EventTypeSummary | undefined,
  entity: EventTypeEntity | undefined,
  eventType = count?.eventType ?? entity?.eventType,
): object => ({
  eventType,
  aggregateTypes: count?.aggregateTypes ?? [],
  events: count?.events ?? 0,
  firstSeen: count && isoTimestamp(count.firstSeen),
  lastSeen: count && isoTimestamp(count.lastSeen),
  schemaVersion: entity?.schemaVersion,
});

const checkRecord = (
  eventType: string,
  { checked, unfit, examples, complete, cut, ignored, ignoredCount }: SchemaCheck,
  entity?: EventTypeEntity,
): object => ({
  eventType,
  schemaVersion: entity?.schemaVersion,
  schemaChangedAt: entity?.changedAt,
  ...{ checked, unfit, examples, complete, cut },
  ignored: toldErrors(
    ignored.map(({ pointer, keyword }) => ({
      pointer,
      message: unknownMember(keyword, KEYWORDS, 'keyword of JSON Schema 2020-12').replace(
        /; the known ones are .*/,
        '',
      ),
    })),
    ignoredCount,
  ),
});

export const EVENT_TYPES = [listEventTypes, getEventType, setEventSchema, deleteEventSchema, ownerKnows];
