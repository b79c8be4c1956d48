import type { Subscriber, Subscription } from './subscription.js';

/** What is told before a feed: pages of items, and at last the position up to which they hold. */
export type Preface<T> = AsyncGenerator<readonly T[], number, void>;

/** Takes what comes before the feed, too. */
export interface PrefacedSubscriber<T> extends Pick<Subscriber<T>, 'ended'> {
  /** As `Subscriber.push`, for an item of the preface. */
  pushBefore(item: T): boolean | 'later';
  /** The preface is over; it holds up to this position, and the feed goes on behind it. */
  prefaced(upTo: number): void;
}

/** A subscription that is told a preface first: the feed begins where that ends, so there is no seam between the two. */
export class PrefacedSubscription<T> implements Subscription {
  readonly #live: Subscription;
  readonly #pages: Preface<T>;
  readonly #subscriber: PrefacedSubscriber<T>;
  /** Nobody reads the preface any more. */
  readonly #left: AbortController;
  #isTold = false;
  #roomAgain: (() => void) | undefined;

  /** `live` was not started; `left` is aborted when nobody reads the preface any more. */
  constructor(live: Subscription, pages: Preface<T>, subscriber: PrefacedSubscriber<T>, left: AbortController) {
    this.#live = live;
    this.#pages = pages;
    this.#subscriber = subscriber;
    this.#left = left;
  }

  /** The preface was told: what is pushed is of the feed. */
  get isTold(): boolean {
    return this.#isTold;
  }

  get end(): number {
    return this.#live.end;
  }

  get reached(): number {
    return this.#live.reached;
  }

  start(): void {
    this.#tell().catch((error: unknown) => {
      if (this.#isClosed) return;
      this.close();
      this.#subscriber.ended(error);
    });
  }

  resume(): void {
    if (this.#isTold) return this.#live.resume();
    this.#roomAgain?.();
    this.#roomAgain = undefined;
  }

  close(): void {
    if (this.#isClosed) return;
    this.#left.abort();
    this.#live.close();
    this.resume();
  }

  get #isClosed(): boolean {
    return this.#left.signal.aborted;
  }

  async #tell(): Promise<void> {
    try {
      for (;;) {
        const { done, value } = await this.#pages.next();
        if (this.#isClosed) return;
        if (done === true) return this.#begin(value);
        if (!(await this.#push(value))) return;
      }
    } finally {
      if (!this.#isTold) await this.#pages.return(0);
    }
  }

  /** False when it was closed meanwhile. */
  async #push(items: readonly T[]): Promise<boolean> {
    for (let next = 0; next < items.length;) {
      const room = this.#subscriber.pushBefore(items[next] as T);
      if (this.#isClosed) return false;
      if (room !== 'later') next++;
      if (room === true) continue;
      await new Promise<void>((resolve) => (this.#roomAgain = resolve));
      if (this.#isClosed) return false;
    }
    return true;
  }

  #begin(upTo: number): void {
    this.#isTold = true;
    this.#subscriber.prefaced(upTo);
    if (!this.#isClosed) this.#live.start(upTo + 1);
  }
}
