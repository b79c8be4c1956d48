import { isClientError } from './errors.js';
import { eventsOf, type FeedFilters } from './followed.js';
import { isErasure } from './live.js';
import { linesLive } from './lines.js';
import { backOff, pause } from './pause.js';
import { queryOf } from './query.js';
import {
  FeedSubscription,
  type ErasureOptions,
  type FeedSubscribeOptions,
  type PositionedEvent,
} from './subscription.js';
import type { CallOptions, Requests } from './requests.js';
import type { FeedErasure, FeedEvent, Operations } from './wire.js';

export type FeedPage = Operations['readFeed']['answer'];

export interface FeedQuery extends FeedFilters {
  /** The last position that the caller has; 0, or none: from the oldest on. */
  readonly after?: number | undefined;
  /** Most events of the page, 1 to 1,000 (100). */
  readonly limit?: number | undefined;
  /** Wait so long for an event where there is none, 0 to 30 (0). With `waitFor`: so long for that (5). */
  readonly waitSeconds?: number | undefined;
  /** The page has all events up to this position, or is refused with `NOT_CAUGHT_UP`. */
  readonly waitFor?: number | undefined;
}

/** In a row, without an event between them. */
const MOST_FAILURES = 6;
const DELAYS = { first: 100, most: 5_000 };
const MARGIN_MS = 30_000;

const listed = (value: string | readonly string[] | undefined): readonly string[] | undefined =>
  typeof value === 'string' ? [value] : value;

/** All events of a tenant, in its one order, each at a position that never changes. */
export class EventFeed {
  readonly #client: Requests;

  constructor(client: Requests) {
    this.#client = client;
  }

  /** A page: its events, and the position to go on behind. @throws ClientError */
  read(
    { aggregateType, eventType, aggregateId, ...query }: FeedQuery = {},
    options: Omit<CallOptions, 'idempotencyKey'> = {},
  ): Promise<FeedPage> {
    return this.#client.request('readFeed', {
      ...options,
      timeoutMs: options.timeoutMs ?? (query.waitSeconds ?? 0) * 1000 + MARGIN_MS,
      query: {
        ...query,
        aggregateType: listed(aggregateType),
        eventType: listed(eventType),
        aggregateId: listed(aggregateId),
      },
    });
  }

  /** All events that there are behind `after`, over one stream that is resumed where it breaks, as fast as the loop takes them; then it ends. @throws ClientError; what `onErased` throws */
  async *events<D = FeedEvent['data']>(
    { onErased, ...asked }: FeedFilters & ErasureOptions & { readonly after?: number | undefined } = {},
    { signal = new AbortController().signal }: { readonly signal?: AbortSignal | undefined } = {},
  ): AsyncGenerator<PositionedEvent<D>, void, undefined> {
    for await (const told of this.#told(asked, signal))
      if (isErasure(told)) await onErased?.(told);
      else yield told as PositionedEvent<D>;
  }

  async *#told(
    { after, ...filters }: FeedFilters & { readonly after?: number | undefined },
    signal: AbortSignal,
  ): AsyncGenerator<FeedEvent | FeedErasure, void, undefined> {
    const followed = eventsOf(filters);
    const { transport } = this.#client;
    let reached = after;
    for (let failures = 0; ;) {
      let isWhole = false;
      try {
        const path = (followed.paths.ndjson ?? '') + queryOf({ ...followed.filters, after: reached });
        for await (const told of linesLive<FeedEvent>({ transport, path, signal, mustEnd: true })) {
          failures = 0;
          isWhole = typeof told === 'number';
          reached = typeof told === 'number' ? told : told.position;
          if (typeof told !== 'number') yield told;
        }
        if (signal.aborted) throw signal.reason as Error;
        // Its last line says how far it came.
        if (isWhole) return;
        failures++;
      } catch (error) {
        if (signal.aborted) throw signal.reason as Error;
        if (!isClientError(error) || !error.retryable || ++failures >= MOST_FAILURES) throw error;
      }
      await pause(backOff(failures, DELAYS), signal);
    }
  }

  /** The position of the newest event; 0: there is none. @throws ClientError */
  async newest({ signal }: { readonly signal?: AbortSignal | undefined } = {}): Promise<number> {
    return (await eventsOf({}).newest?.(this.#client.transport, signal ?? new AbortController().signal)) ?? 0;
  }

  /** The events, for ever: see `FeedSubscription`. */
  subscribe<D = FeedEvent['data']>(options: FeedSubscribeOptions = {}): FeedSubscription<D> {
    return new FeedSubscription<D>(this.#client.transport, options);
  }
}
