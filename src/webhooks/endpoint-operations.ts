import type { EndpointEntity } from '../catalog/catalog.js';
import type { Clock } from '../core/clock.js';
import { StatefoldError } from '../core/errors.js';
import { isoTimestamp } from '../core/event.js';
import { uuidv7 } from '../core/ids.js';
import { within } from '../core/within.js';
import { Tally } from '../core/tally.js';
import type { TenantFeeds } from '../feed/tenant-feeds.js';
import type { Attempt, AttemptStore } from './attempt-store.js';
import type { CursorStore, DeadLetter, EndpointCheckpoint, EndpointHealth } from './cursor-store.js';
import type { EndpointWithUrl } from './endpoint-entities.js';
import { checkpointId, type EndpointStatus } from './endpoint.js';
import type { WebhookDeliverer } from './webhook-deliverer.js';
import type { SentNow } from './webhook-sender.js';
import { messagesOf, type Message } from './webhook-message.js';

export interface EndpointOperationsOptions {
  readonly deliverer: Pick<WebhookDeliverer, 'running' | 'status' | 'sendNow'>;
  readonly notified: Pick<TenantFeeds, 'open'>;
  readonly store: CursorStore;
  readonly attempts: AttemptStore;
  readonly clock: Clock;
}

/** What its owner is told of an endpoint. Times are ISO 8601 UTC. */
export interface EndpointState {
  /**
   * `healthy`: its latest attempt was a delivery, or there was none. `failing`: its latest attempt failed, and further ones are made.
   * `paused`: its owner wants nothing sent. `disabled`: it answered 410, or all attempts have failed for days.
   */
  readonly status: 'healthy' | 'failing' | 'paused' | 'disabled';
  readonly reason?: string;
  readonly since: string;
}

export interface EndpointProgress {
  /** Up to here, inclusive, all is delivered or parked. */
  readonly through: number;
  /** Taken past it, and neither delivered nor parked. */
  readonly pending: number;
  readonly parked: number;
}

/** A range that is sent again, both ends inclusive. */
export interface ReplayedRange {
  readonly from: number;
  readonly to: number;
}

/** How many dead letters are sent again, and the places of the first and the last; none: there are none. */
export interface ResentLetters extends Partial<ReplayedRange> {
  readonly messages: number;
}

/** A dead letter with its `webhook-id`. */
export type DeadLetterWithId = DeadLetter & { readonly messageId: string };

/** Tests that one tenant may have under way: each may last as long as an attempt. */
const TESTS_AT_ONCE = 2;
/** Ranges that an endpoint sends again at once, and what is shown to be done about more. */
const REPLAYS_AT_ONCE = 16;
const RETRY_SECONDS = 5;
/** So long a request waits for an endpoint that only begins. */
const BEGIN_MS = 10_000;

/** What the owners of endpoints ask of their deliveries, in the process that makes them. */
export class EndpointOperations {
  readonly #options: EndpointOperationsOptions;
  /** Tests under way, by tenant. */
  readonly #tests = new Tally();

  constructor(options: EndpointOperationsOptions) {
    this.#options = options;
  }

  state(endpoint: EndpointEntity, createdAt: string): EndpointState {
    const { disabledAt, disabledFor, pausedAt } = endpoint;
    const health = this.#status(endpoint)?.health;
    if (pausedAt !== undefined)
      return { status: 'paused', reason: 'it was paused; resume it to go on', since: pausedAt };
    if (disabledAt !== undefined)
      return {
        status: 'disabled',
        reason: `${disabledFor === 'failures' ? failuresOf(health) : 'it answered 410'}; resume it to go on`,
        since: disabledAt,
      };
    const since = health === undefined ? createdAt : isoTimestamp(health.since);
    return health !== undefined && health.failures > 0
      ? { status: 'failing', reason: health.reason ?? 'the latest attempt failed', since }
      : { status: 'healthy', since };
  }

  progress(endpoint: EndpointEntity): EndpointProgress {
    const running = this.#options.deliverer.status(endpoint.endpointId);
    if (running !== undefined) {
      const { cursor, pending, deadLetters } = running;
      return { through: Math.max(cursor - 1, 0), pending, parked: deadLetters.length };
    }
    const { end, pending, deadLetters } = this.#stored(endpoint);
    return { through: (pending[0]?.[0] ?? end) - 1, pending: pending.length, parked: deadLetters.length };
  }

  /** Newest first. */
  attempts(endpoint: EndpointEntity): Promise<readonly Attempt[]> {
    return this.#options.attempts.list(idOf(endpoint));
  }

  /** Dead letters, newest first. */
  deadLetters(endpoint: EndpointEntity): readonly DeadLetterWithId[] {
    const letters = this.#status(endpoint)?.deadLetters ?? [];
    return letters.map((letter) => ({ ...letter, messageId: messageIdOf(endpoint, letter) })).reverse();
  }

  /** Sends a message that says it is a test, now. @throws StatefoldError RATE_LIMITED */
  async test(endpoint: EndpointWithUrl): Promise<SentNow & { readonly messageId: string }> {
    const { tenantId, endpointId } = endpoint;
    const { clock, deliverer } = this.#options;
    const under = this.#tests.of(tenantId);
    if (under >= TESTS_AT_ONCE)
      throw new StatefoldError('RATE_LIMITED', `${under} tests of endpoints are under way: wait until one has ended.`, {
        retryAfterSeconds: RETRY_SECONDS,
      });
    return this.#tests.during(tenantId, async () => {
      const now = clock.now();
      const messageId = `msg_test_${uuidv7(now)}`;
      const body = { type: 'endpoint.test', timestamp: isoTimestamp(now), data: { endpointId } };
      const message: Omit<Message, 'position'> = {
        ...{ key: '', aggregateType: '', bytes: 0, id: messageId },
        body: () => Buffer.from(JSON.stringify(body)),
      };
      return { ...(await deliverer.sendNow(endpoint, message)), messageId };
    });
  }

  /**
   * Sends again what was sent, or given up, from `from` to `to`, both inclusive; without `to` up to where live deliveries are. The
   * result is what will be sent, and is kept.
   * @throws StatefoldError INVALID_REQUEST where nothing was sent from there on, CURSOR_EXPIRED, RATE_LIMITED, UNAVAILABLE
   */
  async replay(endpoint: EndpointWithUrl, from: number, to: number | undefined): Promise<ReplayedRange> {
    const { end } = await this.#checkpointOf(endpoint);
    if (from >= end)
      throw new StatefoldError(
        'INVALID_REQUEST',
        `Nothing was sent to the endpoint from ${from} on: it is at ${end - 1}, and gets what comes by itself.`,
        { errors: [{ pointer: '/from', message: `must be at most ${end - 1}` }] },
      );
    const range = { from, to: Math.min(to ?? end - 1, end - 1) };
    const tenant = await this.#options.notified.open(endpoint.tenantId);
    await messagesOf(endpoint.source).source.of(tenant).read(from, { items: 1 });
    await this.#begin(endpoint, range);
    return range;
  }

  /** Sends one dead letter again. @throws StatefoldError NOT_FOUND, CURSOR_EXPIRED, RATE_LIMITED, UNAVAILABLE */
  async resend(endpoint: EndpointWithUrl, messageId: string): Promise<ReplayedRange> {
    await this.#checkpointOf(endpoint);
    const letter = this.deadLetters(endpoint).find((one) => one.messageId === messageId);
    if (letter === undefined)
      throw new StatefoldError('NOT_FOUND', `endpoint ${endpoint.endpointId} has no parked message ${messageId}`);
    return this.replay(endpoint, letter.position, letter.position);
  }

  /**
   * Sends the dead letters again, or those that were given up at `since` or later, each with the whole schedule. The latest 500 are kept.
   * What retention has dropped is left out.
   * @throws StatefoldError RATE_LIMITED, UNAVAILABLE
   */
  async resendAll(endpoint: EndpointWithUrl, since: string | undefined): Promise<ResentLetters> {
    await this.#checkpointOf(endpoint);
    const tenant = await this.#options.notified.open(endpoint.tenantId);
    const oldest = await messagesOf(endpoint.source).source.of(tenant).start();
    const only = this.deadLetters(endpoint)
      .filter(({ at, position }) => position >= oldest && (since === undefined || Date.parse(at) >= Date.parse(since)))
      .map(({ position }) => position)
      .sort((a, b) => a - b);
    const [from, to] = [only[0], only.at(-1)];
    if (from === undefined || to === undefined) return { messages: 0 };
    await this.#begin(endpoint, { from, to }, only);
    return { messages: only.length, from, to };
  }

  /**
   * Attempts a message that waits for its next attempt now, whatever the pauses of the endpoint. What comes of it is among the attempts.
   * @throws StatefoldError NOT_FOUND where none such waits, UNAVAILABLE
   */
  async retry(endpoint: EndpointWithUrl, messageId: string): Promise<void> {
    await this.#checkpointOf(endpoint);
    const running = await this.#options.deliverer.running(endpoint.endpointId);
    if (running?.retry(messageId) === true) return;
    throw new StatefoldError(
      'NOT_FOUND',
      running === undefined
        ? `endpoint ${endpoint.endpointId} is paused or disabled: resume it, and what waits is sent`
        : `endpoint ${endpoint.endpointId} has no message ${messageId} that waits for another attempt: it is delivered, parked, under way, or waits behind another one of its key`,
    );
  }

  async #begin(endpoint: EndpointWithUrl, { from, to }: ReplayedRange, only?: readonly number[]): Promise<void> {
    const { deliverer, store } = this.#options;
    await this.#checkpointOf(endpoint);
    const running = await deliverer.running(endpoint.endpointId);
    // On the turn on which it is changed: others may have begun while that was waited for.
    const checkpoint = running === undefined ? this.#stored(endpoint) : running.checkpoint();
    const replays = checkpoint.replays ?? [];
    const there = replays.some(
      (one) =>
        one.to === to && (one.pending[0]?.[0] ?? one.end) === from && String(one.only ?? []) === String(only ?? []),
    );
    if (there) return;
    if (replays.length >= REPLAYS_AT_ONCE)
      throw new StatefoldError(
        'RATE_LIMITED',
        `The endpoint sends ${replays.length} ranges again already: wait until one has ended.`,
        { retryAfterSeconds: RETRY_SECONDS },
      );
    if (running !== undefined) running.replay(from, to, only);
    else {
      const replay = { end: from, pending: [], to, ...(only === undefined ? {} : { only }) };
      store.save(idOf(endpoint), { ...checkpoint, replays: [...replays, replay] });
    }
    // Whoever was told so must be able to rely on it.
    await store.flush(idOf(endpoint));
  }

  /** How far the endpoint is, whether it runs or waits. @throws StatefoldError UNAVAILABLE while it only begins */
  async #checkpointOf(endpoint: EndpointEntity): Promise<EndpointCheckpoint> {
    const running = await this.#options.deliverer.running(endpoint.endpointId);
    if (running === undefined) {
      await this.#options.store.caughtUp();
      return this.#stored(endpoint);
    }
    // After a start its tenant is opened first.
    if (!running.started) await within(running.begun, BEGIN_MS);
    if (!running.started)
      throw new StatefoldError(
        'UNAVAILABLE',
        'Deliveries to the endpoint are only beginning: send the request again.',
        {
          retryAfterSeconds: 1,
        },
      );
    return running.checkpoint();
  }

  #stored(endpoint: EndpointEntity): EndpointCheckpoint {
    return this.#options.store.load(idOf(endpoint)) ?? { end: (endpoint.since ?? 0) + 1, pending: [], deadLetters: [] };
  }

  #status(
    endpoint: EndpointEntity,
  ): (Pick<EndpointStatus, 'deadLetters'> & { readonly health?: EndpointHealth | undefined }) | undefined {
    return this.#options.deliverer.status(endpoint.endpointId) ?? this.#options.store.load(idOf(endpoint));
  }
}

/** Of one that has failed for too long. */
function failuresOf(health: EndpointHealth | undefined): string {
  if (health === undefined) return 'all attempts have failed for days';
  const last = health.reason === undefined ? '' : `, the latest: ${health.reason}`;
  return `all attempts since ${isoTimestamp(health.since)} have failed${last}`;
}

const idOf = ({ tenantId, endpointId }: EndpointEntity): string => checkpointId(tenantId, endpointId);

/** Of letters of earlier releases, which were of changes alone. */
const messageIdOf = ({ source }: EndpointEntity, { messageId, position }: DeadLetter): string =>
  messageId ?? ('projectionId' in source ? `msg_${source.projectionId}_${position}` : String(position));
