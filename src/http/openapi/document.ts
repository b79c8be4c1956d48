import { MAX_WAIT_SECONDS } from '../waits.js';
import { INSPECTIONS, STATE_AT, STATE_AT_MEMBERS } from './inspections.js';
import { arrayOf, boolean, input, integer, object, ref, SCHEMAS, string, type Schema } from './schemas.js';

interface Operation {
  readonly summary: string;
  readonly tag: string;
  /** The status and body of success; undefined: no body, or one that isn't JSON. */
  readonly success: readonly [status: number, body: Schema | undefined];
  /** Another status of success. */
  readonly also?: readonly [status: number, body: Schema];
  readonly bodyOptional?: boolean;
  readonly query?: Readonly<Record<string, Schema>>;
  readonly body?: Schema;
  readonly form?: Schema;
  /** Statuses of problems besides those that every operation of its kind may answer. */
  readonly problems?: readonly number[];
  readonly key?: 'tenant' | 'admin' | 'none';
}

const paging = { limit: { type: 'integer', minimum: 1, maximum: 1000, default: 100 }, cursor: string };
const listOf = (name: string, item: Schema): Schema => object({ [name]: arrayOf(item), 'nextCursor?': string });
const upload = (fields: Readonly<Record<string, Schema>>): Schema => ({
  type: 'object',
  properties: {
    file: {
      type: 'string',
      contentMediaType: 'application/octet-stream',
      description: 'A zip of .cs files, or .cs files; in a field of any name.',
    },
    ...fields,
  },
});
const channel = { afterSequence: integer, key: string };
/** How long an answer may wait for what it starts. */
const waited = {
  waitSeconds: {
    type: 'integer',
    minimum: 0,
    maximum: MAX_WAIT_SECONDS,
    default: 0,
    description: 'How long the answer may wait: for a reducer to be compiled and bound, for a projection to be live.',
  },
};
const sent = { includeConflicts: { ...boolean, default: false } };

const { additionalProperties: _, ...stored } = SCHEMAS.AggregateState;
/** Members of a state folded for the question are there when one was asked. */
const STATE = {
  ...stored,
  properties: { ...(stored['properties'] as object), ...(object(STATE_AT_MEMBERS)['properties'] as object) },
  additionalProperties: false,
};

/** Every operation: `METHOD path`. */
const OPERATIONS: Readonly<Record<string, Operation>> = {
  'POST /events': {
    tag: 'Events',
    summary: 'Append one event',
    body: ref('Append'),
    query: sent,
    success: [201, ref('Appended')],
    problems: [409, 410],
  },
  'POST /events/batch': {
    tag: 'Events',
    summary: 'Append several events to one aggregate, all or none',
    body: ref('AppendBatch'),
    query: sent,
    success: [201, ref('BatchAppended')],
    problems: [409, 410],
  },
  'GET /events/{aggregateId}': {
    tag: 'Events',
    summary: 'List the events of an aggregate',
    query: {
      fromVersion: integer,
      toVersion: integer,
      limit: { type: 'integer', minimum: 1, maximum: 10_000, default: 1000 },
      direction: { enum: ['forward', 'backward'], default: 'forward' },
      include: {
        enum: ['metadata'],
        description: 'Adds aggregateType, and correlationId, causationId and metadata where they were sent.',
      },
    },
    success: [200, object({ events: arrayOf(ref('Event')), 'nextVersion?': integer, 'fault?': ref('Fault') })],
    problems: [404, 410],
  },
  'GET /aggregates': {
    tag: 'Aggregates',
    summary: 'List aggregates',
    query: { type: string, ...paging },
    success: [200, listOf('aggregates', ref('Aggregate'))],
  },
  'GET /aggregate-types': {
    tag: 'Aggregates',
    summary: 'List aggregate types and their bindings',
    query: paging,
    success: [200, listOf('aggregateTypes', ref('AggregateType'))],
  },
  'GET /aggregate-types/{type}': {
    tag: 'Aggregates',
    summary: 'The binding of an aggregate type',
    success: [200, ref('Binding')],
    problems: [404],
  },
  'GET /aggregate-types/{type}/history': {
    tag: 'Aggregates',
    summary: 'The bindings of an aggregate type, the newest first',
    success: [200, object({ aggregateType: string, generations: arrayOf(ref('Generation')) })],
    problems: [404],
  },
  'PUT /aggregate-types/{type}': {
    tag: 'Aggregates',
    summary: 'Bind a reducer to an aggregate type',
    body: input({ reducerId: string, 'className?': string }),
    success: [200, ref('Bound')],
    problems: [404, 422],
  },
  'GET /aggregate-types/{type}/{id}/state': {
    tag: 'Aggregates',
    summary: 'The state of an aggregate',
    query: STATE_AT,
    success: [200, STATE],
    problems: [404, 410, 422],
  },
  ...INSPECTIONS,
  'GET /aggregate-types/{type}/faults': {
    tag: 'Faults',
    summary: 'List the aggregates of a type that stand at an event on which the reducer threw',
    query: paging,
    success: [200, listOf('faults', ref('Fault'))],
  },
  'POST /aggregate-types/{type}/{id}/retry': {
    tag: 'Faults',
    summary: 'Run the event at which the aggregate stands again, and those after it',
    body: ref('FaultChoice'),
    bodyOptional: true,
    success: [200, ref('AggregateReleased')],
    problems: [404, 409],
  },
  'POST /aggregate-types/{type}/{id}/skip': {
    tag: 'Faults',
    summary: 'Pass the event at which the aggregate stands over, and go on',
    body: ref('FaultChoice'),
    bodyOptional: true,
    success: [200, ref('AggregateReleased')],
    problems: [404, 409],
  },
  'GET /reducers': {
    tag: 'Reducers',
    summary: 'List reducers',
    query: paging,
    success: [200, listOf('reducers', ref('Reducer'))],
  },
  'POST /reducers/upload': {
    tag: 'Reducers',
    summary: 'Upload the sources of reducers',
    form: upload({}),
    query: waited,
    success: [202, ref('ReducerUploaded')],
    problems: [404],
  },
  'DELETE /reducers/{id}': {
    tag: 'Reducers',
    summary: 'Delete a reducer that no type is bound to',
    success: [204, undefined],
    problems: [404, 409, 422],
  },
  'GET /reducers/{id}/status': {
    tag: 'Reducers',
    summary: 'A reducer and its compilation',
    success: [200, ref('Reducer')],
    problems: [404],
  },
  'POST /reducers/{id}/revive': {
    tag: 'Reducers',
    summary: 'Let code that was halted for its strikes run again, from where it was',
    success: [200, ref('Reducer')],
    problems: [404],
  },
  'GET /projections': {
    tag: 'Projections',
    summary: 'List projections',
    query: paging,
    success: [200, listOf('projections', ref('Projection'))],
  },
  'POST /projections/upload': {
    tag: 'Projections',
    summary: 'Upload the sources of a projection',
    query: waited,
    form: upload({ config: { type: 'string', contentMediaType: 'application/json' }, projectionId: string }),
    success: [202, ref('ProjectionUploaded')],
    problems: [404],
  },
  'PUT /projections/{id}/config': {
    tag: 'Projections',
    summary: 'Change the notifications of a projection, and no code',
    body: object({
      'webhook?': { oneOf: [object({ url: string, 'isolateSecret?': boolean }), { type: 'null' }] },
      'isolateSecret?': boolean,
      'sse?': boolean,
    }),
    success: [
      200,
      object({
        projectionId: string,
        notifications: object({
          webhook: object({ enabled: boolean, 'secret?': { type: 'string' }, 'isolated?': boolean }),
          sse: boolean,
        }),
      }),
    ],
    problems: [404],
  },
  'DELETE /projections/{id}': {
    tag: 'Projections',
    summary: 'Delete a projection',
    success: [204, undefined],
    problems: [404],
  },
  'GET /projections/{id}/status': {
    tag: 'Projections',
    summary: 'A projection and its compilation',
    success: [200, ref('Projection')],
    problems: [404],
  },
  'GET /projections/{id}/revisions': {
    tag: 'Projections',
    summary: 'The revisions of a projection, the newest first',
    success: [200, object({ projectionId: string, revisions: arrayOf(ref('Revision')) })],
    problems: [404],
  },
  'POST /projections/{id}/rollback': {
    tag: 'Projections',
    summary:
      'Make the code of an earlier revision the live one again: of the last other one that was live, unless one is named',
    body: input({ 'revision?': { type: 'integer', minimum: 1 } }),
    bodyOptional: true,
    success: [202, ref('RevisionChosen')],
    also: [200, ref('RevisionChosen')],
    problems: [404, 409, 422],
  },
  'POST /projections/{id}/rebuild': {
    tag: 'Projections',
    summary: 'Fold the live code again from the start, beside what is live',
    success: [202, ref('RevisionChosen')],
    problems: [404, 409],
  },
  'POST /projections/{id}/revive': {
    tag: 'Projections',
    summary: 'Let code that was halted for its strikes run again, from where it was',
    success: [202, ref('RevisionChosen')],
    also: [200, ref('RevisionChosen')],
    problems: [404, 409],
  },
  'DELETE /projections/{id}/build': {
    tag: 'Projections',
    summary: 'Call off the revision that is not live yet',
    success: [204, undefined],
    problems: [404, 409],
  },
  'GET /projections/{id}/states': {
    tag: 'Projections',
    summary: 'List the states of a projection',
    query: { prefix: string, ...paging },
    success: [200, listOf('states', ref('ProjectionState'))],
    problems: [404],
  },
  'GET /projections/{id}/states/{key}': {
    tag: 'Projections',
    summary: 'The states of one key, one a class',
    success: [200, object({ states: arrayOf(ref('ProjectionState')) })],
    problems: [404],
  },
  'GET /projections/{id}/faults': {
    tag: 'Faults',
    summary: 'List the keys of a projection that stand at an event on which the code threw',
    query: paging,
    success: [200, listOf('faults', ref('KeyFault'))],
    problems: [404],
  },
  'POST /projections/{id}/retry': {
    tag: 'Faults',
    summary: 'Run the events at which keys stand again, of one key or of all (up to 1,000)',
    body: ref('KeysFaultChoice'),
    bodyOptional: true,
    success: [200, ref('KeysReleased')],
    problems: [404, 409, 422],
  },
  'POST /projections/{id}/skip': {
    tag: 'Faults',
    summary: 'Pass the events at which keys stand over, of one key or of all (up to 1,000)',
    body: ref('KeysFaultChoice'),
    bodyOptional: true,
    success: [200, ref('KeysReleased')],
    problems: [404, 409],
  },
  'POST /projections/{id}/states/{key}/retry': {
    tag: 'Faults',
    summary: 'Run the event at which the key stands again, and those after it',
    body: ref('KeyFaultChoice'),
    bodyOptional: true,
    success: [200, ref('KeysReleased')],
    problems: [404, 409],
  },
  'POST /projections/{id}/states/{key}/skip': {
    tag: 'Faults',
    summary: 'Pass the event at which the key stands over, and go on',
    body: ref('KeyFaultChoice'),
    bodyOptional: true,
    success: [200, ref('KeysReleased')],
    problems: [404, 409],
  },
  'GET /projections/{id}/notifications': {
    tag: 'Notifications',
    summary: 'Poll for changes',
    query: {
      ...channel,
      limit: { type: 'integer', minimum: 1, maximum: 1000, default: 100 },
      waitSeconds: { type: 'integer', minimum: 0, maximum: 60, default: 0 },
    },
    success: [200, object({ notifications: arrayOf(ref('Notification')), 'cursor?': integer })],
    problems: [404, 410],
  },
  'GET /projections/{id}/sse': {
    tag: 'Notifications',
    summary: 'Follow changes as server-sent events',
    query: channel,
    success: [200, undefined],
    problems: [404, 410],
  },
  'GET /projections/{id}/stream': {
    tag: 'Notifications',
    summary: 'Follow changes over a WebSocket (an upgrade)',
    query: channel,
    success: [101, undefined],
    problems: [404, 410],
  },
  'POST /projections/{id}/webhook/rotate': {
    tag: 'Webhooks',
    summary: 'Rotate the webhook secret of an isolated projection',
    success: [200, object({ projectionId: string, webhook: object({ secret: string, isolated: { const: true } }) })],
    problems: [404],
  },
  'POST /webhooks/rotate': {
    tag: 'Webhooks',
    summary: 'Rotate the shared webhook secret of the tenant',
    success: [200, object({ webhook: object({ secret: string }) })],
  },
  'GET /auth/whoami': { tag: 'System', summary: 'The tenant of the API key', success: [200, ref('Tenant')] },
  'GET /health': {
    tag: 'System',
    summary: 'Whether the process answers',
    success: [200, object({ status: { const: 'ok' } })],
    key: 'none',
  },
  'GET /health/ready': {
    tag: 'System',
    summary: 'Whether the service can do its work',
    success: [
      200,
      object({
        status: { const: 'ready' },
        checks: { type: 'object', additionalProperties: { enum: ['up', 'degraded', 'down'] } },
      }),
    ],
    key: 'none',
  },
  'GET /openapi.json': {
    tag: 'System',
    summary: 'This document',
    success: [200, { type: 'object', required: ['openapi'] }],
    key: 'none',
  },
  'GET /asyncapi.json': {
    tag: 'System',
    summary: 'The channels of notification, in AsyncAPI',
    success: [200, { type: 'object', required: ['asyncapi'] }],
    key: 'none',
  },
  'GET /metrics': {
    tag: 'System',
    summary: 'Metrics in the text format of Prometheus',
    success: [200, undefined],
    key: 'admin',
  },
  'GET /admin/tenants': {
    tag: 'Admin',
    summary: 'List tenants',
    query: paging,
    success: [200, listOf('tenants', ref('Tenant'))],
    key: 'admin',
  },
  'POST /admin/tenants': {
    tag: 'Admin',
    summary: 'Create a tenant with a key',
    body: input({ 'name?': string, 'tenantId?': string, 'partitions?': integer }),
    success: [201, ref('NewTenant')],
    problems: [409],
    key: 'admin',
  },
  'GET /admin/tenants/{id}': {
    tag: 'Admin',
    summary: 'A tenant',
    success: [200, ref('Tenant')],
    problems: [404],
    key: 'admin',
  },
  'DELETE /admin/tenants/{id}': {
    tag: 'Admin',
    summary: 'Delete a tenant and all it has',
    success: [204, undefined],
    problems: [404],
    key: 'admin',
  },
  'GET /admin/tenants/{id}/keys': {
    tag: 'Admin',
    summary: 'List the keys of a tenant',
    query: paging,
    success: [200, listOf('keys', ref('Key'))],
    problems: [404],
    key: 'admin',
  },
  'POST /admin/tenants/{id}/keys': {
    tag: 'Admin',
    summary: 'Create a key',
    success: [201, ref('NewKey')],
    problems: [404],
    key: 'admin',
  },
  'DELETE /admin/tenants/{id}/keys/{keyId}': {
    tag: 'Admin',
    summary: 'Revoke a key',
    success: [204, undefined],
    problems: [404],
    key: 'admin',
  },
  'GET /admin/read-store': {
    tag: 'Admin',
    summary: 'How to connect to the read store',
    success: [200, ref('ReadStoreAccess')],
    key: 'admin',
  },
  'POST /admin/read-store/rebuild': {
    tag: 'Admin',
    summary: 'Rebuild the read store from the log, of one tenant or of all',
    query: { tenantId: string },
    problems: [404],
    success: [202, object({ status: { const: 'rebuilding' } })],
    key: 'admin',
  },
};

/** The OpenAPI 3.1 document of the service, the one source of `/openapi.json` and of the tests that check answers. */
export function openapiDocument(): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const [name, operation] of Object.entries(OPERATIONS)) {
    const [method = '', path = ''] = name.split(' ');
    (paths[path] ??= {})[method.toLowerCase()] = operationObject(method, path, operation);
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Statefold', version: '0.1.0', description: 'Event store with computed state.' },
    paths,
    components: {
      schemas: SCHEMAS,
      securitySchemes: {
        tenant: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
        admin: { type: 'apiKey', in: 'header', name: 'X-Admin-Key' },
      },
    },
  };
}

function operationObject(method: string, path: string, operation: Operation): object {
  const { key = 'tenant', body, form, query = {} } = operation;
  const parameters: object[] = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: string,
  }));
  for (const [name, schema] of Object.entries(query)) parameters.push({ name, in: 'query', required: false, schema });
  if (path.startsWith('/events') && method === 'POST') {
    parameters.push({
      name: 'Idempotency-Key',
      in: 'header',
      required: false,
      schema: { type: 'string', minLength: 1, maxLength: 255 },
    });
  }
  const content =
    body !== undefined
      ? { 'application/json': { schema: body } }
      : form !== undefined
        ? { 'multipart/form-data': { schema: form } }
        : undefined;
  return {
    tags: [operation.tag],
    summary: operation.summary,
    security: key === 'none' ? [] : [{ [key]: [] }],
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(content === undefined ? {} : { requestBody: { required: operation.bodyOptional !== true, content } }),
    responses: responses(operation, key, content !== undefined),
  };
}

function responses(
  { success: [status, schema], also, problems = [] }: Operation,
  key: string,
  hasBody: boolean,
): object {
  const statuses = new Set([
    400,
    500,
    503,
    ...problems,
    ...(key === 'none' ? [] : [401]),
    ...(key === 'tenant' ? [429] : []),
    ...(hasBody ? [413, 415] : []),
  ]);
  const all: Record<string, object> = {
    [status]: { description: 'Done', ...(schema === undefined ? {} : { content: { 'application/json': { schema } } }) },
  };
  if (also !== undefined) all[also[0]] = { description: 'Done', content: { 'application/json': { schema: also[1] } } };
  for (const code of [...statuses].sort())
    all[code] = { description: 'Refused', content: { 'application/problem+json': { schema: ref('Problem') } } };
  return all;
}
