import type { Change } from '../core/change.js';
import { StatefoldError } from '../core/errors.js';
import type { Logger } from '../core/logger.js';
import type { ChangeFeed, TenantFeed, TenantFeeds } from './changes.js';
import { ChangeFollower, type Follower, type FollowerHome, type FollowOptions, type FollowSink } from './follower.js';
import { systemTimers, type Timers } from './timers.js';

export interface ChangeHubOptions {
  readonly tenants: TenantFeeds;
  /** Holds the tenants that someone follows, and only those. */
  readonly followed?: Set<string>;
  readonly logger: Logger;
  readonly timers?: Timers;
}

/**
 * Brings the changes of all tenants to their followers: one subscription a tenant that has any, dispatched by projection,
 * so that a change costs what its own followers cost. Followers outlive a tenant's passivation.
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
  follow(options: FollowOptions, sink: FollowSink): Follower {
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
    return channel.follow(options, sink);
  }

  /** How many followers there are, of all tenants. */
  get followers(): number {
    let count = 0;
    for (const channel of this.#channels.values()) count += channel.size;
    return count;
  }

  /** Ends its followers with NOT_FOUND. */
  projectionDeleted(projectionId: string): void {
    this.#endAll((followed) => followed.projectionId === projectionId, `projection ${projectionId} was deleted`);
  }

  /** Ends its followers with NOT_FOUND. */
  tenantDeleted(tenantId: string): void {
    this.#endAll((followed) => followed.tenantId === tenantId, 'the tenant was deleted');
  }

  /** Ends every follower with UNAVAILABLE. */
  close(): void {
    this.#closed = true;
    for (const channel of [...this.#channels.values()]) {
      channel.end(() => true, new StatefoldError('UNAVAILABLE', 'the service is shutting down'));
    }
  }

  /** Ends the followers of tenants that another process serves now: they go on there, from where they are. */
  reassign(serves: (tenantId: string) => boolean): void {
    for (const channel of [...this.#channels.values()]) {
      if (!serves(channel.tenantId))
        channel.end(
          () => true,
          new StatefoldError('UNAVAILABLE', 'another process serves the tenant now; connect again'),
        );
    }
  }

  #endAll(which: (followed: FollowOptions) => boolean, why: string): void {
    for (const channel of [...this.#channels.values()]) channel.end(which, new StatefoldError('NOT_FOUND', why));
  }
}

/** The followers of one tenant, and its feed while the tenant is active. */
class Channel implements FollowerHome {
  readonly #followers = new Map<string, Set<ChangeFollower>>();
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
    this.#unsubscribe = tenant.changes.subscribe((changes) => this.#dispatch(tenant.changes, changes));
    if (!renewed) this.#through = tenant.changes.head();
    for (const followers of this.#followers.values())
      for (const follower of [...followers]) follower.renewed(this.#through);
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

  follow(options: FollowOptions, sink: FollowSink): Follower {
    const follower = new ChangeFollower(options, sink, this);
    let followers = this.#followers.get(options.projectionId);
    if (followers === undefined) {
      followers = new Set();
      this.#followers.set(options.projectionId, followers);
    }
    followers.add(follower);
    this.size++;
    follower.start();
    return follower;
  }

  forget(follower: ChangeFollower): void {
    const { projectionId } = follower.options;
    const followers = this.#followers.get(projectionId);
    if (followers?.delete(follower) !== true) return;
    if (followers.size === 0) this.#followers.delete(projectionId);
    if (--this.size > 0) return;
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
    this.onEmpty(this);
  }

  end(which: (followed: FollowOptions) => boolean, reason: StatefoldError): void {
    for (const followers of [...this.#followers.values()]) {
      for (const follower of [...followers]) if (which(follower.options)) follower.end(reason);
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
        const followers = this.#followers.get(projectionId);
        if (followers !== undefined) {
          const run = from === 0 && to === changes.length ? changes : changes.slice(from, to);
          for (const follower of followers) follower.dispatch(run);
        }
        from = to;
      }
    } catch (error) {
      // Followers guard their sinks; this is a fault of the hub itself, and must not reach the append that it runs in.
      this.logger.error({ err: error, tenantId: this.tenantId, head: feed.head() }, 'changes could not be dispatched');
    }
    this.#through = Math.max(this.#through, last.sequence);
  }
}
