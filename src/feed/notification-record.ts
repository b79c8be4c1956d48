import type { Change } from '../core/change.js';
import { isoTimestamp } from '../core/event.js';
import { encoderOf } from './record-bytes.js';

const NULL = Buffer.from('null');

/** The bytes of a change on every channel; `state` is spliced as the runner gave it. */
export const notificationBytes = encoderOf<Change>('state_changed', ({ sequence }) => sequence, encodeRecord);

function encodeRecord(change: Change): Buffer {
  const head =
    `{"sequence":${change.sequence},"projectionId":${JSON.stringify(change.projectionId)},"aggregateId":${JSON.stringify(change.aggregateId)}` +
    `,"aggregateType":${JSON.stringify(change.aggregateType)},"state":`;
  const cause = change.cause === undefined ? '' : `,"cause":"${change.cause}"`;
  const rest =
    `,"timestamp":"${isoTimestamp(change.timestamp)}","key":${JSON.stringify(change.key)},"version":${change.version}` +
    `,"eventId":${JSON.stringify(change.eventId)},"className":${JSON.stringify(change.className)}${cause}}`;
  return Buffer.concat([Buffer.from(head), change.state ?? NULL, Buffer.from(rest)]);
}
