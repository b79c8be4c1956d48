import type { Change } from '../core/change.js';
import { isoTimestamp } from '../core/event.js';
import { encoderOf, lineOf } from './record-bytes.js';

/** The bytes of a change on every channel; `state` is spliced as the runner gave it. */
export const notificationBytes = encoderOf<Change>(
  'state_changed',
  ({ sequence }) => sequence,
  (change) => encodeRecord(change),
);

/**
 * The bytes of a state that is told before the changes. A server-sent event of it has no id: a browser that connects again would go on
 * behind that, without the states that it was not told.
 */
export const snapshotBytes = encoderOf<Change>(
  'state_changed',
  () => undefined,
  (change) => encodeRecord(change, 'snapshot'),
);

/** The bytes of the word that all states up to a sequence were told. */
export const snapshotEndBytes = encoderOf<{ readonly sequence: number }>(
  'snapshot_end',
  ({ sequence }) => sequence,
  ({ sequence }) => lineOf(`{"sequence":${sequence}}`),
);

function encodeRecord(change: Change, why: string | undefined = change.cause): Buffer {
  const head =
    `{"sequence":${change.sequence},"projectionId":${JSON.stringify(change.projectionId)},"aggregateId":${JSON.stringify(change.aggregateId)}` +
    `,"aggregateType":${JSON.stringify(change.aggregateType)},"state":`;
  const cause = why === undefined ? '' : `,"cause":"${why}"`;
  const rest =
    `,"timestamp":"${isoTimestamp(change.timestamp)}","key":${JSON.stringify(change.key)},"version":${change.version}` +
    `,"eventId":${JSON.stringify(change.eventId)},"className":${JSON.stringify(change.className)}${cause}}`;
  return lineOf(head, change.state ?? 'null', rest);
}
