import { changeBytes, type Change, type ChangeCause } from '../core/change.js';
import type { Fault } from '../core/event.js';
import type { ChangesBody, ChangeValue } from '../core/records.js';
import type { FollowedFeed, ItemKind } from './feed.js';

/** The accepted changes of one tenant: each projection's are a feed. */
export interface TenantChanges {
  /** Of all projections: the highest that was acknowledged, as far as it has come here; 0 before the first. */
  lastSequence(): number;
  /** Resolves when all that was acknowledged before the call has come here. */
  caughtUp(): Promise<void>;
  /** Those of one projection, by sequence, faults left out. Its `read` throws a StatefoldError CURSOR_EXPIRED with `details.oldestSequence` where retention has taken what was asked for. */
  of(projectionId: string): FollowedFeed<Change>;
}

/** The change of an accepted record. */
export function changeOf(sequence: number, value: ChangeValue): Change {
  const { projectionId, revision, className, key, eventId, aggregateId, aggregateType, version, timestamp, state } =
    value;
  return {
    sequence,
    projectionId,
    revision,
    className,
    key,
    eventId,
    aggregateId,
    aggregateType,
    version,
    state,
    timestamp,
    cause: (value.cause ?? undefined) as ChangeCause | undefined,
    fault: value.fault === null ? undefined : (JSON.parse(value.fault.toString()) as Fault),
    ...(value.last === undefined ? {} : { last: value.last }),
  };
}

export const CHANGES: ItemKind<ChangesBody, Change> = {
  positionOf: ({ sequence }) => sequence,
  bytesOf: changeBytes,
  itemOf: (offset, { value }) => changeOf(offset, value),
};
