import type { CallOptions, Requests } from './requests.js';
import type { NewWebhookEndpoint, Operations, ParkedMessage, WebhookAttempt, WebhookEndpoint } from './wire.js';

export type NewEndpoint = Operations['createWebhookEndpoint']['body'];
export type EndpointChange = Operations['changeWebhookEndpoint']['body'];
/** With `secret` where the change was about that. */
export type ChangedWebhookEndpoint = Operations['changeWebhookEndpoint']['answer'];
/** What is sent again: from the one sequence or position to the other, both inclusive. */
export type Resent = Operations['replayWebhookEndpoint']['answer'];

type Options = Omit<CallOptions, 'idempotencyKey'>;

const PAGE = 100;

/**
 * Webhook endpoints of the tenant. Its key needs the scope `webhooks`. To create, to change, to rotate and to send again is sent once: where no
 * answer came, look before you repeat it. All else is repeated by itself.
 */
export class WebhookEndpoints {
  readonly #client: Requests;

  constructor(client: Requests) {
    this.#client = client;
  }

  /** The answer has the secret that messages are signed with. @throws ClientError */
  create(endpoint: NewEndpoint, options: Options = {}): Promise<NewWebhookEndpoint> {
    return this.#client.request('createWebhookEndpoint', { ...options, body: endpoint });
  }

  /** All of them, ascending by id, page by page as they are asked for. @throws ClientError */
  list(options: Options = {}): AsyncGenerator<WebhookEndpoint, void, undefined> {
    return each(async (cursor) => {
      const query = { limit: PAGE, cursor };
      const { endpoints, nextCursor } = await this.#client.request('listWebhookEndpoints', { ...options, query });
      return { items: endpoints, nextCursor };
    });
  }

  /** @throws RefusedError NOT_FOUND; ClientError */
  get(endpointId: string, options: Options = {}): Promise<WebhookEndpoint> {
    return this.#client.request('getWebhookEndpoint', { ...options, path: { id: endpointId } });
  }

  /** A merge: what is left out stays, null takes away. It holds from the next attempt on. @throws ClientError */
  change(endpointId: string, change: EndpointChange, options: Options = {}): Promise<ChangedWebhookEndpoint> {
    return this.#client.request('changeWebhookEndpoint', { ...options, path: { id: endpointId }, body: change });
  }

  /** With its place, its attempts, and a secret of its own. @throws ClientError */
  async delete(endpointId: string, options: Options = {}): Promise<void> {
    await this.#client.request('deleteWebhookEndpoint', { ...options, path: { id: endpointId } });
  }

  /** A new secret; the one before signs too, for 24 hours. @throws RefusedError WEBHOOK_SECRET_SHARED; ClientError */
  rotate(endpointId: string, options: Options = {}): Promise<Operations['rotateWebhookEndpointSecret']['answer']> {
    return this.#client.request('rotateWebhookEndpointSecret', { ...options, path: { id: endpointId } });
  }

  /** Sends a message `endpoint.test` now, and tells what came of it. @throws ClientError */
  test(endpointId: string, options: Options = {}): Promise<Operations['testWebhookEndpoint']['answer']> {
    return this.#client.request('testWebhookEndpoint', { ...options, path: { id: endpointId } });
  }

  /** Sends nothing until it is resumed; what comes meanwhile waits. @throws ClientError */
  pause(endpointId: string, options: Options = {}): Promise<WebhookEndpoint> {
    return this.#client.request('pauseWebhookEndpoint', { ...options, path: { id: endpointId } });
  }

  /** Goes on with one that was paused or disabled. @throws ClientError */
  resume(endpointId: string, options: Options = {}): Promise<WebhookEndpoint> {
    return this.#client.request('resumeWebhookEndpoint', { ...options, path: { id: endpointId } });
  }

  /** The latest attempts, newest first. `status`: `delivered`, `failed`, a status of HTTP like `503`, or a class like `5xx`. @throws ClientError */
  attempts(
    endpointId: string,
    { status }: { readonly status?: string | undefined } = {},
    options: Options = {},
  ): AsyncGenerator<WebhookAttempt, void, undefined> {
    return each(async (cursor) => {
      const asked = { ...options, path: { id: endpointId }, query: { limit: PAGE, status, cursor } };
      const { attempts, nextCursor } = await this.#client.request('listWebhookAttempts', asked);
      return { items: attempts, nextCursor };
    });
  }

  /** Messages that were given up after their last attempt, highest place first. @throws ClientError */
  parked(endpointId: string, options: Options = {}): AsyncGenerator<ParkedMessage, void, undefined> {
    return each(async (cursor) => {
      const asked = { ...options, path: { id: endpointId }, query: { limit: PAGE, cursor } };
      const { parked, nextCursor } = await this.#client.request('listParkedMessages', asked);
      return { items: parked, nextCursor };
    });
  }

  /** Sends a message again that was given up. @throws ClientError */
  resend(endpointId: string, messageId: string, options: Options = {}): Promise<Resent> {
    return this.#client.request('resendParkedMessage', { ...options, path: { id: endpointId, messageId } });
  }

  /** Sends all messages again that were given up, or those since a time (ISO 8601); tells how many. @throws ClientError */
  resendAll(
    endpointId: string,
    { since }: { readonly since?: string | undefined } = {},
    options: Options = {},
  ): Promise<Operations['resendParkedMessages']['answer']> {
    const body = since === undefined ? {} : { since };
    return this.#client.request('resendParkedMessages', { ...options, path: { id: endpointId }, body });
  }

  /** Attempts a message now that waits for its next attempt. @throws RefusedError NOT_FOUND where none such waits; ClientError */
  async retry(endpointId: string, messageId: string, options: Options = {}): Promise<void> {
    await this.#client.request('retryWebhookMessage', { ...options, path: { id: endpointId, messageId } });
  }

  /** Sends all from the one sequence (of the feed: position) to the other again, both inclusive; without `to` up to where live deliveries are. @throws ClientError */
  replay(
    endpointId: string,
    range: { readonly from: number; readonly to?: number | undefined },
    options: Options = {},
  ): Promise<Resent> {
    return this.#client.request('replayWebhookEndpoint', { ...options, path: { id: endpointId }, body: range });
  }
}

/** Page by page, as they are asked for. */
async function* each<T>(
  page: (
    cursor: string | undefined,
  ) => Promise<{ readonly items: readonly T[]; readonly nextCursor?: string | undefined }>,
): AsyncGenerator<T, void, undefined> {
  for (let cursor: string | undefined; ;) {
    const { items, nextCursor } = await page(cursor);
    yield* items;
    if (nextCursor === undefined) return;
    cursor = nextCursor;
  }
}
