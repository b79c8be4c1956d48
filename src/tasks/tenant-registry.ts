import { NotOwnerError, StatefoldError } from '../core/errors.js';
import type { Ownership } from '../cluster/ownership.js';
import type { Logger } from '../core/logger.js';
import type { Tenant, Tenants } from './tenant.js';
import type { TenantTask } from './tenant-task.js';

export interface TenantRegistryOptions {
  /** A new task of the tenant; undefined when the catalog has none. */
  readonly create: (tenantId: string, onStopped: (error: Error) => void) => TenantTask | undefined;
  /** Called before a task is made: fills the local store from elsewhere, say. */
  readonly prepare?: (tenantId: string) => Promise<void>;
  readonly logger: Logger;
  /** An unused tenant is passivated after this long. */
  readonly idleMs: number;
  /** Whose the tenants are. */
  readonly ownership: Pick<Ownership, 'ownerOf' | 'onChange'>;
  readonly onOpened?: (task: TenantTask) => void;
  readonly onClosed?: (task: TenantTask) => void;
}

interface Active {
  readonly task: TenantTask;
  usedAt: number;
}

/** Where the hint says that a tenant is ours and another process has claimed it: how long until it is claimed back. */
const DEPOSED_MS = 1000;

/** The tenants of this process: opened on first use, closed when idle or when they are another's; and standbys of others'. */
export class TenantRegistry implements Tenants {
  readonly #options: TenantRegistryOptions;
  readonly #active = new Map<string, Active>();
  readonly #standbys = new Map<string, TenantTask>();
  readonly #deposed = new Map<string, number>();
  readonly #opening = new Map<string, Promise<TenantTask>>();
  /** Standbys that are being opened. */
  readonly #following = new Map<string, Promise<void>>();
  readonly #closing = new Map<string, Promise<void>>();
  readonly #listeners: ((tenant: Tenant) => void)[] = [];
  readonly #followers: ((standby: TenantTask) => void)[] = [];
  readonly #missers: ((tenantId: string) => void)[] = [];
  readonly #sweeper: NodeJS.Timeout;
  #closed = false;

  constructor(options: TenantRegistryOptions) {
    this.#options = options;
    options.ownership.onChange(() => this.#deposed.clear());
    this.#sweeper = setInterval(() => this.#passivate(), Math.max(1000, options.idleMs / 4)).unref();
  }

  active(tenantId: string): TenantTask | undefined {
    const entry = this.#active.get(tenantId);
    if (entry === undefined) return undefined;
    entry.usedAt = performance.now();
    return entry.task;
  }

  /** The standby of another process's tenant, while it follows. */
  standby(tenantId: string): TenantTask | undefined {
    return this.#standbys.get(tenantId);
  }

  get size(): number {
    return this.#active.size;
  }

  get activeIds(): readonly string[] {
    return [...this.#active.keys()];
  }

  get standbyIds(): readonly string[] {
    return [...this.#standbys.keys()];
  }

  /** Log offsets that the projections of the active tenants have yet to fold. */
  get projectionLag(): number {
    let lag = 0;
    for (const { task } of this.#active.values()) lag += task.projectionLag;
    return lag;
  }

  open(tenantId: string): Promise<TenantTask> {
    const task = this.active(tenantId);
    if (task !== undefined) return Promise.resolve(task);
    if (this.#closed) return Promise.reject(new StatefoldError('UNAVAILABLE', 'the service is shutting down; send the request again'));
    if (this.#options.ownership.ownerOf(tenantId) !== 'self' || (this.#deposed.get(tenantId) ?? Number.NEGATIVE_INFINITY) > performance.now() - DEPOSED_MS)
      return Promise.reject(new NotOwnerError());
    let opening = this.#opening.get(tenantId);
    if (opening === undefined) {
      opening = this.#open(tenantId).finally(() => this.#opening.delete(tenantId));
      this.#opening.set(tenantId, opening);
    }
    return opening;
  }

  async #open(tenantId: string): Promise<TenantTask> {
    await this.#following.get(tenantId)?.catch(() => undefined);
    await this.#closing.get(tenantId);
    const standby = this.#standbys.get(tenantId);
    this.#standbys.delete(tenantId);
    const task = standby ?? (await this.#create(tenantId));
    try {
      if (standby === undefined) await task.open();
      else await task.promote();
    } catch (error) {
      if (!(error instanceof NotOwnerError)) this.#options.logger.error({ err: error, tenantId }, 'a tenant could not be restored');
      await task.close();
      if (error instanceof StatefoldError) throw error;
      throw new StatefoldError('UNAVAILABLE', 'the tenant could not be restored; send the request again', { cause: error });
    }
    this.#active.set(tenantId, { task, usedAt: performance.now() });
    this.#options.onOpened?.(task);
    for (const listener of this.#listeners) listener(task);
    const owner = this.#options.ownership.ownerOf(tenantId);
    if (owner !== 'self' && owner !== undefined) void this.passivate(tenantId); // went to another process meanwhile
    return task;
  }

  async #create(tenantId: string): Promise<TenantTask> {
    await this.#options.prepare?.(tenantId);
    const task = this.#options.create(tenantId, (error) => this.#stopped(tenantId, error));
    if (task === undefined) throw new StatefoldError('NOT_FOUND', `there is no tenant '${tenantId}'`);
    return task;
  }

  /** Keeps a copy of another process's tenant that is ready to be taken over. */
  async standBy(tenantId: string): Promise<void> {
    await this.#closing.get(tenantId);
    if (this.#closed || this.#active.has(tenantId) || this.#opening.has(tenantId) || this.#standbys.has(tenantId)) return;
    let following = this.#following.get(tenantId);
    if (following === undefined) {
      following = this.#follow(tenantId).finally(() => this.#following.delete(tenantId));
      this.#following.set(tenantId, following);
    }
    return following;
  }

  async #follow(tenantId: string): Promise<void> {
    const task = await this.#create(tenantId);
    try {
      await task.open({ standby: true });
      if (this.#closed) throw new NotOwnerError();
      this.#standbys.set(tenantId, task);
      for (const listener of this.#followers) listener(task);
    } catch (error) {
      this.#options.logger.warn({ err: error, tenantId }, 'no standby of the tenant is kept');
      await task.close();
    }
  }

  onActivated(listener: (tenant: Tenant) => void): void {
    this.#listeners.push(listener);
  }

  /** Called for each standby when it follows. */
  onFollowed(listener: (standby: TenantTask) => void): void {
    this.#followers.push(listener);
  }

  /** Called when a task or a standby ended by itself. */
  onStopped(listener: (tenantId: string) => void): void {
    this.#missers.push(listener);
  }

  /** Closes a tenant that is being deleted, used no more, or another's. */
  async passivate(tenantId: string): Promise<void> {
    const entry = this.#active.get(tenantId);
    const task = entry?.task ?? this.#standbys.get(tenantId);
    if (task === undefined) return this.#closing.get(tenantId);
    this.#active.delete(tenantId);
    this.#standbys.delete(tenantId);
    if (entry !== undefined) this.#options.onClosed?.(task);
    const closing = task.close().finally(() => this.#closing.delete(tenantId));
    this.#closing.set(tenantId, closing);
    return closing;
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#sweeper);
    await Promise.allSettled([...this.#opening.values(), ...this.#following.values()]);
    await Promise.allSettled([...this.#active.keys(), ...this.#standbys.keys()].map((tenantId) => this.passivate(tenantId)));
    await Promise.allSettled(this.#closing.values());
  }

  #stopped(tenantId: string, error: Error): void {
    const deposed = error instanceof NotOwnerError;
    if (deposed) this.#deposed.set(tenantId, performance.now());
    if (deposed) this.#options.logger.info({ tenantId }, 'another process has claimed the tenant');
    else if (this.#active.has(tenantId) || this.#standbys.has(tenantId)) this.#options.logger.error({ err: error, tenantId }, 'a tenant stopped; it is restored at its next use');
    void this.passivate(tenantId);
    for (const listener of this.#missers) listener(tenantId);
  }

  #passivate(): void {
    const before = performance.now() - this.#options.idleMs;
    for (const [tenantId, { task, usedAt }] of this.#active) if (usedAt < before && task.idle) void this.passivate(tenantId);
  }
}
