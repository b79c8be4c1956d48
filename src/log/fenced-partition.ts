import { InvariantError, StatefoldError } from '../core/errors.js';
import { EMPTY_FENCE, foldRecord, type FenceState, type Verdict } from '../core/fence.js';
import type { Logger } from '../core/logger.js';
import { FOLD_RULES, type ClaimBody } from '../core/records.js';
import type { RecordCodec } from './codec.js';
import { AppendRefusedError, type Log, type LogRecord, type PartitionRef } from './log.js';

/** A record that the owner wants to write. */
export interface Draft<B> {
  readonly body: B;
  /** The record's key is this, then `#` and the id of the attempt: no two records share a key. */
  readonly keyPrefix: string;
}

/** A record as the fold found it. */
export interface Folded<B> {
  readonly offset: number;
  readonly body: B;
  readonly accepted: boolean;
}

/** What a fenced partition carries: its pure rules and what is to be done with each record. */
export interface PartitionHandler<B> {
  /** Pure on what was folded so far: does the body count at this place? Asked only for the current epoch and owner. */
  judge(body: B, offset: number): boolean;
  /** Called for every record of ours but claims, in log order, once. `draft` when this process wrote it and still waits for it. */
  fold(record: Folded<B>, draft: Draft<B> | undefined): void;
  /** The partition is idle and ours: what to write next, in one produce; none when nothing waits. */
  gather(): Draft<B>[];
  /** Not accepted, and never will be: each is to be decided again. */
  undecided(drafts: readonly Draft<B>[]): void;
  /** Certainly not written: the log takes nothing now (a full disk, say). */
  refused(drafts: readonly Draft<B>[], error: Error): void;
  /** The partition is not ours any more, or broken; nothing more is folded. Of the drafts some may have been written, or folded already. */
  stopped(error: Error, drafts: readonly Draft<B>[]): void;
}

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
  readonly observer?: { produced?(records: number, seconds: number): void; claimed?(epoch: number): void; voided?(): void };
}

/*
 *   CREATED ──open──► RESTORING ──► CLAIMING ──the fold says so──► RUNNING
 *                                      ▲                             │ an indefinite produce
 *                                      └─────────────────────────────┘
 *   any ──deposed, broken or closed──► STOPPED
 */
export type PartitionStatus = 'CREATED' | 'RESTORING' | 'CLAIMING' | 'RUNNING' | 'STOPPED';

const READ_BYTES = 1024 * 1024;
const CLAIM_KEY = 'claim';
/** Claims that may fail before the partition stops and who waits is told (some 3 and 30 seconds); its next use tries again. */
const ATTEMPTS = { open: 10, reclaim: 36 };
const deposed = (): StatefoldError => new StatefoldError('UNAVAILABLE', 'another process owns the tenant now; send the request again');
/** Tells the partitions apart that one process opens after each other: their records must not share a key. */
let opened = 0;

/**
 * The owner's side of one fenced partition: reads to the end, claims, then writes what the handler gathers, one produce in
 * flight, and folds every record, its own and foreign ones, by `foldRecord`. An acknowledgement at the expected offset needs
 * no read; a higher one folds the gap first; a lower one means that the log lost data. An indefinite result ends the epoch.
 */
export class FencedPartition<B extends { readonly kind: string }> {
  readonly #options: FencedPartitionOptions<B>;
  #fence: FenceState;
  #status: PartitionStatus = 'CREATED';
  readonly #writer: string;
  #trimmedBefore: number | undefined;
  #attempts = 0;
  #epoch = 0;
  #inFlight: readonly Draft<B>[] = [];
  #busy = false;
  #kicked = false;
  #barrier: { running: Promise<void>; next: Promise<void> | undefined } | undefined;
  #idle: (() => void)[] = [];

  constructor(options: FencedPartitionOptions<B>) {
    this.#options = options;
    this.#fence = options.from ?? EMPTY_FENCE;
    this.#writer = `${options.owner}.${(opened++).toString(36)}`;
  }

  /** Where the fold had to start since all before was dropped unread; undefined when nothing was. */
  get trimmedBefore(): number | undefined {
    return this.#trimmedBefore;
  }

  get status(): PartitionStatus {
    return this.#status;
  }

  /** How far the partition is folded. */
  get fence(): FenceState {
    return this.#fence;
  }

  /** Folds all that is there and takes the partition. @throws InvariantError when the log does not join the checkpoint. */
  async open(): Promise<void> {
    this.#status = 'RESTORING';
    try {
      await this.#restore();
      await this.#claim();
    } catch (error) {
      this.#stop(error as Error);
      throw error;
    }
    this.kick();
  }

  /** Something waits to be gathered. Cheap; call it for each command. */
  kick(): void {
    if (this.#kicked || this.#busy || this.#status !== 'RUNNING') return;
    this.#kicked = true;
    // After the work of this turn: so that what came in one turn goes in one produce.
    setImmediate(() => {
      this.#kicked = false;
      void this.#run();
    });
  }

  /**
   * Resolves when all that was acknowledged before the call has been folded. Calls gather: those that come while a query is
   * under way share the next one. @throws StatefoldError UNAVAILABLE when the partition stops.
   */
  barrier(): Promise<void> {
    if (this.#barrier === undefined) {
      const running = this.#catchUp().finally(() => (this.#barrier = undefined));
      this.#barrier = { running, next: undefined };
      return running;
    }
    const current = this.#barrier;
    current.next ??= current.running.then(
      () => this.barrier(),
      () => this.barrier(),
    );
    return current.next;
  }

  /** Waits for the produce in flight and stops. */
  async close(): Promise<void> {
    if (this.#busy && this.#status === 'RUNNING') await new Promise<void>((resolve) => this.#idle.push(resolve));
    this.#stop(new StatefoldError('UNAVAILABLE', 'the service is shutting down; send the request again'));
  }

  async #catchUp(): Promise<void> {
    for (;;) {
      this.#mustRun();
      const end = await this.#end();
      if (this.#fence.position >= end) return this.#mustRun();
      // Records past ours are being folded by the produce in flight, or were written by another owner.
      if (this.#busy) await new Promise<void>((resolve) => this.#idle.push(resolve));
      else await this.#exclusively(() => this.#readTo(end));
    }
  }

  async #end(): Promise<number> {
    try {
      return await this.#options.log.endOffset(this.#options.ref);
    } catch (error) {
      throw new StatefoldError('UNAVAILABLE', 'the log can not be reached now; send the request again', { cause: error });
    }
  }

  #mustRun(): void {
    if (this.#status === 'STOPPED') throw new StatefoldError('UNAVAILABLE', 'this process does not serve the tenant any more; send the request again');
  }

  async #exclusively(work: () => Promise<void>): Promise<void> {
    this.#busy = true;
    try {
      await work();
      this.#mustOwn();
    } catch (error) {
      this.#stop(error as Error);
    } finally {
      this.#release();
    }
  }

  #release(): void {
    this.#busy = false;
    for (const resolve of this.#idle.splice(0)) resolve();
    if (this.#status === 'RUNNING') this.kick();
  }

  async #run(): Promise<void> {
    if (this.#busy || this.#status !== 'RUNNING') return;
    let drafts: Draft<B>[];
    try {
      drafts = this.#options.handler.gather();
    } catch (error) {
      this.#stop(error as Error);
      return;
    }
    if (drafts.length > 0) await this.#exclusively(() => this.#produce(drafts));
  }

  async #produce(drafts: readonly Draft<B>[]): Promise<void> {
    const { log, ref, handler, observer } = this.#options;
    const started = performance.now();
    const ids: string[] = [];
    const records = drafts.map((draft, i) => this.#encode(draft.body, draft.keyPrefix, this.#epoch, this.#fence.position + i, ids));
    this.#inFlight = drafts;
    let base: number;
    try {
      ({ baseOffset: base } = await log.append(ref, records));
    } catch (error) {
      this.#inFlight = [];
      if (error instanceof AppendRefusedError) return handler.refused(drafts, error);
      this.#options.logger.warn({ partition: ref, err: error }, 'a produce has no definite result: the epoch ends');
      return this.#reclaim(drafts, ids);
    }
    observer?.produced?.(drafts.length, (performance.now() - started) / 1000);
    this.#mustRun();
    if (base < this.#fence.position)
      throw new InvariantError(`${ref.topic}-${ref.partition}: a record landed at ${base}, before ${this.#fence.position}, which was folded: the log lost data`);
    if (base > this.#fence.position) await this.#readTo(base);
    const again: Draft<B>[] = [];
    drafts.forEach((draft, i) => {
      const fence = { epoch: this.#epoch, owner: this.#options.owner, recordId: ids[i] ?? '', expectedOffset: base + i, previous: '' };
      if (this.#fold(base + i, { fence, body: draft.body }, draft) !== 'accepted') again.push(draft);
    });
    this.#inFlight = again;
    this.#mustOwn();
    this.#inFlight = [];
    if (again.length > 0) handler.undecided(again);
  }

  /** After an indefinite produce: past the new claim every record of the old epoch has landed, or is void for ever. */
  async #reclaim(drafts: readonly Draft<B>[], ids: readonly string[]): Promise<void> {
    this.#status = 'CLAIMING';
    const open = new Map(ids.map((id, i) => [id, drafts[i]] as const));
    try {
      await this.#claim(open);
    } catch (error) {
      this.#inFlight = [...open.values()].filter((draft) => draft !== undefined);
      throw error;
    }
    const left = [...open.values()].filter((draft) => draft !== undefined);
    if (left.length > 0) this.#options.handler.undecided(left);
  }

  async #restore(): Promise<void> {
    const { log, ref } = this.#options;
    const [start, end] = [await log.startOffset(ref), await log.endOffset(ref)];
    if (this.#fence.position > end)
      throw new InvariantError(`${ref.topic}-${ref.partition}: the checkpoint is at ${this.#fence.position}, the log ends at ${end}: the log lost data`);
    if (this.#fence.position < start) await this.#adopt(start);
    else if (this.#fence.position > 0) await this.#checkJoin(start);
    await this.#readTo(end);
  }

  /** The start of the partition was dropped (retention), and with it the claims that its first records rest on: they tell themselves. */
  async #adopt(start: number): Promise<void> {
    const { log, ref, codec } = this.#options;
    let [epoch, owner] = [this.#fence.epoch, this.#fence.owner];
    for (const { value } of await log.read(ref, start, READ_BYTES)) {
      const record = value === null ? undefined : codec.decode(value);
      if (record === undefined || record.fence.epoch <= epoch) continue;
      if (record.body.kind === 'Claim') {
        // Before a claim that counts stand records of the epoch before it, and older, void ones.
        if (record.fence.epoch > epoch + 1) [epoch, owner] = [record.fence.epoch - 1, ''];
        break;
      }
      ({ epoch, owner } = record.fence);
    }
    this.#fence = { epoch, owner, position: start, lastRecordId: undefined };
    this.#trimmedBefore = start;
  }

  /** The record before the checkpoint must be the one that was folded there: after truncation and regrowth an offset alone can look right. */
  async #checkJoin(start: number): Promise<void> {
    const { log, ref, codec } = this.#options;
    const { position, lastRecordId } = this.#fence;
    if (lastRecordId === undefined || position - 1 < start) return;
    const [last] = await log.readAt(ref, [position - 1]);
    const found = last?.value ? codec.decode(last.value)?.fence.recordId : undefined;
    if (found !== undefined && found !== lastRecordId)
      throw new InvariantError(`${ref.topic}-${ref.partition}: the checkpoint follows record ${lastRecordId}, the log has ${found} there: it is another log`);
  }

  async #claim(open?: Map<string, Draft<B> | undefined>): Promise<void> {
    const { log, ref, owner } = this.#options;
    this.#status = 'CLAIMING';
    for (let attempt = 0; ; attempt++) {
      if (this.#closed()) throw new StatefoldError('UNAVAILABLE', 'the service is shutting down; send the request again');
      // Not taken back from one who claimed meanwhile: what it wrote may be what waits here.
      if (open !== undefined && this.#fence.owner !== owner) throw deposed();
      try {
        const epoch = this.#fence.epoch + 1;
        const claim: ClaimBody = { kind: 'Claim', value: { rules: FOLD_RULES } };
        const { baseOffset } = await log.append(ref, [this.#encode(claim, CLAIM_KEY, epoch, this.#fence.position, [])]);
        await this.#readTo(baseOffset + 1, open);
        this.#mustRun();
        if (this.#fence.epoch === epoch && this.#fence.owner === owner) {
          this.#epoch = epoch;
          this.#status = 'RUNNING';
          this.#options.observer?.claimed?.(epoch);
          return;
        }
      } catch (error) {
        if (error instanceof InvariantError || error instanceof StatefoldError) throw error;
        this.#options.logger.warn({ partition: ref, err: error, attempt }, 'the claim was not acknowledged, trying again');
      }
      if (attempt === (open === undefined ? ATTEMPTS.open : ATTEMPTS.reclaim)) throw new StatefoldError('UNAVAILABLE', 'the log takes no writes now (is the disk full?); send the request again', { retryAfterSeconds: 5 });
      await new Promise((resolve) => setTimeout(resolve, Math.min(1000, 10 * 2 ** attempt)).unref());
      await this.#readTo(await log.endOffset(ref), open).catch((error: unknown) => {
        if (error instanceof InvariantError || error instanceof StatefoldError) throw error;
      });
    }
  }

  #closed(): boolean {
    return this.#status === 'STOPPED';
  }

  #encode(body: B | ClaimBody, keyPrefix: string, epoch: number, expectedOffset: number, ids: string[]): { key: Buffer; value: Buffer } {
    const { codec, owner } = this.#options;
    const previous = ids.at(-1) ?? this.#fence.lastRecordId ?? '';
    const recordId = `${this.#writer}:${(this.#attempts++).toString(36)}`;
    ids.push(recordId);
    return { key: Buffer.from(`${keyPrefix}#${recordId}`), value: codec.encode({ epoch, owner, recordId, expectedOffset, previous }, body) };
  }

  async #readTo(end: number, open?: Map<string, Draft<B> | undefined>): Promise<void> {
    const { log, ref } = this.#options;
    while (this.#fence.position < end) {
      const records = await log.read(ref, this.#fence.position, READ_BYTES);
      this.#mustRun(); // what was closed meanwhile folds nothing more
      for (const record of records) if (record.offset < end) this.#foldStored(record, open);
      const past = records.at(-1)?.offset ?? end;
      // Erased records leave gaps: what was not read up to here is gone.
      if (records.length === 0 || past >= end) this.#fence = this.#fence.position < end ? { ...this.#fence, position: end, lastRecordId: undefined } : this.#fence;
    }
  }

  #foldStored(record: LogRecord, open: Map<string, Draft<B> | undefined> | undefined): void {
    const decoded = record.value === null ? undefined : this.#options.codec.decode(record.value);
    const mine = decoded === undefined ? undefined : open?.get(decoded.fence.recordId);
    const verdict = this.#fold(record.offset, decoded, mine);
    if (mine !== undefined && verdict === 'accepted' && decoded !== undefined) open?.delete(decoded.fence.recordId);
  }

  #fold(offset: number, record: Parameters<typeof foldRecord<B>>[2], draft: Draft<B> | undefined): Verdict {
    const { handler, observer } = this.#options;
    const { state, verdict } = foldRecord<B>(this.#fence, offset, record, (body, at) => handler.judge(body, at));
    this.#fence = state;
    if (verdict === 'void') observer?.voided?.();
    if (record !== undefined && record.body.kind !== 'Claim') {
      const body = record.body as B;
      handler.fold({ offset, body, accepted: verdict === 'accepted' }, verdict === 'accepted' ? draft : undefined);
    }
    return verdict;
  }

  #mustOwn(): void {
    if (this.#status === 'RUNNING' && (this.#fence.epoch !== this.#epoch || this.#fence.owner !== this.#options.owner))
      throw deposed();
  }

  #stop(error: Error): void {
    if (this.#status === 'STOPPED') return;
    this.#status = 'STOPPED';
    const drafts = this.#inFlight;
    this.#inFlight = [];
    this.#options.handler.stopped(error, drafts);
    for (const resolve of this.#idle.splice(0)) resolve();
  }
}
