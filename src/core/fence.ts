import { InvariantError } from './errors.js';
import { FOLD_RULES, GIVEN_EPOCH_RULES, type Claim, type ClaimBody, type Fence } from './records.js';

/** How far a reader has folded a partition, and whose records count from there. */
export interface FenceState {
  /** 0 before the first claim. */
  readonly epoch: number;
  readonly owner: string;
  /** Offset of the next record to fold. */
  readonly position: number;
  /** recordId of the last record of ours that was folded; undefined after a gap or a foreign record. */
  readonly lastRecordId: string | undefined;
  /** The epoch is one of another partition; absent where the partition counts its own, as all did once. */
  readonly given?: true;
}

/**
 * Where the epochs of a partition come from. 'counted': a claim is the next after the one that counts. 'given': it has the epoch of
 * its owner's claim in another partition, and any higher one counts. So who reads a part of the partition, after retention took the
 * claims before, comes to the epochs that all others have.
 */
export type Epochs = 'counted' | 'given';

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
  epochs: Epochs = 'counted',
): { readonly state: FenceState; readonly verdict: Verdict } {
  if (offset < state.position)
    throw new InvariantError(`offset ${offset} comes after ${state.position - 1}: the log went back`);
  const gap = offset > state.position;
  if (record === undefined) return { state: after(state, offset, undefined), verdict: 'void' };
  const { fence, body } = record;
  const next = after(state, offset, fence.recordId);
  if (isClaim(body)) {
    const { rules } = body.value;
    if (!claimCounts(state, fence, body.value, epochs)) return { state: next, verdict: 'void' };
    const known = epochs === 'given' ? GIVEN_EPOCH_RULES : FOLD_RULES;
    if (rules > known)
      throw new InvariantError(
        `the log is written by rules ${rules}, this version knows ${known}: upgrade before reading it`,
      );
    const { epoch, owner } = fence;
    return {
      state: { ...next, epoch, owner, ...(rules === GIVEN_EPOCH_RULES && { given: true as const }) },
      verdict: 'claimed',
    };
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

/** Written out: one for each record of the log, and a spread takes longer than all the rest of the fold. */
function after({ epoch, owner, given }: FenceState, offset: number, lastRecordId: string | undefined): FenceState {
  const position = offset + 1;
  return given === undefined
    ? { epoch, owner, position, lastRecordId }
    : { epoch, owner, position, lastRecordId, given };
}

/**
 * A claim that an owner repeats counts too, and changes nothing: it tells that the owner was one then. Epochs that were given are
 * higher than all that a partition counted itself: it did so before, under a version of Statefold that is not to come back.
 */
export function claimCounts(
  state: Pick<FenceState, 'epoch' | 'owner' | 'given'>,
  { epoch, owner }: Pick<Fence, 'epoch' | 'owner'>,
  { rules }: Claim,
  epochs: Epochs,
): boolean {
  const repeated = epoch === state.epoch && owner === state.owner;
  if (epochs === 'counted' || rules === FOLD_RULES)
    return state.given !== true && (epoch === state.epoch + 1 || (repeated && epoch > 0));
  return state.given !== true || epoch > state.epoch || repeated;
}

const isClaim = (body: { readonly kind: string }): body is ClaimBody => body.kind === 'Claim';
