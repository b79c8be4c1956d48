import type { Catalog, CatalogChange, ProjectionEntity } from '../catalog/catalog.js';
import { signingSecrets } from '../catalog/webhook-secrets.js';
import { UNBOUNDED, type MemoryBudget } from '../core/budget.js';
import type { Change } from '../core/change.js';
import { systemClock, type Clock } from '../core/clock.js';
import type { Logger } from '../core/logger.js';
import type { TenantFeeds } from '../feed/changes.js';
import type { CursorStore, ParkedChange } from './cursor-store.js';
import type { ChangeHub } from '../feed/hub.js';
import { systemTimers, type Timers } from '../feed/timers.js';
import type { ResolveHost } from './address-guard.js';
import { Endpoint, endpointId, type EndpointContext, type EndpointLimits, type EndpointStatus } from './endpoint.js';
import { FairSlots } from './fair-slots.js';
import { RETRY_DELAYS_MS } from './retry-schedule.js';
import { WebhookClient, type AttemptOutcome } from './webhook-client.js';
import { webhookBody, webhookHeaders, webhookId } from './webhook-message.js';

export interface WebhookDelivererOptions {
  readonly hub: ChangeHub;
  readonly tenants: TenantFeeds;
  readonly catalog: Pick<Catalog, 'get' | 'list' | 'update' | 'onChange'>;
  readonly store: CursorStore;
  /** The tenant's webhooks are sent by this process. */
  readonly serves?: (tenantId: string) => boolean;
  /** Opens a sealed secret: `whsec_…`. */
  readonly unseal: (sealed: string) => string;
  readonly logger: Logger;
  /** What is taken and not delivered is held of it; without it an endpoint has its window, however many there are. */
  readonly budget?: MemoryBudget;
  readonly allowPrivate: boolean;
  /** Of one attempt. */
  readonly timeoutMs: number;
  readonly resolve?: ResolveHost;
  readonly clock?: Clock;
  readonly timers?: Timers;
  readonly random?: () => number;
  readonly limits?: Partial<WebhookLimits>;
  readonly observer?: WebhookObserver;
}

export interface WebhookLimits extends EndpointLimits {
  /** Requests at once to endpoints that answer, of all tenants and of one. */
  readonly concurrencyOfAll: number;
  readonly concurrencyOfTenant: number;
  /** Requests at once to endpoints that fail, of all tenants and of one. */
  readonly probesOfAll: number;
  readonly probesOfTenant: number;
}

export interface WebhookAttempt {
  readonly tenantId: string;
  readonly projectionId: string;
  readonly sequence: number;
  /** From 1 on. */
  readonly attempt: number;
  readonly outcome: AttemptOutcome;
  readonly durationMs: number;
}

export interface WebhookObserver {
  attempted?(attempt: WebhookAttempt): void;
  parked?(tenantId: string, projectionId: string, parked: ParkedChange): void;
  disabled?(tenantId: string, projectionId: string): void;
}

const DEFAULT_LIMITS: WebhookLimits = {
  windowChanges: 256,
  windowBytes: 4 * 1024 * 1024,
  concurrency: 8,
  retryDelaysMs: RETRY_DELAYS_MS,
  failuresToOpen: 5,
  firstPauseMs: 5_000,
  lastPauseMs: 60_000,
  concurrencyOfAll: 64,
  concurrencyOfTenant: 16,
  probesOfAll: 32,
  probesOfTenant: 4,
};
/** Tenants that are opened at once at a start, to deliver what the last run left. */
const OPEN_AT_ONCE = 4;

/** Keeps one endpoint for every projection that has a webhook, as the catalog has it at every moment. */
export class WebhookDeliverer {
  readonly #endpoints = new Map<string, Endpoint>();
  readonly #stopping = new Set<Promise<void>>();
  readonly #client: WebhookClient;
  readonly #clock: Clock;
  readonly #context: EndpointContext;
  #closed = false;

  constructor(private readonly options: WebhookDelivererOptions) {
    const { hub, store, tenants, logger, allowPrivate, timeoutMs, resolve } = options;
    const clock = options.clock ?? systemClock;
    this.#clock = clock;
    this.#client = new WebhookClient({
      allowPrivate,
      timeoutMs,
      now: () => clock.now(),
      ...(resolve === undefined ? {} : { resolve }),
    });
    const limits = { ...DEFAULT_LIMITS, ...options.limits };
    this.#context = {
      hub,
      store,
      logger,
      timers: options.timers ?? systemTimers,
      random: options.random ?? Math.random,
      wallClock: () => clock.now(),
      limits,
      budget: options.budget ?? UNBOUNDED,
      slots: new FairSlots(limits.concurrencyOfAll, limits.concurrencyOfTenant),
      probationSlots: new FairSlots(limits.probesOfAll, limits.probesOfTenant),
      feed: async (tenantId) => {
        const { changes } = await tenants.open(tenantId);
        // When its changes are here: who notified before has mostly saved its last. What it saves later only makes deliveries repeat.
        await store.refresh();
        return changes;
      },
      attempt: (endpoint, change, attempt, signal) => this.#attempt(endpoint, change, attempt, signal),
      parked: (endpoint, parked) => {
        logger.warn({ endpoint: endpoint.id, ...parked }, 'a webhook was given up after its last attempt');
        options.observer?.parked?.(endpoint.tenantId, endpoint.projectionId, parked);
      },
      gone: (endpoint) => this.#disable(endpoint),
    };
  }

  /** Follows the catalog from now on and takes up what is there. Resolves when every endpoint was begun. */
  async start(): Promise<void> {
    this.options.catalog.onChange((change) => {
      if (change.kind === 'projection' && !this.#closed) this.#configure(change as CatalogChange<'projection'>);
    });
    await this.reassign();
  }

  /** The tenants that this process serves may be others now: ends what is another's, and goes on with what came to it. */
  async reassign(): Promise<void> {
    for (const endpoint of [...this.#endpoints.values()]) if (!this.#serves(endpoint.tenantId)) this.#stop(endpoint);
    const begun = this.options.catalog
      .list('projection', undefined)
      .flatMap(({ value }) => (isEnabled(value) && this.#serves(value.tenantId) ? [value] : []));
    const next = begun.values();
    const open = async (): Promise<void> => {
      for (const projection of next) await this.#begin(projection);
    };
    await Promise.all(Array.from({ length: OPEN_AT_ONCE }, open));
  }

  #serves(tenantId: string): boolean {
    return this.options.serves?.(tenantId) ?? true;
  }

  /** Undefined where the projection has no endpoint in operation. */
  status(tenantId: string, projectionId: string): EndpointStatus | undefined {
    return this.#endpoints.get(endpointId(tenantId, projectionId))?.status();
  }

  /** Calls off what is in flight. The cursor store stays open: it has saves to write. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#stopping, ...[...this.#endpoints.values()].map((endpoint) => endpoint.stop())]);
    await this.#client.close();
  }

  #configure({ id, value, previous }: CatalogChange<'projection'>): void {
    const tenantId = (value ?? previous)?.tenantId;
    if (tenantId === undefined) return;
    const endpoint = this.#endpoints.get(endpointId(tenantId, id));
    if (value === undefined || !isEnabled(value)) {
      if (endpoint !== undefined) this.#stop(endpoint);
      // A disabled endpoint keeps its place; one that was taken away begins anew if it is ever given again.
      if (value?.webhook?.url === undefined && previous?.webhook?.url !== undefined)
        this.#forget(endpoint, endpointId(tenantId, id));
      return;
    }
    if (endpoint === undefined) {
      if (this.#serves(tenantId)) void this.#begin(value);
    } else if (previous?.webhook?.url !== value.webhook.url) endpoint.hurry();
  }

  async #begin({ tenantId, projectionId, webhook }: WithWebhook): Promise<void> {
    const id = endpointId(tenantId, projectionId);
    if (this.#closed || this.#endpoints.has(id)) return;
    const endpoint = new Endpoint(tenantId, projectionId, this.#context);
    this.#endpoints.set(id, endpoint);
    // With the projection itself: all its changes, the build's too. Added later: from there on.
    await endpoint.start(webhook.since ?? 0);
  }

  #stop(endpoint: Endpoint): void {
    this.#endpoints.delete(endpoint.id);
    const stopped = endpoint.stop().finally(() => this.#stopping.delete(stopped));
    this.#stopping.add(stopped);
  }

  #forget(endpoint: Endpoint | undefined, id: string): void {
    const forget = (): void => {
      if (!this.#endpoints.has(id)) this.options.store.delete(id);
    };
    // What is called off saves once more.
    if (endpoint === undefined) forget();
    else void endpoint.stop().then(forget);
  }

  #disable(endpoint: Endpoint): void {
    const { tenantId, projectionId } = endpoint;
    this.#stop(endpoint);
    this.options.logger.warn({ endpoint: endpoint.id }, 'the endpoint answered 410: no more webhooks are sent to it');
    this.options.observer?.disabled?.(tenantId, projectionId);
    const disabledAt = new Date(this.#clock.now()).toISOString();
    this.options.catalog
      .update('projection', projectionId, (value) =>
        value.webhook === undefined ? undefined : { ...value, webhook: { ...value.webhook, disabledAt } },
      )
      .catch((error: unknown) =>
        this.options.logger.warn(
          { err: error, endpoint: endpoint.id },
          'that the endpoint is disabled could not be written down',
        ),
      );
  }

  /** Address and secrets are those of the moment: a rotation that was answered counts from the next attempt on. */
  async #attempt(
    endpoint: Endpoint,
    change: Change,
    attempt: number,
    signal: AbortSignal,
  ): Promise<AttemptOutcome | undefined> {
    const { catalog, unseal, observer } = this.options;
    const { tenantId, projectionId } = endpoint;
    const webhook = catalog.get('projection', projectionId)?.value.webhook;
    if (webhook?.url === undefined || webhook.disabledAt !== undefined) return undefined;
    const begun = this.#context.timers.now();
    let outcome: AttemptOutcome;
    try {
      const secrets = webhook.isolated
        ? webhook.secrets
        : (catalog.get('tenant', tenantId)?.value.webhookSecrets ?? []);
      const at = this.#clock.now();
      const signing = signingSecrets({ unseal }, secrets, at);
      if (signing.length === 0) throw new Error('the endpoint has no signing secret');
      const body = webhookBody(change);
      outcome = await this.#client.post(
        webhook.url,
        webhookHeaders(webhookId(change), new Date(at), body, signing),
        body,
        signal,
      );
    } catch (error) {
      this.options.logger.error(
        { err: error, endpoint: endpoint.id, sequence: change.sequence },
        'a webhook could not be signed',
      );
      outcome = { kind: 'failed', status: undefined, reason: 'it could not be signed', retryAfterMs: undefined };
    }
    if (!signal.aborted) {
      observer?.attempted?.({
        tenantId,
        projectionId,
        sequence: change.sequence,
        attempt,
        outcome,
        durationMs: this.#context.timers.now() - begun,
      });
    }
    return outcome;
  }
}

type WithWebhook = ProjectionEntity & {
  readonly webhook: NonNullable<ProjectionEntity['webhook']> & { readonly url: string };
};

const isEnabled = (projection: ProjectionEntity): projection is WithWebhook =>
  projection.webhook?.url !== undefined && projection.webhook.disabledAt === undefined;
