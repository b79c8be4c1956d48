import { ERROR_CODES } from '../../core/errors.js';

/** A JSON Schema (2020-12), as OpenAPI 3.1 has them. */
export type Schema = { readonly [keyword: string]: unknown };

export const ref = (name: keyof typeof SCHEMAS): Schema => ({ $ref: `#/components/schemas/${name}` });
export const string: Schema = { type: 'string' };
export const integer: Schema = { type: 'integer', minimum: 0 };
export const boolean: Schema = { type: 'boolean' };
export const arrayOf = (items: Schema): Schema => ({ type: 'array', items });
/** Names that end in `?` are optional; every other one is required, and no further ones are given. */
export function object(properties: Readonly<Record<string, Schema>>): Schema {
  const entries = Object.entries(properties);
  return {
    type: 'object',
    required: entries.map(([name]) => name).filter((name) => !name.endsWith('?')),
    properties: Object.fromEntries(entries.map(([name, schema]) => [name.replace('?', ''), schema])),
    additionalProperties: false,
  };
}
/** The same for a request: members that aren't known are passed over. */
export const input = (properties: Readonly<Record<string, Schema>>): Schema => ({
  ...object(properties),
  additionalProperties: true,
});

const anyObject: Schema = { type: 'object' };
const state: Schema = {
  description:
    'What the reducer or projection made of the events: shaped by its own state type; null when it gave none.',
};
const timestamp: Schema = {
  type: 'string',
  pattern: '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z$',
  description: 'ISO 8601, UTC, with milliseconds',
};
const aggregateId: Schema = { type: 'string', minLength: 1, maxLength: 256 };
const aggregateType: Schema = { type: 'string', pattern: '^[A-Za-z0-9_.-]{1,128}$' };
const eventType: Schema = { type: 'string', minLength: 1, maxLength: 256 };
const version: Schema = { type: 'integer', minimum: 1 };
const secret: Schema = { type: 'string', description: 'A signing secret of Standard Webhooks.' };
const correlation = {
  'correlationId?': { type: 'string', minLength: 1, maxLength: 256 },
  'causationId?': { type: 'string', minLength: 1, maxLength: 256 },
  'metadata?': anyObject,
};
const expectedVersion: Schema = {
  oneOf: [integer, { enum: ['any', 'none', 'exists'] }],
  description: 'The version the aggregate must be at; 0: it must not exist.',
};
const stateStatus: Schema = {
  enum: ['deadline', 'faulted', 'superseded', 'unavailable'],
  description: 'Why there is no state although a reducer is bound.',
};

const compiled = {
  'discovered?': { type: 'array', items: { $ref: '#/components/schemas/Discovered' } },
  'compilationError?': string,
  'diagnostics?': { type: 'array', items: { $ref: '#/components/schemas/Diagnostic' } },
  createdAt: timestamp,
  'compiledAt?': timestamp,
};

/** Of an upload that was waited for. */
const notCompiled = {
  'compilationError?': string,
  'diagnostics?': { type: 'array', items: { $ref: '#/components/schemas/Diagnostic' } },
};

const catchUp = {
  status: { enum: ['running', 'done', 'failed'] },
  processed: integer,
  total: integer,
  eventsPerSecond: { type: 'number', minimum: 0 },
};
const swapCause: Schema = { enum: ['build', 'redeploy', 'rollback', 'rebuild', 'revive'] };
const faulted: Schema = object({
  'revision?': { ...version, description: 'Of a projection.' },
  at: timestamp,
  strikes: integer,
  'className?': string,
  'message?': string,
});

const fault = {
  eventId: string,
  aggregateId,
  version,
  'eventType?': string,
  className: string,
  message: string,
  file: { type: ['string', 'null'], description: 'Of the uploaded sources, where the code threw.' },
  line: { type: ['integer', 'null'] },
  at: timestamp,
  'stopped?': {
    const: true,
    description: 'The process of the code was stopped, or ended, on the event: a retry may do better.',
  },
};

export const SCHEMAS = {
  Event: object({ eventId: string, aggregateId, eventType, data: anyObject, version, timestamp }),
  Append: input({
    aggregateId,
    eventType,
    data: anyObject,
    'aggregateType?': aggregateType,
    'expectedVersion?': expectedVersion,
    ...correlation,
  }),
  AppendBatch: input({
    aggregateId,
    events: { type: 'array', minItems: 1, items: input({ eventType, data: anyObject }) },
    'aggregateType?': aggregateType,
    'expectedVersion?': expectedVersion,
    ...correlation,
  }),
  Appended: object({
    eventId: string,
    aggregateId,
    aggregateType,
    version,
    timestamp,
    'state?': state,
    'stateStatus?': stateStatus,
  }),
  BatchAppended: object({
    aggregateId,
    aggregateType,
    startVersion: version,
    endVersion: version,
    eventIds: arrayOf(string),
    timestamp,
    'state?': state,
    'stateStatus?': stateStatus,
  }),
  Fault: object(fault),
  KeyFault: object({ key: string, ...fault }),
  FaultChoice: input({ 'eventId?': string, 'version?': version }),
  KeyFaultChoice: input({ 'eventId?': string, 'version?': version, 'className?': string }),
  KeysFaultChoice: input({ 'key?': string, 'eventId?': string, 'version?': version, 'className?': string }),
  AggregateReleased: object({
    aggregateId,
    aggregateType,
    outcome: { enum: ['released', 'faulted', 'pending'] },
    version: { ...integer, description: 'Of the state now.' },
    events: { ...integer, description: 'By which the state came further, those that were passed over too.' },
    'fault?': { $ref: '#/components/schemas/Fault' },
  }),
  KeysReleased: object({
    projectionId: string,
    keys: arrayOf(
      object({
        key: string,
        className: string,
        outcome: { enum: ['released', 'faulted', 'superseded', 'pending'] },
        changes: { ...integer, description: 'Of the state, that were told.' },
        'fault?': { $ref: '#/components/schemas/Fault' },
      }),
    ),
  }),
  Aggregate: object({ aggregateId, aggregateType, version, lastModified: timestamp }),
  AggregateState: object({
    aggregateId,
    aggregateType,
    version: integer,
    state,
    lastModified: timestamp,
    'fault?': { $ref: '#/components/schemas/Fault' },
    'stateStatus?': stateStatus,
  }),
  CatchUp: object(catchUp),
  Binding: object({
    aggregateType,
    reducerId: string,
    className: string,
    boundAt: timestamp,
    'faulted?': faulted,
    'catchUp?': { $ref: '#/components/schemas/CatchUp' },
    faultCount: integer,
  }),
  Generation: object({
    generation: version,
    reducerId: string,
    className: string,
    boundAt: timestamp,
    status: {
      enum: ['bound', 'kept', 'gone'],
      description: 'kept: states of its code are there, so that it takes no fold from the start to bind it again.',
    },
  }),
  Bound: object({ aggregateType, reducerId: string, className: string, boundAt: timestamp, message: string }),
  AggregateType: object({
    aggregateType,
    aggregates: integer,
    'reducerId?': string,
    'className?': string,
    'boundAt?': timestamp,
    'catchUp?': { $ref: '#/components/schemas/CatchUp' },
    'faulted?': faulted,
  }),
  Discovered: object({
    className: string,
    stateTypeName: string,
    kind: { enum: ['reducer', 'projection'] },
    'aggregateType?': aggregateType,
  }),
  Diagnostic: object({
    severity: { enum: ['error', 'warning'] },
    code: string,
    message: string,
    file: { type: ['string', 'null'] },
    line: { type: ['integer', 'null'] },
    column: { type: ['integer', 'null'] },
  }),
  Reducer: object({
    id: string,
    status: { enum: ['pending_compilation', 'compiled', 'failed'] },
    kind: { const: 'reducer' },
    ...compiled,
    'unboundTypes?': arrayOf(object({ aggregateType, classNames: arrayOf(string), reason: string })),
    'faulted?': faulted,
  }),
  Projection: object({
    id: string,
    status: { enum: ['compiling', 'compiled', 'failed'] },
    kind: { const: 'projection' },
    ...compiled,
    revision: integer,
    sse: boolean,
    'webhook?': object({ url: string, isolated: boolean, 'disabledAt?': timestamp }),
    'cancelledAt?': timestamp,
    'live?': object({ revision: version, artefactId: string }),
    'build?': object({ ...catchUp, revision: version, cause: swapCause }),
    'faulted?': faulted,
    'faults?': arrayOf({ $ref: '#/components/schemas/KeyFault' }),
    'faultCount?': integer,
  }),
  Revision: object({
    revision: version,
    status: {
      enum: ['compiling', 'failed', 'building', 'live', 'kept', 'cancelled', 'gone'],
      description: 'kept: its states are there, so that it could be live again without a build from the start.',
    },
    cause: { enum: ['upload', 'rollback', 'rebuild', 'revive'] },
    'of?': { ...version, description: 'The revision whose code it has.' },
    artefactId: string,
    createdAt: timestamp,
    uploadedAt: { ...timestamp, description: 'When its code was uploaded.' },
    'compiledAt?': timestamp,
    'compilationError?': string,
    'changedKeys?': { ...integer, description: 'How many keys were other than before when it went live.' },
  }),
  RevisionChosen: object({
    projectionId: string,
    revision: version,
    of: version,
    artefactId: string,
    status: { enum: ['building', 'live'] },
    message: string,
  }),
  ReducerUploaded: object({
    reducerId: string,
    status: {
      enum: ['pending_compilation', 'compiled', 'failed'],
      description: '`pending_compilation`, unless the upload was sent with `waitSeconds`.',
    },
    ...notCompiled,
  }),
  ProjectionUploaded: object({
    success: boolean,
    projectionId: string,
    status: {
      enum: ['compiling', 'compiled', 'failed'],
      description: '`compiling`, unless the upload was sent with `waitSeconds`.',
    },
    message: string,
    ...notCompiled,
    'live?': {
      ...object({ revision: version, artefactId: string }),
      description: 'The uploaded revision, where it was live within `waitSeconds`.',
    },
    'notifications?': object({
      webhook: object({ enabled: boolean, 'secret?': secret, 'isolated?': boolean }),
      sse: boolean,
    }),
  }),
  ProjectionState: object({
    key: string,
    className: string,
    state,
    sequence: integer,
    lastModified: timestamp,
    'fault?': { $ref: '#/components/schemas/Fault' },
  }),
  Notification: object({
    sequence: version,
    projectionId: string,
    className: string,
    key: string,
    aggregateId,
    aggregateType,
    version,
    state,
    timestamp,
    eventId: string,
    'cause?': { enum: ['build', 'redeploy', 'rollback', 'rebuild', 'revive', 'retry', 'skip'] },
  }),
  Tenant: object({ tenantId: string, name: string, createdAt: timestamp, 'partitions?': integer }),
  Key: object({ keyId: string, tenantId: string, prefix: string, createdAt: timestamp, 'revokedAt?': timestamp }),
  NewTenant: object({
    tenantId: string,
    name: string,
    createdAt: timestamp,
    'partitions?': integer,
    keyId: string,
    apiKey: string,
  }),
  NewKey: object({ keyId: string, tenantId: string, prefix: string, createdAt: timestamp, apiKey: string }),
  ReadStoreAccess: object({ url: string, user: string, password: string, database: string }),
  Problem: {
    type: 'object',
    required: ['type', 'title', 'status', 'detail', 'code', 'requestId'],
    properties: {
      type: { type: 'string', pattern: '^/problems/[a-z-]+$' },
      title: string,
      status: { type: 'integer', minimum: 400, maximum: 599 },
      detail: string,
      code: { enum: ERROR_CODES },
      requestId: string,
      retryable: { const: true },
      errors: arrayOf(object({ pointer: string, message: string })),
      expectedVersion: { oneOf: [integer, { enum: ['any', 'none', 'exists'] }] },
      currentVersion: integer,
      conflicts: { type: 'array', items: { $ref: '#/components/schemas/Event' } },
      oldestSequence: integer,
    },
  },
} as const satisfies Readonly<Record<string, Schema>>;
