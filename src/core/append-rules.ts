import { StatefoldError } from './errors.js';
import type { AppendCommand } from './event.js';
import { inferAggregateType } from './names.js';
import type { CommitValue } from './records.js';

/** The head of an aggregate's stream. */
export interface Head {
  /** Of the last event. */
  readonly version: number;
  readonly type: string;
  /** Of the last commit, milliseconds since the epoch. */
  readonly timestamp: number;
}

/** An accepted command that the client may repeat. */
export interface RememberedCommand {
  /** Of its commit. */
  readonly offset: number;
  readonly requestHash: Buffer;
}

export type AppendDecision =
  | { readonly kind: 'write'; readonly aggregateType: string; readonly baseVersion: number; readonly timestamp: number }
  | { readonly kind: 'replay'; readonly command: RememberedCommand }
  | { readonly kind: 'refuse'; readonly error: StatefoldError };

/** A commit of the current epoch counts when it follows the aggregate's last event; so a duplicate voids itself. */
export const judgeCommit = (head: Head | undefined, commit: CommitValue): boolean =>
  commit.baseVersion === (head?.version ?? 0) && (head === undefined || head.type === commit.aggregateType);

/** The head after an accepted commit. */
export const headAfter = (commit: CommitValue): Head => ({
  version: commit.baseVersion + (commit.eventCount ?? commit.events.length),
  type: commit.aggregateType,
  timestamp: commit.timestamp,
});

/** A keyed command is remembered for `window` offsets of its partition: by position, so that every reader forgets it at the same place. */
export const isRemembered = (command: RememberedCommand, position: number, window: number): boolean =>
  command.offset >= position - window;

/** Decides an append on the head and the memory of commands, in this order: a known id, the type, the version. Pure. */
export function decideAppend(
  command: AppendCommand,
  head: Head | undefined,
  known: RememberedCommand | undefined,
  now: number,
): AppendDecision {
  if (known !== undefined) {
    if (known.requestHash.equals(command.requestHash)) return { kind: 'replay', command: known };
    const message = `the idempotency key was used for another request to aggregate ${quoted(command.aggregateId)}; use a new key for a new request`;
    return refuse(new StatefoldError('IDEMPOTENCY_KEY_REUSED', message));
  }
  const aggregateType = command.aggregateType ?? head?.type ?? inferAggregateType(command.aggregateId);
  if (head !== undefined && head.type !== aggregateType) {
    const message = `aggregate ${quoted(command.aggregateId)} is of type '${head.type}', not '${aggregateType}'; leave aggregateType out or send the stored one`;
    return refuse(new StatefoldError('AGGREGATE_TYPE_MISMATCH', message, { details: { aggregateType: head.type } }));
  }
  const version = head?.version ?? 0;
  const { expectedVersion } = command;
  const holds =
    expectedVersion === 'any' ||
    (expectedVersion === 'none'
      ? version === 0
      : expectedVersion === 'exists'
        ? version > 0
        : expectedVersion === version);
  if (!holds) {
    const message = `aggregate ${quoted(command.aggregateId)} is at version ${version}, expected was ${expectedVersion}; read the events since and decide again`;
    return refuse(
      new StatefoldError('VERSION_CONFLICT', message, { details: { expectedVersion, currentVersion: version } }),
    );
  }
  return { kind: 'write', aggregateType, baseVersion: version, timestamp: Math.max(now, head?.timestamp ?? 0) };
}

const refuse = (error: StatefoldError): AppendDecision => ({ kind: 'refuse', error });
const quoted = (id: string): string => `'${id}'`;
