import type { FeedHub } from './hub.js';
import type { SubscriptionOptions } from './subscription.js';
import type { Timers } from './timers.js';

export interface PollOptions<T> extends Pick<SubscriptionOptions<T>, 'tenantId' | 'source' | 'wanted'> {
  readonly from: number;
  /** Takes an item; false: the page is full with it. */
  readonly take: (item: T) => boolean;
  /** For how long the poll waits where there is nothing yet, milliseconds. */
  readonly waitMs: number;
  /** Called when it begins to wait; may throw. The result is called when it ends. */
  readonly waiting: () => () => void;
  readonly timers: Timers;
  /** Ends it, with what there is. */
  readonly signal: AbortSignal;
}

/**
 * Reads a feed once: a subscription that ends when its page is full, or when it has caught up and has something; where there is
 * nothing it waits for the next item, and what came with that. Resolves with where to go on, exclusive; rejects with the reason for
 * which a subscription ends by itself, and when the feed can't be read here.
 */
export function poll<T>(hub: FeedHub, options: PollOptions<T>): Promise<number> {
  const { tenantId, source, from, wanted, take, waitMs, waiting, timers, signal } = options;
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
    const stop = (): void => answer(() => resolve(subscription.end));
    const subscription = hub.subscribe<T>(
      { tenantId, source, from, wanted, whenAway: 'end' },
      {
        push: (item) => {
          if (answered) return false;
          taken = true;
          if (take(item)) return true;
          stop();
          return false;
        },
        caughtUp: (end) => {
          if (answered) return;
          if (taken || waitMs === 0) return answer(() => resolve(end));
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
    }
  });
}
