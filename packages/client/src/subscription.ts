import { isRefused, RefusedError, UnexpectedAnswerError } from './errors.js';
import { backOff, pause } from './pause.js';
import { sseLive } from './sse.js';
import { parsed, type Transport } from './transport.js';
import { webSocketLive, type WebSocketFactory } from './web-socket.js';
import type { Notification as WireNotification, Operations } from './wire.js';

/** A change of a projection. */
export type Notification<S = unknown> = Omit<WireNotification, 'state'> & { readonly state: S };

/** Where a subscription keeps how far its owner has come. */
export interface CursorStore {
  /** The last sequence that was committed; undefined: none. */
  load(): Promise<number | undefined>;
  save(sequence: number): Promise<void>;
}

export type Channel = 'websocket' | 'sse' | 'poll';

export interface SubscribeOptions {
  /**
   * Where to begin when no cursor is stored: with the oldest change that is kept, behind a sequence, or with what comes from now on. Until
   * the first change of `now` is there, changes made while no connection is open are not told.
   */
  readonly from?: 'start' | 'now' | number;
  /** Changes of this state key alone. */
  readonly key?: string;
  /** Loaded when the subscription begins, saved by `commit`. */
  readonly cursor?: CursorStore;
  /** Ways to live changes, the best first; one that doesn't work gives way to the next. Polling is always the last. */
  readonly channels?: readonly Channel[];
  /** Opens a WebSocket that sends headers; unless given, the platform's is used where it can (Node.js 22 and newer). */
  readonly webSocket?: WebSocketFactory;
  /** Ends the iteration, without an error. */
  readonly signal?: AbortSignal;
  /** Told when the way to live changes is another one, and why the one before ended. */
  readonly onChannel?: (channel: Channel, why: unknown) => void;
  readonly firstDelayMs?: number;
  readonly mostDelayMs?: number;
}

/** A way to live changes: begins behind `after`, ends when its connection does, and throws where none comes about. */
export interface LiveOptions {
  readonly transport: Transport;
  readonly path: string;
  readonly signal: AbortSignal;
  readonly webSocket?: WebSocketFactory | undefined;
}
export type Live = (options: LiveOptions) => AsyncGenerator<WireNotification, void, undefined>;

const PAGE = 1_000;
const POLL_WAIT_SECONDS = 25;
/** After so many openings in a row that failed a channel gives way to the next. */
const MOST_FAILURES = 3;
const WAYS: Readonly<Record<Exclude<Channel, 'poll'>, { readonly live: Live; readonly path: string }>> = {
  websocket: { live: webSocketLive, path: 'stream' },
  sse: { live: sseLive, path: 'sse' },
};

/**
 * The changes of a projection as an async iterator that goes on for ever: each in its order and once, over whatever connections it
 * takes. It ends when its signal aborts, when it is closed, or when the loop over it ends; it throws where to go on makes no sense: the key
 * or the projection is gone, or what lies behind the cursor is kept no longer (`CURSOR_EXPIRED`).
 */
export class Subscription<S = unknown> implements AsyncIterable<Notification<S>> {
  readonly #transport: Transport;
  readonly #path: string;
  readonly #options: SubscribeOptions;
  readonly #ended = new AbortController();
  #after: number | undefined;
  #told: number | undefined;

  constructor(transport: Transport, projectionId: string, options: SubscribeOptions) {
    this.#transport = transport;
    this.#path = `/projections/${encodeURIComponent(projectionId)}`;
    this.#options = options;
  }

  /** The last sequence that was given to the loop; undefined: none yet. */
  get sequence(): number | undefined {
    return this.#told;
  }

  /** Saves how far the owner has come: up to the change, or all that was given to the loop. */
  async commit({ sequence }: { readonly sequence?: number | undefined } = { sequence: this.#told }): Promise<void> {
    const { cursor } = this.#options;
    if (cursor === undefined) throw new TypeError('to commit, give the subscription a cursor to keep it in');
    if (sequence !== undefined) await cursor.save(sequence);
  }

  close(): void {
    this.#ended.abort();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Notification<S>, void, undefined> {
    const { signal, cursor, from = 'start' } = this.#options;
    const ended = new AbortController();
    const end = (): void => ended.abort();
    for (const one of [signal, this.#ended.signal]) {
      if (one?.aborted) return;
      one?.addEventListener('abort', end, { once: true });
    }
    try {
      this.#after = (await cursor?.load()) ?? (typeof from === 'number' ? from : undefined);
      for await (const change of this.#changes(ended.signal)) {
        if (this.#told !== undefined && change.sequence <= this.#told) continue;
        this.#after = this.#told = change.sequence;
        yield change as Notification<S>;
        if (ended.signal.aborted) return;
      }
    } catch (error) {
      if (!ended.signal.aborted) throw error;
    } finally {
      ended.abort();
      for (const one of [signal, this.#ended.signal]) one?.removeEventListener('abort', end);
    }
  }

  async *#changes(signal: AbortSignal): AsyncGenerator<WireNotification, void, undefined> {
    const { from, firstDelayMs: first = 200, mostDelayMs: most = 10_000 } = this.#options;
    const channels = this.#channels();
    let failures = 0;
    for (let isNew = from === 'now' && this.#after === undefined; ;) {
      const channel = channels[0] ?? 'poll';
      try {
        // What was missed comes first; and a refusal is told in full.
        if (!isNew) yield* this.#missed(signal, channel === 'poll');
        if (channel !== 'poll') {
          for await (const change of this.#live(channel, signal)) {
            failures = 0;
            isNew = false;
            yield change;
          }
        } else if (isNew) isNew = false;
        if (channel !== 'poll') await pause(backOff(1, { first, most }), signal);
      } catch (error) {
        if (signal.aborted || isFinal(error)) throw error;
        failures++;
        if (channel !== 'poll' && (isRefused(error, 'SSE_DISABLED') || failures >= MOST_FAILURES)) {
          channels.shift();
          failures = 0;
          this.#options.onChannel?.(channels[0] ?? 'poll', error);
          continue;
        }
        await pause(backOff(failures, { first, most }), signal);
      }
    }
  }

  #channels(): Channel[] {
    const { channels = ['websocket', 'sse', 'poll'], webSocket } = this.#options;
    return channels.filter((channel) => channel !== 'websocket' || webSocket !== undefined || canSendHeaders());
  }

  #live(channel: Exclude<Channel, 'poll'>, signal: AbortSignal): AsyncGenerator<WireNotification, void, undefined> {
    const { live, path } = WAYS[channel];
    const { webSocket } = this.#options;
    return live({ transport: this.#transport, path: `${this.#path}/${path}${this.#query({})}`, signal, webSocket });
  }

  /** Pages up to the newest change; `wait`: then it waits for one. */
  async *#missed(signal: AbortSignal, wait: boolean): AsyncGenerator<WireNotification, void, undefined> {
    for (;;) {
      const query = this.#query({ limit: String(PAGE), ...(wait ? { waitSeconds: String(POLL_WAIT_SECONDS) } : {}) });
      const { status, text } = await this.#transport.send({
        method: 'GET',
        path: `${this.#path}/notifications${query}`,
        key: 'tenant',
        repeatable: true,
        signal,
        timeoutMs: (POLL_WAIT_SECONDS + 30) * 1000,
      });
      const page = parsed(text) as Operations['pollNotifications']['answer'] | undefined;
      if (page === undefined)
        throw new UnexpectedAnswerError(this.#transport.url, status, 'something that is not JSON');
      yield* page.notifications;
      this.#after = Math.max(this.#after ?? 0, page.notifications.at(-1)?.sequence ?? 0, page.cursor ?? 0);
      if (page.notifications.length === 0) return;
    }
  }

  #query(more: Readonly<Record<string, string>>): string {
    const { key } = this.#options;
    const query = new URLSearchParams(more);
    if (this.#after !== undefined) query.set('afterSequence', String(this.#after));
    if (key !== undefined) query.set('key', key);
    const text = query.toString();
    return text === '' ? '' : `?${text}`;
  }
}

/** The platform's WebSocket takes headers: that of Node.js does, those of browsers do not. */
function canSendHeaders(): boolean {
  const { process } = globalThis as { readonly process?: { readonly versions?: { readonly node?: string } } };
  return process?.versions?.node !== undefined && 'WebSocket' in globalThis;
}

const FOR_GOOD = new Set([400, 401, 403, 404, 410]);
/** To go on makes no sense. */
const isFinal = (error: unknown): boolean =>
  error instanceof TypeError ||
  (error instanceof RefusedError && FOR_GOOD.has(error.status) && error.code !== 'SSE_DISABLED');
