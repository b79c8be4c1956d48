import type { Duplex } from 'node:stream';
import type { RawData, WebSocket } from 'ws';
import { hasCode } from '../../core/errors.js';
import type { PrefacedSubscriber } from '../../feed/prefaced-subscription.js';
import type { Subscription, Subscriber } from '../../feed/subscription.js';
import type { Beating } from '../../feed/pulse.js';
import type { Before, Followed } from '../followed.js';
import type { StreamLimits, StreamMemory } from '../stream-memory.js';

/** Why the service closes a socket. `schemas/asyncapi.json` documents each. */
export const CLOSE = {
  shutdown: 1001,
  policy: 1008,
  internal: 1011,
  unauthenticated: 4401,
  forbidden: 4403,
  notFound: 4404,
  pongsMissed: 4408,
  cursorExpired: 4410,
  tooSlow: 4429,
} as const;

export interface ConnectionLimits extends StreamLimits {
  /** Between two `ping` messages. */
  readonly pingIntervalMs: number;
  /** Between two messages that tell how far the stream is, where the feed tells that. */
  readonly positionIntervalMs: number;
}

export interface StreamConnectionOptions<T> {
  readonly socket: WebSocket;
  readonly transport: Duplex;
  readonly followed: Followed<T>;
  readonly before: Before<T> | undefined;
  readonly memory: StreamMemory;
  readonly limits: ConnectionLimits;
  readonly now: () => number;
  /** When the key that it was opened with expires, by `now`. */
  readonly keyUntil: number;
}

const MAX_MISSED_PONGS = 2;
/** Messages and protocol frames that a client may send between two pings; it needs one. */
const MAX_FRAMES_PER_PING = 32;
/** How long a socket that was told to close has for it. */
const CLOSE_GRACE_MS = 5_000;
const PING = '{"type":"ping"}';
const TEXT = { binary: false } as const;

/** One open WebSocket: pushes items, each as a message, pings, and gives up on a client that is gone, too slow or out of line. */
export class StreamConnection<T> implements Subscriber<T>, PrefacedSubscriber<T>, Beating {
  readonly keeps = (): boolean => false;
  subscription: Subscription | undefined;
  readonly #options: StreamConnectionOptions<T>;
  #awaitedPongs = 0;
  #framesSincePing = 0;
  #nextPing: number;
  #nextPosition: number;
  #closingSince: number | undefined;
  #corked = false;
  /** What comes before the feed is being told. */
  #isBefore: boolean;

  constructor(options: StreamConnectionOptions<T>) {
    this.#options = options;
    const { socket, transport, followed, limits, now, memory, before } = options;
    this.#isBefore = before !== undefined;
    this.#nextPing = now() + limits.pingIntervalMs;
    this.#nextPosition = followed.tellsPosition ? now() + limits.positionIntervalMs : Infinity;
    transport.on('drain', () => memory.keepLast(socket.bufferedAmount));
    socket.on('message', (data, isBinary) => this.#message(data, isBinary));
    socket.on('ping', () => this.#frame());
    socket.on('pong', () => this.#frame());
  }

  push(item: T): boolean | 'later' {
    return this.#push(this.#options.followed.encode(item).message);
  }

  pushBefore(item: T): boolean | 'later' {
    const { before } = this.#options;
    if (before === undefined) throw new Error('nothing comes before the feed');
    return this.#push(before.encode(item).message);
  }

  prefaced(upTo: number): void {
    const { socket, before } = this.#options;
    this.#isBefore = false;
    if (before !== undefined) socket.send(before.end(upTo).message, TEXT);
  }

  #push(message: Buffer): boolean | 'later' {
    const { socket, limits, now, memory } = this.#options;
    if (socket.readyState !== socket.OPEN) return false;
    const { bufferedAmount } = socket;
    if (!memory.tryPush(message, bufferedAmount, now())) return 'later';
    this.#cork();
    if (bufferedAmount + message.length <= limits.maxBufferedBytes) {
      socket.send(message, TEXT);
      return true;
    }
    memory.fill(now());
    // Writes end in order: when this one is in the kernel, so is all before it.
    socket.send(message, TEXT, (error) => {
      if (error !== undefined && error !== null) return;
      memory.drained();
      this.subscription?.resume();
    });
    return false;
  }

  ended(reason: unknown): void {
    const { gone, expired } = this.#options.followed.words;
    if (hasCode(reason, 'NOT_FOUND')) this.close(CLOSE.notFound, gone);
    else if (hasCode(reason, 'CURSOR_EXPIRED'))
      this.close(CLOSE.cursorExpired, `${expired}; oldestSequence ${String(reason.details?.['oldestSequence'])}`);
    else if (hasCode(reason, 'TENANT_SUSPENDED')) this.close(CLOSE.forbidden, 'the tenant is suspended');
    else if (hasCode(reason, 'UNAVAILABLE'))
      this.close(CLOSE.shutdown, 'this process serves the tenant no more: connect again and resume');
    else this.close(CLOSE.internal, 'internal error');
  }

  beat(now: number): void {
    const { socket, keyUntil, limits, memory } = this.#options;
    memory.keepLast(socket.bufferedAmount);
    memory.beat();
    if (this.#closingSince !== undefined) {
      if (now - this.#closingSince >= CLOSE_GRACE_MS) socket.terminate();
      return;
    }
    if (now >= keyUntil) {
      this.close(CLOSE.unauthenticated, 'the API key has expired');
      return;
    }
    if (memory.isStalled(now, limits.drainDeadlineMs)) {
      this.#tooSlow();
      return;
    }
    if (now >= this.#nextPosition && !memory.full && !this.#isBefore) {
      this.#nextPosition = now + limits.positionIntervalMs;
      socket.send(`{"type":"position","position":${this.subscription?.reached ?? 0}}`);
    }
    if (now < this.#nextPing) return;
    if (this.#awaitedPongs >= MAX_MISSED_PONGS) {
      if (memory.full) this.#tooSlow();
      else this.close(CLOSE.pongsMissed, `${MAX_MISSED_PONGS} pings were not answered`);
      return;
    }
    this.#nextPing = now + limits.pingIntervalMs;
    this.#awaitedPongs++;
    this.#framesSincePing = 0;
    socket.send(PING);
  }

  /** Ends the pushes and starts the closing handshake, once. */
  close(code: number, reason: string): void {
    const { socket, now } = this.#options;
    if (this.#closingSince !== undefined) return;
    this.#closingSince = now();
    this.subscription?.close();
    socket.close(code, reason);
  }

  /** Closes it because the service ends: the client goes on elsewhere. */
  shutDown(): void {
    this.close(CLOSE.shutdown, `the service is shutting down: resume with ${this.#options.followed.words.cursor}`);
  }

  terminate(): void {
    this.#options.socket.terminate();
  }

  #tooSlow(): void {
    this.close(CLOSE.tooSlow, `the client reads too slowly: resume with ${this.#options.followed.words.cursor}`);
  }

  #message(data: RawData, isBinary: boolean): void {
    this.#frame();
    if (this.#closingSince !== undefined) return;
    if (!isBinary && isPong(data)) this.#awaitedPongs = 0;
    else this.close(CLOSE.policy, 'the only message that a client sends is {"type":"pong"}');
  }

  #frame(): void {
    if (++this.#framesSincePing > MAX_FRAMES_PER_PING)
      this.close(CLOSE.policy, `more than ${MAX_FRAMES_PER_PING} messages between two pings`);
    // A flood goes on while the closing handshake waits behind it: it isn't read any more.
    if (this.#framesSincePing > 4 * MAX_FRAMES_PER_PING) this.#options.socket.terminate();
  }

  /** What is pushed on one turn goes out in one write. */
  #cork(): void {
    const { transport } = this.#options;
    if (this.#corked) return;
    this.#corked = true;
    transport.cork();
    process.nextTick(() => {
      this.#corked = false;
      transport.uncork();
    });
  }
}

function isPong(data: RawData): boolean {
  try {
    const message: unknown = JSON.parse((data as Buffer).toString('utf8'));
    return typeof message === 'object' && message !== null && 'type' in message && message.type === 'pong';
  } catch {
    return false;
  }
}
