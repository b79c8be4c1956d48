import { UNBOUNDED, type BudgetOwner, type Hold, type MemoryBudget, type TenantBudget } from '../core/budget.js';
import { COUNTED_BYTES, SLOWEST_READER } from './request-memory.js';

/** Of each item that a stream has not read: what Node keeps of its writes. */
const BYTES_PER_ITEM = 512;
/** While streams of a tenant wait for its own memory, those that keep it have no longer before it is looked how fast they read. */
const KEPT_FROM_OTHERS_MS = 5_000;

const bytesOf = (item: Buffer | number): number => (typeof item === 'number' ? item : item.length);

/** A stream as its tenant's memory knows it. */
interface Member {
  /** There may be room for what was not taken before. */
  resume(): void;
}

/** What the streams of one tenant have not read. An item that goes to many of them is there once, and counted once. */
class TenantStreams {
  readonly members = new Set<StreamMemory>();
  readonly #budget: TenantBudget;
  readonly #hold: Hold;
  /** By how many streams each of the buffers is kept. */
  readonly #keptBy = new Map<Buffer, number>();
  readonly #waiting = new Set<Member>();
  #waking = false;
  #refusedBy: BudgetOwner = 'process';

  constructor(budget: TenantBudget) {
    this.#budget = budget;
    this.#hold = budget.hold('streams');
  }

  /** The tenant's own budget is spent, and some of its streams wait for it. */
  get starved(): boolean {
    return this.#waiting.size > 0 && this.#refusedBy === 'tenant';
  }

  tryKeep(item: Buffer | number): boolean {
    const kept = typeof item === 'number' ? 0 : (this.#keptBy.get(item) ?? 0);
    const bytes = BYTES_PER_ITEM + (kept === 0 ? bytesOf(item) : 0);
    const refusedBy = this.#budget.refuses('streams', bytes);
    if (refusedBy !== undefined) {
      this.#refusedBy = refusedBy;
      this.#budget.process.countRefusal('streams', refusedBy);
      return false;
    }
    this.#hold.add(bytes);
    if (typeof item !== 'number') this.#keptBy.set(item, kept + 1);
    return true;
  }

  release(item: Buffer | number): void {
    this.#hold.sub(BYTES_PER_ITEM + (this.#letGo(item) ? 0 : bytesOf(item)));
    this.wake();
  }

  /** One stream fewer keeps it. True: others do. */
  #letGo(item: Buffer | number): boolean {
    if (typeof item === 'number') return false;
    const kept = (this.#keptBy.get(item) ?? 1) - 1;
    if (kept > 0) this.#keptBy.set(item, kept);
    else this.#keptBy.delete(item);
    return kept > 0;
  }

  wait(member: Member): void {
    this.#waiting.add(member);
  }

  forget(member: Member): void {
    this.#waiting.delete(member);
  }

  close(): void {
    this.#hold.close();
  }

  /** Those who wait go on in their order, on a turn of its own, until one finds no room. */
  wake(): void {
    if (this.#waking || this.#waiting.size === 0) return;
    this.#waking = true;
    setImmediate(() => {
      this.#waking = false;
      for (const member of [...this.#waiting]) {
        if (!this.#waiting.delete(member)) continue;
        member.resume();
        if (this.#waiting.has(member)) return;
      }
    });
  }
}

/** What the streams of all tenants have not read, whatever channel they are. */
export class StreamsMemory {
  readonly #budget: MemoryBudget;
  readonly #tenants = new Map<string, TenantStreams>();

  constructor(budget: MemoryBudget = UNBOUNDED) {
    this.#budget = budget;
  }

  /** Of one more stream, which closes it. `resume`: after an item was not taken, when there may be room for it. */
  open(tenantId: string, resume: () => void): StreamMemory {
    let tenant = this.#tenants.get(tenantId);
    if (tenant === undefined) this.#tenants.set(tenantId, (tenant = new TenantStreams(this.#budget.tenant(tenantId))));
    const opened = tenant;
    const memory = new StreamMemory(tenant, resume, () => {
      opened.members.delete(memory);
      if (opened.members.size > 0) return;
      opened.close();
      if (this.#tenants.get(tenantId) === opened) this.#tenants.delete(tenantId);
    });
    opened.members.add(memory);
    return memory;
  }
}

export interface StreamLimits {
  /** Bytes waiting to be written past which nothing more is pushed until they have drained. */
  readonly maxBufferedBytes: number;
  /** How long a full buffer may take to drain. */
  readonly drainDeadlineMs: number;
}

export const STREAM_LIMITS: StreamLimits = { maxBufferedBytes: 1024 * 1024, drainDeadlineMs: 30_000 };

/** Between two words on how far a stream is: clients are promised one each 15 seconds at least. */
export const POSITION_MS = 10_000;

interface Kept {
  readonly item: Buffer | number;
  /** Monotonic milliseconds. */
  readonly since: number;
  /** What the slowest reader takes for it and all before it. */
  readonly readingMs: number;
}

/** What one stream was given and has not read, in the order in which it was. */
export class StreamMemory implements Member {
  readonly #tenant: TenantStreams;
  readonly #resume: () => void;
  readonly #closed: () => void;
  #kept: Kept[] = [];
  #bytes = 0;
  #fullSince: number | undefined;

  constructor(tenant: TenantStreams, resume: () => void, closed: () => void) {
    this.#tenant = tenant;
    this.#resume = resume;
    this.#closed = closed;
  }

  /**
   * Whether the stream may be given the item, beside `buffered` bytes that it has not read; of an item that no other stream has, how many
   * bytes it has. False: it waits until `resume` is called.
   */
  tryPush(item: Buffer | number, buffered: number, now: number): boolean {
    if (this.#kept.length > 0) this.keepLast(buffered);
    const bytes = bytesOf(item);
    if (this.#kept.length === 0 && buffered + bytes <= COUNTED_BYTES) return true;
    if (!this.#tenant.tryKeep(item)) {
      this.#tenant.wait(this);
      return false;
    }
    this.#kept.push({ item, since: now, readingMs: ((buffered + bytes) / SLOWEST_READER) * 1000 });
    this.#bytes += bytes;
    return true;
  }

  /** Bytes that are counted of what it was given. */
  get keeps(): number {
    return this.#bytes;
  }

  /** Its buffer is full: nothing is pushed until it has drained. */
  get full(): boolean {
    return this.#fullSince !== undefined;
  }

  /** From now on it is full, unless it was. */
  fill(now: number): void {
    this.#fullSince ??= now;
  }

  drained(): void {
    this.#fullSince = undefined;
  }

  /** So many bytes are not read yet of what the stream was given: the last ones. */
  keepLast(buffered: number): void {
    let read = 0;
    for (const { item } of this.#kept) {
      const bytes = bytesOf(item);
      if (this.#bytes - bytes < buffered) break;
      this.#bytes -= bytes;
      read++;
    }
    if (read === 0) return;
    for (const { item } of this.#kept.splice(0, read)) this.#tenant.release(item);
  }

  /**
   * It is full for longer than `deadlineMs`, or keeps what it was given for longer than it may: as long, or less where others of
   * the tenant wait for it, and what the slowest reader needs.
   */
  isStalled(now: number, deadlineMs: number): boolean {
    if (this.#fullSince !== undefined && now - this.#fullSince >= deadlineMs) return true;
    const [oldest] = this.#kept;
    if (oldest === undefined) return false;
    const graceMs = this.#tenant.starved ? Math.min(KEPT_FROM_OTHERS_MS, deadlineMs) : deadlineMs;
    return now - oldest.since >= graceMs + oldest.readingMs;
  }

  /** Now and then: room may have become free elsewhere. */
  beat(): void {
    this.#tenant.wake();
  }

  resume(): void {
    this.#resume();
  }

  /** Nothing is given to it any more; what it was given counts as read. */
  close(): void {
    this.#tenant.forget(this);
    for (const { item } of this.#kept.splice(0)) this.#tenant.release(item);
    this.#bytes = 0;
    this.#closed();
  }
}
