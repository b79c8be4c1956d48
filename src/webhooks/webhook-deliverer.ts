import { SERVICE, type AuditBegun, type AuditRecording, type AuditTrail } from '../audit/audit-entry.js';
import type { Catalog, CatalogChange, EndpointEntity } from '../catalog/catalog.js';
import { isClosed, onSuspension } from '../catalog/suspension.js';
import { backOff, type BackOff } from '../core/back-off.js';
import { UNBOUNDED, type MemoryBudget } from '../core/budget.js';
import { systemClock, type Clock } from '../core/clock.js';
import { uuidv7 } from '../core/ids.js';
import { inSlices, mapped } from '../core/slices.js';
import type { Logger } from '../core/logger.js';
import type { FeedHub } from '../feed/hub.js';
import type { TenantFeeds } from '../feed/tenant-feeds.js';
import type { AttemptStore } from './attempt-store.js';
import type { CursorStore, DeadLetter } from './cursor-store.js';
import { systemTimers, type Timers } from '../feed/timers.js';
import {
  endpointIds,
  endpointIdsOf,
  endpointOf,
  hasUrl,
  isActive,
  legacyEndpoint,
  type EndpointWithUrl,
} from './endpoint-entities.js';
import {
  checkpointId,
  Endpoint,
  type EndpointContext,
  type EndpointIdentity,
  type EndpointLimits,
  type EndpointStatus,
} from './endpoint.js';
import { filterOf } from './endpoint-filter.js';
import type { DisabledFor, Endpoints } from './endpoints.js';
import { FairPermits } from './fair-permits.js';
import { RETRY_DELAYS_MS } from './retry-schedule.js';
import type { AttemptOutcome } from './webhook-client.js';
import { messagesOf, type Message } from './webhook-message.js';
import { WebhookSender, type SentNow, type WebhookSenderOptions } from './webhook-sender.js';

export interface WebhookDelivererOptions extends Pick<
  WebhookSenderOptions,
  'unseal' | 'allowPrivate' | 'timeoutMs' | 'resolve'
> {
  readonly hub: FeedHub;
  readonly notified: TenantFeeds;
  readonly catalog: Pick<Catalog, 'get' | 'list' | 'onChange'>;
  readonly endpoints: Pick<Endpoints, 'disable'>;
  /** Where it is told that an endpoint was disabled. */
  readonly audit: Pick<AuditTrail, 'begin'>;
  readonly store: CursorStore;
  readonly attempts: AttemptStore;
  /** The tenant's webhooks are sent by this process. */
  readonly serves?: (tenantId: string) => boolean;
  readonly logger: Logger;
  /** What is taken and not delivered is held of it; without it an endpoint has its window, however many there are. */
  readonly budget?: MemoryBudget;
  readonly clock?: Clock;
  readonly timers?: Timers;
  readonly random?: () => number;
  readonly limits?: Partial<WebhookLimits>;
  readonly observer?: WebhookObserver;
}

export interface WebhookLimits extends EndpointLimits {
  /** Requests at once to endpoints that answer, of all tenants and of one, while they are fresh. */
  readonly concurrencyOfAll: number;
  readonly concurrencyOfTenant: number;
  /** Requests count as slow after so long, and there may be so many of them besides. */
  readonly slowAfterMs: number;
  readonly slowOfAll: number;
  readonly slowOfTenant: number;
  /** Of `concurrencyOfAll` so many are for tenants without a slow one. */
  readonly keptForQuick: number;
  /** Requests at once to endpoints that fail, of all tenants and of one. */
  readonly probesOfAll: number;
  readonly probesOfTenant: number;
}

export interface WebhookAttempt {
  readonly tenantId: string;
  readonly endpointId: string;
  /** Of the item in its feed. */
  readonly position: number;
  /** From 1 on. */
  readonly attempt: number;
  readonly outcome: AttemptOutcome;
  readonly durationMs: number;
}

export interface WebhookObserver {
  attempted?(attempt: WebhookAttempt): void;
  /** A message was given up after its last attempt. */
  buried?(tenantId: string, endpointId: string, letter: DeadLetter): void;
  disabled?(tenantId: string, endpointId: string): void;
}

const DEFAULT_LIMITS: WebhookLimits = {
  windowMessages: 256,
  windowBytes: 4 * 1024 * 1024,
  concurrency: 8,
  retryDelaysMs: RETRY_DELAYS_MS,
  failuresToOpen: 5,
  firstPauseMs: 5_000,
  lastPauseMs: 60_000,
  // Of the setting.
  disableAfterMs: 0,
  concurrencyOfAll: 64,
  concurrencyOfTenant: 16,
  slowAfterMs: 250,
  slowOfAll: 512,
  slowOfTenant: 32,
  keptForQuick: 16,
  probesOfAll: 32,
  probesOfTenant: 4,
};
/** Between attempts to write down that an endpoint is disabled, milliseconds. */
const DISABLING: BackOff = { first: 1_000, last: 60_000 };
/** Tenants that are opened at once at a start, to deliver what the last run left. */
const OPEN_AT_ONCE = 4;

/** Delivers to every endpoint that the catalog has, as it has it at every moment. */
export class WebhookDeliverer {
  /** By endpoint id. */
  readonly #endpoints = new Map<string, Endpoint<unknown>>();
  /** By endpoint id: what was stopped and has not ended yet. */
  readonly #stopping = new Map<string, Promise<void>>();
  /** By endpoint id: the URL that wants no more, or failed for too long, until that is written down. */
  readonly #gone = new Map<string, string>();
  readonly #sender: WebhookSender;
  readonly #context: EndpointContext;
  #closed = false;

  constructor(private readonly options: WebhookDelivererOptions) {
    const { hub, store, notified, logger, clock = systemClock, timers = systemTimers } = options;
    this.#sender = new WebhookSender({ ...options, clock, timers });
    const limits = { ...DEFAULT_LIMITS, ...options.limits };
    this.#context = {
      hub,
      store,
      logger,
      timers,
      random: options.random ?? Math.random,
      wallClock: () => clock.now(),
      limits,
      budget: options.budget ?? UNBOUNDED,
      permits: new FairPermits(
        {
          total: limits.concurrencyOfAll,
          perOwner: limits.concurrencyOfTenant,
          long: {
            afterMs: limits.slowAfterMs,
            total: limits.slowOfAll,
            perOwner: limits.slowOfTenant,
            kept: limits.keptForQuick,
          },
        },
        timers,
      ),
      probationPermits: new FairPermits({ total: limits.probesOfAll, perOwner: limits.probesOfTenant }, timers),
      open: async (tenantId) => {
        const tenant = await notified.open(tenantId);
        // When its feeds are here: who notified before has mostly saved its last. What it saves later only makes deliveries repeat.
        await store.caughtUp();
        return tenant;
      },
      attempt: (endpoint, message, attempt, signal) => this.#attempt(endpoint, message, attempt, signal),
      buried: ({ tenantId, endpointId }, letter) => {
        logger.warn({ tenantId, endpointId, ...letter }, 'a webhook was given up after its last attempt');
        options.observer?.buried?.(tenantId, endpointId, letter);
      },
      gone: (endpoint, url) => this.#disable(endpoint, url, 'gone'),
      failedTooLong: (endpoint) => {
        const url = endpointOf(options.catalog, endpoint.endpointId)?.url;
        if (url !== undefined) this.#disable(endpoint, url, 'failures');
      },
      wanted: ({ endpointId }, item) => {
        const endpoint = endpointOf(options.catalog, endpointId);
        return endpoint !== undefined && filterOf(endpoint).passes(item);
      },
      paceMs: ({ endpointId }) => {
        const rate = endpointOf(options.catalog, endpointId)?.ratePerSecond;
        return rate === undefined ? 0 : 1_000 / rate;
      },
    };
  }

  /** Follows the catalog from now on and takes up what is there. Resolves when every endpoint was begun. */
  async start(): Promise<void> {
    this.options.catalog.onChange((change) => {
      if (this.#closed) return;
      if (change.kind === 'endpoint') this.#endpointChanged(change);
      else if (change.kind === 'projection') this.#projectionChanged(change);
    });
    onSuspension(this.options.catalog, () => void (this.#closed ? undefined : this.reassign()));
    await this.reassign();
  }

  /** The tenants that this process serves may be others now, or one is suspended, or no more: ends what is another's, and goes on with what came to it. */
  async reassign(): Promise<void> {
    for (const endpoint of [...this.#endpoints.values()]) if (!this.#serves(endpoint.tenantId)) this.#stop(endpoint);
    const { catalog } = this.options;
    const served = await inSlices(
      mapped(endpointIds(catalog, undefined), (id) => (this.#servedNow(id) === undefined ? [] : [id])),
    );
    const next = served.flat().values();
    const open = async (): Promise<void> => {
      for (const id of next) {
        // As it is now: while those before it began, its tenant may have gone to another process, or it may have been paused.
        const endpoint = this.#servedNow(id);
        if (endpoint !== undefined) await this.#begin(endpoint);
      }
    };
    await Promise.all(Array.from({ length: OPEN_AT_ONCE }, open));
  }

  /** In operation, and this process's. */
  #servedNow(endpointId: string): EndpointWithUrl | undefined {
    const endpoint = endpointOf(this.options.catalog, endpointId);
    return isActive(endpoint) && this.#serves(endpoint.tenantId) ? endpoint : undefined;
  }

  #serves(tenantId: string): boolean {
    return !isClosed(this.options.catalog, tenantId) && (this.options.serves?.(tenantId) ?? true);
  }

  /** Undefined where there is no such endpoint in operation here, or it is only beginning. */
  status(endpointId: string): EndpointStatus | undefined {
    const endpoint = this.#endpoints.get(endpointId);
    return endpoint?.started === true ? endpoint.status() : undefined;
  }

  /** The endpoint in operation here; undefined where there is none, as while it is paused. Resolves when one that was stopped has ended. */
  async running(endpointId: string): Promise<Endpoint<unknown> | undefined> {
    await this.#stopping.get(endpointId);
    return this.#endpoints.get(endpointId);
  }

  /** Sends one message now, whatever the state of the endpoint, and its order and its pace; never rejects. */
  async sendNow(endpoint: EndpointWithUrl, message: Omit<Message, 'position'>): Promise<SentNow> {
    const outcome = await this.#sender.send(endpoint, message, new AbortController().signal);
    // It may be gone meanwhile, with its attempts.
    if (endpointOf(this.options.catalog, endpoint.endpointId) !== undefined)
      this.#sender.record(endpoint, message, undefined, 1, outcome);
    return outcome;
  }

  /** Calls off what is in flight. The cursor store stays open: it has saves to write. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([
      ...this.#stopping.values(),
      ...[...this.#endpoints.values()].map((endpoint) => endpoint.stop()),
    ]);
    await this.#sender.close();
  }

  #endpointChanged({ id, previous }: CatalogChange<'endpoint'>): void {
    this.#configure(id, previous ?? legacyEndpoint(this.options.catalog.get('projection', id)?.value));
  }

  /** It may be deleted, or of a release that kept its first endpoint in it. */
  #projectionChanged({ value, previous }: CatalogChange<'projection'>): void {
    const projection = value ?? previous;
    if (projection === undefined || (value !== undefined && value.webhook === previous?.webhook)) return;
    for (const endpointId of endpointIdsOf(this.options.catalog, projection)) {
      const had = this.options.catalog.get('endpoint', endpointId)?.value;
      this.#configure(endpointId, had ?? legacyEndpoint(previous));
    }
  }

  #configure(endpointId: string, previous: EndpointEntity | undefined): void {
    const endpoint = this.#endpoints.get(endpointId);
    const value = endpointOf(this.options.catalog, endpointId);
    if (value?.url !== this.#gone.get(endpointId) || value?.disabledAt !== undefined) this.#gone.delete(endpointId);
    if (!isActive(value)) {
      if (endpoint !== undefined) this.#stop(endpoint);
      // A disabled endpoint keeps its place; one that was taken away begins anew if it is ever given again.
      if (value?.url === undefined && previous?.url !== undefined)
        this.#forget(endpoint, checkpointId(previous.tenantId, endpointId));
    } else if (endpoint === undefined) {
      // What waited while it was paused, or disabled, is due when it is no more.
      const resumed = hasUrl(previous) && !isActive(previous);
      if (this.#serves(value.tenantId)) void this.#begin(value, resumed);
    } else if (previous?.url !== value.url || previous.headers?.sealed !== value.headers?.sealed) endpoint.hurry();
    else endpoint.reconsider();
  }

  async #begin({ tenantId, endpointId, url, source, since }: EndpointWithUrl, resumed = false): Promise<void> {
    if (this.#closed || this.#endpoints.has(endpointId) || this.#gone.get(endpointId) === url) return;
    const endpoint = new Endpoint(tenantId, endpointId, messagesOf(source), this.#context);
    this.#endpoints.set(endpointId, endpoint);
    // It goes on where the one before it ends.
    await this.#stopping.get(endpointId);
    // With the projection itself: all its changes, the build's too. Added later: from there on.
    await endpoint.start((since ?? 0) + 1, resumed);
  }

  #stop(endpoint: Endpoint<unknown>): void {
    const { endpointId, id } = endpoint;
    this.#endpoints.delete(endpointId);
    const stopped = Promise.all([this.#stopping.get(endpointId), endpoint.stop()]).then(() => {
      if (this.#stopping.get(endpointId) !== stopped) return;
      this.#stopping.delete(endpointId);
      if (!this.#endpoints.has(endpointId)) this.options.attempts.release(id);
    });
    this.#stopping.set(endpointId, stopped);
  }

  #forget(endpoint: Endpoint<unknown> | undefined, id: string): void {
    const forget = (): void => {
      if ([...this.#endpoints.values()].some((one) => one.id === id)) return;
      this.options.store.delete(id);
      this.options.attempts.delete(id);
    };
    // What is called off saves once more.
    if (endpoint === undefined) forget();
    else void endpoint.stop().then(forget);
  }

  /** Where it has another URL meanwhile it goes on there. */
  #disable({ tenantId, endpointId }: EndpointIdentity, url: string, why: DisabledFor): void {
    if (endpointOf(this.options.catalog, endpointId)?.url !== url) return;
    const endpoint = this.#endpoints.get(endpointId);
    if (endpoint !== undefined) this.#stop(endpoint);
    const what = why === 'gone' ? 'the endpoint answered 410' : 'all attempts at the endpoint have failed for days';
    this.options.logger.warn({ tenantId, endpointId }, `${what}: no more webhooks are sent to it`);
    this.options.observer?.disabled?.(tenantId, endpointId);
    this.#gone.set(endpointId, url);
    void this.#writeDisabled({ tenantId, endpointId }, url, why, 0);
  }

  /** Until the catalog has it nothing is sent there, and it is tried again, under the one entry of the audit log that was begun for it. */
  async #writeDisabled(
    endpoint: Pick<EndpointIdentity, 'tenantId' | 'endpointId'>,
    url: string,
    why: DisabledFor,
    failures: number,
    begun?: AuditRecording,
  ): Promise<void> {
    const { tenantId, endpointId } = endpoint;
    if (this.#closed) return;
    // Who serves the tenant by then finds out by itself, and its owner may have resumed the endpoint since.
    if (!this.#serves(tenantId)) this.#gone.delete(endpointId);
    if (this.#gone.get(endpointId) !== url) return begun?.end({ outcome: 'refused' });
    let recording = begun;
    try {
      recording ??= await this.options.audit.begin(this.#actOf(endpoint, why));
      const isDisabled = await this.options.endpoints.disable(endpointId, url, why);
      this.#gone.delete(endpointId);
      await recording.end({ outcome: isDisabled ? 'done' : 'refused' });
    } catch (error) {
      this.options.logger.warn(
        { err: error, tenantId, endpointId },
        'that the endpoint is disabled could not be written down: nothing is sent to it, and it is tried again',
      );
      const again = (): void => void this.#writeDisabled(endpoint, url, why, failures + 1, recording);
      this.#context.timers.after(backOff(failures, DISABLING), again);
    }
  }

  #actOf({ tenantId, endpointId }: Pick<EndpointIdentity, 'tenantId' | 'endpointId'>, why: DisabledFor): AuditBegun {
    return {
      ...SERVICE,
      tenantId,
      tenantCreatedAt: this.options.catalog.get('tenant', tenantId)?.value.createdAt,
      action: 'endpoint.disable',
      object: { endpointId },
      details: { why },
      requestId: uuidv7(),
    };
  }

  /** Address and secrets are those of the moment: a rotation that was answered counts from the next attempt on. */
  async #attempt(
    { tenantId, endpointId }: EndpointIdentity,
    message: Message,
    attempt: number,
    signal: AbortSignal,
  ): Promise<AttemptOutcome | undefined> {
    const endpoint = endpointOf(this.options.catalog, endpointId);
    if (!isActive(endpoint)) return undefined;
    const sent = await this.#sender.attempt(endpoint, message, attempt, signal);
    if (!signal.aborted) {
      const { outcome, durationMs } = sent;
      this.#sender.record(endpoint, message, message.position, attempt, sent);
      this.options.observer?.attempted?.({
        ...{ tenantId, endpointId, position: message.position, attempt, outcome, durationMs },
      });
    }
    return sent.outcome;
  }
}
