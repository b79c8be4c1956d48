import { hasCode } from '../core/errors.js';
import type { Logger } from '../core/logger.js';
import type { FeedHub } from '../feed/hub.js';
import type { Subscriber, Subscription } from '../feed/subscription.js';
import type { TenantFeed } from '../feed/tenant-feeds.js';
import type { Timers } from '../feed/timers.js';
import type { PendingMessage, WindowCheckpoint } from './delivery-window.js';
import { DeliveryWindow } from './delivery-window.js';
import type { Filtered } from './endpoint-filter.js';
import type { Message, MessageFeed } from './webhook-message.js';

/** What a lane needs of its endpoint. */
export interface LaneHome<T> {
  /** Of the checkpoint, for messages to the log. */
  readonly id: string;
  readonly tenantId: string;
  readonly messages: MessageFeed<T>;
  readonly hub: FeedHub;
  readonly logger: Logger;
  readonly timers: Timers;
  readonly capacity: { readonly count: number; readonly bytes: number };
  /** The endpoint is told of it. */
  wanted(item: Filtered): boolean;
  /** The lane has taken a message: may it take more? */
  took(lane: Lane<T>): boolean;
  /** The lane is full, and has so much left of a page: may it keep that? */
  keeps(lane: Lane<T>): boolean;
  /** It is further, with nothing that has to be sent. */
  advanced(lane: Lane<T>): void;
}

const RESTART_MS = 5_000;

/**
 * A way of messages to an endpoint: all from a position on as they come, or a range that is sent again. What was taken and is not done
 * with is in its window.
 */
export class Lane<T> implements Subscriber<T> {
  readonly window: DeliveryWindow<Message>;
  /** Inclusive; infinite: it goes on for ever. */
  readonly to: number;
  /** Of the range only these positions; undefined: all. */
  readonly only: ReadonlySet<number> | undefined;
  readonly #home: LaneHome<T>;
  #subscription: Subscription | undefined;
  #cancelTimer: (() => void) | undefined;
  #complete = false;
  #closed = false;
  #kept = 0;

  constructor(window: DeliveryWindow<Message>, to: number, home: LaneHome<T>, only?: ReadonlySet<number>) {
    this.window = window;
    this.to = to;
    this.only = only;
    this.#home = home;
  }

  /** A lane as a checkpoint has it: what is pending is read again. `waitOf`: of a time of the checkpoint, one of the timers. */
  static async restored<T>(
    tenant: TenantFeed,
    { end, pending }: WindowCheckpoint,
    to: number,
    home: LaneHome<T>,
    waitOf: (dueAt: number) => number,
    only?: readonly number[],
  ): Promise<Lane<T>> {
    const left = only && new Set(only);
    const lane = new Lane(new DeliveryWindow<Message>(end, home.capacity), to, home, left);
    const trimmed: number[] = [];
    const restore = async (): Promise<void> => {
      for (const one of pending) if (!(await lane.#restore(tenant, one, waitOf))) trimmed.push(one[0]);
    };
    // As a whole: what is pending lies close together, and lanes by turns would read the same pages again for each message.
    if (pending.length > 0) await home.hub.inTurn(home.tenantId, restore);
    if (trimmed.length > 0)
      home.logger.warn(
        { endpoint: home.id, messages: trimmed.length, first: Math.min(...trimmed), last: Math.max(...trimmed) },
        'messages were trimmed before they could be delivered',
      );
    return lane;
  }

  /** False: the message was trimmed. */
  async #restore(
    tenant: TenantFeed,
    [position, attempts, dueAt]: PendingMessage,
    waitOf: (dueAt: number) => number,
  ): Promise<boolean> {
    const { messages } = this.#home;
    let item: T | undefined;
    try {
      [item] = (await messages.source.of(tenant).read(position, { items: 1 })).items;
    } catch (error) {
      if (!hasCode(error, 'CURSOR_EXPIRED')) throw error;
    }
    const message = item === undefined ? undefined : messages.keptOf(item);
    if (message?.position !== position) return false;
    this.window.add(message, message.bytes, { attempts, dueAt: dueAt === undefined ? undefined : waitOf(dueAt) });
    return true;
  }

  /** All of its range was taken, and is done with. */
  get done(): boolean {
    return this.#complete && this.window.size === 0;
  }

  /** Takes messages from where its window ends. */
  follow(): void {
    if (this.window.end > this.to) this.#complete = true;
    if (this.#complete || this.#closed) return;
    const { tenantId, messages, hub } = this.#home;
    this.#subscription = hub.subscribe(
      { tenantId, source: messages.source, from: this.window.end, wanted: (item) => this.#wanted(item) },
      this,
    );
    this.#subscription.start();
  }

  /** Bytes of what is left of a page while it is full. */
  get kept(): number {
    return this.#kept;
  }

  /** What is passed on of it is taken off as it is looked at. */
  keeps(left: readonly T[]): boolean {
    if (this.#kept === 0) this.#kept = left.reduce((sum, item) => sum + this.#home.messages.messageOf(item).bytes, 0);
    if (this.#home.keeps(this)) return true;
    this.#kept = 0;
    return false;
  }

  resume(): void {
    this.#subscription?.resume();
  }

  close(): void {
    this.#closed = true;
    this.#kept = 0;
    this.#subscription?.close();
    this.#cancelTimer?.();
  }

  push(item: T): boolean {
    const message = this.#home.messages.keptOf(item);
    if (message.position <= this.to) this.window.add(message, message.bytes);
    if (message.position >= this.to) this.#completed();
    return this.#home.took(this) && !this.#complete;
  }

  caughtUp(end: number): void {
    this.#kept = 0;
    const advanced = this.window.advance(Math.min(end, this.to + 1));
    if (end > this.to) this.#completed();
    if (advanced) this.#home.advanced(this);
  }

  ended(reason: unknown): void {
    this.#kept = 0;
    if (this.#closed || this.#complete) return;
    const { logger, id } = this.#home;
    // The end of what it follows is the catalog's to tell, the hub's is the process's.
    if (hasCode(reason, 'NOT_FOUND', 'UNAVAILABLE', 'TENANT_SUSPENDED')) return;
    const { end } = this.window;
    const oldest = hasCode(reason, 'CURSOR_EXPIRED') ? reason.details?.['oldestSequence'] : undefined;
    if (typeof oldest === 'number' && oldest > end) {
      logger.warn(
        { endpoint: id, from: end, oldest },
        'changes were trimmed before they could be delivered; going on with the oldest',
      );
      this.window.advance(Math.min(oldest, this.to + 1));
      this.#followAgain(0);
    } else {
      logger.error({ err: reason, endpoint: id }, 'deliveries were interrupted; trying again');
      this.#followAgain(RESTART_MS);
    }
  }

  /** What is not for the endpoint is passed over; past the range all is taken, to see its end. */
  #wanted(item: T): boolean {
    const { messages } = this.#home;
    const { position, bytes } = messages.messageOf(item);
    this.#kept = Math.max(0, this.#kept - bytes);
    return position > this.to || (this.only?.has(position) !== false && this.#home.wanted(messages.filtered(item)));
  }

  #completed(): void {
    this.#complete = true;
    this.#kept = 0;
    this.#subscription?.close();
    this.window.advance(this.to + 1);
  }

  #followAgain(waitMs: number): void {
    this.#cancelTimer = this.#home.timers.after(waitMs, () => {
      if (this.#closed) return;
      try {
        this.follow();
        this.#home.advanced(this);
      } catch (error) {
        this.#home.logger.debug({ err: error, endpoint: this.#home.id }, 'no more messages are followed');
      }
    });
  }
}
