import type { KeyObject } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Catalog } from '../catalog/catalog.js';
import { sealedThatSign } from '../catalog/webhook-secrets.js';
import type { Clock } from '../core/clock.js';
import { isoTimestamp } from '../core/event.js';
import type { Logger } from '../core/logger.js';
import { traced, tracing } from '../core/tracing.js';
import type { Timers } from '../feed/timers.js';
import type { ResolveHost } from './address-guard.js';
import type { AttemptStore } from './attempt-store.js';
import { checkpointId, type EndpointIdentity } from './endpoint.js';
import type { EndpointWithUrl } from './endpoint-entities.js';
import { ownHeadersOf, secretsOf } from './endpoints.js';
import { besideOurs } from './own-headers.js';
import { signingKeyOf } from './signature.js';
import { WebhookClient, type AttemptOutcome } from './webhook-client.js';
import { webhookHeaders, type Message } from './webhook-message.js';

export interface WebhookSenderOptions {
  readonly catalog: Pick<Catalog, 'get'>;
  readonly attempts: Pick<AttemptStore, 'add'>;
  /** Opens a sealed secret: `whsec_…`. */
  readonly unseal: (sealed: string) => string;
  readonly allowPrivate: boolean;
  /** Of one attempt. */
  readonly timeoutMs: number;
  readonly resolve?: ResolveHost;
  readonly clock: Clock;
  readonly timers: Pick<Timers, 'now'>;
  readonly logger: Logger;
}

/** What became of a message that was sent, and when; `at` is milliseconds since the epoch. */
export interface SentNow {
  readonly outcome: AttemptOutcome;
  readonly at: number;
  readonly durationMs: number;
}

/** Why it is not delivered, in words. */
export const errorOf = (outcome: Exclude<AttemptOutcome, { readonly kind: 'delivered' }>): string =>
  outcome.kind === 'gone' ? 'answered 410: the endpoint wants no more' : outcome.reason;

/** How many are kept opened, and how long: in the clear they are worth stealing. */
const UNSEALED = 1_000;
const UNSEALED_MS = 60_000;

/** Signs one message and sends it, to where its endpoint is now. */
export class WebhookSender {
  readonly #options: WebhookSenderOptions;
  readonly #client: WebhookClient;
  /** By what is sealed, what attempts need of it again and again: to open it takes as long as to sign. */
  readonly #keys: LRUCache<string, KeyObject>;
  readonly #ownHeaders: LRUCache<string, Readonly<Record<string, string>>>;

  constructor(options: WebhookSenderOptions) {
    this.#options = options;
    const { allowPrivate, timeoutMs, resolve, clock, unseal } = options;
    this.#client = new WebhookClient({
      allowPrivate,
      timeoutMs,
      now: () => clock.now(),
      ...(resolve === undefined ? {} : { resolve }),
    });
    const opened = { max: UNSEALED, ttl: UNSEALED_MS, ttlAutopurge: true };
    this.#keys = new LRUCache({ ...opened, memoMethod: (sealed) => signingKeyOf(unseal(sealed)) });
    this.#ownHeaders = new LRUCache({ ...opened, memoMethod: (sealed) => ownHeadersOf({ unseal }, { sealed }) });
  }

  /** Cuts what is still open. */
  async close(): Promise<void> {
    await this.#client.close();
  }

  /** As `send`, and traced: the receiver gets the attempt's `traceparent`, and what it does is a part of it. */
  async attempt(endpoint: EndpointWithUrl, message: Message, attempt: number, signal: AbortSignal): Promise<SentNow> {
    const { tracer } = tracing;
    if (tracer === undefined) return this.send(endpoint, message, signal);
    const attributes = {
      'http.request.method': 'POST',
      'server.address': new URL(endpoint.url).hostname,
      'statefold.tenant': endpoint.tenantId,
      'statefold.endpoint': endpoint.endpointId,
      'statefold.position': message.position,
      'statefold.attempt': attempt,
      'messaging.message.id': message.id,
    };
    return traced(tracer, 'webhook.attempt', { kind: 'client', attributes }, async (span) => {
      const sent = await this.send(endpoint, message, signal, span.headers);
      const { outcome } = sent;
      span.set({ 'http.response.status_code': outcome.status });
      if (outcome.kind !== 'delivered') span.fail(outcome.kind === 'failed' ? outcome.reason : 'gone');
      return sent;
    });
  }

  /** Sends it once; never rejects. */
  async send(
    endpoint: EndpointWithUrl,
    message: Omit<Message, 'position'>,
    signal: AbortSignal,
    further: Readonly<Record<string, string>> = {},
  ): Promise<SentNow> {
    const { catalog } = this.#options;
    const { tenantId, endpointId } = endpoint;
    const begun = this.#options.timers.now();
    const at = this.#options.clock.now();
    let outcome: AttemptOutcome;
    try {
      const signing = sealedThatSign(secretsOf(catalog, tenantId, endpoint), at).map((sealed) =>
        this.#keys.memo(sealed),
      );
      if (signing.length === 0) throw new Error('the endpoint has no signing secret');
      const body = message.body();
      const ours = { ...further, ...webhookHeaders(message.id, at, body, signing) };
      const own = endpoint.headers && this.#ownHeaders.memo(endpoint.headers.sealed);
      const headers = own === undefined ? ours : besideOurs(own, ours);
      outcome = await this.#client.post(endpoint.url, headers, body, signal);
    } catch (error) {
      this.#options.logger.error(
        { err: error, tenantId, endpointId, messageId: message.id },
        'a webhook could not be signed',
      );
      const reason = 'it could not be signed';
      outcome = { kind: 'failed', isOurs: true, status: undefined, reason, excerpt: '', retryAfterMs: undefined };
    }
    return { outcome, at, durationMs: Math.round(this.#options.timers.now() - begun) };
  }

  /** Among the attempts that the tenant is told of. */
  record(
    { tenantId, endpointId }: EndpointIdentity,
    { id: messageId }: Pick<Message, 'id'>,
    position: number | undefined,
    attempt: number,
    { outcome, at, durationMs }: SentNow,
  ): void {
    const { status } = outcome;
    const excerpt = outcome.kind === 'delivered' ? '' : outcome.excerpt;
    this.#options.attempts.add(checkpointId(tenantId, endpointId), {
      messageId,
      ...(position === undefined ? {} : { position }),
      attempt,
      at: isoTimestamp(at),
      durationMs,
      ...(status === undefined ? {} : { status }),
      ...(outcome.kind === 'delivered' ? {} : { error: errorOf(outcome) }),
      ...(excerpt === '' ? {} : { responseExcerpt: excerpt }),
    });
  }
}
