import { z } from 'zod';
import { aggregateId, aggregateType, anyObject, component, context, eventType, expectedVersion } from './schema.js';

// `append-body.ts` reads these by hand, since it is the hot path: it takes the names of the members from here.

export const Append = component(
  'Append',
  z.strictObject({
    aggregateId,
    eventType,
    data: anyObject,
    aggregateType: aggregateType.optional(),
    expectedVersion: expectedVersion.optional(),
    ...context,
  }),
);
export type Append = z.infer<typeof Append>;

export const BulkLine = component(
  'BulkLine',
  Append.extend({
    idempotencyKey: z
      .string()
      .regex(/^[\x20-\x7e]{1,255}$/)
      .describe('Makes the line safe to repeat; one name with the header Idempotency-Key of POST /events.')
      .optional(),
  }),
);
export type BulkLine = z.infer<typeof BulkLine>;

export const BatchEvent = z.strictObject({ eventType, data: anyObject, ...context });

export const AppendBatch = component(
  'AppendBatch',
  z.strictObject({
    aggregateId,
    events: z
      .array(BatchEvent)
      .min(1)
      .describe('What an event has of its own besides eventType and data goes before what the batch has.'),
    aggregateType: aggregateType.optional(),
    expectedVersion: expectedVersion.optional(),
    ...context,
  }),
);
export type AppendBatch = z.infer<typeof AppendBatch>;

/** Most aggregates of a transaction. */
export const MAX_TRANSACTION_AGGREGATES = 100;

export const TransactionAppend = z.strictObject({
  aggregateId,
  events: z.array(BatchEvent).min(1),
  aggregateType: aggregateType.optional(),
  expectedVersion: expectedVersion.optional(),
});

export const Transaction = component(
  'Transaction',
  z.strictObject({
    appends: z
      .array(TransactionAppend)
      .min(1)
      .max(MAX_TRANSACTION_AGGREGATES)
      .describe(
        'One for each aggregate; no aggregate is named twice. The bound of a batch holds for all their events together.',
      ),
    ...context,
  }),
);
export type Transaction = z.infer<typeof Transaction>;
