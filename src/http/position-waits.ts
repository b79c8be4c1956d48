import { StatefoldError } from '../core/errors.js';
import { placeOfPosition } from '../feed/feed-item.js';
import type { FeedHub } from '../feed/hub.js';
import { poll } from '../feed/poll.js';
import { ALL_EVENTS } from '../feed/sources.js';
import type { TenantFeeds } from '../feed/tenant-feeds.js';
import { systemTimers, type Timers } from '../feed/timers.js';
import type { Projections } from '../projections/projections.js';
import { EndableWaits } from './client-leaves.js';
import type { ConcurrencyQuota } from './concurrency-quota.js';
import type { InTime } from './deadlines.js';
import { described, integerFrom, integerText } from './parameters.js';
import { memoryOf } from './request-memory.js';
import type { Call } from './route.js';

/** Most that `waitSeconds` may ask for beside `waitFor`. */
const MAX_WAIT_SECONDS = 30;
const USUAL_WAIT_SECONDS = 5;

/** The query of a route that waits for a position of the feed. */
export const WAIT_FOR = {
  waitFor: described(
    integerFrom(0),
    'A position of the feed, as the header Statefold-Position of a 201 tells it: the answer has all events up to there, or is 503 NOT_CAUGHT_UP.',
  ),
  waitSeconds: described(
    integerFrom(0, MAX_WAIT_SECONDS),
    `With waitFor: how long to wait for it, ${USUAL_WAIT_SECONDS} unless it is given.`,
  ),
};

/** What is waited for, as a route's query has it. */
export interface WaitQuery {
  readonly waitFor: number | undefined;
  readonly waitSeconds: number | undefined;
}

export interface PositionWaitsOptions {
  readonly hub: FeedHub;
  readonly notified: TenantFeeds;
  readonly quota: ConcurrencyQuota;
  readonly inTime: InTime;
  readonly timers?: Timers;
}

type WaitingCall = Pick<Call, 'request' | 'response' | 'tenantId'>;

/** Requests that wait until what they ask for has an event that their client wrote, or knows of. */
export class PositionWaits {
  readonly #options: PositionWaitsOptions;
  readonly #timers: Timers;
  readonly #waits = new EndableWaits();

  constructor(options: PositionWaitsOptions) {
    this.#options = options;
    this.#timers = options.timers ?? systemTimers;
  }

  /** Resolves when the feed has an event at the position, or past it, here. @throws StatefoldError NOT_CAUGHT_UP */
  async event(call: WaitingCall, query: WaitQuery): Promise<void> {
    const { waitFor } = query;
    if (waitFor === undefined || waitFor === 0) return;
    const seconds = secondsOf(query);
    const reached = await this.#within(call, seconds, (signal, leftMs) => this.#event(call, waitFor, signal, leftMs()));
    if (!reached) throw notCaughtUp('the feed', waitFor, seconds, await this.#latest(call.tenantId));
  }

  /** Resolves when the projection has all events up to the position; asked at the tenant's owner. @throws StatefoldError NOT_CAUGHT_UP; as `Projections` */
  async projection(call: WaitingCall, projections: Projections, projectionId: string, query: WaitQuery): Promise<void> {
    const { waitFor } = query;
    if (waitFor === undefined || waitFor === 0) return;
    const seconds = secondsOf(query);
    const place = placeOfPosition(waitFor);
    const included = await this.#within(call, seconds, async (signal, leftMs) => {
      if (!(await this.#event(call, waitFor, signal, leftMs()))) return false;
      if (await projections.includes(projectionId, place, AbortSignal.abort())) return true;
      const { done, signal: late } = this.#lasting(call, leftMs(), signal);
      try {
        return await projections.includes(projectionId, place, late);
      } finally {
        done();
      }
    });
    if (included) return;
    const live = projections.life(projectionId).live !== undefined;
    const { events } = await this.#options.notified.open(call.tenantId);
    throw live
      ? notCaughtUp('the projection', waitFor, seconds, await events.lastBefore(projections.reached))
      : notCaughtUp('the projection, which is not live yet,', waitFor, seconds, 0);
  }

  /** What waits is answered with where it stands. */
  close(): void {
    this.#waits.close();
  }

  async #event(
    { request, tenantId }: WaitingCall,
    position: number,
    signal: AbortSignal,
    waitMs: number,
  ): Promise<boolean> {
    const { hub, notified, quota, inTime } = this.#options;
    const { events } = await notified.open(tenantId);
    await inTime(events.caughtUp());
    if ((await events.latest()) >= position) return true;
    const polled = await poll(hub, {
      tenantId,
      source: ALL_EVENTS,
      from: position,
      wanted: undefined,
      take: () => false,
      waitMs,
      waiting: () => {
        memoryOf(request)?.noPage();
        return quota.take(tenantId);
      },
      timers: this.#timers,
      signal,
    });
    return polled.reached >= position;
  }

  async #latest(tenantId: string): Promise<number> {
    return (await this.#options.notified.open(tenantId)).events.latest();
  }

  /** A signal that aborts with the other one, or when the time is up; it counts among the tenant's connections until it is done. */
  #lasting(
    { tenantId }: WaitingCall,
    ms: number,
    outer: AbortSignal,
  ): { readonly done: () => void; readonly signal: AbortSignal } {
    const controller = new AbortController();
    const abort = (): void => controller.abort();
    const release = ms > 0 ? this.#options.quota.take(tenantId) : (): void => undefined;
    const cancel = this.#timers.after(ms, abort);
    outer.addEventListener('abort', abort);
    if (outer.aborted || ms <= 0) abort();
    return {
      signal: controller.signal,
      done: () => {
        cancel();
        release();
        outer.removeEventListener('abort', abort);
      },
    };
  }

  /** Runs `work` with a signal that aborts when the client goes, or the process ends. */
  #within(
    { request, response }: WaitingCall,
    seconds: number,
    work: (signal: AbortSignal, leftMs: () => number) => Promise<boolean>,
  ): Promise<boolean> {
    const until = this.#timers.now() + (request.method === 'GET' ? seconds * 1000 : 0);
    return this.#waits.during(response, ({ signal }) => work(signal, () => Math.max(0, until - this.#timers.now())));
  }
}

/** @throws StatefoldError INVALID_REQUEST where it is longer than such a wait may be */
function secondsOf({ waitSeconds = USUAL_WAIT_SECONDS }: WaitQuery): number {
  return integerText(String(waitSeconds), 'waitSeconds', 0, MAX_WAIT_SECONDS);
}

const notCaughtUp = (what: string, waitFor: number, seconds: number, position: number): StatefoldError =>
  new StatefoldError(
    'NOT_CAUGHT_UP',
    `${what} has not come to position ${waitFor} within ${seconds} s, it is at ${position}; send the request again, or wait longer with waitSeconds`,
    { details: { position } },
  );
