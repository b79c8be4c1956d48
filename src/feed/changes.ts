import { changeBytes, type Change, type ChangeCause } from '../core/change.js';
import type { Fault } from '../core/event.js';
import type { ChangesBody, ChangeValue } from '../core/records.js';
import type { Feed, ItemKind } from './feed.js';

/** The accepted changes of one tenant, in order. */
export interface ChangeFeed {
  /** Highest sequence that was acknowledged, as far as it has come here; 0 before the first. */
  head(): number;
  /** Resolves when all that was acknowledged before the call has come here. */
  refresh(): Promise<void>;
  /** Those of one projection, by sequence, faults left out. Its `read` throws a StatefoldError CURSOR_EXPIRED with `details.oldestSequence` where retention has taken what was asked for. */
  of(projectionId: string): Feed<Change>;
  /** The cursor of a reader without one: before the oldest change of the projection that is kept. */
  oldest(projectionId: string): Promise<number>;
  /** Called in order of sequence after changes were acknowledged, once a batch, on the same turn. Must not throw. */
  subscribe(listener: (changes: readonly Change[]) => void): () => void;
}

/** The tenants whose changes this process has. */
export interface TenantFeeds {
  /** Follows the tenant when needed. `NOT_FOUND` where the catalog has none, `UNAVAILABLE` where this process does not notify of it. */
  open(tenantId: string): Promise<TenantFeed>;
  /** The tenant if its changes are here already. */
  active(tenantId: string): TenantFeed | undefined;
  /** Called for each tenant when its changes are here, also in place of an earlier feed. */
  onActivated(listener: (feed: TenantFeed) => void): void;
}

/** A tenant as those see it who want its changes alone. */
export interface TenantFeed {
  readonly tenantId: string;
  readonly changes: ChangeFeed;
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
