import type { FeedHub } from './hub.js';
import type { Subscription, SubscriptionOptions } from './subscription.js';
import type { Timers } from './timers.js';

export interface PollOptions<T> extends Pick<SubscriptionOptions<T>, 'tenantId' | 'source' | 'wanted' | 'nextPage'> {
  readonly from: number;
  /** Takes an item; false: the page is full with it. */
  readonly take: (item: T) => boolean;
  /** For how long it reads what is not wanted, where nothing is, milliseconds; without it up to the head, however far that is. */
  readonly scanMs?: number | undefined;
  /** For how long the poll waits where there is nothing yet, milliseconds. */
  readonly waitMs: number;
  /** Called when it begins to wait; may throw. The result is called when it ends. */
  readonly waiting: () => () => void;
  readonly timers: Timers;
  /** Ends it, with what there is. */
  readonly signal: AbortSignal;
}

/** How far a poll came: `end` is where to go on, exclusive; `reached` the position of the last item that was taken or passed over. */
export type Polled = Pick<Subscription, 'end' | 'reached'>;

/**
 * Reads a feed once: a subscription that ends when its page is full, or when it has caught up and has something; where there is
 * nothing it waits for the next item, and what came with that. Resolves with how far it came; rejects with the reason for
 * which a subscription ends by itself, and when the feed can't be read here.
 */
export function poll<T>(hub: FeedHub, options: PollOptions<T>): Promise<Polled> {
  const { tenantId, source, from, wanted, nextPage, take, scanMs, waitMs, waiting, timers, signal } = options;
  return new Promise((resolve, reject) => {
    const ends: (() => void)[] = [];
    let answered = false;
    let taken = false;
    let waits = false;
    const answer = (result: () => void): void => {
      if (answered) return;
      answered = true;
      subscription.close();
      for (const end of ends) end();
      result();
    };
    const came = (): void => resolve({ end: subscription.end, reached: subscription.reached });
    const stop = (): void => answer(came);
    const subscription = hub.subscribe<T>(
      { tenantId, source, from, wanted, nextPage, whenAway: 'end' },
      {
        push: (item) => {
          if (answered) return false;
          taken = true;
          if (take(item)) return true;
          stop();
          return false;
        },
        caughtUp: () => {
          if (answered) return;
          if (taken || waitMs === 0) return stop();
          if (waits) return;
          waits = true;
          ends.push(waiting(), timers.after(waitMs, stop));
        },
        ended: (reason) => answer(() => reject(reason instanceof Error ? reason : new Error(String(reason)))),
      },
    );
    subscription.start();
    if (answered) return;
    if (signal.aborted) stop();
    else {
      signal.addEventListener('abort', stop);
      ends.push(() => signal.removeEventListener('abort', stop));
      if (scanMs !== undefined && !waits)
        ends.push(
          timers.after(scanMs, () => {
            if (!waits) stop();
          }),
        );
    }
  });
}
