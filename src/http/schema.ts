import { z } from 'zod';
import { ERROR_CODES } from '../core/errors.js';

/**
 * The schemas that several rooms of `routes/` share. A schema is written once: what checks a request, what `/openapi.json`
 * shows of it, and its TypeScript type (`z.infer`) are the same. Answers are not checked at run time; the tests do that.
 */
const named = new Map<string, z.ZodType>();

/** Names the schema: it is in `components` of the OpenAPI document, and referred to wherever it is used. */
export function component<T extends z.ZodType>(name: string, schema: T): T {
  named.set(name, schema);
  return schema;
}

/** All that `component` has named, in that order. */
export const components = (): ReadonlyMap<string, z.ZodType> => named;

export const text = z.string();
export const integer = z.int().min(0);
export const seconds = z.number().min(0);
export const rate = z.number().min(0);
export const anyObject = z.record(z.string(), z.unknown());
export const timestamp = z
  .string()
  .regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  .describe('ISO 8601, UTC, with milliseconds');
export const aggregateId = z.string().min(1).max(256);
export const aggregateType = z.string().regex(/^[A-Za-z0-9_.-]{1,128}$/);
export const eventType = z.string().min(1).max(256);
export const version = z.int().min(1);
export const secret = z.string().describe('A signing secret of Standard Webhooks.');
export const state = z
  .unknown()
  .describe('What the reducer or projection made of the events: shaped by its own state type; null when it gave none.');

/** What an event may carry besides its data. */
export const context = {
  correlationId: z.string().min(1).max(256).optional(),
  causationId: z.string().min(1).max(256).optional(),
  metadata: anyObject.optional(),
};
export const expectedVersion = z
  .union([integer, z.enum(['any', 'none', 'exists'])])
  .describe('The version the aggregate must be at; 0: it must not exist.');

/** One page of a list: the items under their name, and where the next page begins. */
export const listOf = <N extends string, T extends z.ZodType>(
  name: N,
  item: T,
): z.ZodObject<Record<N, z.ZodArray<T>> & { nextCursor: z.ZodOptional<z.ZodString> }, z.core.$strict> =>
  z.strictObject({ [name]: z.array(item), nextCursor: text.optional() } as Record<N, z.ZodArray<T>> & {
    nextCursor: z.ZodOptional<z.ZodString>;
  });

export const Event = component(
  'Event',
  z.strictObject({
    eventId: text,
    aggregateId,
    eventType,
    data: anyObject,
    version,
    timestamp,
    aggregateType: aggregateType.describe('With include=metadata, like those that follow.').optional(),
    ...context,
  }),
);
export type Event = z.infer<typeof Event>;

const fault = {
  eventId: text,
  aggregateId,
  version,
  eventType: text.optional(),
  className: text,
  message: text,
  file: text.nullable().describe('Of the uploaded sources, where the code threw.'),
  line: z.int().nullable(),
  at: timestamp,
  stopped: z
    .literal(true)
    .describe('The process of the code was stopped, or ended, on the event: a retry may do better.')
    .optional(),
};
export const Fault = component('Fault', z.strictObject(fault));
export type Fault = z.infer<typeof Fault>;
export const KeyFault = component('KeyFault', z.strictObject({ key: text, ...fault }));
export type KeyFault = z.infer<typeof KeyFault>;

/** Why code is not run any more. */
export const faulted = z.strictObject({
  revision: version.describe('Of a projection.').optional(),
  at: timestamp,
  strikes: integer,
  className: text.optional(),
  message: text.optional(),
});

/** How far a fold of history has come. */
export const progress = {
  status: z.enum(['running', 'done', 'failed']),
  processed: integer,
  total: integer,
  eventsPerSecond: rate,
};

export const Discovered = component(
  'Discovered',
  z.strictObject({
    className: text,
    stateTypeName: text,
    kind: z.enum(['reducer', 'projection']),
    aggregateType: aggregateType.optional(),
  }),
);
export const Diagnostic = component(
  'Diagnostic',
  z.strictObject({
    severity: z.enum(['error', 'warning']),
    code: text,
    message: text,
    file: text.nullable(),
    line: z.int().nullable(),
    column: z.int().nullable(),
  }),
);

export const Source = component('Source', z.strictObject({ path: text, text: z.string() }));

/** Why code was not compiled. */
export const notCompiled = { compilationError: text.optional(), diagnostics: z.array(Diagnostic).optional() };
/** Of an artefact's record. */
export const compiled = {
  discovered: z.array(Discovered).optional(),
  ...notCompiled,
  createdAt: timestamp,
  compiledAt: timestamp.optional(),
};

/** Of an answer that tells an error. `code` narrows the members that are there besides. */
export const Problem = component(
  'Problem',
  z
    .object({
      type: z.string().regex(/^\/problems\/[a-z-]+$/),
      title: text,
      status: z.int().min(400).max(599),
      detail: text,
      code: z.enum(ERROR_CODES),
      requestId: text,
      retryable: z.literal(true).optional(),
      errors: z.array(z.strictObject({ pointer: text, message: text })).optional(),
      expectedVersion: z.union([integer, z.enum(['any', 'none', 'exists'])]).optional(),
      currentVersion: integer.optional(),
      conflicts: z.array(Event).optional(),
      oldestSequence: integer.optional(),
      checks: z.record(z.string(), z.enum(['up', 'down'])).optional(),
    })
    .loose(),
);
export type Problem = z.infer<typeof Problem>;
