import { NotOwnerError, StatefoldError } from '../core/errors.js';
import type { Ownership } from '../placement/ownership.js';
import type { Activation } from './activation.js';
import type { Logger } from '../core/logger.js';

export interface TaskRegistryOptions<T extends Activation> {
  /** A new task of the slot key; undefined when the catalog has none. */
  readonly create: (key: string, onStopped: (error: Error) => void) => T | undefined;
  /** Called before a task is made: fills the local store from elsewhere, say. */
  readonly prepare?: ((key: string) => Promise<void>) | undefined;
  readonly logger: Logger;
  /** An unused task is closed after this long. */
  readonly idleMs: number;
  /** Whose the slots are. */
  readonly ownership: Pick<Ownership, 'ownerOf' | 'onChange'>;
  /** It is to stay though it is idle. */
  readonly keeps?: ((key: string) => boolean) | undefined;
  readonly onOpened?: ((task: T) => void) | undefined;
  readonly onClosed?: ((task: T) => void) | undefined;
  /** A task or a standby ended by itself. */
  readonly onStopped?: ((key: string) => void) | undefined;
}

interface Active<T> {
  readonly task: T;
  usedAt: number;
}

/** Where the hint says that a tenant is ours and another process has claimed it: how long until it is claimed back. */
const DEPOSED_MS = 1000;

/** Tasks of this process by their slot keys: opened on first use, closed when idle or when they are another's; and standbys of others'. */
export class TaskRegistry<T extends Activation> {
  readonly #options: TaskRegistryOptions<T>;
  readonly #active = new Map<string, Active<T>>();
  readonly #standbys = new Map<string, T>();
  readonly #deposed = new Map<string, number>();
  readonly #opening = new Map<string, Promise<T>>();
  /** Standbys that are being opened. */
  readonly #following = new Map<string, Promise<void>>();
  readonly #closing = new Map<string, Promise<void>>();
  readonly #listeners: ((task: T) => void)[] = [];
  readonly #followers: ((standby: T) => void)[] = [];
  readonly #sweeper: NodeJS.Timeout;
  #closed = false;

  constructor(options: TaskRegistryOptions<T>) {
    this.#options = options;
    options.ownership.onChange(() => this.#deposed.clear());
    this.#sweeper = setInterval(() => this.#passivate(), Math.max(1000, options.idleMs / 4)).unref();
  }

  active(key: string): T | undefined {
    const entry = this.#active.get(key);
    if (entry === undefined) return undefined;
    entry.usedAt = performance.now();
    return entry.task;
  }

  /** The standby of what another process owns, while it follows. */
  standby(key: string): T | undefined {
    return this.#standbys.get(key);
  }

  get tasks(): readonly T[] {
    return [...this.#active.values()].map(({ task }) => task);
  }

  /** With the standbys. */
  get all(): readonly T[] {
    return [...this.tasks, ...this.#standbys.values()];
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

  open(key: string): Promise<T> {
    const task = this.active(key);
    if (task !== undefined) return Promise.resolve(task);
    if (this.#closed)
      return Promise.reject(new StatefoldError('UNAVAILABLE', 'the service is shutting down; send the request again'));
    if (
      this.#options.ownership.ownerOf(key) !== 'self' ||
      (this.#deposed.get(key) ?? Number.NEGATIVE_INFINITY) > performance.now() - DEPOSED_MS
    )
      return Promise.reject(new NotOwnerError());
    let opening = this.#opening.get(key);
    if (opening === undefined) {
      opening = this.#open(key).finally(() => this.#opening.delete(key));
      this.#opening.set(key, opening);
    }
    return opening;
  }

  async #open(key: string): Promise<T> {
    await this.#following.get(key)?.catch(() => undefined);
    await this.#closing.get(key);
    const standby = this.#standbys.get(key);
    this.#standbys.delete(key);
    const task = standby ?? (await this.#create(key));
    try {
      if (standby === undefined) await task.open();
      else await task.promote();
    } catch (error) {
      if (!(error instanceof NotOwnerError))
        this.#options.logger.error({ err: error, slotKey: key }, 'a tenant could not be restored');
      await task.close();
      if (error instanceof StatefoldError) throw error;
      throw new StatefoldError('UNAVAILABLE', 'the tenant could not be restored; send the request again', {
        cause: error,
      });
    }
    this.#active.set(key, { task, usedAt: performance.now() });
    this.#options.onOpened?.(task);
    for (const listener of this.#listeners) listener(task);
    const owner = this.#options.ownership.ownerOf(key);
    if (owner !== 'self' && owner !== undefined) void this.passivate(key); // went to another process meanwhile
    return task;
  }

  async #create(key: string): Promise<T> {
    await this.#options.prepare?.(key);
    const task = this.#options.create(key, (error) => this.#stopped(key, error));
    if (task === undefined) throw new StatefoldError('NOT_FOUND', `there is no tenant '${key}'`);
    return task;
  }

  /** Keeps a copy of what another process owns that is ready to be taken over. */
  async standBy(key: string): Promise<void> {
    await this.#closing.get(key);
    if (this.#closed || this.#active.has(key) || this.#opening.has(key) || this.#standbys.has(key)) return;
    let following = this.#following.get(key);
    if (following === undefined) {
      following = this.#follow(key).finally(() => this.#following.delete(key));
      this.#following.set(key, following);
    }
    return following;
  }

  async #follow(key: string): Promise<void> {
    const task = await this.#create(key);
    try {
      await task.open({ standby: true });
      if (this.#closed) throw new NotOwnerError();
      this.#standbys.set(key, task);
      for (const listener of this.#followers) listener(task);
    } catch (error) {
      this.#options.logger.warn({ err: error, slotKey: key }, 'no standby of the tenant is kept');
      await task.close();
    }
  }

  onActivated(listener: (task: T) => void): void {
    this.#listeners.push(listener);
  }

  /** Called for each standby when it follows. */
  onFollowed(listener: (standby: T) => void): void {
    this.#followers.push(listener);
  }

  /** Closes what is here under the key, also what is only being opened; resolves when nothing of it is left. */
  async remove(key: string): Promise<void> {
    await Promise.allSettled([this.#opening.get(key), this.#following.get(key)]);
    await this.passivate(key);
  }

  /** Closes what is used no more, or another's. */
  async passivate(key: string): Promise<void> {
    const entry = this.#active.get(key);
    const task = entry?.task ?? this.#standbys.get(key);
    if (task === undefined) return this.#closing.get(key);
    this.#active.delete(key);
    this.#standbys.delete(key);
    if (entry !== undefined) this.#options.onClosed?.(task);
    const closing = task.close().finally(() => this.#closing.delete(key));
    this.#closing.set(key, closing);
    return closing;
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#sweeper);
    await Promise.allSettled([...this.#opening.values(), ...this.#following.values()]);
    await Promise.allSettled([...this.#active.keys(), ...this.#standbys.keys()].map((key) => this.passivate(key)));
    await Promise.allSettled(this.#closing.values());
  }

  #stopped(key: string, error: Error): void {
    const deposed = error instanceof NotOwnerError;
    if (deposed) this.#deposed.set(key, performance.now());
    if (deposed) this.#options.logger.info({ slotKey: key }, 'another process has claimed the tenant');
    else if (this.#active.has(key) || this.#standbys.has(key))
      this.#options.logger.error({ err: error, slotKey: key }, 'a tenant stopped; it is restored at its next use');
    void this.passivate(key);
    this.#options.onStopped?.(key);
  }

  #passivate(): void {
    const before = performance.now() - this.#options.idleMs;
    for (const [key, { task, usedAt }] of this.#active)
      if (usedAt < before && task.idle && this.#options.keeps?.(key) !== true) void this.passivate(key);
  }
}
