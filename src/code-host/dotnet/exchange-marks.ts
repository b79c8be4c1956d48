import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Logger } from '../../core/logger.js';
import { murmur2 } from '../../core/murmur2.js';

/** What an exchange with a runner is about. */
export interface MarkedExchange {
  /** Whose code runs in it: artefacts of reducers, revisions of projections. */
  readonly units: readonly string[];
  /** Names of the events that it feeds, in their order; one at least. */
  readonly events: readonly string[];
}

interface Mark {
  readonly units: readonly string[];
  /** Hashes of the names of its events: one that has any of them is the same work, however it was cut. */
  readonly events: readonly number[];
  /** The last of them by its name: when that one was through, so is the exchange. */
  readonly through: string;
  /** So many processes have ended in it. */
  readonly deaths: number;
  /** It is going on. */
  readonly open: boolean;
}

/** How long an exchange counts after its answer was read: what is made of it follows. */
const AFTER_MS = 2000;
const MAX_BYTES = 64 * 1024;
/** In so many exchanges without that event it is taken for gone. */
const PATIENCE = 1000;

/**
 * Remembers over the end of this process which exchange it was at, one file a tenant. An answer that is large is marked before it is
 * worked off, by a write that need outlive the process only, not the machine, so it waits for no disk. What ended a process once
 * is tried again event by event, what did twice is halted: the event is in the log, and would come at each start.
 */
export class ExchangeMarks {
  readonly #folder: string;
  readonly #logger: Logger;
  readonly #found = new Map<string, Mark>();
  readonly #passed = new Map<string, number>();
  readonly #open = new Map<string, NodeJS.Timeout | undefined>();

  /** Finds what the last process left behind. */
  constructor(folder: string, logger: Logger) {
    this.#folder = folder;
    this.#logger = logger;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(folder)) {
      const tenantId = decodeURIComponent(name);
      const mark = this.#read(name);
      if (mark === undefined) rmSync(join(folder, name), { force: true });
      else if (!mark.open) this.#found.set(tenantId, mark);
      else {
        const found = { ...mark, open: false, deaths: mark.deaths + 1 };
        logger.warn({ tenantId, units: mark.units, through: mark.through, ends: found.deaths }, 'the service ended while it worked off what uploaded code had answered');
        this.#found.set(tenantId, found);
        this.#write(tenantId, found);
      }
    }
  }

  /** How many processes have ended in an exchange that this one may be, with the units that were in it; 0: none. */
  deaths(tenantId: string, units: readonly string[]): { readonly deaths: number; readonly units: readonly string[] } {
    const found = this.#found.get(tenantId);
    const suspects = found === undefined ? [] : units.filter((unit) => found.units.includes(unit));
    return { deaths: suspects.length === 0 ? 0 : (found?.deaths ?? 0), units: suspects };
  }

  /** A large answer is here. */
  begin(tenantId: string, exchange: MarkedExchange): void {
    clearTimeout(this.#open.get(tenantId));
    this.#open.set(tenantId, undefined);
    const { units } = exchange;
    const events = exchange.events.map(hashOf);
    const found = this.#found.get(tenantId);
    // An end in other work is no second one in what was found: whatever ended this process, it was not the same event.
    const deaths = found !== undefined && events.some((event) => found.events.includes(event)) ? found.deaths : 0;
    this.#write(tenantId, { units, events, through: exchange.events.at(-1) ?? '', deaths, open: true });
  }

  /** It was read. What follows from it has a while. */
  end(tenantId: string): void {
    if (!this.#open.has(tenantId)) return;
    clearTimeout(this.#open.get(tenantId));
    this.#open.set(tenantId, setTimeout(() => this.#clear(tenantId), AFTER_MS).unref());
  }

  /** Events were through, one of which may be what is waited for. */
  passed(tenantId: string, events: readonly string[]): void {
    const found = this.#found.get(tenantId);
    if (found === undefined) return;
    const passed = (this.#passed.get(tenantId) ?? 0) + 1;
    this.#passed.set(tenantId, passed);
    if (events.includes(found.through) || passed > PATIENCE) this.forget(tenantId);
  }

  /** It was halted, or did no harm. */
  forget(tenantId: string): void {
    this.#found.delete(tenantId);
    this.#passed.delete(tenantId);
    this.#clear(tenantId);
  }

  /** In order: nothing that is going on ended this process. */
  close(): void {
    for (const tenantId of [...this.#open.keys()]) this.#clear(tenantId);
  }

  #clear(tenantId: string): void {
    clearTimeout(this.#open.get(tenantId));
    this.#open.delete(tenantId);
    const found = this.#found.get(tenantId);
    if (found === undefined) rmSync(this.#path(tenantId), { force: true });
    else this.#write(tenantId, found);
  }

  #read(name: string): Mark | undefined {
    try {
      const mark = JSON.parse(readFileSync(join(this.#folder, name), 'utf8')) as Partial<Mark>;
      const { units, events, through, deaths, open } = mark;
      return Array.isArray(units) && Array.isArray(events) && typeof through === 'string' && typeof deaths === 'number'
        ? { units, events, through, deaths, open: open === true }
        : undefined;
    } catch {
      // Cut off in the middle of a write: which exchange it was is not known.
      return undefined;
    }
  }

  #write(tenantId: string, mark: Mark): void {
    try {
      const text = JSON.stringify(mark);
      if (text.length <= MAX_BYTES) writeFileSync(this.#path(tenantId), text, { mode: 0o600 });
    } catch (err) {
      // On a full disk, say. It is a precaution, and no reason to stop.
      this.#logger.debug({ err, tenantId }, 'an exchange could not be marked');
    }
  }

  #path(tenantId: string): string {
    return join(this.#folder, encodeURIComponent(tenantId));
  }
}

const hashOf = (event: string): number => murmur2(Buffer.from(event));
