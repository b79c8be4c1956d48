import { orAborted } from './body.js';
import { isRefused, RefusedError, UnreachableError } from './errors.js';
import { changesOf, eventsOf, type Channel, type FeedFilters, type Followed } from './followed.js';
import { linesLive } from './lines.js';
import { isErasure, type Told, type WebSocketFactory } from './live.js';
import { backOff, pause } from './pause.js';
import { queryOf } from './query.js';
import { snapshotFirst } from './snapshot-first.js';
import { sseLive } from './sse.js';
import type { Transport } from './transport.js';
import { webSocketLive } from './web-socket.js';
import type { FeedErasure, FeedEvent, Notification as WireNotification } from './wire.js';

/** A change of a projection; of a key that has no state any more the state is null. */
export type Notification<S = unknown> = Omit<WireNotification, 'state'> & { readonly state: S | null };
/** An event of the feed, with its place there. */
export type PositionedEvent<D = FeedEvent['data']> = Omit<FeedEvent, 'data'> & { readonly data: D };

/** Where a subscription keeps how far its owner has come. */
export interface CursorStore {
  /** The last sequence, or position, that was committed; undefined: none. */
  load(): Promise<number | undefined>;
  save(place: number): Promise<void>;
}

export interface FollowOptions {
  /**
   * Where to begin when no cursor is stored: with the oldest that is kept, behind a sequence or position, or with what comes from now on. With
   * a `ticket` where now is can't be asked: until the first item of `now` is there, what comes while no connection is open is not told.
   */
  readonly from?: 'start' | 'now' | number | undefined;
  /** Loaded when the subscription begins, saved by `commit`. */
  readonly cursor?: CursorStore | undefined;
  /** Ways to live items, the best first; one that doesn't work gives way to the next. Polling is always the last. */
  readonly channels?: readonly Channel[] | undefined;
  /** Opens a WebSocket that sends headers; unless given, the platform's is used where it can (Node.js 22 and newer). */
  readonly webSocket?: WebSocketFactory | undefined;
  /**
   * For pages, which hold no API key: gets a ticket from the page's own backend (which asks `POST /auth/tickets`), each time a connection
   * is opened. What it rejects with is taken for a connection that failed, and tried again. With it there are WebSockets and server-sent
   * events alone.
   */
  readonly ticket?: ((asked: TicketRequest) => Promise<string>) | undefined;
  /** Ends the iteration, without an error. */
  readonly signal?: AbortSignal | undefined;
  /** Told when the way to live items is another one, and why the one before ended. */
  readonly onChannel?: ((channel: Channel, why: unknown) => void) | undefined;
  /** Told when the service answers, and when it doesn't any more, with why where that is known; it is tried again until it does. */
  readonly onConnection?: ((isOpen: boolean, why?: unknown) => void) | undefined;
  readonly firstDelayMs?: number | undefined;
  readonly mostDelayMs?: number | undefined;
}

/** What a ticket is wanted for: the body of `POST /auth/tickets`. */
export interface TicketRequest {
  readonly path: string;
  readonly key?: readonly string[] | undefined;
}

export interface SubscribeOptions extends Omit<FollowOptions, 'from'> {
  /**
   * As of all, or `snapshot`: with the states as they are, each as a change with the cause `snapshot`, and then what changes. Where changes
   * were missed that are kept no longer, it begins so again. The states are read as fast as they come, and those that the loop has not taken
   * yet are in memory.
   */
  readonly from?: FollowOptions['from'] | 'snapshot' | undefined;
  /** Changes of this state key, or of these, alone. */
  readonly key?: string | readonly string[] | undefined;
  /** Told when a snapshot begins, also when it begins anew since a connection broke in it, and when all of its states were given. */
  readonly onSnapshot?: ((place: 'begin' | 'end') => void) | undefined;
}

export interface ErasureOptions {
  /**
   * Told of each aggregate that was erased, at the place of the erasure among the events, whatever `eventType` says: who keeps copies of its
   * events erases them. It is waited for, and what it throws or rejects with ends the loop, before the place of the erasure is reached.
   */
  readonly onErased?: ((erasure: FeedErasure) => void | Promise<void>) | undefined;
}

/** With filters: only events that have one of the values of each name that is given. */
export interface FeedSubscribeOptions extends FollowOptions, FeedFilters, ErasureOptions {}

const PAGE = 1_000;
const POLL_WAIT_SECONDS = 25;
/** After so many openings in a row that failed a channel gives way to the next. */
const MOST_FAILURES = 3;
const CHANNELS: readonly Channel[] = ['websocket', 'sse', 'ndjson', 'poll'];
const LIVE = { websocket: webSocketLive, sse: sseLive, ndjson: linesLive } as const;

/** `from`: also with what comes first, where what is followed has that. */
type FollowingOptions = Omit<SubscribeOptions, 'key'> & ErasureOptions;

/**
 * Something that is followed, as an async iterator that goes on for ever: each item in its order and once, over whatever connections it
 * takes. It ends when its signal aborts, when it is closed, or when the loop over it ends; it throws where to go on makes no sense: the key
 * or what is followed is gone, or what lies behind the cursor is kept no longer (`CURSOR_EXPIRED`).
 */
abstract class Following<T extends object> implements AsyncIterable<T> {
  readonly #transport: Transport;
  readonly #followed: Followed<T>;
  readonly #options: FollowingOptions;
  readonly #ended = new AbortController();
  #reached: number | undefined;
  #given: number | undefined;
  #isOpen = false;
  /** No place was given to go on from: it begins with the oldest that is kept. */
  #fromStart = false;

  constructor(transport: Transport, followed: Followed<T>, options: FollowingOptions) {
    this.#transport = transport;
    this.#followed = followed;
    this.#options = options;
  }

  /** The place of the last item that was given to the loop; undefined: none yet. */
  protected get given(): number | undefined {
    return this.#given;
  }

  /** Up to there all was given to the loop, or was not wanted. */
  protected get reached(): number | undefined {
    return this.#reached;
  }

  protected async save(place: number | undefined): Promise<void> {
    const { cursor } = this.#options;
    if (cursor === undefined) throw new TypeError('to commit, give the subscription a cursor to keep it in');
    if (place !== undefined) await cursor.save(place);
  }

  close(): void {
    this.#ended.abort();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    const { signal, cursor, from = 'start' } = this.#options;
    const ended = new AbortController();
    const end = (): void => ended.abort();
    if (signal?.aborted || this.#ended.signal.aborted) return;
    for (const one of [signal, this.#ended.signal]) one?.addEventListener('abort', end, { once: true });
    try {
      const stored = cursor === undefined ? undefined : await orAborted(cursor.load(), ended.signal);
      this.#reached = stored ?? (typeof from === 'number' ? from : undefined);
      this.#fromStart = stored === undefined && from === 'start';
      // What was given to a loop before and is not behind the cursor was not worked off: it comes again.
      if (cursor !== undefined) this.#given = stored;
      for await (const told of this.#told(ended.signal)) {
        if (typeof told === 'number') {
          const wasSnapshot = this.#wantsSnapshot;
          this.#reached = Math.max(this.#reached ?? 0, told);
          if (wasSnapshot) this.#options.onSnapshot?.('end');
          continue;
        }
        if (!isErasure(told) && this.#followed.isSnapshot?.(told) === true) {
          // No place to go on from.
          yield told;
          if (ended.signal.aborted) return;
          continue;
        }
        const place = this.#placeOf(told);
        if (this.#given !== undefined && place <= this.#given) continue;
        if (isErasure(told)) {
          await this.#options.onErased?.(told);
          this.#reached = this.#given = place;
          continue;
        }
        this.#reached = this.#given = place;
        yield told;
        if (ended.signal.aborted) return;
      }
    } catch (error) {
      if (!ended.signal.aborted) throw error;
    } finally {
      ended.abort();
      for (const one of [signal, this.#ended.signal]) one?.removeEventListener('abort', end);
    }
  }

  async *#told(signal: AbortSignal): AsyncGenerator<Told<T>, void, undefined> {
    const { from, ticket, firstDelayMs: first = 200, mostDelayMs: most = 10_000 } = this.#options;
    const { newest } = this.#followed;
    let channels = this.#channels();
    let failures = 0;
    /** Of the channel itself: a service that is away says nothing of it. */
    let refusals = 0;
    /** Only then a poll waits for what comes: before it tells how far it is. */
    let caughtUp = false;
    for (let isNew = from === 'now' && this.#reached === undefined; ;) {
      const channel = channels[0] ?? 'poll';
      let isOpening = false;
      try {
        if (isNew && newest !== undefined && ticket === undefined) {
          const place = await newest(this.#transport, signal);
          if (place !== undefined) {
            yield place;
            isNew = false;
          }
        }
        // What was missed comes first; and a refusal is told in full. Whoever has a ticket alone is told it by the stream.
        const mayAsk = ticket === undefined && !this.#wantsSnapshot;
        if (mayAsk && !isNew) {
          yield* this.#missed(signal, channel === 'poll' && caughtUp);
          this.#connected(true);
        } else if (mayAsk && channel === 'poll') {
          // The service doesn't tell where now is: what is there already is passed over.
          for await (const told of this.#missed(signal, false)) if (typeof told === 'number') yield told;
          this.#connected(true);
          isNew = false;
        }
        if (channel !== 'poll') {
          isOpening = true;
          for await (const told of this.#live(channel, signal)) {
            this.#connected(true);
            failures = refusals = 0;
            isNew = false;
            yield told;
          }
          this.#connected(false);
          await pause(backOff(1, { first, most }), signal);
        } else {
          failures = 0;
          caughtUp = true;
        }
      } catch (error) {
        if (signal.aborted) throw error;
        this.#connected(false, error);
        if (from === 'snapshot' && isRefused(error, 'CURSOR_EXPIRED')) {
          this.#reached = undefined;
          channels = this.#channels();
        } else if (isRefused(error, 'CURSOR_EXPIRED') && this.#isAtStart) {
          this.#reached = (error.problem.oldestSequence ?? 1) - 1;
        } else if (isFinal(error, ticket !== undefined)) throw error;
        failures++;
        if ((isOpening || ticket !== undefined) && !isRefused(error, 'CURSOR_EXPIRED')) refusals++;
        if (channel !== 'poll' && (isRefused(error, 'SSE_DISABLED') || refusals >= MOST_FAILURES)) {
          this.#giveWay(channels, channel, error);
          failures = refusals = 0;
          this.#options.onChannel?.(channels[0] ?? 'poll', error);
          continue;
        }
        await pause(backOff(failures, { first, most }), signal);
      }
    }
  }

  #connected(isOpen: boolean, why?: unknown): void {
    if (isOpen === this.#isOpen) return;
    this.#isOpen = isOpen;
    this.#options.onConnection?.(isOpen, why);
  }

  /** The next channel is first from now on. Where there is no polling the one that failed is tried again, behind the others. */
  #giveWay(channels: Channel[], channel: Channel, error: unknown): void {
    const { from, ticket } = this.#options;
    const mayPoll = ticket === undefined && !this.#wantsSnapshot;
    channels.shift();
    if (!mayPoll && !isRefused(error, 'SSE_DISABLED')) channels.push(channel);
    if (!mayPoll && channels.length === 0) throw error;
    // A page isn't told why a WebSocket was refused: that changes are kept no longer may be the reason.
    if (ticket !== undefined && from === 'snapshot') this.#reached = undefined;
  }

  /** The states are to be told first: no place to go on from is known yet. */
  get #wantsSnapshot(): boolean {
    return this.#options.from === 'snapshot' && this.#reached === undefined;
  }

  /** All that there was before may be kept no longer. */
  get #isAtStart(): boolean {
    return this.#fromStart && (this.#reached ?? 0) === 0;
  }

  #channels(): Channel[] {
    const { channels = CHANNELS, webSocket, ticket } = this.#options;
    const streamsAlone = ticket !== undefined || this.#wantsSnapshot;
    const usable = channels.filter(
      (channel) =>
        this.#followed.paths[channel] !== undefined &&
        (channel !== 'websocket' || ticket !== undefined || webSocket !== undefined || canSendHeaders()) &&
        (channel === 'websocket' || channel === 'sse' || !streamsAlone),
    );
    if (streamsAlone && usable.length === 0)
      throw new TypeError(
        'a ticket opens streams alone, and a snapshot is told by them: name websocket or sse in channels, or give a webSocket',
      );
    return usable;
  }

  async *#live(channel: Exclude<Channel, 'poll'>, signal: AbortSignal): AsyncGenerator<Told<T>, void, undefined> {
    const { ticket, webSocket, onSnapshot } = this.#options;
    const path = this.#followed.paths[channel] ?? '';
    let begins = this.#wantsSnapshot;
    const query = this.#query({
      ...(channel === 'ndjson' && { follow: true }),
      ...(begins && { snapshot: true }),
      ...(ticket !== undefined && { ticket: await this.#ticket(ticket, path, signal) }),
    });
    const open = (signal: AbortSignal): AsyncGenerator<Told<T>, void, undefined> =>
      LIVE[channel]<T>({
        followed: this.#followed,
        transport: this.#transport,
        path: path + query,
        ...(ticket !== undefined && { headers: {} }),
        signal,
        webSocket,
      });
    for await (const told of begins ? snapshotFirst(open, signal) : open(signal)) {
      if (begins) onSnapshot?.('begin');
      begins = false;
      yield told;
    }
  }

  async #ticket(get: NonNullable<FollowOptions['ticket']>, path: string, signal: AbortSignal): Promise<string> {
    const { key } = this.#followed.filters;
    try {
      const asked = { path, ...(key !== undefined && { key: typeof key === 'string' ? [key] : key }) };
      return await orAborted(get(asked), signal);
    } catch (error) {
      throw new UnreachableError(this.#transport.url, error);
    }
  }

  /** Pages up to the newest item; `wait`: then it waits for one. */
  async *#missed(signal: AbortSignal, wait: boolean): AsyncGenerator<Told<T>, void, undefined> {
    const { paths, pageOf } = this.#followed;
    for (;;) {
      const query = this.#query({ limit: PAGE, ...(wait ? { waitSeconds: POLL_WAIT_SECONDS } : {}) });
      const { status, text } = await this.#transport.send({
        method: 'GET',
        path: paths.poll + query,
        key: 'tenant',
        repeatable: true,
        signal,
        timeoutMs: (POLL_WAIT_SECONDS + 30) * 1000,
      });
      const { items, reached } = pageOf(this.#transport.answer(text, status));
      yield* items;
      const last = items.at(-1);
      const place = Math.max(reached ?? 0, last === undefined ? 0 : this.#placeOf(last));
      // Also where there is nothing yet: what comes before a stream is open is behind this place.
      yield place;
      if (last === undefined) return;
    }
  }

  #placeOf(told: T | FeedErasure): number {
    return isErasure(told) ? told.position : this.#followed.placeOf(told);
  }

  #query(more: Readonly<Record<string, unknown>>): string {
    const { cursor, filters } = this.#followed;
    const { from = 'start', ticket } = this.#options;
    // A poll without a cursor begins with the oldest that is kept, a stream with what comes.
    const begin = ticket !== undefined && from === 'start' ? 0 : undefined;
    return queryOf({ ...more, ...filters, [cursor]: this.#reached ?? begin });
  }
}

/** The changes of a projection, for ever; see `Following`. */
export class Subscription<S = unknown> extends Following<Notification<S>> {
  constructor(transport: Transport, projectionId: string, { key, ...options }: SubscribeOptions) {
    super(transport, changesOf(projectionId, key) as Followed<Notification<S>>, options);
  }

  /** The last sequence that was given to the loop; undefined: none yet. */
  get sequence(): number | undefined {
    return this.given;
  }

  /**
   * Saves how far the owner has come: up to the change, or all that was given to the loop. A state of a snapshot is no place to go on
   * from: nothing is saved before all of them were given.
   */
  commit({ sequence, cause }: CommittedChange = { sequence: this.reached }): Promise<void> {
    return this.save(cause === 'snapshot' ? undefined : sequence);
  }
}

interface CommittedChange {
  readonly sequence?: number | undefined;
  readonly cause?: WireNotification['cause'];
}

/** All events of the tenant that pass the filters, for ever; see `Following`. */
export class FeedSubscription<D = FeedEvent['data']> extends Following<PositionedEvent<D>> {
  constructor(transport: Transport, { aggregateType, eventType, aggregateId, ...options }: FeedSubscribeOptions = {}) {
    const filters = {
      ...(aggregateType === undefined ? {} : { aggregateType }),
      ...(eventType === undefined ? {} : { eventType }),
      ...(aggregateId === undefined ? {} : { aggregateId }),
    };
    super(transport, eventsOf(filters) as unknown as Followed<PositionedEvent<D>>, options);
  }

  /** Up to there all was given to the loop, or left out by the filters; undefined: it has not begun. */
  get position(): number | undefined {
    return this.reached;
  }

  /** Saves how far the owner has come: up to the event, or all that was given to the loop. */
  commit({ position }: { readonly position?: number | undefined } = { position: this.reached }): Promise<void> {
    return this.save(position);
  }
}

/** The platform's WebSocket takes headers: that of Node.js does, those of browsers do not. */
function canSendHeaders(): boolean {
  const { process } = globalThis as { readonly process?: { readonly versions?: { readonly node?: string } } };
  return process?.versions?.node !== undefined && 'WebSocket' in globalThis;
}

const FOR_GOOD = new Set([400, 401, 403, 404, 410]);
/** To go on makes no sense. With tickets a new one may do what the last one doesn't any more. */
const isFinal = (error: unknown, withTickets: boolean): boolean =>
  error instanceof TypeError ||
  (error instanceof RefusedError &&
    FOR_GOOD.has(error.status) &&
    error.code !== 'SSE_DISABLED' &&
    !(withTickets && error.status === 401));
