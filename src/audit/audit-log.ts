import { randomUUID } from 'node:crypto';
import { StatefoldError } from '../core/errors.js';
import type { Logger } from '../core/logger.js';
import { OneByOne } from '../core/one-by-one.js';
import { LIST_BYTES, READ_BYTES } from '../core/reads.js';
import { nextTurn, overSlices } from '../core/slices.js';
import { costOfBytes, type Turn } from '../core/turns.js';
import { readBelow } from '../log/journal/known-end.js';
import type { Log, LogRecord, PartitionRef } from '../log/log.js';
import type { AuditBegun, AuditEnded, AuditEntry, AuditFilter, AuditPage, AuditTrail } from './audit-entry.js';

export const AUDIT_TOPIC = 'statefold.audit';
const PARTITION: PartitionRef = { topic: AUDIT_TOPIC, partition: 0 };
/** Records that are looked at together, from the newest back. */
const WINDOW = 512;
/** Windows that one page looks at: a tenant with few entries among many of others gets short pages, and nobody waits for long. */
const WINDOWS = 16;
/** Of a window so many bytes are read at a time, and what that costs, units of a turn. */
const WINDOW_READ_BYTES = 128 * 1024;
const READ_COST = 6;
/** Records of so many bytes are looked at on one turn of the event loop. */
const TURN_BYTES = 64 * 1024;
/** The clock of a broker and that of the process that wrote may differ by so much. */
const CLOCKS_APART_MS = 60_000;
/** Filters that an entry has as they are. */
const EQUAL = ['tenantId', 'tenantCreatedAt', 'keyId', 'outcome'] as const;

/** As it lies in the log. The record of the end has all that the one of the beginning has, which may be past retention by then. */
interface Stored extends Omit<AuditEntry, 'outcome'> {
  /** Absent from the record of the beginning. */
  readonly outcome?: AuditEntry['outcome'];
}

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

  async #write(stored: Stored): Promise<void> {
    await this.#log.append(PARTITION, [{ key: Buffer.from(stored.id), value: Buffer.from(JSON.stringify(stored)) }]);
  }

  #time(): string {
    return new Date(this.#now()).toISOString();
  }

  async list({ before, limit, ...filter }: AuditFilter, turn: Turn = nextTurn): Promise<AuditPage> {
    const { from = 0 } = filter;
    const { end, open } = await this.#follow();
    const start = await this.#log.startOffset(PARTITION);
    const entries: AuditEntry[] = [];
    let bytes = 0;
    let looked = 0;
    let top = Math.min(before ?? end, end);
    for (let windows = 0; windows < WINDOWS && top > start; windows++) {
      const bottom = Math.max(start, top - WINDOW);
      const records = await this.#window(bottom, top, turn);
      for (const record of records.reverse()) {
        looked += record.value?.length ?? 0;
        if (looked >= TURN_BYTES) {
          await turn(costOfBytes(looked));
          looked = 0;
        }
        // Nothing that was written before then began later.
        if (record.timestamp < from - CLOCKS_APART_MS) return { entries, next: undefined };
        const stored = parsed(record);
        // The record of a change's end has all of it: where that is in the log, the record of its beginning is passed over.
        if (stored === undefined || (stored.outcome === undefined && !open.has(stored.id))) continue;
        const entry: AuditEntry = { ...stored, outcome: stored.outcome ?? 'unknown' };
        if (!isWanted(entry, filter)) continue;
        entries.push(entry);
        bytes += record.value?.length ?? 0;
        if (entries.length === limit || bytes >= LIST_BYTES)
          return { entries, next: record.offset > start ? record.offset : undefined };
      }
      top = bottom;
    }
    return { entries, next: top > start ? top : undefined };
  }

  /** A read goes past the end of the window, as far as its bytes go: it is short. */
  async #window(from: number, to: number, turn: Turn): Promise<LogRecord[]> {
    const found: LogRecord[] = [];
    for (let at = from; at < to;) {
      await turn(READ_COST);
      const { records, next } = await readBelow(this.#log, PARTITION, at, to, WINDOW_READ_BYTES);
      for (const record of records) if (record.offset < to) found.push(record);
      at = next;
    }
    return found;
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
    return JSON.parse(value.toString('utf8')) as Stored;
  } catch {
    return undefined;
  }
}
