import { StatefoldError, TenantSuspendedError } from '../core/errors.js';
import {
  FeedSubscription,
  type Subscriber,
  type Subscription,
  type SubscriptionHome,
  type SubscriptionOptions,
} from './subscription.js';
import type { TenantFeed, TenantFeeds } from './tenant-feeds.js';
import { Replays } from './replays.js';
import { systemTimers, type Timers } from './timers.js';

export interface FeedHubOptions {
  readonly notified: TenantFeeds;
  readonly timers?: Timers;
  /** How those that read history share it with others. */
  readonly replays?: Replays;
}

/** A subscription of whatever items, as the hub ends and renews it. */
type AnySubscription = Pick<FeedSubscription<never>, 'sourceId' | 'renewed' | 'fail'>;

/** The subscriptions to one tenant's feeds; there is at least one. */
interface FollowedTenant {
  readonly subscriptions: Set<AnySubscription>;
  /** Its feeds are wanted no more. */
  readonly release: () => void;
}

/**
 * The subscriptions to the feeds of all tenants. They outlive a tenant's passivation: each goes on from its own end when the
 * tenant's feeds are here again.
 */
export class FeedHub {
  readonly #notified: TenantFeeds;
  readonly #timers: Timers;
  readonly #replays: Replays;
  readonly #followed = new Map<string, FollowedTenant>();
  #closed = false;

  constructor({ notified, timers = systemTimers, replays = new Replays() }: FeedHubOptions) {
    this.#notified = notified;
    this.#timers = timers;
    this.#replays = replays;
    // When what the former feeds had to tell on this turn is told.
    notified.onActivated((tenant) => queueMicrotask(() => this.#renewed(tenant)));
  }

  /** What pushes to `subscriber`, once it is started, what the source has from `options.from` on: history first, then live, in order, each once. */
  subscribe<T>(options: SubscriptionOptions<T>, subscriber: Subscriber<T>): Subscription {
    if (this.#closed) throw shuttingDown();
    const { tenantId } = options;
    const notified = this.#notified;
    const home: SubscriptionHome = {
      timers: this.#timers,
      replays: this.#replays,
      active: () => notified.active(tenantId),
      open: () => notified.open(tenantId),
      forget: () => this.#forget(tenantId, subscription),
    };
    const subscription = new FeedSubscription(options, subscriber, home);
    let tenant = this.#followed.get(tenantId);
    if (tenant === undefined)
      this.#followed.set(tenantId, (tenant = { subscriptions: new Set(), release: notified.keep(tenantId) }));
    tenant.subscriptions.add(subscription);
    return subscription;
  }

  /** Gives what `read` does with history of the tenant, which is called as a subscription's read of a page is. */
  inTurn<T>(tenantId: string, read: () => Promise<T>): Promise<T> {
    return this.#replays.page(tenantId, read);
  }

  /** How many subscriptions there are, of all tenants. */
  get subscriptions(): number {
    let count = 0;
    for (const { subscriptions } of this.#followed.values()) count += subscriptions.size;
    return count;
  }

  /** Ends the subscriptions to a source that is no more with NOT_FOUND; `what` it was, for the message: `projection p1`. */
  sourceDeleted(tenantId: string, sourceId: string, what: string): void {
    const reason = new StatefoldError('NOT_FOUND', `${what} was deleted`);
    for (const one of this.#of(tenantId)) if (one.sourceId === sourceId) one.fail(reason);
  }

  /** Ends its subscriptions with NOT_FOUND. */
  tenantDeleted(tenantId: string): void {
    this.#end(tenantId, new StatefoldError('NOT_FOUND', 'the tenant was deleted'));
  }

  /** Ends its subscriptions with TENANT_SUSPENDED. */
  tenantSuspended(tenantId: string): void {
    this.#end(tenantId, new TenantSuspendedError());
  }

  /** Ends every subscription with UNAVAILABLE. */
  close(): void {
    this.#closed = true;
    for (const tenantId of [...this.#followed.keys()]) this.#end(tenantId, shuttingDown());
  }

  /** Ends the subscriptions of tenants that another process serves now: they go on there, from where they are. */
  reassign(elsewhere: (tenantId: string) => boolean): void {
    for (const tenantId of [...this.#followed.keys()])
      if (elsewhere(tenantId))
        this.#end(tenantId, new StatefoldError('UNAVAILABLE', 'another process serves the tenant now; connect again'));
  }

  #renewed(tenant: TenantFeed): void {
    // Others may have taken their place on this turn, and be followed already: what they have is not all pushed.
    if (this.#notified.active(tenant.tenantId) !== tenant) return;
    for (const one of this.#of(tenant.tenantId)) one.renewed(tenant);
  }

  #end(tenantId: string, reason: StatefoldError): void {
    for (const one of this.#of(tenantId)) one.fail(reason);
  }

  #forget(tenantId: string, subscription: AnySubscription): void {
    const tenant = this.#followed.get(tenantId);
    tenant?.subscriptions.delete(subscription);
    if (tenant?.subscriptions.size !== 0) return;
    this.#followed.delete(tenantId);
    tenant.release();
  }

  /** As they are now: they may end while they are told. */
  #of(tenantId: string): readonly AnySubscription[] {
    return [...(this.#followed.get(tenantId)?.subscriptions ?? [])];
  }
}

const shuttingDown = (): StatefoldError => new StatefoldError('UNAVAILABLE', 'the service is shutting down');
