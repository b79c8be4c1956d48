import type { IncomingMessage } from 'node:http';
import type { Request, Router } from 'express';
import { z } from 'zod';
import { faultForClients, isoTimestamp, type Fault } from '../../core/event.js';
import { StatefoldError } from '../../core/errors.js';
import { isName, MAX_AGGREGATE_ID, MAX_STATE_KEY } from '../../core/names.js';
import type { DryRun, ShownChange } from '../../inspection/dry-run.js';
import type { EventEffect, StateAt } from '../../inspection/state-at.js';
import type { AggregatesVerified, Difference, KeysVerified } from '../../inspection/verification.js';
import type { RouteDependencies } from '../edge-options.js';
import { readJsonBody } from '../json-body.js';
import { JsonWriter } from '../json-writer.js';
import { integerText, requireProjection } from '../notification-query.js';
import { flagParameter, integerParameter, queryOf, requireAggregateType, textParameter } from '../query.js';
import { answer, parameter, resource } from '../resource.js';
import { readUpload, requireFields } from '../upload.js';

const DRY_RUN_KEYS = { usual: 10_000, most: 100_000 };
const SHOWN = { usual: 10, most: 100 };
const SAMPLE = { usual: 100, most: 10_000 };
const NAMED = 1_000;
const MAX_SEED = 2 ** 32 - 1;
const DIFF = { usual: 100, most: 1_000 };

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
        .refine((one) => isName(one, max), `must have 1 to ${max} characters, none of them a control character`),
      'must be an array',
    )
    .min(1, 'must not be empty')
    .max(NAMED, `must have at most ${NAMED}`);
const VERIFY_AGGREGATES = z.object({
  aggregateIds: names(MAX_AGGREGATE_ID).optional(),
  sample: sample.optional(),
  seed: seed.optional(),
});
const VERIFY_KEYS = z.object({
  keys: names(MAX_STATE_KEY).optional(),
  sample: sample.optional(),
  seed: seed.optional(),
});

/** What folds history again, and changes nothing. */
export function inspectionRoutes(
  router: Router,
  { authenticate, catalog, inspections, settings }: RouteDependencies,
): void {
  resource(router, '/reducers/dry-run', {
    post: async (request, response) => {
      const { tenantId } = authenticate(request);
      const { sources, fields } = await readUpload(request, response, settings);
      requireFields(fields, ['aggregateType', 'className', 'limit', 'sample', 'seed', 'show']);
      const aggregateType = fields.get('aggregateType');
      const report = await inspections.dryRunReducers(tenantId, sources, {
        aggregateType: aggregateType === undefined ? undefined : requireAggregateType(aggregateType),
        className: fields.get('className'),
        sample: integerField(fields, 'sample', 1, SAMPLE.most),
        seed: integerField(fields, 'seed', 0, MAX_SEED) ?? 0,
        ...bounds(fields),
      });
      answer(response, 200, dryRunJson(report, 'aggregateId'));
    },
  });

  resource(router, '/projections/dry-run', {
    post: async (request, response) => {
      const { tenantId } = authenticate(request);
      const { sources, fields } = await readUpload(request, response, settings);
      requireFields(fields, ['projectionId', 'limit', 'show']);
      const projectionId = fields.get('projectionId');
      if (projectionId !== undefined) requireProjection(catalog, tenantId, projectionId);
      answer(
        response,
        200,
        dryRunJson(await inspections.dryRunProjection(tenantId, sources, { projectionId, ...bounds(fields) }), 'key'),
      );
    },
  });

  resource(router, '/aggregate-types/:type/verify', {
    post: async (request, response) => {
      const { tenantId } = authenticate(request);
      const aggregateType = requireAggregateType(parameter(request, 'type'));
      const {
        aggregateIds,
        sample: given = SAMPLE.usual,
        seed: start = 0,
      } = await readJsonBody(request, settings, VERIFY_AGGREGATES);
      answer(
        response,
        200,
        verifiedJson(
          await inspections.verifyAggregates(tenantId, aggregateType, { aggregateIds, sample: given, seed: start }),
          'aggregateId',
        ),
      );
    },
  });

  resource(router, '/projections/:id/verify', {
    post: async (request, response) => {
      const { tenantId } = authenticate(request);
      const { projectionId } = requireProjection(catalog, tenantId, parameter(request, 'id'));
      const { keys, sample: given, seed: start = 0 } = await readJsonBody(request, settings, VERIFY_KEYS);
      answer(
        response,
        200,
        verifiedJson(
          await inspections.verifyProjection(tenantId, projectionId, { keys, sample: given, seed: start }),
          'key',
        ),
      );
    },
  });
}

/** The answer to a question for a state at a version, at a time, by another reducer, or with what each event did; undefined: it is none of these. */
export async function stateAtJson(
  request: Request & IncomingMessage,
  { inspections }: Pick<RouteDependencies, 'inspections'>,
  tenantId: string,
  aggregateType: string,
  aggregateId: string,
): Promise<Buffer | undefined> {
  const query = queryOf(request.url);
  const [atVersion, atTime] = [
    integerParameter(query, 'atVersion', 1, Number.MAX_SAFE_INTEGER),
    timeParameter(query, 'atTime'),
  ];
  const [reducerId, className] = [textParameter(query, 'reducerId'), textParameter(query, 'className')];
  const wantsDiff = flagParameter(query, 'diff');
  const fromVersion = integerParameter(query, 'fromVersion', 1, Number.MAX_SAFE_INTEGER);
  const limit = integerParameter(query, 'limit', 1, DIFF.most);
  if (atVersion !== undefined && atTime !== undefined)
    throw new StatefoldError('INVALID_REQUEST', 'give atVersion or atTime, not both');
  if (className !== undefined && reducerId === undefined)
    throw new StatefoldError('INVALID_REQUEST', 'className needs reducerId');
  if (!wantsDiff && (fromVersion ?? limit) !== undefined)
    throw new StatefoldError('INVALID_REQUEST', 'fromVersion and limit are of the diff: give diff=true with them');
  if (atVersion === undefined && atTime === undefined && reducerId === undefined && !wantsDiff) return undefined;
  const diff = wantsDiff ? { fromVersion: fromVersion ?? 1, limit: limit ?? DIFF.usual } : undefined;
  const state = await inspections.stateAt(
    tenantId,
    aggregateType,
    { reducerId, className },
    { aggregateId, atVersion, atTime, diff },
  );
  const writer = new JsonWriter()
    .text('{')
    .member('aggregateId', aggregateId, true)
    .member('aggregateType', aggregateType)
    .member('version', state.version)
    .raw('state', state.state);
  if (state.version > 0) writer.member('lastModified', isoTimestamp(state.lastModified));
  writer.member('headVersion', state.headVersion).member('className', state.className);
  fault(writer, 'fault', state.fault);
  if (state.diff !== undefined) diffJson(writer, state.diff);
  return writer.text('}').end();
}

function diffJson(writer: JsonWriter, { events, nextVersion }: NonNullable<StateAt['diff']>): void {
  writer.text(',"diff":[');
  writer.list(events, (event: EventEffect) => {
    writer
      .text('{')
      .member('version', event.version, true)
      .member('eventId', event.eventId)
      .member('eventType', event.eventType)
      .member('timestamp', isoTimestamp(event.timestamp));
    if (event.patch !== undefined) writer.text(`,"patch":${event.patch}`);
    if (event.skipped) writer.member('skipped', true);
    fault(writer, 'fault', event.fault);
    writer.text('}');
  });
  writer.text(']');
  if (nextVersion !== undefined) writer.member('nextVersion', nextVersion);
}

const RFC_3339 = z.iso.datetime({ offset: true });

function timeParameter(query: URLSearchParams, name: string): number | undefined {
  const text = textParameter(query, name);
  if (text === undefined) return undefined;
  // A plus that was not escaped is a space by now.
  const given = RFC_3339.safeParse(text.replace(/ (?=\d\d:\d\d$)/, '+'));
  if (given.success) return Date.parse(given.data);
  throw new StatefoldError('INVALID_REQUEST', `${name} must be a time of RFC 3339, for instance 2026-03-01T12:00:00Z`);
}

function integerField(fields: ReadonlyMap<string, string>, name: string, min: number, max: number): number | undefined {
  const text = fields.get(name);
  return text === undefined ? undefined : integerText(text, name, min, max);
}

const bounds = (fields: ReadonlyMap<string, string>): { readonly limit: number; readonly show: number } => ({
  limit: integerField(fields, 'limit', 1, DRY_RUN_KEYS.most) ?? DRY_RUN_KEYS.usual,
  show: integerField(fields, 'show', 0, SHOWN.most) ?? SHOWN.usual,
});

function fault(writer: JsonWriter, name: string, given: Fault | undefined): void {
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
