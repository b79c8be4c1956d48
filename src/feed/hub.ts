import type { Change } from '../core/change.js';
import { StatefoldError } from '../core/errors.js';
import { eventLoop } from '../core/event-loop.js';
import type { Logger } from '../core/logger.js';
import type { ChangeFeed, TenantFeed, TenantFeeds } from './changes.js';
import {
  ChangeSubscription,
  type Subscription,
  type SubscriptionHome,
  type SubscriptionOptions,
  type Subscriber,
} from './subscription.js';
import { systemTimers, type Timers } from './timers.js';

export interface ChangeHubOptions {
  readonly tenants: TenantFeeds;
  /** Holds the tenants that someone follows, and only those. */
  readonly followed?: Set<string>;
  readonly logger: Logger;
  readonly timers?: Timers;
}

/**
 * Brings the changes of all tenants to their subscriptions: one subscription a tenant that has any, dispatched by projection,
 * so that a change costs what its own subscriptions cost. Subscriptions outlive a tenant's passivation.
 */
export class ChangeHub {
  readonly #timers: Timers;
  readonly #channels = new Map<string, Channel>();
  #closed = false;

  constructor(private readonly options: ChangeHubOptions) {
    this.#timers = options.timers ?? systemTimers;
    options.tenants.onActivated((tenant) => this.#channels.get(tenant.tenantId)?.attach(tenant));
  }

  /** Pushes to `sink` what comes after `options.after`: history first, then live, in order, each once. */
  subscribe(options: SubscriptionOptions, sink: Subscriber): Subscription {
    if (this.#closed) throw new StatefoldError('UNAVAILABLE', 'the service is shutting down');
    let channel = this.#channels.get(options.tenantId);
    if (channel === undefined) {
      channel = new Channel(options.tenantId, this.options.tenants, this.#timers, this.options.logger, (empty) => {
        if (this.#channels.get(empty.tenantId) !== empty) return;
        this.#channels.delete(empty.tenantId);
        this.options.followed?.delete(empty.tenantId);
      });
      this.#channels.set(options.tenantId, channel);
      this.options.followed?.add(options.tenantId);
    }
    return channel.subscribe(options, sink);
  }

  /** How many subscriptions there are, of all tenants. */
  get subscriptions(): number {
    let count = 0;
    for (const channel of this.#channels.values()) count += channel.size;
    return count;
  }

  /** Ends its subscriptions with NOT_FOUND. */
  projectionDeleted(projectionId: string): void {
    this.#endAll((followed) => followed.projectionId === projectionId, `projection ${projectionId} was deleted`);
  }

  /** Ends its subscriptions with NOT_FOUND. */
  tenantDeleted(tenantId: string): void {
    this.#endAll((followed) => followed.tenantId === tenantId, 'the tenant was deleted');
  }

  /** Ends every subscription with UNAVAILABLE. */
  close(): void {
    this.#closed = true;
    for (const channel of [...this.#channels.values()]) {
      channel.end(() => true, new StatefoldError('UNAVAILABLE', 'the service is shutting down'));
    }
  }

  /** Ends the subscriptions of tenants that another process serves now: they go on there, from where they are. */
  reassign(serves: (tenantId: string) => boolean): void {
    for (const channel of [...this.#channels.values()]) {
      if (!serves(channel.tenantId))
        channel.end(
          () => true,
          new StatefoldError('UNAVAILABLE', 'another process serves the tenant now; connect again'),
        );
    }
  }

  #endAll(which: (followed: SubscriptionOptions) => boolean, why: string): void {
    for (const channel of [...this.#channels.values()]) channel.end(which, new StatefoldError('NOT_FOUND', why));
  }
}

/** The subscriptions of one tenant, and its feed while the tenant is active. */
class Channel implements SubscriptionHome {
  readonly #subscriptions = new Map<string, Set<ChangeSubscription>>();
  #tenant: TenantFeed | undefined;
  #unsubscribe: (() => void) | undefined;
  /** All up to here was dispatched, or was there before the subscription. */
  #through = 0;
  size = 0;

  constructor(
    readonly tenantId: string,
    private readonly tenants: TenantFeeds,
    readonly timers: Timers,
    private readonly logger: Logger,
    private readonly onEmpty: (channel: Channel) => void,
  ) {
    const tenant = tenants.active(tenantId);
    if (tenant !== undefined) this.attach(tenant);
  }

  attach(tenant: TenantFeed): void {
    if (this.#tenant === tenant) return;
    this.#unsubscribe?.();
    const renewed = this.#tenant !== undefined;
    this.#tenant = tenant;
    this.#unsubscribe = tenant.changes.subscribe((changes) =>
      eventLoop.slice('notifications', () => this.#dispatch(tenant.changes, changes)),
    );
    if (!renewed) this.#through = tenant.changes.head();
    for (const subscriptions of this.#subscriptions.values())
      for (const subscription of [...subscriptions]) subscription.renewed(this.#through);
  }

  feed(): ChangeFeed | undefined {
    const active = this.tenants.active(this.tenantId);
    return active !== undefined && active === this.#tenant ? active.changes : undefined;
  }

  async open(): Promise<ChangeFeed> {
    const tenant = await this.tenants.open(this.tenantId);
    if (this.size > 0) this.attach(tenant);
    return tenant.changes;
  }

  subscribe(options: SubscriptionOptions, sink: Subscriber): Subscription {
    const subscription = new ChangeSubscription(options, sink, this);
    let subscriptions = this.#subscriptions.get(options.projectionId);
    if (subscriptions === undefined) {
      subscriptions = new Set();
      this.#subscriptions.set(options.projectionId, subscriptions);
    }
    subscriptions.add(subscription);
    this.size++;
    subscription.start();
    return subscription;
  }

  forget(subscription: ChangeSubscription): void {
    const { projectionId } = subscription.options;
    const subscriptions = this.#subscriptions.get(projectionId);
    if (subscriptions?.delete(subscription) !== true) return;
    if (subscriptions.size === 0) this.#subscriptions.delete(projectionId);
    if (--this.size > 0) return;
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
    this.onEmpty(this);
  }

  end(which: (followed: SubscriptionOptions) => boolean, reason: StatefoldError): void {
    for (const subscriptions of [...this.#subscriptions.values()]) {
      for (const subscription of [...subscriptions]) if (which(subscription.options)) subscription.end(reason);
    }
  }

  #dispatch(feed: ChangeFeed, changes: readonly Change[]): void {
    const last = changes.at(-1);
    if (last === undefined) return;
    try {
      for (let from = 0; from < changes.length;) {
        const projectionId = (changes[from] as Change).projectionId;
        let to = from + 1;
        while (to < changes.length && (changes[to] as Change).projectionId === projectionId) to++;
        const subscriptions = this.#subscriptions.get(projectionId);
        if (subscriptions !== undefined) {
          const run = from === 0 && to === changes.length ? changes : changes.slice(from, to);
          for (const subscription of subscriptions) subscription.dispatch(run);
        }
        from = to;
      }
    } catch (error) {
      // Subscriptions guard their subscribers; this is a fault of the hub itself, and must not reach the append that it runs in.
      this.logger.error({ err: error, tenantId: this.tenantId, head: feed.head() }, 'changes could not be dispatched');
    }
    this.#through = Math.max(this.#through, last.sequence);
  }
}
