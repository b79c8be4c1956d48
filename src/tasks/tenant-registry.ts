import { StatefoldError } from '../core/errors.js';
import type { Logger } from '../core/logger.js';
import type { Tenant, Tenants } from './tenant.js';
import type { TenantTask } from './tenant-task.js';

export interface TenantRegistryOptions {
  /** A new task of the tenant; undefined when the catalog has none. */
  readonly create: (tenantId: string, onStopped: (error: Error) => void) => TenantTask | undefined;
  readonly logger: Logger;
  /** An unused tenant is passivated after this long. */
  readonly idleMs: number;
  readonly onOpened?: (task: TenantTask) => void;
  readonly onClosed?: (task: TenantTask) => void;
}

interface Active {
  readonly task: TenantTask;
  usedAt: number;
}

/** The active tenants of this process: opened on first use, closed when idle. */
export class TenantRegistry implements Tenants {
  readonly #options: TenantRegistryOptions;
  readonly #active = new Map<string, Active>();
  readonly #opening = new Map<string, Promise<TenantTask>>();
  readonly #closing = new Map<string, Promise<void>>();
  readonly #listeners: ((tenant: Tenant) => void)[] = [];
  readonly #sweeper: NodeJS.Timeout;
  #closed = false;

  constructor(options: TenantRegistryOptions) {
    this.#options = options;
    this.#sweeper = setInterval(() => this.#passivate(), Math.max(1000, options.idleMs / 4)).unref();
  }

  active(tenantId: string): TenantTask | undefined {
    const entry = this.#active.get(tenantId);
    if (entry === undefined) return undefined;
    entry.usedAt = performance.now();
    return entry.task;
  }

  get size(): number {
    return this.#active.size;
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
    let opening = this.#opening.get(tenantId);
    if (opening === undefined) {
      opening = this.#open(tenantId).finally(() => this.#opening.delete(tenantId));
      this.#opening.set(tenantId, opening);
    }
    return opening;
  }

  async #open(tenantId: string): Promise<TenantTask> {
    await this.#closing.get(tenantId);
    const task = this.#options.create(tenantId, (error) => this.#stopped(tenantId, error));
    if (task === undefined) throw new StatefoldError('NOT_FOUND', `there is no tenant '${tenantId}'`);
    try {
      await task.open();
    } catch (error) {
      this.#options.logger.error({ err: error, tenantId }, 'a tenant could not be restored');
      await task.close();
      if (error instanceof StatefoldError) throw error;
      throw new StatefoldError('UNAVAILABLE', 'the tenant could not be restored; send the request again', { cause: error });
    }
    this.#active.set(tenantId, { task, usedAt: performance.now() });
    this.#options.onOpened?.(task);
    for (const listener of this.#listeners) listener(task);
    return task;
  }

  onActivated(listener: (tenant: Tenant) => void): void {
    this.#listeners.push(listener);
  }

  /** Closes a tenant that is being deleted, or used no more. */
  async passivate(tenantId: string): Promise<void> {
    const entry = this.#active.get(tenantId);
    if (entry === undefined) return this.#closing.get(tenantId);
    this.#active.delete(tenantId);
    this.#options.onClosed?.(entry.task);
    const closing = entry.task.close().finally(() => this.#closing.delete(tenantId));
    this.#closing.set(tenantId, closing);
    return closing;
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#sweeper);
    await Promise.allSettled(this.#opening.values());
    await Promise.allSettled([...this.#active.keys()].map((tenantId) => this.passivate(tenantId)));
    await Promise.allSettled(this.#closing.values());
  }

  #stopped(tenantId: string, error: Error): void {
    this.#options.logger.error({ err: error, tenantId }, 'a tenant stopped; it is restored at its next use');
    void this.passivate(tenantId);
  }

  #passivate(): void {
    const before = performance.now() - this.#options.idleMs;
    for (const [tenantId, { task, usedAt }] of this.#active) if (usedAt < before && task.idle) void this.passivate(tenantId);
  }
}
