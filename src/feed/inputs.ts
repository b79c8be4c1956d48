import { eventsIn, type AggregateCommit, type StoredCommit } from '../core/event.js';
import { isErasure, isReducerControl, type Control, type EventsBody, type ProjectionControl } from '../core/records.js';
import { storedCommit, storedTransaction } from '../log/codec/commit-of-view.js';
import type { PositionedEvent } from './feed-item.js';
import type { Feed, ItemKind } from './feed.js';

/** A record of a tenant's events that counts, for those who read them one after the other. */
export type Input =
  | CommitInput
  | { readonly kind: 'control'; readonly control: ProjectionControl; readonly offset: number }
  /** The state of an aggregate changes without a commit. */
  | { readonly kind: 'release'; readonly aggregateId: string; readonly offset: number }
  /** From here on the aggregate is gone: its commits are no inputs any more, wherever they stand. */
  | ErasedInput;

export interface CommitInput {
  readonly kind: 'commit';
  readonly commit: StoredCommit;
  /** Its events as the feed tells them: made for who asks first, and shared by all. A map beside would cost the collector more than they do. */
  positioned?: readonly PositionedEvent[] | undefined;
}

export interface ErasedInput {
  readonly kind: 'erased';
  readonly aggregateId: string;
  readonly aggregateType: string;
  readonly offset: number;
  /** Milliseconds since the epoch. */
  readonly timestamp: number;
  readonly reason: string | undefined;
}

/** A tenant's inputs in its one order, whatever partitions they come from. */
export interface InputFeed extends Feed<Input> {
  /** All inputs from `from` up to here, exclusive, are commits; undefined where that is not known without reading them. */
  commitsUntil?(from: number): number | undefined;
}

/** With room for its events: a member that comes later costs as much as the input does. */
export const commitInput = (commit: StoredCommit): CommitInput => ({ kind: 'commit', commit, positioned: undefined });

export const inputOffset = (input: Input): number => (input.kind === 'commit' ? input.commit.offset : input.offset);

export const commitsOf = (inputs: readonly Input[]): StoredCommit[] =>
  inputs.flatMap((input) => (input.kind === 'commit' ? [input.commit] : []));

/** About what it takes in memory. */
export const inputBytes = (input: Input): number => (input.kind === 'commit' ? bytesOfCommit(input.commit) : 200);

export function bytesOfCommit(commit: StoredCommit): number {
  if (commit.bytes !== undefined) return 200 + commit.bytes + 150 * eventsIn(commit);
  return commit.parts === undefined
    ? bytesOfPart(commit)
    : commit.parts.reduce((sum, part) => sum + bytesOfPart(part), 200);
}

function bytesOfPart(commit: AggregateCommit): number {
  let bytes = 300 + (commit.metadata?.length ?? 0);
  for (const event of commit.events) bytes += 150 + event.data.length + (event.metadata?.length ?? 0);
  return bytes;
}

/** Undefined: it says nothing to those who read the inputs. */
export function controlInput(offset: number, control: Control): Input | undefined {
  if (isErasure(control)) {
    if (control.kind === 'Erased') return undefined;
    const { aggregateId, aggregateType, timestamp, reason } = control.value;
    return { kind: 'erased', aggregateId, aggregateType, offset, timestamp, reason: reason ?? undefined };
  }
  if (!isReducerControl(control)) return { kind: 'control', control, offset };
  return control.kind === 'ReducerRelease'
    ? { kind: 'release', aggregateId: control.value.aggregateId, offset }
    : undefined;
}

export const INPUTS: ItemKind<EventsBody, Input> = {
  positionOf: inputOffset,
  bytesOf: inputBytes,
  itemOf: (offset, body) => {
    if (body.kind === 'Commit') return commitInput(storedCommit(offset, body.value));
    return body.kind === 'Transaction'
      ? commitInput(storedTransaction(offset, body.value))
      : controlInput(offset, body);
  },
};
