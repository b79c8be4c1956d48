import { StatefoldError } from './errors.js';
import type { AppendCommand, ExpectedVersion, TransactionAppend, TransactionCommand } from './event.js';
import { inferAggregateType } from './names.js';
import { ERASED_BASE, type CommitValue, type TransactionPartValue, type TransactionValue } from './records.js';

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

export type TransactionDecision =
  | {
      readonly kind: 'write';
      /** Of each append, in their order. */
      readonly parts: readonly { readonly aggregateType: string; readonly baseVersion: number }[];
      readonly timestamp: number;
    }
  | Exclude<AppendDecision, { readonly kind: 'write' }>;

/** A commit of the current epoch counts when it follows the aggregate's last event; so a duplicate voids itself. */
export const judgeCommit = (
  head: Head | undefined,
  commit: Pick<CommitValue, 'baseVersion' | 'aggregateType'>,
): boolean => commit.baseVersion === (head?.version ?? 0) && (head === undefined || head.type === commit.aggregateType);

/** A transaction counts when each of its parts follows its aggregate's last event: all of it, or nothing. */
export const judgeTransaction = (
  headOf: (aggregateId: string) => Head | undefined,
  { parts }: Pick<TransactionValue, 'parts'>,
): boolean => parts.every((part) => part.baseVersion === ERASED_BASE || judgeCommit(headOf(part.aggregateId), part));

/** An aggregate is erased once. It need not be there: of one whose records are gone already the erasure holds too. */
export const judgeErase = (isErased: boolean): boolean => !isErased;

export const gone = (aggregateId: string): StatefoldError =>
  new StatefoldError(
    'GONE',
    `aggregate ${quoted(aggregateId)} was erased: its events and its state are gone, and its id can't be used again; use another id`,
  );

/** The head after an accepted commit. */
export const headAfter = (commit: CommitValue): Head => ({
  version: commit.baseVersion + (commit.eventCount ?? commit.events.length),
  type: commit.aggregateType,
  timestamp: commit.timestamp,
});

/** The head of an aggregate after its part of an accepted transaction. */
export const headAfterPart = (
  { baseVersion, aggregateType, events }: TransactionPartValue,
  { timestamp }: Pick<TransactionValue, 'timestamp'>,
): Head => ({ version: baseVersion + events.length, type: aggregateType, timestamp });

/** A keyed command is remembered for `window` offsets of its partition: by position, so that every reader forgets it at the same place. */
export const isRemembered = (command: RememberedCommand, position: number, window: number): boolean =>
  command.offset >= position - window;

/**
 * Decides an append on the head and the memory of commands, in this order: whether the aggregate was erased, a known id, the type, the
 * version, what its events' schemas say. Pure.
 */
export function decideAppend(
  command: AppendCommand,
  head: Head | undefined,
  known: RememberedCommand | undefined,
  now: number,
  isErased = false,
): AppendDecision {
  if (isErased) return refuse(gone(command.aggregateId));
  if (known !== undefined) {
    if (known.requestHash.equals(command.requestHash)) return { kind: 'replay', command: known };
    const message = `the idempotency key was used for another request to aggregate ${quoted(command.aggregateId)}; use a new key for a new request`;
    return refuse(new StatefoldError('IDEMPOTENCY_KEY_REUSED', message));
  }
  const aggregateType = typeOf(command, head);
  if (head !== undefined && head.type !== aggregateType)
    return refuse(
      new StatefoldError('AGGREGATE_TYPE_MISMATCH', otherType(command, head, aggregateType), {
        details: { aggregateType: head.type },
      }),
    );
  const version = head?.version ?? 0;
  const { expectedVersion } = command;
  if (!isExpected(expectedVersion, version)) {
    const message = `aggregate ${quoted(command.aggregateId)} is at version ${version}, expected was ${expectedVersion}; read the events since and decide again`;
    return refuse(
      new StatefoldError('VERSION_CONFLICT', message, { details: { expectedVersion, currentVersion: version } }),
    );
  }
  if (command.unfit !== undefined) return refuse(command.unfit);
  const earliest = head?.timestamp ?? 0;
  const timestamp = command.given?.timestamp ?? Math.max(now, earliest);
  if (timestamp < earliest) {
    const message = `aggregate ${quoted(command.aggregateId)} has an event of a later time before this one; times never go back within an aggregate`;
    return refuse(new StatefoldError('INVALID_REQUEST', message));
  }
  return { kind: 'write', aggregateType, baseVersion: version, timestamp };
}

/**
 * Decides a transaction on the heads of its aggregates and the memory of commands: whether one was erased, a known id, the types, the versions
 * of all, then what the schemas of their events say.
 * One that is refused is refused whole, and told of each aggregate that is elsewhere. Pure.
 */
export function decideTransaction(
  command: TransactionCommand,
  headOf: (aggregateId: string) => Head | undefined,
  known: RememberedCommand | undefined,
  now: number,
  isErased: (aggregateId: string) => boolean = () => false,
): TransactionDecision {
  const erased = command.appends.find(({ aggregateId }) => isErased(aggregateId));
  if (erased !== undefined) return refuse(gone(erased.aggregateId));
  if (known !== undefined) {
    if (known.requestHash.equals(command.requestHash)) return { kind: 'replay', command: known };
    const message = 'the idempotency key was used for another transaction; use a new key for a new request';
    return refuse(new StatefoldError('IDEMPOTENCY_KEY_REUSED', message));
  }
  const parts: { aggregateType: string; baseVersion: number }[] = [];
  const mismatches: Mismatch[] = [];
  let timestamp = now;
  for (const append of command.appends) {
    const { aggregateId, expectedVersion } = append;
    const head = headOf(aggregateId);
    const aggregateType = typeOf(append, head);
    if (head !== undefined && head.type !== aggregateType)
      return refuse(
        new StatefoldError(
          'AGGREGATE_TYPE_MISMATCH',
          `${otherType(append, head, aggregateType)}; nothing of the transaction was stored`,
          { details: { aggregateId, aggregateType: head.type } },
        ),
      );
    const currentVersion = head?.version ?? 0;
    if (!isExpected(expectedVersion, currentVersion)) mismatches.push({ aggregateId, expectedVersion, currentVersion });
    parts.push({ aggregateType, baseVersion: currentVersion });
    timestamp = Math.max(timestamp, head?.timestamp ?? 0);
  }
  const [first, ...others] = mismatches;
  if (first === undefined && command.unfit !== undefined) return refuse(command.unfit);
  if (first === undefined) return { kind: 'write', parts, timestamp };
  const more = others.length === 0 ? '' : `, and ${others.length} more ${others.length === 1 ? 'is' : 'are'} elsewhere`;
  const message =
    `aggregate ${quoted(first.aggregateId)} is at version ${first.currentVersion}, expected was ${first.expectedVersion}${more}; ` +
    'nothing of the transaction was stored: read the events since and decide again';
  return refuse(new StatefoldError('VERSION_CONFLICT', message, { details: { mismatches } }));
}

/** An aggregate that is not where a transaction expected it. */
interface Mismatch {
  readonly aggregateId: string;
  readonly expectedVersion: ExpectedVersion;
  readonly currentVersion: number;
}

const isExpected = (expected: ExpectedVersion, version: number): boolean =>
  expected === 'any' ||
  (expected === 'none' ? version === 0 : expected === 'exists' ? version > 0 : expected === version);

const typeOf = ({ aggregateType, aggregateId }: Of, head: Head | undefined): string =>
  aggregateType ?? head?.type ?? inferAggregateType(aggregateId);

const otherType = ({ aggregateId }: Of, head: Head, aggregateType: string): string =>
  `aggregate ${quoted(aggregateId)} is of type '${head.type}', not '${aggregateType}'; leave aggregateType out or send the stored one`;

type Of = Pick<TransactionAppend, 'aggregateId' | 'aggregateType'>;

const refuse = (error: StatefoldError): { readonly kind: 'refuse'; readonly error: StatefoldError } => ({
  kind: 'refuse',
  error,
});
const quoted = (id: string): string => `'${id}'`;
