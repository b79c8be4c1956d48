import { background } from '../../core/background.js';
import { eventCount, inContext, type AppendCommand, type AppendResult, type NewEvent } from '../../core/event.js';
import { NotOwnerError, OfOneEventError, StatefoldError, type ErrorCode } from '../../core/errors.js';
import type { AggregateHome } from '../../aggregates/aggregates.js';
import type { Gateway } from '../gateway/gateway.js';
import { requestHashOf } from '../append-reader.js';
import { MAX_TRANSACTION_AGGREGATES } from '../append-schema.js';
import type { Slot } from './bulk-answers.js';
import type { BulkItem } from './bulk-item.js';
import type { BulkRelay } from './bulk-relay.js';

/** What a line made that was stored. */
export interface StoredLine {
  readonly eventId: string;
  readonly aggregateId: string;
  readonly version: number;
  /** Milliseconds since the epoch. */
  readonly timestamp: number;
  readonly position: number | undefined;
}

/** What a lane asks of its stream. */
export interface LaneHost {
  home(aggregateId: string): AggregateHome | Promise<AggregateHome>;
  /** Where lines for that process go. */
  relayTo(url: string): BulkRelay;
  answer(slot: Slot, result: AppendResult): void;
  stored(slot: Slot, line: StoredLine): void;
  /** Nobody asks for the state after each line: lines may share a record. */
  readonly together: boolean;
  refuse(slot: Slot, error: unknown): void;
  /** Another process sent the lines, and finds the owner where this one isn't it. */
  readonly passesBack: boolean;
  passBack(slot: Slot): void;
}

type LaneGateway = Pick<Gateway, 'ownerOf' | 'changed'>;

const EMPTY = Buffer.alloc(0);
const FIRST_DELAY_MS = 20;
const MAX_DELAY_MS = 500;
/** Of lines that share a record. */
const TOGETHER = { lines: 500, bytes: 64 * 1024, aggregates: MAX_TRANSACTION_AGGREGATES };
/** Of all that are gathered: their records are written at once, so that the log is waited for once. */
const GATHERED = { lines: 1000, bytes: 256 * 1024 };
/**
 * Of either while several tenants ask. A record is decided, encoded, folded and answered in one piece each, which those of others wait for; what
 * is gathered waits for the log once, which may be far.
 */
const AMONG_TENANTS = { together: 1 / 8, gathered: 1 / 2 };
const partOf = (what: keyof typeof AMONG_TENANTS): number => (background.isShared ? AMONG_TENANTS[what] : 1);
/** What is refused so would be of any line: it holds for all of them. */
const OF_ALL: ReadonlySet<string> = new Set<ErrorCode>(['UNAVAILABLE', 'QUOTA_EXCEEDED', 'RATE_LIMITED']);

/**
 * Hardly anything can make the service refuse this line and not another one: it has no version to be checked, no type that may be
 * another, no key that may be known; only a schema of its event's type. So it shares a record with others, and is answered as if it
 * had its own. Where the record is refused for one of them, each is tried by itself.
 */
const goesTogether = ({ body, remembered }: BulkItem): boolean =>
  body.idempotencyKey === undefined &&
  body.expectedVersion === 'any' &&
  body.aggregateType === undefined &&
  !remembered;

/**
 * Lines of one slot of a tenant, in their order: to the tenant here, or to the process that owns it. What an owner refuses as
 * not its own, or leaves unanswered, goes to the next one when all before it are answered, and before all behind it.
 */
export class BulkLane {
  readonly #slotKey: string;
  readonly #gateway: LaneGateway;
  readonly #host: LaneHost;
  /** Where those under way are. */
  #target: BulkRelay | 'here' | undefined;
  #underWay = 0;
  /** Those that were not served where they were sent. */
  #again: BulkItem[] = [];
  /** Those behind them, and behind what is under way elsewhere. */
  #behind: BulkItem[] = [];
  #moving = false;
  #delay = 0;
  /** Another process sent them, and this one is not the owner: it is to send all that follow elsewhere. */
  #lost = false;
  /** Under way here, and not given to the tenant yet: lines that share a record, by aggregate. */
  #gathered = new Map<string, BulkItem[]>();
  #lines = 0;
  #bytes = 0;
  /** The records that lines share, until they are answered: were one refused, its lines would be tried one by one, before all behind them. */
  #shared: Promise<void> | undefined;
  /** What is gathered is to go on when they are answered. */
  #isDue = false;
  /** Lines of both kinds come: each is sent by itself, or one kind would wait for the other. */
  #mixed = false;

  constructor(slotKey: string, gateway: LaneGateway, host: LaneHost) {
    this.#slotKey = slotKey;
    this.#gateway = gateway;
    this.#host = host;
  }

  /** The tenant is served here. */
  get isHere(): boolean {
    return this.#gateway.ownerOf(this.#slotKey) === 'self';
  }

  /** Where a promise comes back the next line waits for it: lines of one aggregate keep their order. */
  send(item: BulkItem): Promise<void> | void {
    if (this.#moving || this.#again.length + this.#behind.length > 0) return void this.#behind.push(item);
    const sent = this.#dispatch(item);
    if (sent !== 'blocked') return sent;
    this.#behind.push(item);
    if (this.#underWay === 0) void this.#move();
  }

  #dispatch(item: BulkItem): Promise<void> | void | 'blocked' {
    const owner = this.#gateway.ownerOf(this.#slotKey);
    if (this.#lost || (owner !== 'self' && this.#host.passesBack)) return this.#passBack(item);
    const target = owner === 'self' ? 'here' : owner === undefined ? undefined : this.#host.relayTo(owner.url);
    if (target === undefined || (target !== this.#target && this.#underWay > 0)) return 'blocked';
    this.#target = target;
    this.#underWay++;
    if (target === 'here') return this.#append(item);
    item.remembered = true;
    target.send(item, this);
  }

  #passBack({ slot }: BulkItem): void {
    this.#lost = true;
    this.#host.passBack(slot);
  }

  #append(item: BulkItem): Promise<void> | void {
    if (!this.#mixed && this.#host.together && goesTogether(item)) return this.#gather(item);
    this.#mixed = true;
    return this.#isSharing ? this.#appendBehind(item) : this.#appendAlone(item);
  }

  get #isSharing(): boolean {
    return this.#lines > 0 || this.#shared !== undefined;
  }

  /** Lines of one aggregate keep their order: those of a record that is refused are tried one by one, and what comes behind them waits for that. */
  async #appendBehind(item: BulkItem): Promise<void> {
    while (this.#isSharing) {
      await this.flush();
      await this.#shared;
    }
    if (!this.#lost && this.#again.length === 0) return this.#appendAlone(item);
    if (this.#lost) this.#passBack(item);
    else this.#again.push(item);
    this.#ended();
  }

  #gather(item: BulkItem): Promise<void> | void {
    const { aggregateId } = item.body;
    const of = this.#gathered.get(aggregateId);
    if (of === undefined) this.#gathered.set(aggregateId, [item]);
    else of.push(item);
    this.#bytes += item.line.length;
    const most = partOf('gathered');
    if (++this.#lines >= GATHERED.lines * most || this.#bytes >= GATHERED.bytes * most) return this.flush();
  }

  /** The lines that were gathered go on: no other one is there now, or will be for a while. As of `send`, a promise is to be waited for. */
  flush(): Promise<void> | void {
    if (this.#shared !== undefined) return this.#shared.then(() => this.flush());
    if (this.#lines === 0) return;
    const gathered = this.#gathered;
    this.#gathered = new Map();
    this.#lines = this.#bytes = 0;
    // No aggregate is in two of them: whichever is refused, the lines of each aggregate keep their order.
    const records = sharedRecords(gathered);
    const failed = async (error: unknown): Promise<void> => {
      for (const record of records) await this.#failedTogether(record, error);
    };
    let home: AggregateHome | Promise<AggregateHome>;
    try {
      home = this.#host.home(records[0]?.[0]?.aggregateId ?? '');
    } catch (error) {
      return void this.#share(failed(error));
    }
    if (!(home instanceof Promise)) return void this.#share(this.#appendTogether(home, records));
    return new Promise((sent) => {
      const opened = home.then(
        (here) => {
          const answered = this.#appendTogether(here, records);
          sent();
          return answered;
        },
        (error: unknown) => {
          sent();
          return failed(error);
        },
      );
      this.#share(opened);
    });
  }

  /** As `flush`, and nobody waits: behind records that are under way, with what comes until then. */
  flushSoon(): Promise<void> | void {
    if (this.#shared === undefined) return this.flush();
    this.#isDue = true;
  }

  #share(answered: Promise<void>): void {
    this.#shared = answered.then(() => {
      this.#shared = undefined;
      if (!this.#isDue) return;
      this.#isDue = false;
      void this.flush();
    });
  }

  async #appendTogether(home: AggregateHome, records: readonly SharedRecord[]): Promise<void> {
    for (const answered of records.map((record) => this.#appendRecord(home, record))) await answered;
  }

  #appendRecord(home: AggregateHome, record: SharedRecord): Promise<void> | void {
    const [first] = record[0]?.items ?? [];
    if (first === undefined) return;
    if (record.length === 1 && record[0]?.items.length === 1) return this.#appendAt(home, first);
    const context = { correlationId: undefined, causationId: undefined, metadata: undefined };
    const appends = record.map(({ aggregateId, items }) => ({
      aggregateId,
      aggregateType: undefined,
      expectedVersion: 'any' as const,
      events: items.map(eventOf),
    }));
    return home.transact({ commandId: first.commandId, keyed: false, requestHash: EMPTY, ...context, appends }).then(
      ({ timestamp, position: last, appends: stored }) => {
        const lines = eventCount(appends);
        let position = last === undefined ? undefined : last - lines;
        stored.forEach(({ aggregateId, startVersion, eventIds }, at) =>
          record[at]?.items.forEach(({ slot }, i) => {
            if (position !== undefined) position++;
            const eventId = eventIds[i] ?? '';
            this.#host.stored(slot, { eventId, aggregateId, version: startVersion + i, timestamp, position });
          }),
        );
        this.#delay = 0;
        this.#ended(lines);
      },
      (error: unknown) => this.#failedTogether(record, error),
    );
  }

  /** What is wrong with one of them must not refuse the others: each is tried by itself. Resolves when all are with the tenant. */
  async #failedTogether(record: SharedRecord, error: unknown): Promise<void> {
    const isOfOne = error instanceof OfOneEventError || (error instanceof StatefoldError && !OF_ALL.has(error.code));
    const items = record.flatMap((part) => part.items).sort((a, b) => a.slot.number - b.slot.number);
    for (const item of items)
      if (isOfOne) await this.#appendAlone(item);
      else this.#failed(item, error);
  }

  #appendAlone(item: BulkItem): Promise<void> | void {
    let home: AggregateHome | Promise<AggregateHome>;
    try {
      home = this.#host.home(item.body.aggregateId);
    } catch (error) {
      return this.#failed(item, error);
    }
    if (!(home instanceof Promise)) return this.#appendAt(home, item);
    return home.then(
      (opened) => this.#appendAt(opened, item),
      (error: unknown) => this.#failed(item, error),
    );
  }

  #appendAt(home: AggregateHome, item: BulkItem): void {
    home.append(commandOf(item)).then(
      (result) => {
        this.#host.answer(item.slot, result);
        this.answered();
      },
      (error: unknown) => this.#failed(item, error),
    );
  }

  #failed(item: BulkItem, error: unknown): void {
    // Nothing of it was stored here, nor will be.
    if (!(error instanceof NotOwnerError)) this.#host.refuse(item.slot, error);
    else if (this.#host.passesBack) this.#passBack(item);
    else this.#again.push(item);
    this.#ended();
  }

  /** The line has its answer. */
  answered(): void {
    this.#delay = 0;
    this.#ended();
  }

  /** The process that it was sent to has not answered it: it may have been stored, and its id will tell. */
  unanswered(item: BulkItem): void {
    this.#again.push(item);
    this.#ended();
  }

  #ended(lines = 1): void {
    this.#underWay -= lines;
    if (this.#underWay === 0 && !this.#moving && this.#again.length + this.#behind.length > 0) void this.#move();
  }

  /** All that was under way is answered, or is to be sent again: it goes to whoever is the owner now, and the rest behind it. */
  async #move(): Promise<void> {
    this.#moving = true;
    if (this.#again.length > 0) this.#delay = Math.min(2 * this.#delay + FIRST_DELAY_MS, MAX_DELAY_MS);
    const items = [...this.#again.sort((a, b) => a.slot.number - b.slot.number), ...this.#behind];
    this.#again = [];
    this.#behind = [];
    for (let delay = this.#delay; items.length > 0; delay = Math.min(2 * delay + FIRST_DELAY_MS, MAX_DELAY_MS)) {
      if (delay > 0) await this.#gateway.changed(delay);
      const now = performance.now();
      for (let i = 0; i < items.length;) {
        const item = items[i] as BulkItem;
        if (item.until >= now) i++;
        else this.#host.refuse((items.splice(i, 1)[0] as BulkItem).slot, away());
      }
      if (this.#gateway.ownerOf(this.#slotKey) !== undefined) break;
    }
    let sent = 0;
    for (const item of items) {
      const dispatched = this.#again.length > 0 ? 'blocked' : this.#dispatch(item);
      if (dispatched === 'blocked') break;
      sent++;
      await dispatched;
    }
    await this.flush();
    this.#behind = [...items.slice(sent), ...this.#behind];
    this.#moving = false;
    if (this.#underWay === 0 && this.#again.length + this.#behind.length > 0) void this.#move();
  }
}

/** By aggregate, the lines that go into one record. */
type SharedRecord = readonly { readonly aggregateId: string; readonly items: readonly BulkItem[] }[];

function sharedRecords(gathered: ReadonlyMap<string, readonly BulkItem[]>): SharedRecord[] {
  const records: SharedRecord[] = [];
  const most = partOf('together');
  let record: { aggregateId: string; items: readonly BulkItem[] }[] = [];
  let lines = 0;
  let bytes = 0;
  for (const [aggregateId, items] of gathered) {
    if (lines >= TOGETHER.lines * most || bytes >= TOGETHER.bytes * most || record.length >= TOGETHER.aggregates) {
      records.push(record);
      record = [];
      lines = bytes = 0;
    }
    record.push({ aggregateId, items });
    lines += items.length;
    for (const { line } of items) bytes += line.length;
  }
  records.push(record);
  return records;
}

const away = (): StatefoldError =>
  new StatefoldError(
    'UNAVAILABLE',
    'no process serves the tenant now; the event may have been stored: send the line again with its idempotencyKey, or read first',
  );

/** What the line has beside its event is the event's own, where others are in its record. */
function eventOf({ body }: BulkItem): NewEvent {
  const [event] = body.events;
  if (event === undefined) throw new Error('a line without an event');
  return inContext(event, body);
}

function commandOf(item: BulkItem): AppendCommand {
  const { body, remembered } = item;
  const keyed = body.idempotencyKey !== undefined || remembered;
  return {
    commandId: body.idempotencyKey ?? item.commandId,
    keyed,
    requestHash: keyed ? requestHashOf('single', body.keyless) : EMPTY,
    aggregateId: body.aggregateId,
    aggregateType: body.aggregateType,
    expectedVersion: body.expectedVersion,
    correlationId: body.correlationId,
    causationId: body.causationId,
    metadata: body.metadata,
    events: body.events,
  };
}
