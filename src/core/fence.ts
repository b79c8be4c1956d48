import { InvariantError } from './errors.js';
import { FOLD_RULES, type ClaimBody, type Fence } from './records.js';

/** How far a reader has folded a partition, and whose records count from there. */
export interface FenceState {
  /** 0 before the first claim. */
  readonly epoch: number;
  readonly owner: string;
  /** Offset of the next record to fold. */
  readonly position: number;
  /** recordId of the last record of ours that was folded; undefined after a gap or a foreign record. */
  readonly lastRecordId: string | undefined;
}

export const EMPTY_FENCE: FenceState = { epoch: 0, owner: '', position: 0, lastRecordId: '' };

export type Verdict = 'claimed' | 'accepted' | 'void';

/**
 * The one pure function of the log: folds the record at `offset` onto `state` and says whether it counts. `judge` decides
 * on what the body rests (an append: its base version), and is asked only of records of the current epoch and owner.
 *
 * @throws InvariantError where an accepted record does not follow the record that its writer saw: the log lost data.
 */
export function foldRecord<B extends { readonly kind: string }>(
  state: FenceState,
  offset: number,
  record: { readonly fence: Fence; readonly body: B | ClaimBody } | undefined,
  judge: (body: B, offset: number) => boolean,
): { readonly state: FenceState; readonly verdict: Verdict } {
  if (offset < state.position)
    throw new InvariantError(`offset ${offset} comes after ${state.position - 1}: the log went back`);
  const gap = offset > state.position;
  if (record === undefined)
    return { state: { ...state, position: offset + 1, lastRecordId: undefined }, verdict: 'void' };
  const { fence, body } = record;
  const next = { epoch: state.epoch, owner: state.owner, position: offset + 1, lastRecordId: fence.recordId };
  if (isClaim(body)) {
    if (fence.epoch !== state.epoch + 1) return { state: next, verdict: 'void' };
    if (body.value.rules !== FOLD_RULES)
      throw new InvariantError(
        `the log is written by rules ${body.value.rules}, this version knows ${FOLD_RULES}: upgrade before reading it`,
      );
    return { state: { ...next, epoch: fence.epoch, owner: fence.owner }, verdict: 'claimed' };
  }
  if (fence.epoch !== state.epoch || fence.owner !== state.owner || !judge(body, offset))
    return { state: next, verdict: 'void' };
  if (
    fence.expectedOffset === offset &&
    !gap &&
    state.lastRecordId !== undefined &&
    fence.previous !== '' &&
    fence.previous !== state.lastRecordId
  )
    throw new InvariantError(
      `the record at offset ${offset} was written after ${fence.previous}, but ${state.lastRecordId} is before it: the log lost data`,
    );
  return { state: next, verdict: 'accepted' };
}

const isClaim = (body: { readonly kind: string }): body is ClaimBody => body.kind === 'Claim';
