import { z } from 'zod';
import { faultForClients, type Fault as StoredFault } from '../../core/event.js';
import { isName, MAX_AGGREGATE_ID, MAX_STATE_KEY } from '../../core/names.js';
import type { DryRun, ShownChange } from '../../inspection/dry-run.js';
import type { AggregatesVerified, Difference, KeysVerified } from '../../inspection/verification.js';
import { json, upload } from '../bodies.js';
import { JsonWriter } from '../json-writer.js';
import { aggregateTypeName, anyText, integerFrom, requireAggregateType } from '../parameters.js';
import { requireProjection } from '../../catalog/require.js';
import { Diagnostic, Fault, integer, KeyFault, seconds, text } from '../schema.js';
import { patch } from '../state-at.js';
import { route } from './dependencies.js';
import { NOT_COMPILED } from './upload-checks.js';

// What folds history again, and changes nothing.

const DRY_RUN_KEYS = { usual: 10_000, most: 100_000 };
const SHOWN = { usual: 10, most: 100 };
const SAMPLE = { usual: 100, most: 10_000 };
const NAMED = 1_000;
const MAX_SEED = 2 ** 32 - 1;

const seed = z
  .number('must be a number')
  .int('must be an integer')
  .min(0, 'must not be negative')
  .max(MAX_SEED, `must be at most ${MAX_SEED}`);
const sample = z
  .number('must be a number')
  .int('must be an integer')
  .min(1, 'must be at least 1')
  .max(SAMPLE.most, `must be at most ${SAMPLE.most}`);
const names = (max: number): z.ZodType<string[]> =>
  z
    .array(
      z
        .string('must be a string')
        .refine((one) => isName(one, max), `must have 1 to ${max} characters, none of them a control character`)
        .meta({ minLength: 1, maxLength: max }),
      'must be an array',
    )
    .min(1, 'must not be empty')
    .max(NAMED, `must have at most ${NAMED}`);
const VerifyAggregates = z.object({
  aggregateIds: names(MAX_AGGREGATE_ID).optional(),
  sample: sample.meta({ default: SAMPLE.usual }).optional(),
  seed: seed.meta({ default: 0 }).optional(),
});
const VerifyKeys = z.object({
  keys: names(MAX_STATE_KEY).optional(),
  sample: sample.optional(),
  seed: seed.meta({ default: 0 }).optional(),
});

const folded = z.unknown().describe('A state as its code shapes it; null where there is none.');
const cut = text.describe('Why not all was folded, and how far it got.').optional();
const figures = { events: integer, seconds, eventsPerSecond: integer };
const verdict = z.enum(['equal', 'different', 'absent', 'behind']);
const counts = { equal: integer, different: integer, absent: integer };

const dryRunOf = <K extends z.ZodRawShape, F extends z.ZodType>(key: K, faultOf: F) =>
  z.discriminatedUnion('status', [
    z.strictObject({
      status: z.literal('compiled'),
      complete: z.boolean(),
      cut,
      classes: z.array(
        z.strictObject({
          className: text,
          aggregateType: text.optional(),
          comparedWith: text.describe('The class whose states they are compared with.').optional(),
          total: integer.describe('Aggregates of the type.').optional(),
          folded: integer,
          changed: integer,
          unchanged: integer,
          added: integer,
          removed: integer,
          faulted: integer,
          faultedBefore: integer,
        }),
      ),
      changes: z.array(
        z.strictObject({ ...key, className: text, version: integer.optional(), before: folded, after: folded, patch }),
      ),
      faults: z.array(faultOf),
      diagnostics: z.array(Diagnostic),
      ...figures,
    }),
    NOT_COMPILED,
  ]);

const verifiedOf = <K extends z.ZodRawShape, O extends z.ZodRawShape>(key: K, of: O) =>
  z.strictObject({
    complete: z.boolean(),
    ...of,
    cut,
    checked: integer,
    ...counts,
    readStore: z
      .strictObject({ ...counts, behind: integer })
      .describe('Its rows of the same aggregates or keys; absent where it could not be asked.')
      .optional(),
    differences: z.array(
      z.strictObject({
        ...key,
        className: text,
        version: integer.optional(),
        store: verdict,
        readStore: verdict.optional(),
        stored: folded,
        recomputed: folded,
        patch,
        storedFault: Fault.optional(),
        fault: Fault.optional(),
      }),
    ),
    ...figures,
  });

const bounds = {
  limit: integerFrom(1, DRY_RUN_KEYS.most, DRY_RUN_KEYS.usual),
  show: integerFrom(0, SHOWN.most, SHOWN.usual),
};
const common = { method: 'POST', servedBy: 'owner', credentials: 'tenant', scope: 'deploy' } as const;

const dryRunReducers = route({
  ...common,
  path: '/reducers/dry-run',
  operationId: 'dryRunReducers',
  tag: 'Reducers',
  summary: 'Fold stored aggregates with an upload that is not kept, and compare with their states',
  body: upload({
    aggregateType: aggregateTypeName,
    className: anyText,
    sample: integerFrom(1, SAMPLE.most),
    seed: integerFrom(0, MAX_SEED, 0),
    ...bounds,
  }),
  answers: { 200: dryRunOf({ aggregateId: text }, Fault) },
  errors: ['INSPECTION_DEADLINE', 'INVALID_ARCHIVE', 'REDUCER_CLASS_NOT_FOUND'],
  serve: async ({ inspections }, call) => {
    const { sources, fields } = await call.body();
    call.answer(200, dryRunJson(await inspections.dryRunReducers(call.tenantId, sources, fields), 'aggregateId'));
  },
});

const dryRunProjection = route({
  ...common,
  path: '/projections/dry-run',
  operationId: 'dryRunProjection',
  tag: 'Projections',
  summary: 'Fold the history with an upload that is not kept, and compare with a live projection',
  body: upload({ projectionId: anyText, ...bounds }),
  answers: { 200: dryRunOf({ key: text }, KeyFault) },
  errors: ['INSPECTION_DEADLINE', 'INVALID_ARCHIVE', 'NOT_FOUND'],
  serve: async ({ inspections, catalog }, call) => {
    const { sources, fields } = await call.body();
    if (fields.projectionId !== undefined) requireProjection(catalog, call.tenantId, fields.projectionId);
    call.answer(200, dryRunJson(await inspections.dryRunProjection(call.tenantId, sources, fields), 'key'));
  },
});

const verifyAggregates = route({
  ...common,
  path: '/aggregate-types/{type}/verify',
  operationId: 'verifyAggregates',
  tag: 'Aggregates',
  summary: 'Fold aggregates again from the log and compare with what is stored',
  body: json(VerifyAggregates, { aggregateIds: ['order-1001'] }),
  answers: {
    200: verifiedOf({ aggregateId: text }, { aggregateType: text, reducerClass: text, unknown: z.array(text) }),
  },
  errors: ['INSPECTION_DEADLINE', 'NO_REDUCER_BOUND'],
  serve: async ({ inspections }, call) => {
    const aggregateType = requireAggregateType(call.parameter('type'));
    const { aggregateIds, sample = SAMPLE.usual, seed = 0 } = await call.body();
    const verified = await inspections.verifyAggregates(call.tenantId, aggregateType, { aggregateIds, sample, seed });
    call.answer(200, verifiedJson(verified, 'aggregateId'));
  },
});

const verifyProjection = route({
  ...common,
  path: '/projections/{id}/verify',
  operationId: 'verifyProjection',
  tag: 'Projections',
  summary: 'Fold keys of a projection again from the log and compare with what is stored',
  body: json(VerifyKeys, { sample: 100 }),
  answers: {
    200: verifiedOf({ key: text }, { projectionId: text, revision: integer, unknown: z.array(text) }),
  },
  errors: ['INSPECTION_DEADLINE', 'NOT_FOUND', 'PROJECTION_NOT_LIVE'],
  serve: async ({ inspections, catalog }, call) => {
    const { projectionId } = requireProjection(catalog, call.tenantId, call.parameter('id'));
    const { keys, sample, seed = 0 } = await call.body();
    const verified = await inspections.verifyProjection(call.tenantId, projectionId, { keys, sample, seed });
    call.answer(200, verifiedJson(verified, 'key'));
  },
});

export const INSPECTIONS = [dryRunReducers, dryRunProjection, verifyAggregates, verifyProjection];

function fault(writer: JsonWriter, name: string, given: StoredFault | undefined): void {
  if (given !== undefined) writer.member(name, faultForClients(given));
}

function dryRunJson(report: DryRun, keyName: 'aggregateId' | 'key'): Buffer | object {
  if (report.status === 'failed') return report;
  const { status, complete, cut, diagnostics, classes, changes, faults, events, seconds } = report;
  const writer = new JsonWriter().text('{').member('status', status, true).member('complete', complete);
  if (cut !== undefined) writer.member('cut', cut);
  writer.member('classes', classes).text(',"changes":[');
  writer.list(changes, (change: ShownChange) => {
    writer.text('{').member(keyName, change.key, true).member('className', change.className);
    if (change.version !== undefined) writer.member('version', change.version);
    writer.raw('before', change.before).raw('after', change.after).text(`,"patch":${change.patch}}`);
  });
  const told = faults.map(({ key, ...one }) => ({ ...(keyName === 'key' ? { key } : {}), ...faultForClients(one) }));
  return writer
    .text(']')
    .member('faults', told)
    .member('diagnostics', diagnostics)
    .text(speed(events, seconds))
    .text('}')
    .end();
}

const speed = (events: number, seconds: number): string =>
  `,"events":${events},"seconds":${Number(seconds.toFixed(3))},"eventsPerSecond":${Math.round(events / Math.max(seconds, 0.001))}`;

function verifiedJson(verified: AggregatesVerified | KeysVerified, keyName: 'aggregateId' | 'key'): Buffer {
  const { complete, cut, checked, equal, different, absent, readStore, differences, events, seconds, ...of } = verified;
  const writer = new JsonWriter().text('{').member('complete', complete, true);
  for (const [name, value] of Object.entries(of)) writer.member(name, value);
  if (cut !== undefined) writer.member('cut', cut);
  writer.member('checked', checked).member('equal', equal).member('different', different).member('absent', absent);
  if (readStore !== undefined) writer.member('readStore', readStore);
  writer.text(',"differences":[');
  writer.list(differences, (one: Difference) => {
    writer.text('{').member(keyName, one.key, true).member('className', one.className);
    if (one.version !== undefined) writer.member('version', one.version);
    writer.member('store', one.store);
    if (one.readStore !== undefined) writer.member('readStore', one.readStore);
    writer.raw('stored', one.stored).raw('recomputed', one.recomputed).text(`,"patch":${one.patch}`);
    fault(writer, 'storedFault', one.storedFault);
    fault(writer, 'fault', one.fault);
    writer.text('}');
  });
  return writer.text(']').text(speed(events, seconds)).text('}').end();
}
