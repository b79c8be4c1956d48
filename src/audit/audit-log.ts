import { randomUUID } from 'node:crypto';
import { StatefoldError } from '../core/errors.js';
import { background } from '../core/background.js';
import { eventLoop } from '../core/event-loop.js';
import type { Logger } from '../core/logger.js';
import { OneByOne } from '../core/one-by-one.js';
import { inParts } from '../core/parts.js';
import { pause } from '../core/pause.js';
import { LIST_BYTES, READ_BYTES } from '../core/reads.js';
import { nextTurn, overSlices } from '../core/slices.js';
import { costOfBytes, type Turn } from '../core/turns.js';
import { readBelow } from '../log/journal/known-end.js';
import {
  AppendRefusedError,
  appendsOf,
  type Log,
  type LogRecord,
  type NewRecord,
  type PartitionRef,
} from '../log/log.js';
import type { AuditBegun, AuditEnded, AuditEntry, AuditFilter, AuditPage, AuditTrail } from './audit-entry.js';

export const AUDIT_TOPIC = 'statefold.audit';
const PARTITION: PartitionRef = { topic: AUDIT_TOPIC, partition: 0 };
/** Records that are looked at together, from the newest back. */
const WINDOW = 512;
/** Windows that one page looks at: a tenant with few entries among many of others gets short pages, and nobody waits for long. */
const WINDOWS = 16;
/** What is written together: each record is an entry of a client that waits for it. */
const PRODUCE_BYTES = 256 * 1024;
/** So long a record waits for its produce to begin, milliseconds: then its client is told that nothing was changed. */
const WAIT_MS = 10_000;
const TOLD_AT_ONCE = 16;
/**
 * While clients of several tenants are about, what came during a produce is written so many milliseconds after that one began: at once it
 * is little. One tenant's uploads, most of them refused, made 630 produces a second, which was half of all that the broker was asked.
 */
const GATHERED_MS = 10;
/** Of a window so many bytes are read, and looked at, on a turn, and what the reading costs, units of it. */
const WINDOW_READ_BYTES = 64 * 1024;
const READ_COST = 4;
/** The clock of a broker and that of the process that wrote may differ by so much. */
const CLOCKS_APART_MS = 60_000;
/** Filters that an entry has as they are. */
const EQUAL = ['tenantId', 'tenantCreatedAt', 'keyId', 'outcome'] as const;

/** As it lies in the log. The record of the end has all that the one of the beginning has, which may be past retention by then. */
interface Stored extends Omit<AuditEntry, 'outcome'> {
  /** Absent from the record of the beginning. */
  readonly outcome?: AuditEntry['outcome'];
}

/**
 * Of records that were looked at together, the newest first. What a page is made of outlives the young generation, and the collector goes
 * after all of that on the event loop: the entries are one piece of memory outside it, and not a text each.
 */
interface Told {
  /** With commas between them. */
  readonly json: Buffer;
  /** Of each entry its record's offset, how many bytes that has, and where its text ends. */
  readonly entries: readonly { readonly offset: number; readonly length: number; readonly end: number }[];
}

/** A record that is to be written. */
interface Unwritten {
  readonly record: NewRecord;
  readonly since: number;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

interface Window {
  /** The oldest first. */
  readonly told: Told[];
  /** Nothing before it is asked for. */
  isFirst: boolean;
}

/** How a window is looked at. */
interface Asked {
  /** Older records are not asked for, milliseconds since the epoch. */
  readonly since: number;
  /** JSON; undefined: it is passed over. */
  readonly tell: (stored: Stored) => string | undefined;
  readonly turn: Turn;
}

const bytesOf = ({ value }: LogRecord): number => value?.length ?? 0;

export interface AuditLogOptions {
  readonly log: Log;
  readonly retentionMs: number;
  readonly logger: Logger;
  readonly now?: () => number;
}

/**
 * Entries in the topic `statefold.audit`, JSON, in the order in which they were written; all processes write it, and retention
 * alone removes any. An entry is two records: one before the change, one behind it. Where the second is missing the entry is told
 * from the first. Which of them have none, each process knows by reading on from where it was.
 */
export class AuditLog implements AuditTrail {
  readonly #log: Log;
  readonly #logger: Logger;
  readonly #now: () => number;
  /** Ids of entries whose end isn't in the log below `#position`, with the offset of their beginning. */
  readonly #open = new Map<string, number>();
  #position = 0;
  readonly #following = new OneByOne();
  readonly #unwritten: Unwritten[] = [];
  #writing = false;

  private constructor({ log, logger, now = Date.now }: AuditLogOptions) {
    this.#log = log;
    this.#logger = logger;
    this.#now = now;
  }

  /** Creates the topic where it is missing. */
  static async open(options: AuditLogOptions): Promise<AuditLog> {
    const cleanup = { policy: 'delete', retentionMs: options.retentionMs } as const;
    await options.log.ensureTopics([{ topic: AUDIT_TOPIC, partitions: 1, cleanup }]);
    return new AuditLog(options);
  }

  async begin(begun: AuditBegun): Promise<{ end(ended: AuditEnded): Promise<void> }> {
    const stored: Stored = { id: randomUUID(), at: this.#time(), ...begun };
    try {
      await this.#write(stored);
    } catch (error) {
      throw new StatefoldError(
        'UNAVAILABLE',
        'the audit log could not be written, and without a record there nothing is changed; send the request again',
        { cause: error },
      );
    }
    return { end: (ended) => this.#end(stored, ended) };
  }

  async #end(begun: Stored, { object, details, tenantId, tenantCreatedAt, ...outcome }: AuditEnded): Promise<void> {
    try {
      await this.#write({
        ...begun,
        tenantId: begun.tenantId ?? tenantId,
        tenantCreatedAt: begun.tenantCreatedAt ?? tenantCreatedAt,
        object: { ...begun.object, ...object },
        details: begun.details ?? details,
        ...outcome,
        endedAt: this.#time(),
      });
    } catch (error) {
      const { id, action, requestId } = begun;
      this.#logger.warn(
        { err: error, id, action, requestId },
        'how a change came out is not in the audit log; its entry stays there with the outcome unknown',
      );
    }
  }

  #write(stored: Stored): Promise<void> {
    const record = { key: Buffer.from(stored.id), value: Buffer.from(JSON.stringify(stored)) };
    return new Promise((resolve, reject) => {
      this.#unwritten.push({ record, since: performance.now(), resolve, reject });
      if (!this.#writing) void this.#writeAll();
    });
  }

  /** One produce at a time, with all that came meanwhile: a client that has much refused at once would have a hundred a second. */
  async #writeAll(): Promise<void> {
    this.#writing = true;
    let begunAt = -Infinity;
    while (this.#unwritten.length > 0) {
      const rest = background.restOf(begunAt, GATHERED_MS);
      if (rest > 0) await pause(rest, { ref: true });
      begunAt = performance.now();
      const late = begunAt - WAIT_MS;
      const [records = []] = appendsOf(
        this.#unwritten.map(({ record }) => record),
        Math.min(PRODUCE_BYTES, this.#log.maxAppendBytes),
      );
      const some = this.#unwritten.splice(0, records.length);
      let failure: unknown;
      try {
        if ((some[0]?.since ?? 0) < late)
          throw new AppendRefusedError(`it waited for ${WAIT_MS} ms behind other entries`);
        await this.#log.append(PARTITION, records);
      } catch (error) {
        failure = error;
      }
      // What waits for them begins then, of each client's.
      for (const [i, { resolve, reject }] of some.entries()) {
        if (i > 0 && i % TOLD_AT_ONCE === 0) await nextTurn();
        if (failure === undefined) resolve();
        else reject(failure);
      }
    }
    this.#writing = false;
  }

  #time(): string {
    return new Date(this.#now()).toISOString();
  }

  async list(
    { before, limit, ...filter }: AuditFilter,
    turn: Turn = nextTurn,
    shown: (entry: AuditEntry) => object = (entry) => entry,
  ): Promise<AuditPage> {
    const { from = 0 } = filter;
    const { end, open } = await this.#follow();
    const start = await this.#log.startOffset(PARTITION);
    const page = new Page(limit);
    let top = Math.min(before ?? end, end);
    const tell = (stored: Stored): string | undefined => {
      // The record of a change's end has all of it: where that is in the log, the record of its beginning is passed over.
      if (stored.outcome === undefined && !open.has(stored.id)) return undefined;
      const entry: AuditEntry = { ...stored, outcome: stored.outcome ?? 'unknown' };
      return isWanted(entry, filter) ? JSON.stringify(shown(entry)) : undefined;
    };
    for (let windows = 0; windows < WINDOWS && top > start; windows++) {
      const bottom = Math.max(start, top - WINDOW);
      // Nothing that was written before then began later.
      const { told, isFirst } = await this.#window(bottom, top, { since: from - CLOCKS_APART_MS, tell, turn });
      for (const some of told.reverse()) {
        const last = page.add(some);
        if (last !== undefined) return { entries: page.entries, next: last > start ? last : undefined };
      }
      if (isFirst) return { entries: page.entries, next: undefined };
      top = bottom;
    }
    return { entries: page.entries, next: top > start ? top : undefined };
  }

  /** The entries behind the last record that is older than `since`, if any. A read goes past the end of the window, as far as its bytes go: it is short. */
  async #window(from: number, to: number, asked: Asked): Promise<Window> {
    const window: Window = { told: [], isFirst: false };
    for (let at = from, cost = READ_COST; at < to;) {
      await asked.turn(cost);
      const { next, bytes } = await this.#part(at, to, asked, window);
      cost = READ_COST + costOfBytes(bytes);
      at = next;
    }
    return window;
  }

  /**
   * Adds what is read to the window. It is told on the same turn, and held by nobody who waits for the next one. `bytes`: of what the turn
   * of the reading did.
   */
  async #part(
    from: number,
    to: number,
    { since, tell, turn }: Asked,
    window: Window,
  ): Promise<{ readonly bytes: number; readonly next: number }> {
    const { records, next } = await readBelow(this.#log, PARTITION, from, to, WINDOW_READ_BYTES);
    let bytes = 0;
    // Mostly one: what was written together is read together.
    for (const some of inParts(records, bytesOf, { bytes: 2 * WINDOW_READ_BYTES })) {
      if (bytes > 0) await turn(costOfBytes(bytes));
      bytes = eventLoop.slice('pages', () => {
        const wanted = some.filter(({ offset }) => offset < to);
        const first = wanted.findLastIndex(({ timestamp }) => timestamp < since) + 1;
        if (first > 0) {
          window.told.length = 0;
          window.isFirst = true;
        }
        const asked = wanted.slice(first);
        window.told.push(toldOf(asked, tell));
        return asked.reduce((sum, record) => sum + bytesOf(record), 0);
      });
    }
    return { bytes, next };
  }

  /** Reads what was written since the last time; resolves with the log's end as of this call, and the entries that have no end below it. */
  #follow(): Promise<Followed> {
    return this.#following.run(async () => {
      const end = await this.#log.endOffset(PARTITION);
      const start = await this.#log.startOffset(PARTITION);
      this.#position = Math.max(this.#position, start);
      for (const [id, offset] of this.#open) if (offset < start) this.#open.delete(id);
      while (this.#position < end) {
        const { records, next } = await readBelow(this.#log, PARTITION, this.#position, end, READ_BYTES);
        await overSlices('pages', records, (record) => {
          const entry = parsed(record);
          if (entry?.outcome !== undefined) this.#open.delete(entry.id);
          else if (entry !== undefined) this.#open.set(entry.id, record.offset);
        });
        this.#position = next;
      }
      return { end, open: new Set(this.#open.keys()) };
    });
  }
}

/** Of records, the oldest first. */
function toldOf(records: readonly LogRecord[], tell: Asked['tell']): Told {
  let json = '';
  let end = 0;
  const entries: Told['entries'][number][] = [];
  for (const record of records.toReversed()) {
    const stored = parsed(record);
    const text = stored && tell(stored);
    if (text === undefined) continue;
    json += end === 0 ? text : `,${text}`;
    end += Buffer.byteLength(text) + (end === 0 ? 0 : 1);
    entries.push({ offset: record.offset, length: bytesOf(record), end });
  }
  return { json: Buffer.from(json), entries };
}

/** Entries up to a limit, or `LIST_BYTES`. */
class Page {
  readonly entries: Buffer[] = [];
  #left: number;
  #bytes = 0;

  constructor(limit: number) {
    this.#left = limit;
  }

  /** Of them as many as it has room for. Gives the offset of the last one where the page is full. */
  add({ json, entries }: Told): number | undefined {
    for (const { offset, length, end } of entries) {
      this.#left--;
      this.#bytes += length;
      if (this.#left > 0 && this.#bytes < LIST_BYTES) continue;
      this.entries.push(json.subarray(0, end));
      return offset;
    }
    if (json.length > 0) this.entries.push(json);
    return undefined;
  }
}

interface Followed {
  readonly end: number;
  /** Ids. */
  readonly open: ReadonlySet<string>;
}

type Wanted = Omit<AuditFilter, 'before' | 'limit'>;

function isWanted(entry: AuditEntry, wanted: Wanted): boolean {
  const { action, objectId, from = -Infinity, to = Infinity } = wanted;
  if (EQUAL.some((name) => wanted[name] !== undefined && entry[name] !== wanted[name])) return false;
  if (action !== undefined && entry.action !== action && !entry.action.startsWith(`${action}.`)) return false;
  if (objectId !== undefined && !Object.values(entry.object).includes(objectId)) return false;
  const at = Date.parse(entry.at);
  return at >= from && at < to;
}

/** Undefined: not one of ours. */
function parsed({ value }: LogRecord): Stored | undefined {
  if (value === null) return undefined;
  try {
    const read: unknown = JSON.parse(value.toString('utf8'));
    return typeof read === 'object' && read !== null && !Array.isArray(read) ? (read as Stored) : undefined;
  } catch {
    return undefined;
  }
}
