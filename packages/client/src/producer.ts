import {
  ClosedError,
  isClientError,
  NotStoredError,
  RefusedError,
  retryAfterOf,
  type ClientError,
  type NotStored,
} from './errors.js';
import { newKey } from './new-key.js';
import { withDefaults } from './options.js';
import { backOff, pause } from './pause.js';
import type { Transport } from './transport.js';
import type { BulkAnswer, BulkLine, Problem } from './wire.js';

export interface ProducerOptions {
  /** Events that are taken and not stored, at most: `append` waits past it. */
  readonly mostPending?: number | undefined;
  /** Events of one request, at most. */
  readonly mostLines?: number | undefined;
  /** Bytes of one request, about. */
  readonly mostBytes?: number | undefined;
  /**
   * How long an event is sent again, milliseconds, before it is given up: over an outage of the service from when it was taken or the last
   * event was stored, whichever is later; where others are stored meanwhile, from when it failed first. It is looked at after each request.
   */
  readonly deliveryTimeoutMs?: number | undefined;
  readonly firstDelayMs?: number | undefined;
  readonly mostDelayMs?: number | undefined;
  /** Ends it: what is not stored rejects with its reason. */
  readonly signal?: AbortSignal | undefined;
}

const encoder = new TextEncoder();
const NOT_ASCII = /[^\0-\x7f]/;

/** Of a text as it is sent. Most are ASCII, which is told at a fraction of what encoding takes. */
const bytesOf = (text: string): number => (NOT_ASCII.test(text) ? encoder.encode(text).length : text.length);

/** Where an event was stored. */
export interface Produced {
  readonly eventId: string;
  readonly aggregateId: string;
  readonly version: number;
  readonly timestamp: string;
  /** In the feed, for `waitFor`. Of a tenant of several partitions it is left out where it was not known in time. */
  readonly position?: number;
}

export interface Sending {
  /** Settles when the event is stored, or refused for good. */
  readonly stored: Promise<Produced>;
}

interface Pending {
  readonly event: BulkLine;
  readonly line: string;
  /** Of the line and its end. */
  readonly bytes: number;
  /** As `performance.now()` has it: the clock of the day may jump. */
  readonly taken: number;
  /** When it failed first. */
  failedAt: number;
  readonly resolve: (produced: Produced) => void;
  readonly reject: (error: unknown) => void;
}

const DEFAULTS = {
  mostPending: 10_000,
  mostLines: 1_000,
  mostBytes: 1024 * 1024,
  deliveryTimeoutMs: 120_000,
  firstDelayMs: 100,
  mostDelayMs: 5_000,
};

/** Events that an error names, at most. */
const MOST_TOLD = 1_000;

/**
 * Appends many events over `POST /events/bulk`: while one request is under way, the next one gathers. Each event has an idempotency
 * key, so it is stored once, however often it had to be sent; events of one aggregate are stored in the order of their calls. An event that
 * is to be sent again, while one behind it of the same aggregate is stored already, is refused instead. Over an outage events are sent
 * again; each that is not known to be stored in the end rejects, and so does the next `flush` or `close`.
 */
export class Producer {
  readonly #transport: Transport;
  readonly #options: typeof DEFAULTS;
  readonly #signal: AbortSignal | undefined;
  #queue: Pending[] = [];
  #pending = 0;
  #running = false;
  #lastStored = -Infinity;
  /** Since the last `flush`; of them all the number, of so many more than a few what they were. */
  #notStored: NotStored[] = [];
  #notStoredCount = 0;
  #flushing: Promise<void> | undefined;
  #closed: unknown;
  #waiting: (() => void)[] = [];
  /** Senders that wait for room, in their order; each has its place when it is called. */
  #blocked: (() => void)[] = [];
  readonly #abort = (): void => this.#end(this.#signal?.reason);

  constructor(transport: Transport, { signal, ...options }: ProducerOptions) {
    this.#transport = transport;
    this.#options = withDefaults(DEFAULTS, options);
    for (const name of ['mostPending', 'mostLines', 'mostBytes'] as const)
      if (!(this.#options[name] >= 1))
        throw new TypeError(`${name} must be at least 1, and is ${this.#options[name]}: nothing would ever be sent`);
    this.#signal = signal;
    signal?.addEventListener('abort', this.#abort, { once: true });
    if (signal?.aborted) this.#end(signal.reason);
  }

  /** Events that are taken and not stored. */
  get pending(): number {
    return this.#pending;
  }

  /** Takes an event as soon as there is room, and resolves when it is stored. @throws ClientError */
  async append(event: BulkLine): Promise<Produced> {
    return (await this.send(event)).stored;
  }

  /** Resolves as soon as there is room for the event: to wait for it keeps memory bounded. @throws ClosedError */
  async send(event: BulkLine): Promise<Sending> {
    const named = { ...event, idempotencyKey: event.idempotencyKey ?? newKey() };
    const line = JSON.stringify(named);
    if (this.#closed !== undefined) throw this.#closed as Error;
    let take = (): void => undefined;
    const stored = new Promise<Produced>((resolve, reject) => {
      take = () => {
        this.#pending++;
        const bytes = bytesOf(line) + 1;
        this.#queue.push({ event: named, line, bytes, taken: performance.now(), failedAt: Infinity, resolve, reject });
        if (!this.#running) void this.#run();
      };
    });
    // Who doesn't look at it learns of it by `flush`.
    stored.catch(() => undefined);
    if (this.#blocked.length === 0 && this.#pending < this.#options.mostPending) take();
    else await this.#room(take);
    return { stored };
  }

  /** The event is taken on the turn on which there is room: no later call comes before it. @throws what the producer was closed by meanwhile */
  async #room(take: () => void): Promise<void> {
    let isTaken = false;
    await new Promise<void>((resolve) =>
      this.#blocked.push(() => {
        isTaken = this.#closed === undefined;
        if (isTaken) take();
        resolve();
      }),
    );
    if (!isTaken) throw this.#closed as Error;
  }

  /** Resolves when all that was taken is stored. @throws NotStoredError, when nothing is pending, of what was not stored since the last one */
  flush(): Promise<void> {
    return (this.#flushing ??= this.#drained().finally(() => (this.#flushing = undefined)));
  }

  async #drained(): Promise<void> {
    while (this.#pending > 0) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    const [failures, count] = [this.#notStored, this.#notStoredCount];
    this.#notStored = [];
    this.#notStoredCount = 0;
    if (count > 0) throw new NotStoredError(failures, count);
  }

  /** Takes no more, and resolves when all that was taken is stored. @throws NotStoredError, as `flush` does */
  async close(): Promise<void> {
    this.#closed ??= new ClosedError('the producer is closed');
    this.#wake();
    try {
      await this.flush();
    } finally {
      this.#signal?.removeEventListener('abort', this.#abort);
    }
  }

  #end(reason: unknown): void {
    this.#closed ??= reason;
    for (const pending of this.#queue.splice(0)) this.#reject(pending, reason);
    this.#wake();
  }

  async #run(): Promise<void> {
    this.#running = true;
    // What is sent on this turn goes together.
    await Promise.resolve();
    for (let failures = 0; this.#queue.length > 0;) {
      const batch = this.#take();
      const { again, retryAfterMs } = await this.#deliver(batch);
      if (again.length === 0) {
        failures = 0;
        continue;
      }
      failures = again.length < batch.length ? 1 : failures + 1;
      this.#queue.unshift(...again);
      const { firstDelayMs: first, mostDelayMs: most, deliveryTimeoutMs } = this.#options;
      const asked = Math.min(retryAfterMs, deliveryTimeoutMs);
      try {
        await pause(Math.max(backOff(failures, { first, most }), asked), this.#signal);
      } catch (reason) {
        this.#end(reason);
      }
    }
    this.#running = false;
  }

  #take(): Pending[] {
    const { mostLines, mostBytes } = this.#options;
    let left = mostBytes;
    let count = 0;
    for (const { bytes } of this.#queue) {
      left -= bytes;
      if (count >= mostLines || (count > 0 && left < 0)) break;
      count++;
    }
    return this.#queue.splice(0, count);
  }

  /** Sends events, and gives those that are to be sent again, in their order, and how long the service asks to wait before. */
  async #deliver(batch: readonly Pending[]): Promise<{ again: readonly Pending[]; retryAfterMs: number }> {
    const byLine = new Map<number, BulkAnswer>();
    let failure: ClientError | undefined;
    try {
      // One request takes as long as the tenant's pace makes it: it has no time-out but for an answer that stands still.
      await this.#transport.send({
        method: 'POST',
        path: '/events/bulk',
        key: 'tenant',
        body: batch.map(({ line }) => `${line}\n`).join(''),
        contentType: 'application/x-ndjson',
        // Repeated here: what was answered is known, and only the rest is sent again.
        repeatable: false,
        signal: this.#signal,
        onLine: (line, status) => {
          if (line === '') return;
          const answer = this.#transport.answer(line, status) as BulkAnswer;
          byLine.set(answer.line, answer);
        },
      });
    } catch (error) {
      if (!isClientError(error) || !error.retryable) {
        for (const [i, pending] of batch.entries()) this.#settle(pending, byLine.get(i + 1), error);
        return { again: [], retryAfterMs: 0 };
      }
      failure = error;
    }
    const now = performance.now();
    /** The last line of each aggregate that was stored. */
    const stored = new Map<string, number>();
    for (const [i, { event }] of batch.entries()) if (isStored(byLine.get(i + 1))) stored.set(event.aggregateId, i);
    if (stored.size > 0) this.#lastStored = now;
    const again = batch.filter((pending, i) => {
      const answer = byLine.get(i + 1);
      // A cut brings an answer further, so what it left out is not held against an event.
      const isHeld = answer !== undefined || failure === undefined || byLine.size === 0;
      if (isHeld) pending.failedAt = Math.min(pending.failedAt, now);
      const isOvertaken = (stored.get(pending.event.aggregateId) ?? -1) > i;
      // Without an answer it was not read, or the stream broke: its key tells.
      const may = answer === undefined || ('retryable' in answer && answer.retryable === true);
      if (may && !isOvertaken && !this.#isGivenUp(pending, now) && this.#signal?.aborted !== true) return true;
      this.#settle(pending, answer, failure);
      return false;
    });
    return { again, retryAfterMs: (retryAfterOf(failure) ?? 0) * 1000 };
  }

  #isGivenUp({ taken, failedAt }: Pending, now: number): boolean {
    return now - Math.max(taken, Math.min(failedAt, this.#lastStored)) >= this.#options.deliveryTimeoutMs;
  }

  /** `failure`: of the request, where it has no answer. */
  #settle(pending: Pending, answer: BulkAnswer | undefined, failure: unknown): void {
    if (!isStored(answer))
      return this.#reject(pending, answer === undefined ? (failure ?? unanswered()) : refusalOf(answer));
    this.#pending--;
    pending.resolve(producedOf(answer));
    this.#wake();
  }

  #reject(pending: Pending, error: unknown): void {
    this.#pending--;
    this.#notStoredCount++;
    if (this.#notStored.length < MOST_TOLD) this.#notStored.push({ event: pending.event, error });
    pending.reject(error);
    this.#wake();
  }

  #wake(): void {
    while (this.#blocked.length > 0 && (this.#closed !== undefined || this.#pending < this.#options.mostPending))
      this.#blocked.shift()?.();
    for (const wake of this.#waiting.splice(0)) wake();
  }
}

const isStored = (answer: BulkAnswer | undefined): answer is BulkAnswer & Produced => answer?.status === 201;

function producedOf({ eventId, aggregateId, version, timestamp, position }: Produced): Produced {
  return { eventId, aggregateId, version, timestamp, ...(position === undefined ? {} : { position }) };
}

const unanswered = (): ClosedError => new ClosedError('the service ended the stream before it answered the event');

function refusalOf(answer: BulkAnswer): RefusedError {
  const { line: _line, ...told } = answer as unknown as { readonly line: number } & Problem & {
      readonly pointer?: string;
    };
  return new RefusedError({
    ...told,
    type: `/problems/${told.code.toLowerCase().replaceAll('_', '-')}`,
    title: told.code,
    requestId: '',
    ...(told.pointer === undefined ? {} : { errors: [{ pointer: told.pointer, message: told.detail }] }),
  });
}
