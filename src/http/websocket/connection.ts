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
  #awaitedPongs = 0;
  #framesSincePing = 0;
  #nextPing: number;
  #nextPosition: number;
  #closingSince: number | undefined;
  #corked = false;
  /** What comes before the feed is being told. */
  #isBefore: boolean;

  constructor(
    private readonly socket: WebSocket,
    private readonly transport: Duplex,
    /** When the key that it was opened with expires, by `now`. */
    private readonly keyUntil: number,
    private readonly followed: Followed<T>,
    private readonly limits: ConnectionLimits,
    private readonly now: () => number,
    private readonly memory: StreamMemory,
    private readonly before?: Before<T>,
  ) {
    this.#isBefore = before !== undefined;
    this.#nextPing = now() + limits.pingIntervalMs;
    this.#nextPosition = followed.tellsPosition ? now() + limits.positionIntervalMs : Infinity;
    transport.on('drain', () => memory.keepLast(socket.bufferedAmount));
    socket.on('message', (data, isBinary) => this.#message(data, isBinary));
    socket.on('ping', () => this.#frame());
    socket.on('pong', () => this.#frame());
  }

  push(item: T): boolean | 'later' {
    return this.#push(this.followed.encode(item).message);
  }

  pushBefore(item: T): boolean | 'later' {
    if (this.before === undefined) throw new Error('nothing comes before the feed');
    return this.#push(this.before.encode(item).message);
  }

  prefaced(upTo: number): void {
    this.#isBefore = false;
    if (this.before !== undefined) this.socket.send(this.before.end(upTo).message, TEXT);
  }

  #push(message: Buffer): boolean | 'later' {
    if (this.socket.readyState !== this.socket.OPEN) return false;
    const { bufferedAmount } = this.socket;
    if (!this.memory.tryPush(message, bufferedAmount, this.now())) return 'later';
    this.#cork();
    if (bufferedAmount + message.length <= this.limits.maxBufferedBytes) {
      this.socket.send(message, TEXT);
      return true;
    }
    this.memory.fill(this.now());
    // Writes end in order: when this one is in the kernel, so is all before it.
    this.socket.send(message, TEXT, (error) => {
      if (error !== undefined && error !== null) return;
      this.memory.drained();
      this.subscription?.resume();
    });
    return false;
  }

  ended(reason: unknown): void {
    const { gone, expired } = this.followed.words;
    if (hasCode(reason, 'NOT_FOUND')) this.close(CLOSE.notFound, gone);
    else if (hasCode(reason, 'CURSOR_EXPIRED'))
      this.close(CLOSE.cursorExpired, `${expired}; oldestSequence ${String(reason.details?.['oldestSequence'])}`);
    else if (hasCode(reason, 'TENANT_SUSPENDED')) this.close(CLOSE.forbidden, 'the tenant is suspended');
    else if (hasCode(reason, 'UNAVAILABLE'))
      this.close(CLOSE.shutdown, 'this process serves the tenant no more: connect again and resume');
    else this.close(CLOSE.internal, 'internal error');
  }

  beat(now: number): void {
    this.memory.keepLast(this.socket.bufferedAmount);
    this.memory.beat();
    if (this.#closingSince !== undefined) {
      if (now - this.#closingSince >= CLOSE_GRACE_MS) this.socket.terminate();
      return;
    }
    if (now >= this.keyUntil) {
      this.close(CLOSE.unauthenticated, 'the API key has expired');
      return;
    }
    if (this.memory.isStalled(now, this.limits.drainDeadlineMs)) {
      this.#tooSlow();
      return;
    }
    if (now >= this.#nextPosition && !this.memory.full && !this.#isBefore) {
      this.#nextPosition = now + this.limits.positionIntervalMs;
      this.socket.send(`{"type":"position","position":${this.subscription?.reached ?? 0}}`);
    }
    if (now < this.#nextPing) return;
    if (this.#awaitedPongs >= MAX_MISSED_PONGS) {
      if (this.memory.full) this.#tooSlow();
      else this.close(CLOSE.pongsMissed, `${MAX_MISSED_PONGS} pings were not answered`);
      return;
    }
    this.#nextPing = now + this.limits.pingIntervalMs;
    this.#awaitedPongs++;
    this.#framesSincePing = 0;
    this.socket.send(PING);
  }

  /** Ends the pushes and starts the closing handshake, once. */
  close(code: number, reason: string): void {
    if (this.#closingSince !== undefined) return;
    this.#closingSince = this.now();
    this.subscription?.close();
    this.socket.close(code, reason);
  }

  /** Closes it because the service ends: the client goes on elsewhere. */
  shutDown(): void {
    this.close(CLOSE.shutdown, `the service is shutting down: resume with ${this.followed.words.cursor}`);
  }

  terminate(): void {
    this.socket.terminate();
  }

  #tooSlow(): void {
    this.close(CLOSE.tooSlow, `the client reads too slowly: resume with ${this.followed.words.cursor}`);
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
    if (this.#framesSincePing > 4 * MAX_FRAMES_PER_PING) this.socket.terminate();
  }

  /** What is pushed on one turn goes out in one write. */
  #cork(): void {
    if (this.#corked) return;
    this.#corked = true;
    this.transport.cork();
    process.nextTick(() => {
      this.#corked = false;
      this.transport.uncork();
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
