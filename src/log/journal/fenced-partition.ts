import { backOff } from '../../core/back-off.js';
import { background } from '../../core/background.js';
import { eventLoop } from '../../core/event-loop.js';
import { InvariantError, NotOwnerError, StatefoldError } from '../../core/errors.js';
import type { FenceState, Verdict } from '../../core/fence.js';
import { Gathered } from '../../core/gathered.js';
import type { Logger } from '../../core/logger.js';
import { FOLD_RULES, GIVEN_EPOCH_RULES, type ClaimBody } from '../../core/records.js';
import { nextTurnOfAppend, timedSlice } from '../../core/slices.js';
import type { RecordCodec } from '../codec/codec.js';
import {
  appendBytes,
  AppendRefusedError,
  AppendTooLargeError,
  type Log,
  type NewRecord,
  type PartitionRef,
} from '../log.js';
import { produceSpan, tracing } from '../../core/tracing.js';
import { follow } from './follow.js';
import type { Draft, PartitionHandler } from './partition-handler.js';
import { PartitionReader, type OpenDrafts } from './partition-reader.js';
import { pause } from '../../core/pause.js';
import { LOG_BACK_OFF_MS, Retries } from '../../core/retries.js';
import { isFinal, reached, Unclaimed, Unreachable } from './retry.js';

export interface FencedPartitionOptions<B> {
  readonly log: Log;
  readonly ref: PartitionRef;
  readonly codec: RecordCodec<B>;
  /** Id of this process, new at each start. */
  readonly owner: string;
  readonly handler: PartitionHandler<B>;
  readonly logger: Logger;
  /** Where to go on: a checkpoint, else the start. */
  readonly from?: FenceState;
  /** Any process may write: who is deposed follows, and claims again when it has something to write. */
  readonly shared?: boolean;
  /** Where its epochs come from, which this process has claimed. Without it, the partition counts its own. */
  readonly epochs?: EpochSource;
  /** An owner answers refusals and reads only past a write of its own, not past a question to the leader: `strictReads`. */
  readonly strict?: boolean;
  readonly observer?: PartitionObserver;
}

/** A partition that is claimed, whose epochs another one has too. */
export interface EpochSource {
  /** Of the last claim there. */
  readonly epoch: number;
  /** Claims it once more; resolves with the epoch. @throws StatefoldError UNAVAILABLE when it is not this process's any more */
  nextEpoch(): Promise<number>;
}

export interface PartitionObserver {
  produced?(records: number, seconds: number): void;
  claimed?(epoch: number): void;
  voided?(): void;
}

/*
 *   CREATED ──open──► RESTORING ──────────► CLAIMING ──the fold says so──► RUNNING
 *                         │                  ▲  ▲  │                         │
 *             open without a claim   claim() │  └──┼─ an indefinite produce ─┤
 *                         ▼                  │     │                         │
 *                     FOLLOWING ─────────────┘     │ shared: deposed, or the │
 *                         ▲   shared: something    │ log takes no claim      │
 *                         │   is to be written     │                         │
 *                         └────────────────────────┴─────────────────────────┘
 *   any ──deposed (unless shared), broken or closed──► STOPPED
 */
export type PartitionStatus = 'CREATED' | 'RESTORING' | 'FOLLOWING' | 'CLAIMING' | 'RUNNING' | 'STOPPED';

const CLAIM_KEY = 'claim';
/** Claims that may fail before the partition stops and who waits is told (some 3 and 30 seconds); its next use tries again. */
const ATTEMPTS = { open: 10, reclaim: 36 };
/** For so long less is written at once than the log has refused, milliseconds. */
const LESS_MS = 60_000;
/** Tells the partitions apart that one process opens after each other: their records must not share a key. */
let opened = 0;

/**
 * One fenced partition as this process reads and, once it has claimed it, writes it: what the handler gathers, one produce in
 * flight, every record folded by `foldRecord`. An acknowledgement at the expected offset needs no read; a higher one folds the
 * gap first; a lower one means that the log lost data. An indefinite result ends the epoch.
 */
export class FencedPartition<B extends { readonly kind: string }> {
  readonly #options: FencedPartitionOptions<B>;
  readonly #reader: PartitionReader<B>;
  #status: PartitionStatus = 'CREATED';
  readonly #writer: string;
  #attempts = 0;
  #epoch = 0;
  #inFlight: readonly Draft<B>[] = [];
  #busy = false;
  #kicked = false;
  /** Nothing of ours was accepted since our claim. */
  #vain = false;
  /** How often a shared partition was taken away before we had written what we wanted. */
  #contended = 0;
  readonly #caughtUp = new Gathered(() => this.#catchUp());
  #idle: (() => void)[] = [];
  /** Refused appends since the last that was taken. */
  readonly #refusals: Retries;
  /** Who waits for a write that begins after they asked. */
  #proofs: { readonly resolve: () => void; readonly reject: (error: Error) => void }[] = [];
  #claimDue = false;
  /** It stops as soon as nothing is in flight. */
  #closing = false;
  /** What the log may take at once, as it was refused more: bytes, until then. */
  #less: { readonly most: number; readonly until: number } | undefined;

  constructor(options: FencedPartitionOptions<B>) {
    this.#options = options;
    const { log, ref, codec, handler, from, observer, logger } = options;
    this.#reader = new PartitionReader({
      ...{ log, ref, codec, handler, from, logger },
      epochs: options.epochs === undefined ? 'counted' : 'given',
      onVoid: () => observer?.voided?.(),
    });
    this.#refusals = new Retries(logger, { partition: ref });
    this.#writer = `${options.owner}.${(opened++).toString(36)}`;
  }

  /** Where the fold had to start since all before was dropped unread; undefined when nothing was. */
  get trimmedBefore(): number | undefined {
    return this.#reader.trimmedBefore;
  }

  get status(): PartitionStatus {
    return this.#status;
  }

  /** How far the partition is folded. */
  get fence(): FenceState {
    return this.#reader.fence;
  }

  /** The offset of the next record to be folded. */
  get position(): number {
    return this.#reader.fence.position;
  }

  /** Of our last claim. */
  get epoch(): number {
    return this.#epoch;
  }

  /**
   * Folds all that is there and takes the partition; without `claim` it goes on folding what others write, until it is told to
   * claim. @throws InvariantError when the log does not join the checkpoint.
   */
  async open({ claim = true }: { readonly claim?: boolean } = {}): Promise<void> {
    this.#mustRun(); // closed before it was open
    this.#status = 'RESTORING';
    try {
      await this.#reader.restore();
      this.#mustRun();
      if (claim) await this.#claim();
      else this.#status = 'FOLLOWING';
    } catch (error) {
      this.#stop(error as Error);
      throw error;
    }
    if (this.#follows()) void this.#follow();
    this.kick();
  }

  /** Takes a partition that is followed: only what came since the last read is still to be folded. */
  async claim(): Promise<void> {
    while (this.#busy) await this.#whenIdle();
    this.#mustRun();
    if (this.#status !== 'FOLLOWING') throw new Error(`a partition that is ${this.#status} is not claimed`);
    this.#busy = true;
    this.#status = 'CLAIMING';
    try {
      await this.#reader.readTo(await this.#end());
      await this.#claim();
    } catch (error) {
      this.#stop(error as Error);
      throw error;
    } finally {
      this.#release();
    }
  }

  /**
   * Ends the epoch of an owner and begins the next; resolves with it.
   * @throws StatefoldError UNAVAILABLE when the partition is not ours any more
   */
  async nextEpoch(): Promise<number> {
    while (this.#busy) await this.#whenIdle();
    this.#mustRun();
    if (this.#status !== 'RUNNING') throw new NotOwnerError();
    await this.#exclusively(() => this.#claim(new Map()));
    this.#mustRun();
    return this.#epoch;
  }

  /** Writes the claim of the epoch once more, before retention takes the last one; resolves when it is in the log. */
  repeatClaim(): Promise<void> {
    this.#claimDue = true;
    return this.#proof();
  }

  /** Something waits to be gathered. Cheap; call it for each command. `later`: on a later round of the event loop in any case. */
  kick({ later = false }: { readonly later?: boolean } = {}): void {
    if (this.#kicked || this.#busy || !this.#writes()) return;
    this.#kicked = true;
    const run = (): void => {
      this.#kicked = false;
      void this.#run();
    };
    if (this.#status === 'FOLLOWING' && this.#contended > 0)
      setTimeout(run, backOff(this.#contended, LOG_BACK_OFF_MS)).unref();
    else if (this.#refusals.failures > 0) setTimeout(run, this.#refusals.delay).unref();
    // At once where this turn may be long with what others have the loop do; what comes in it goes in the next produce.
    else if (!later && (background.isShared || background.isAtWork)) queueMicrotask(run);
    // After the work of this turn: so that what came in one turn goes in one produce.
    else setImmediate(run);
  }

  /**
   * Resolves when all that was acknowledged before the call has been folded. Calls gather: those that come while a query is
   * under way share the next one. @throws StatefoldError UNAVAILABLE when the partition stops.
   */
  caughtUp(): Promise<void> {
    return this.#caughtUp.asked();
  }

  /** Waits for the produce in flight, and where that has no definite result for one claim behind it, and stops. */
  async close(): Promise<void> {
    this.#closing = true;
    if (this.#busy && this.#status === 'RUNNING') await this.#whenIdle();
    this.#stop(new StatefoldError('UNAVAILABLE', 'the service is shutting down; send the request again'));
  }

  #writes(): boolean {
    return this.#status === 'RUNNING' || (this.#status === 'FOLLOWING' && this.#options.shared === true);
  }

  #follows(): boolean {
    return this.#status === 'FOLLOWING' || (this.#options.shared === true && this.#status !== 'STOPPED');
  }

  #whenIdle(): Promise<void> {
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  /** Folds what comes, while others may write. */
  #follow(): Promise<void> {
    return follow({
      ref: this.#options.ref,
      logger: this.#options.logger,
      read: (waitMs) => this.#reader.ahead(waitMs),
      take: async (records) => {
        while (this.#follows() && (await this.#options.handler.untilRoom?.(() => this.#follows())) === false);
        // What this process writes is folded by its acknowledgement, or by the claim past it.
        while (this.#busy && this.#follows()) await this.#whenIdle();
        if (!this.#follows()) return;
        // In several turns, between which nothing else is folded.
        this.#busy = true;
        try {
          await this.#reader.take(records);
          this.#mustOwn();
        } finally {
          this.#release();
        }
      },
      follows: () => this.#follows(),
      failed: (error) => this.#failed(error),
      messages: {
        away: 'a partition can not be followed now, trying again',
        back: 'a partition is followed again',
      },
    });
  }

  async #catchUp(): Promise<void> {
    this.#mustRun();
    if (this.#options.strict === true && this.#status !== 'FOLLOWING') return this.#proof();
    const end = await this.#end();
    while (this.fence.position < end) {
      this.#mustRun();
      // Records past ours are being folded by the produce in flight, or were written by another owner.
      if (this.#busy) await this.#whenIdle();
      else await this.#exclusively(() => reached(this.#reader.readTo(end)));
    }
    this.#mustRun();
  }

  /** Resolves when a write of ours that begins after the call is acknowledged: until then nobody else had the partition. */
  #proof(): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#closed()) return reject(new NotOwnerError());
      this.#proofs.push({ resolve, reject });
      this.kick();
    });
  }

  #end(): Promise<number> {
    return reached(this.#options.log.endOffset(this.#options.ref));
  }

  #mustRun(): void {
    if (this.#status === 'STOPPED')
      throw new NotOwnerError('this process does not serve the tenant any more; send the request again');
  }

  async #exclusively(work: () => Promise<void>): Promise<void> {
    this.#busy = true;
    try {
      await work();
      this.#mustOwn();
    } catch (error) {
      if (error instanceof Unreachable) throw error; // nothing was in flight, and what was read is folded
      this.#failed(error as Error);
    } finally {
      this.#release();
    }
  }

  #release(): void {
    this.#busy = false;
    for (const resolve of this.#idle.splice(0)) resolve();
    this.kick();
  }

  async #run(): Promise<void> {
    if (this.#busy || !this.#writes()) return;
    const claimDue = this.#claimDue && this.#status === 'RUNNING';
    let drafts: Draft<B>[] = [];
    try {
      if (!claimDue) drafts = eventLoop.slice('gather', () => this.#options.handler.gather(this.#most));
    } catch (error) {
      this.#stop(error as Error);
      return;
    }
    const proofs = this.#status === 'RUNNING' ? this.#proofs.splice(0) : [];
    if (!claimDue && drafts.length === 0 && proofs.length === 0) return;
    let written = false;
    await this.#exclusively(async () => {
      if (this.#status !== 'RUNNING') return this.#claimFor(drafts);
      written = await this.#produce(drafts);
      if (written && claimDue) this.#claimDue = false;
    });
    const failure = !this.#isRunning() ? new NotOwnerError() : written ? undefined : new Unclaimed();
    for (const { resolve, reject } of proofs)
      if (failure === undefined) resolve();
      else reject(failure);
  }

  /** Encodes the drafts, sends them and folds them. Without drafts the claim is repeated. False: the log refused it. */
  async #produce(drafts: readonly Draft<B>[]): Promise<boolean> {
    const { ref, handler, observer } = this.#options;
    const started = performance.now();
    const ids: string[] = [];
    this.#inFlight = drafts;
    const records = await this.#encodeAll(drafts, ids);
    this.#mustRun();
    let base: number;
    try {
      base = await this.#append(records, drafts);
    } catch (error) {
      if (!(error instanceof AppendRefusedError))
        return this.#endEpoch(error, 'a produce has no definite result: the epoch ends', drafts, ids);
      this.#inFlight = [];
      this.#refusals.failed(error, 'the log refuses writes; they are tried again');
      // What is small enough is not refused for what it was written with: of all of it less is tried.
      if (error instanceof AppendTooLargeError && drafts.length > 1) {
        // Of what was refused, and of what was gathered for: drafts may be smaller than their records are.
        this.#less = { most: Math.min(appendBytes(records), this.#most) / 2, until: performance.now() + LESS_MS };
        handler.undecided(drafts);
      } else handler.refused(drafts, error);
      return false;
    }
    this.#refusals.worked('the log takes writes again');
    observer?.produced?.(drafts.length, (performance.now() - started) / 1000);
    this.#mustRun();
    if (base < this.fence.position)
      throw new InvariantError(
        `${ref.topic}-${ref.partition}: a record landed at ${base}, before ${this.fence.position}, which was folded: the log lost data`,
      );
    if (base > this.fence.position) {
      try {
        await this.#reader.readTo(base);
      } catch (error) {
        if (isFinal(error)) throw error;
        return this.#endEpoch(error, 'what is before a produce can not be read now: the epoch ends', drafts, ids);
      }
    }
    if (drafts.length === 0) this.#take(base, ids[0] ?? '', this.#claimBody, undefined);
    await this.#foldOwn(base, drafts, ids);
    this.#mustOwn();
    this.#vain = false;
    this.#contended = 0;
    const again = this.#inFlight;
    this.#inFlight = [];
    if (again.length > 0) handler.undecided(again);
    return true;
  }

  /** The records of the drafts, or of a claim where there are none; their ids are put into `ids`. */
  async #encodeAll(drafts: readonly Draft<B>[], ids: string[]): Promise<NewRecord[]> {
    const { handler } = this.#options;
    if (drafts.length === 0) return [this.#encode(this.#claimBody, CLAIM_KEY, this.#epoch, this.fence.position, ids)];
    const records: NewRecord[] = [];
    const encode = ({ body, keyPrefix }: Draft<B>, i: number): void =>
      void records.push(this.#encode(body, keyPrefix, this.#epoch, this.fence.position + i, ids));
    for (let encoded = 0; encoded < drafts.length;) {
      if (encoded > 0) {
        await nextTurnOfAppend();
        this.#mustRun();
      }
      const most = handler.atOnce?.('encoded', drafts, encoded);
      encoded = eventLoop.slice('gather', () => timedSlice(drafts, encoded, encode, { most }));
    }
    return records;
  }

  /** Resolves with the offset of the first record. @throws AppendRefusedError; any other error: it may be in the log */
  async #append(records: readonly NewRecord[], drafts: readonly Draft<B>[]): Promise<number> {
    const { log, ref, handler } = this.#options;
    const { tracer } = tracing;
    const span =
      tracer &&
      produceSpan(
        tracer,
        ref,
        records.length,
        drafts.map((draft) => draft.span),
      );
    try {
      const appended = log.append(ref, records);
      handler.underWay?.(drafts, this.fence.position);
      const { baseOffset } = await appended;
      span?.set({ 'messaging.kafka.offset': baseOffset });
      return baseOffset;
    } catch (error) {
      span?.fail(error);
      throw error;
    } finally {
      span?.end();
    }
  }

  /** Folds what was written, by its acknowledgement. What others' claims have made void is in flight still. */
  async #foldOwn(base: number, drafts: readonly Draft<B>[], ids: readonly string[]): Promise<void> {
    const { handler } = this.#options;
    const again: Draft<B>[] = [];
    const fold = (draft: Draft<B>, i: number): void => {
      if (this.#take(base + i, ids[i] ?? '', draft.body, draft) !== 'accepted') again.push(draft);
    };
    for (let folded = 0; folded < drafts.length;) {
      if (folded > 0) {
        // What is left is in the log, and folded by whoever reads it, also where this partition stops meanwhile.
        this.#inFlight = [...again, ...drafts.slice(folded)];
        await nextTurnOfAppend();
        this.#mustRun();
      }
      const most = handler.atOnce?.('folded', drafts, folded);
      folded = eventLoop.slice('log_fold', () => timedSlice(drafts, folded, fold, { most }));
    }
    this.#inFlight = again;
  }

  /** It may be in the log, or land yet: the next epoch tells. */
  async #endEpoch(error: unknown, why: string, drafts: readonly Draft<B>[], ids: readonly string[]): Promise<true> {
    const { ref: partition, logger } = this.#options;
    logger.warn({ partition, err: error }, why);
    await this.#reclaim(drafts, ids);
    return true;
  }

  /** Folds a record that is ours without reading it. */
  #take(offset: number, recordId: string, body: B | ClaimBody, draft: Draft<B> | undefined): Verdict {
    const fence = { epoch: this.#epoch, owner: this.#options.owner, recordId, expectedOffset: offset, previous: '' };
    return this.#reader.fold(offset, { fence, body }, draft);
  }

  /** After an indefinite produce: past the new claim every record of the old epoch has landed, or is void for ever. */
  async #reclaim(drafts: readonly Draft<B>[], ids: readonly string[]): Promise<void> {
    this.#status = 'CLAIMING';
    const open: OpenDrafts<B> = new Map(drafts.map((draft, i) => [ids[i] ?? '', draft] as const));
    try {
      await this.#claim(open);
      this.#inFlight = [];
    } catch (error) {
      this.#inFlight = [...open.values()];
      if (!(error instanceof Unclaimed) || this.#options.shared !== true) throw error;
      this.#inFlight = [];
      this.#status = 'FOLLOWING';
      this.#options.handler.unknown?.([...open.values()], error);
      return;
    }
    if (open.size > 0) this.#options.handler.undecided([...open.values()]);
  }

  /** A shared partition has something to write: it is decided anew on what the claim finds. */
  async #claimFor(drafts: readonly Draft<B>[]): Promise<void> {
    this.#inFlight = drafts;
    this.#status = 'CLAIMING';
    try {
      await this.#reader.readTo(await this.#end());
      await this.#claim();
      this.#inFlight = [];
      this.#options.handler.undecided(drafts);
    } catch (error) {
      if (this.#closed()) return; // whoever waits was told
      if (this.#status !== 'CLAIMING' || error instanceof InvariantError) throw error;
      this.#inFlight = [];
      this.#status = 'FOLLOWING';
      this.#options.handler.refused(drafts, error as Error);
    }
  }

  async #claim(open?: OpenDrafts<B>): Promise<void> {
    const { log, ref, owner, epochs } = this.#options;
    this.#status = 'CLAIMING';
    const tries = new Retries(this.#options.logger, { partition: ref });
    // What of the epoch that ends may still land is void past the next one; so one is begun where they come from.
    const given = open === undefined ? epochs?.epoch : await epochs?.nextEpoch();
    for (let attempt = 0; ; attempt++) {
      if (this.#closed() || (this.#closing && attempt > 0))
        throw new StatefoldError('UNAVAILABLE', 'the service is shutting down; send the request again');
      // Not taken back from one who claimed meanwhile: past that claim it is known too what landed, and the tenant is served there.
      if (open !== undefined && this.fence.owner !== owner) throw new NotOwnerError();
      // Never written where it can't count: a claim that lands where its writer expected it is believed to.
      if (given !== undefined && this.#isAbove(given)) throw new NotOwnerError();
      try {
        const epoch = given ?? this.fence.epoch + 1;
        const claims = this.#claims(epoch);
        const { baseOffset } = await log.append(ref, claims);
        await this.#reader.readTo(baseOffset + claims.length, open);
        this.#mustRun();
        if (this.fence.epoch === epoch && this.fence.owner === owner) {
          this.#epoch = epoch;
          this.#vain = true;
          this.#status = 'RUNNING';
          tries.worked('the claim was acknowledged');
          this.#refusals.worked('the log takes writes again');
          this.#options.observer?.claimed?.(epoch);
          return;
        }
        // A higher one was given to another owner, or to a later activation here.
        if (given !== undefined && this.#isAbove(given)) throw new NotOwnerError();
      } catch (error) {
        if (isFinal(error)) throw error;
        tries.failed(error, 'the claim was not acknowledged, trying again');
      }
      if (attempt === (open === undefined ? ATTEMPTS.open : ATTEMPTS.reclaim)) throw new Unclaimed();
      await pause(backOff(attempt, LOG_BACK_OFF_MS));
      try {
        await this.#reader.readTo(await log.endOffset(ref), open);
      } catch (error) {
        if (isFinal(error)) throw error;
      }
    }
  }

  /** Past a claim by which one of this epoch of ours counts no more. */
  #isAbove(epoch: number): boolean {
    const { fence } = this;
    return (
      fence.given === true && (fence.epoch > epoch || (fence.epoch === epoch && fence.owner !== this.#options.owner))
    );
  }

  /** The claim of an epoch; before the first that is given, one by which a version that counts them finds that it is deposed. */
  #claims(epoch: number): { key: Buffer; value: Buffer }[] {
    const ids: string[] = [];
    const { position, epoch: last, given } = this.fence;
    const counted: ClaimBody = { kind: 'Claim', value: { rules: FOLD_RULES } };
    if (this.#options.epochs === undefined || given === true || last === 0)
      return [this.#encode(this.#claimBody, CLAIM_KEY, epoch, position, ids)];
    return [
      this.#encode(counted, CLAIM_KEY, last + 1, position, ids),
      this.#encode(this.#claimBody, CLAIM_KEY, epoch, position + 1, ids),
    ];
  }

  get #claimBody(): ClaimBody {
    return { kind: 'Claim', value: { rules: this.#options.epochs === undefined ? FOLD_RULES : GIVEN_EPOCH_RULES } };
  }

  /** Bytes of one produce. */
  get #most(): number {
    if (this.#less !== undefined && performance.now() > this.#less.until) this.#less = undefined;
    return this.#less?.most ?? Infinity;
  }

  #isRunning(): boolean {
    return this.#status === 'RUNNING';
  }

  #closed(): boolean {
    return this.#status === 'STOPPED';
  }

  #encode(
    body: B | ClaimBody,
    keyPrefix: string,
    epoch: number,
    expectedOffset: number,
    ids: string[],
  ): { key: Buffer; value: Buffer } {
    const { codec, owner } = this.#options;
    const previous = ids.at(-1) ?? this.fence.lastRecordId ?? '';
    const recordId = `${this.#writer}:${(this.#attempts++).toString(36)}`;
    ids.push(recordId);
    return {
      key: Buffer.from(`${keyPrefix}#${recordId}`),
      value: codec.encode({ epoch, owner, recordId, expectedOffset, previous }, body),
    };
  }

  #mustOwn(): void {
    const { epoch, owner } = this.fence;
    if (this.#status === 'RUNNING' && (epoch !== this.#epoch || owner !== this.#options.owner))
      throw new NotOwnerError();
  }

  #failed(error: Error): void {
    if (!(error instanceof NotOwnerError) || this.#options.shared !== true || this.#closed()) return this.#stop(error);
    const drafts = this.#inFlight;
    this.#status = 'FOLLOWING';
    if (this.#vain || drafts.length > 0) this.#contended++;
    this.#inFlight = [];
    if (drafts.length > 0) this.#options.handler.undecided(drafts);
  }

  #stop(error: Error): void {
    if (this.#status === 'STOPPED') return;
    this.#status = 'STOPPED';
    this.#reader.close();
    const drafts = this.#inFlight;
    this.#inFlight = [];
    this.#options.handler.stopped(error, drafts);
    for (const { reject } of this.#proofs.splice(0)) reject(new NotOwnerError());
    for (const resolve of this.#idle.splice(0)) resolve();
  }
}
