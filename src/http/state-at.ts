import { z } from 'zod';
import { faultForClients, isoTimestamp } from '../core/event.js';
import { StatefoldError } from '../core/errors.js';
import type { Inspections } from '../inspection/inspections.js';
import type { EventEffect, StateAt } from '../inspection/fold-state-at.js';
import { JsonWriter } from './json-writer.js';
import { anyText, described, flag, integerFrom, time, type Values } from './parameters.js';
import { eventType, Fault, integer, text, timestamp } from './schema.js';

const DIFF = { usual: 100, most: 1_000 };

/** The query by which a state is asked for at a version, at a time, by another reducer, or with what each event did. */
export const STATE_AT = {
  atVersion: integerFrom(1),
  atTime: described(time, 'The version that was last appended at or before then.'),
  reducerId: described(anyText, 'Folded by this compiled reducer rather than the bound one.'),
  className: anyText,
  diff: described(flag, 'Also what each event did to the state.'),
  fromVersion: described(integerFrom(1), 'Of the diff.', { default: 1 }),
  limit: described(integerFrom(1, DIFF.most), 'Events of the diff.', { default: DIFF.usual }),
};

export const patch = z
  .array(z.object({ op: z.enum(['add', 'remove', 'replace']), path: text }).loose())
  .describe('A JSON Patch (RFC 6902); empty where only the spelling differs.');

/** Members of a state that was folded from the log for the question. */
export const stateAtMembers = {
  headVersion: integer.describe('The last version of the aggregate.').optional(),
  className: text.optional(),
  diff: z
    .array(
      z.strictObject({
        version: integer,
        eventId: text,
        eventType,
        timestamp,
        patch: patch.optional(),
        skipped: z.literal(true).optional(),
        fault: Fault.optional(),
      }),
    )
    .optional(),
  nextVersion: integer.describe('Where the diff goes on.').optional(),
};

/** The answer to such a question; undefined: the query asks for none of it. */
export async function stateAtJson(
  inspections: Inspections,
  tenantId: string,
  { aggregateType, aggregateId }: { readonly aggregateType: string; readonly aggregateId: string },
  { atVersion, atTime, reducerId, className, diff: wantsDiff, fromVersion, limit }: Values<typeof STATE_AT>,
): Promise<Buffer | undefined> {
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
  if (state.fault !== undefined) writer.member('fault', faultForClients(state.fault));
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
    if (event.fault !== undefined) writer.member('fault', faultForClients(event.fault));
    writer.text('}');
  });
  writer.text(']');
  if (nextVersion !== undefined) writer.member('nextVersion', nextVersion);
}
