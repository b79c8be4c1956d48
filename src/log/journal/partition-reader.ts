import { eventLoop } from '../../core/event-loop.js';
import { InvariantError, StatefoldError } from '../../core/errors.js';
import { claimCounts, EMPTY_FENCE, foldRecord, type Epochs, type FenceState, type Verdict } from '../../core/fence.js';
import type { Logger } from '../../core/logger.js';
import { READ_BYTES } from '../../core/reads.js';
import { FOLD_RULES, type ClaimBody, type Fence } from '../../core/records.js';
import { nextTurn, timedSlice } from '../../core/slices.js';
import type { RecordCodec } from '../codec/codec.js';
import type { Log, LogRecord, PartitionRef } from '../log.js';
import { readBelow, recordsAt, type KnownRead } from './known-end.js';
import type { Draft, PartitionHandler } from './partition-handler.js';

export interface PartitionReaderOptions<B> {
  readonly log: Log;
  readonly ref: PartitionRef;
  readonly codec: RecordCodec<B>;
  readonly handler: Pick<PartitionHandler<B>, 'judge' | 'fold' | 'restoring' | 'untilRoom' | 'trimmed' | 'anchored'>;
  /** 'counted' unless given. */
  readonly epochs?: Epochs | undefined;
  /** Where to go on: a checkpoint, else the start. */
  readonly from?: FenceState | undefined;
  readonly onVoid?: (() => void) | undefined;
  readonly logger: Logger;
}

/** Drafts whose produce has no definite result, by the ids of their records: what is folded of them is taken out. */
export type OpenDrafts<B> = Map<string, Draft<B>>;

/** A change that is left behind a claim of which it is not known whether it counts. */
interface LeftChange<B> {
  readonly fence: Fence;
  readonly body: B;
}

/**
 * The fold of one fenced partition: joins the checkpoint to the log, and folds each record once, in log order. Reads may
 * overlap: what another one folded meanwhile is passed over.
 */
export class PartitionReader<B extends { readonly kind: string }> {
  readonly #options: PartitionReaderOptions<B>;
  #fence: FenceState;
  #trimmedBefore: number | undefined;
  /** The fold began where no record tells whose the partition is: a claim of a higher epoch may be gone. */
  #unsure = false;
  #closed = false;

  constructor(options: PartitionReaderOptions<B>) {
    this.#options = options;
    this.#fence = options.from ?? EMPTY_FENCE;
  }

  /** How far the partition is folded. */
  get fence(): FenceState {
    return this.#fence;
  }

  /** Where the fold had to start since all before was dropped unread; undefined when nothing was. */
  get trimmedBefore(): number | undefined {
    return this.#trimmedBefore;
  }

  /** Nothing more is folded, whatever a read brings. */
  close(): void {
    this.#closed = true;
  }

  /** Folds all that is there. @throws InvariantError when the log does not join the checkpoint. */
  async restore(): Promise<void> {
    const { log, ref } = this.#options;
    const [start, end] = [await log.startOffset(ref), await log.endOffset(ref)];
    if (this.#fence.position > end)
      throw new InvariantError(
        `${ref.topic}-${ref.partition}: the checkpoint is at ${this.#fence.position}, the log ends at ${end}: the log lost data`,
      );
    if (start > 0 && this.#options.epochs !== 'given') this.#beheaded(start);
    if (this.#fence.position < start) await this.#anchor(start, end);
    else if (this.#fence.position > 0) await this.#checkJoin(start);
    const { handler } = this.#options;
    handler.restoring?.(end);
    try {
      await this.readTo(end, undefined, () => this.#mustHaveRoom());
    } finally {
      handler.restoring?.(undefined);
    }
  }

  /**
   * The start of a partition of counted epochs is gone, whose first record is a claim, which nothing takes away.
   * @throws InvariantError where this process has not folded what is gone
   */
  #beheaded(start: number): void {
    const { ref, logger } = this.#options;
    // What is left rests on records that are gone: who folds it from here would take it for void, and begin anew beside it.
    if (this.#fence.position < start)
      throw new InvariantError(
        `${ref.topic}-${ref.partition}: the log begins at ${start}, ${this.#fence.position} is to be read next, and nothing of it may ever be dropped: the log lost data`,
      );
    // It is nowhere else.
    logger.error(
      { partition: ref, start },
      'the first records of a partition are gone, of which nothing may ever be dropped: what this process has folded is served, and what needs them is refused',
    );
  }

  /**
   * The start of the partition was dropped (retention): the fold begins with the first claim that is left and counts, and all before it counts as
   * dropped too. Its owner wrote nothing twice in that epoch, and knew all before it: so this reader finds void what all others do.
   *
   * A claim that is left may have come late, behind one of a higher epoch that is gone. So a claim alone is not believed: a record that
   * landed where its writer expected it tells that the writer had folded all before, and was the owner.
   */
  async #anchor(start: number, end: number): Promise<void> {
    const { log, ref, codec, handler } = this.#options;
    const from = this.#fence;
    let highest = 0;
    const drop = ({ fence, body }: LeftChange<B>): void => {
      // A late one of a former owner says nothing of how far the last one came.
      if (fence.epoch >= highest) handler.trimmed?.(body);
      highest = Math.max(highest, fence.epoch);
    };
    const stand = (
      position: number,
      { epoch, owner, given }: Pick<FenceState, 'epoch' | 'owner' | 'given'>,
      sure: boolean,
    ): void => {
      this.#fence = { epoch, owner, position, lastRecordId: undefined, ...(given && { given }) };
      this.#trimmedBefore = position;
      this.#unsure = !sure;
      handler.anchored?.(position);
    };
    /** The claim that counts if none of a higher epoch is gone, and the changes behind it. */
    let candidate: { readonly fence: Fence; readonly at: number; readonly left: LeftChange<B>[] } | undefined;
    const pass = (): void => {
      candidate?.left.forEach(drop);
      candidate = undefined;
    };
    for (let at = start; at < end;) {
      const { records, next } = await readBelow(log, ref, at, end, READ_BYTES, () => this.#closed);
      for (const { offset, value } of records) {
        const record = value === null || offset >= end ? undefined : codec.decode(value);
        if (record === undefined) continue;
        const { fence, body } = record;
        const { epoch, owner } = fence;
        if (body.kind === 'Claim') {
          const { value: claim } = body as ClaimBody;
          // Counted by the partition itself: the claims between are gone, and each follows the one before it.
          if (claim.rules === FOLD_RULES) {
            if (from.given === true || candidate !== undefined) continue;
            const before = epoch > from.epoch + 1 ? { epoch: epoch - 1, owner: '' } : from;
            if (claimCounts(before, fence, claim, 'given')) return stand(offset, before, true);
            continue;
          }
          if (!claimCounts(from, fence, claim, 'given')) continue;
          if (candidate === undefined || epoch > candidate.fence.epoch) {
            pass();
            candidate = { fence, at: offset, left: [] };
          }
        } else {
          const change: LeftChange<B> = { fence, body: body as B };
          if (candidate === undefined) drop(change);
          else candidate.left.push(change);
        }
        if (candidate === undefined || !this.isSure(offset, fence)) continue;
        if (candidate.fence.epoch === epoch && candidate.fence.owner === owner) return stand(candidate.at, from, true);
        pass();
      }
      at = next;
    }
    // The last claim counts, or one that is gone does: what comes next will tell.
    const last = candidate?.fence;
    pass();
    stand(end, last === undefined ? from : { epoch: last.epoch, owner: last.owner, given: true }, false);
  }

  /** Its writer had folded all before, and so knew whether it was the owner: who finds that it is not writes nothing. */
  isSure(offset: number, { expectedOffset }: Fence): boolean {
    return expectedOffset === offset;
  }

  /** The record before the checkpoint must be the one that was folded there: after truncation and regrowth an offset alone can look right. */
  async #checkJoin(start: number): Promise<void> {
    const { log, ref, codec } = this.#options;
    const { position, lastRecordId } = this.#fence;
    if (lastRecordId === undefined || position - 1 < start) return;
    const [last] = await recordsAt(log, ref, [position - 1], () => this.#closed);
    const found = last?.value ? codec.decode(last.value)?.fence.recordId : undefined;
    if (found !== undefined && found !== lastRecordId)
      throw new InvariantError(
        `${ref.topic}-${ref.partition}: the checkpoint follows record ${lastRecordId}, the log has ${found} there: it is another log`,
      );
  }

  /**
   * Folds all below `end`, to which the log is known to go.
   * @throws StatefoldError UNAVAILABLE when the reader was closed meanwhile, or the log dropped records that were not read
   * @throws InvariantError when the log does not come up with it
   */
  async readTo(end: number, open?: OpenDrafts<B>, before?: () => Promise<void> | undefined): Promise<void> {
    const read = (from: number): Promise<KnownRead> =>
      readBelow(this.#options.log, this.#options.ref, from, end, READ_BYTES, () => this.#closed);
    // What comes next is read while this is folded.
    let reading: Promise<KnownRead> | undefined;
    let from = this.#fence.position;
    while (this.#fence.position < end) {
      if (reading === undefined) from = this.#fence.position;
      const { records, next } = await (reading ?? read(from));
      await this.#mustHaveAll(records[0]?.offset ?? next);
      reading = next < end ? read(next) : undefined;
      reading?.catch(() => undefined); // unless it is awaited: the fold may throw first
      const room = before?.();
      if (room !== undefined) await room;
      const isDense = next - from === records.length;
      from = next;
      await this.take(records, end, open);
      // What was read ahead was read before the gap was met: something else may stand there for those who know of it.
      if (!isDense) reading = undefined;
      // Erased records leave gaps: what was not read up to here is gone.
      if (next >= end && this.#fence.position < end)
        this.#fence = { ...this.#fence, position: end, lastRecordId: undefined };
    }
  }

  /**
   * What is there past the fold, waiting up to `waitMs` for the first record; not folded yet.
   * @throws StatefoldError UNAVAILABLE when the log dropped records that were not read: the fold must start anew.
   */
  async ahead(waitMs: number): Promise<readonly LogRecord[]> {
    const { log, ref } = this.#options;
    const from = this.#fence.position;
    const { records } = await log.read(ref, from, READ_BYTES, waitMs);
    await this.#mustHaveAll(records[0]?.offset ?? from);
    return records;
  }

  /** What is folded is kept on the local disk: where that takes nothing, memory would have to. */
  #mustHaveRoom(): Promise<void> | undefined {
    return this.#options.handler
      .untilRoom?.(() => !this.#closed)
      ?.then((room) => {
        if (!room)
          throw new StatefoldError(
            'UNAVAILABLE',
            'the tenant can not be restored, since the local store takes no writes now (is its disk full?); send the request again',
            { retryAfterSeconds: 5 },
          );
      });
  }

  /** Erased records leave gaps that mean nothing; what retention took may have been claims, and changes that were never told here. */
  async #mustHaveAll(first: number): Promise<void> {
    const { log, ref } = this.#options;
    const { position } = this.#fence;
    if (first > position && (await log.startOffset(ref)) > position)
      throw new StatefoldError(
        'UNAVAILABLE',
        `${ref.topic}-${ref.partition}: the log dropped records from ${position} on before they were read; send the request again`,
      );
  }

  /** Folds those of the records that are not folded yet, below `end`, in as many turns as that takes. */
  async take(records: readonly LogRecord[], end = Infinity, open?: OpenDrafts<B>): Promise<void> {
    for (let folded = 0; ;) {
      if (this.#closed)
        throw new StatefoldError(
          'UNAVAILABLE',
          'this process does not serve the tenant any more; send the request again',
        );
      folded = eventLoop.slice('log_fold', () =>
        timedSlice(records, folded, (record) => this.#foldRead(record, end, open)),
      );
      if (folded === records.length) return;
      await nextTurn();
    }
  }

  #foldRead(record: LogRecord, end: number, open: OpenDrafts<B> | undefined): void {
    if (record.offset < this.#fence.position || record.offset >= end) return;
    const decoded = record.value === null ? undefined : this.#options.codec.decode(record.value);
    const mine = decoded === undefined ? undefined : open?.get(decoded.fence.recordId);
    const verdict = this.fold(record.offset, decoded, mine);
    if (mine !== undefined && verdict === 'accepted' && decoded !== undefined) open?.delete(decoded.fence.recordId);
  }

  fold(offset: number, record: Parameters<typeof foldRecord<B>>[2], draft: Draft<B> | undefined): Verdict {
    const { handler, onVoid, epochs } = this.#options;
    if (this.#unsure && record !== undefined) this.#ascertain(record);
    const { state, verdict } = foldRecord<B>(
      this.#fence,
      offset,
      record,
      (body, at) => handler.judge(body, at),
      epochs,
    );
    this.#fence = state;
    if (verdict === 'void') onVoid?.();
    if (record !== undefined && record.body.kind !== 'Claim') {
      const body = record.body as B;
      handler.fold({ offset, body, accepted: verdict === 'accepted' }, verdict === 'accepted' ? draft : undefined);
    }
    return verdict;
  }

  /** An owner writes in its epoch only past a claim of it: a change of a higher one than is known here tells that retention took the claim. */
  #ascertain({ fence, body }: { readonly fence: Fence; readonly body: B | ClaimBody }): void {
    const { epoch, owner } = fence;
    if (body.kind !== 'Claim' && epoch > this.#fence.epoch) this.#fence = { ...this.#fence, epoch, owner, given: true };
    if (epoch === this.#fence.epoch && owner === this.#fence.owner && this.isSure(this.#fence.position, fence))
      this.#unsure = false;
  }
}
