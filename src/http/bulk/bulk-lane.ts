import { createHash } from 'node:crypto';
import type { AppendCommand, AppendResult } from '../../core/event.js';
import { NotOwnerError, StatefoldError } from '../../core/errors.js';
import type { AggregateHome } from '../../aggregates/aggregates.js';
import type { Gateway } from '../gateway/gateway.js';
import type { BulkLineBody } from '../append-body.js';
import type { Slot } from './bulk-answers.js';
import type { BulkRelay } from './bulk-relay.js';

/** A line on its way to whoever serves its aggregate. */
export interface BulkItem {
  readonly slot: Slot;
  /** As it came: another process reads it once more. */
  readonly line: Buffer;
  readonly body: BulkLineBody;
  /** Names the append where the client does not: so it can be sent to one owner after the other, and is stored once. */
  readonly commandId: string;
  /** Another process sent it, and may send it to a third one, or it was on its way to one. */
  remembered: boolean;
  /** When an owner must have been found. */
  readonly until: number;
}

/** What a lane asks of its stream. */
export interface LaneHost {
  home(aggregateId: string): AggregateHome | Promise<AggregateHome>;
  /** Where lines for that process go. */
  relayTo(url: string): BulkRelay;
  answer(slot: Slot, result: AppendResult): void;
  refuse(slot: Slot, error: unknown): void;
  /** Another process sent the lines, and finds the owner where this one isn't it. */
  readonly passesBack: boolean;
  passBack(slot: Slot): void;
}

type LaneGateway = Pick<Gateway, 'ownerOf' | 'changed'>;

const KEY_HASHED = 'POST /events\n';
const EMPTY = Buffer.alloc(0);
const FIRST_DELAY_MS = 20;
const MAX_DELAY_MS = 500;

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

  #ended(): void {
    this.#underWay--;
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
    this.#behind = [...items.slice(sent), ...this.#behind];
    this.#moving = false;
    if (this.#underWay === 0 && this.#again.length + this.#behind.length > 0) void this.#move();
  }
}

const away = (): StatefoldError =>
  new StatefoldError(
    'UNAVAILABLE',
    'no process serves the tenant now; the event may have been stored: send the line again with its idempotencyKey, or read first',
  );

function commandOf({ body, commandId, remembered }: BulkItem): AppendCommand {
  const keyed = body.idempotencyKey !== undefined || remembered;
  return {
    commandId: body.idempotencyKey ?? commandId,
    keyed,
    requestHash: keyed ? createHash('sha256').update(KEY_HASHED).update(body.keyless).digest() : EMPTY,
    aggregateId: body.aggregateId,
    aggregateType: body.aggregateType,
    expectedVersion: body.expectedVersion,
    correlationId: body.correlationId,
    causationId: body.causationId,
    metadata: body.metadata,
    events: body.events,
  };
}
