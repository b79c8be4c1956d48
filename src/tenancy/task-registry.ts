import { hasCode, InvariantError, NotOwnerError, StatefoldError } from '../core/errors.js';
import type { Ownership } from '../placement/ownership.js';
import type { Activation } from './activation.js';
import type { Logger } from '../core/logger.js';

export interface TaskRegistryOptions<T extends Activation> {
  /** What the task of the slot key is stored as, now: tasks of one section are never here at the same time. The key itself unless given; undefined when the catalog has none. */
  readonly sectionOf?: ((key: string) => string | undefined) | undefined;
  /** A new task of the slot key; undefined when the catalog has none. */
  readonly create: (key: string, onStopped: (error: Error) => void) => T | undefined;
  /** Called before a task is made: fills its section of the local store from elsewhere, say. */
  readonly prepare?: ((section: string) => Promise<void>) | undefined;
  readonly logger: Logger;
  /** An unused task is closed after this long. */
  readonly idleMs: number;
  /** Whose the slots are. */
  readonly ownership: Pick<Ownership, 'ownerOf' | 'owns' | 'onChange'>;
  /** Why nothing of the slot key may be here now; a tenant that is suspended, say. What is here already is to be taken out by `remove`. */
  readonly refuses?: ((key: string) => StatefoldError | undefined) | undefined;
  /** It is to stay though it is idle. */
  readonly keeps?: ((key: string) => boolean) | undefined;
  readonly onOpened?: ((task: T, opening: Opening) => void) | undefined;
  readonly onClosed?: ((task: T) => void) | undefined;
  /** A task or a standby ended by itself; `deposed`: another process has claimed it. */
  readonly onEnded?: ((key: string, deposed: boolean) => void) | undefined;
}

/** How a task came to serve. */
export interface Opening {
  /** It followed as a standby; else it was restored. */
  readonly promoted: boolean;
  /** From the first ask, what it waited for included. */
  readonly tookMs: number;
}

/*
 *   open ──► OPENING ──► ACTIVE ─────┐
 *               ▲                    ├──► out of the registry, and its section is another's when the task is closed
 *   standBy ──► FOLLOWING ──► STANDBY ┘   (a removal does so from OPENING and FOLLOWING too)
 */
type Stage = 'OPENING' | 'ACTIVE' | 'FOLLOWING' | 'STANDBY';

/** What is here under one slot key. */
interface Entry<T> {
  readonly key: string;
  readonly section: string;
  stage: Stage;
  /** Undefined until it is made. */
  task: T | undefined;
  /** Of one that is being opened: resolves when it serves, or follows. */
  ready: Promise<T>;
  /** It was taken out while it was being opened. */
  ended: boolean;
  usedAt: number;
}

/** Where the hint says that a tenant is ours and another process has claimed it: how long until it is claimed back. */
const DEPOSED_MS = 1000;
/** Where the log is damaged, or has records that only a newer version knows, the next attempt finds it so too: it comes no sooner. */
const BROKEN_MS = 1000;
const BROKEN =
  'the tenant can not be served: its log lost data, is damaged, or has records of a newer version; whoever runs the service finds in what it logs which, and has to mend it';

/** Tasks of this process by their slot keys: opened on first use, closed when idle or when they are another's; and standbys of others'. */
export class TaskRegistry<T extends Activation> {
  readonly #options: TaskRegistryOptions<T>;
  readonly #entries = new Map<string, Entry<T>>();
  /** By section: what was here, until it is closed. */
  readonly #closing = new Map<string, Promise<void>>();
  readonly #deposed = new Map<string, number>();
  /** What could not be opened for what its log has, and why. */
  readonly #broken = new Map<string, { readonly at: number; readonly refusal: StatefoldError }>();
  /** What could not be opened the last time, and how long that may last: the log has why, once, however many ask. */
  readonly #failing = new Map<string, 'for now' | 'for what the log has'>();
  readonly #listeners: ((task: T) => void)[] = [];
  readonly #standbyListeners: ((standby: T) => void)[] = [];
  readonly #sweeper: NodeJS.Timeout;
  #closed = false;

  constructor(options: TaskRegistryOptions<T>) {
    this.#options = options;
    // `Assignment`, which is made of this registry, registers its listener later: so what that opens is not refused as deposed.
    options.ownership.onChange(() => {
      this.#deposed.clear();
      for (const key of this.#failing.keys()) if (!options.ownership.owns(key)) this.#failing.delete(key);
    });
    this.#sweeper = setInterval(() => this.#passivate(), Math.max(1000, options.idleMs / 4)).unref();
  }

  active(key: string): T | undefined {
    const entry = this.#entries.get(key);
    if (entry?.stage !== 'ACTIVE') return undefined;
    entry.usedAt = performance.now();
    return entry.task;
  }

  /** The standby of what another process owns, while it follows. */
  standby(key: string): T | undefined {
    const entry = this.#entries.get(key);
    return entry?.stage === 'STANDBY' ? entry.task : undefined;
  }

  /** What is here, in whatever stage: it may not serve yet. */
  made(key: string): T | undefined {
    return this.#entries.get(key)?.task;
  }

  get tasks(): readonly T[] {
    return this.#of('ACTIVE').flatMap(({ task }) => task ?? []);
  }

  get size(): number {
    return this.#of('ACTIVE').length;
  }

  get activeKeys(): readonly string[] {
    return this.#of('ACTIVE').map(({ key }) => key);
  }

  get standbyKeys(): readonly string[] {
    return this.#of('STANDBY').map(({ key }) => key);
  }

  open(key: string): Promise<T> {
    const task = this.active(key);
    if (task !== undefined) return Promise.resolve(task);
    if (this.#closed)
      return Promise.reject(new StatefoldError('UNAVAILABLE', 'the service is shutting down; send the request again'));
    if (
      !this.#options.ownership.owns(key) ||
      (this.#deposed.get(key) ?? Number.NEGATIVE_INFINITY) > performance.now() - DEPOSED_MS
    )
      return Promise.reject(new NotOwnerError());
    const refusal = this.#options.refuses?.(key);
    if (refusal !== undefined) return Promise.reject(refusal);
    const broken = this.#broken.get(key);
    if (broken !== undefined && broken.at > performance.now() - BROKEN_MS) return Promise.reject(broken.refusal);
    this.#broken.delete(key);
    const before = this.#entries.get(key);
    if (before?.stage === 'OPENING') return before.ready;
    return this.#enter(key, 'OPENING', (entry) => this.#open(entry, before));
  }

  async #open(entry: Entry<T>, before: Entry<T> | undefined): Promise<T> {
    const { key } = entry;
    const began = performance.now();
    // One that followed is promoted. One that could not follow has said why.
    const standby = await before?.ready.catch(() => undefined);
    let task: T;
    try {
      task = await this.#made(entry, standby);
      if (entry.ended) throw new NotOwnerError();
      if (standby === undefined) await task.open();
      else await task.promote();
      if (entry.ended) throw new NotOwnerError();
    } catch (error) {
      if (!isExpected(error) && !entry.ended) this.#notRestored(key, error);
      await entry.task?.close();
      if (error instanceof StatefoldError) throw error;
      const isBroken = error instanceof InvariantError;
      const refusal = new StatefoldError(
        'UNAVAILABLE',
        isBroken ? BROKEN : 'the tenant could not be restored; send the request again',
        { cause: error },
      );
      if (isBroken && !entry.ended) this.#broken.set(key, { at: performance.now(), refusal });
      throw refusal;
    }
    if (this.#failing.delete(key)) this.#options.logger.info({ slotKey: key }, 'the tenant is restored now');
    entry.stage = 'ACTIVE';
    entry.usedAt = performance.now();
    this.#options.onOpened?.(task, { promoted: standby !== undefined, tookMs: performance.now() - began });
    for (const listener of this.#listeners) listener(task);
    const owner = this.#options.ownership.ownerOf(key);
    if (owner !== 'self' && owner !== undefined) void this.passivate(key); // went to another process meanwhile
    return task;
  }

  #notRestored(key: string, error: unknown): void {
    const how = error instanceof InvariantError ? 'for what the log has' : 'for now';
    if (this.#failing.get(key) === how) return;
    this.#failing.set(key, how);
    this.#options.logger.error({ err: error, slotKey: key }, 'a tenant could not be restored; it is tried again');
  }

  /** Keeps a standby of what another process owns, ready to take over. Resolves when there is one, or when it could not be had. */
  async standBy(key: string): Promise<void> {
    const present = this.#entries.get(key);
    if (this.#closed || (present !== undefined && present.stage !== 'FOLLOWING')) return;
    if (this.#options.refuses?.(key) !== undefined) return;
    const { ready } = present ?? { ready: this.#enter(key, 'FOLLOWING', (entry) => this.#follow(entry)) };
    await ready.catch((error: unknown) => {
      if (hasCode(error, 'NOT_FOUND')) throw error;
    });
  }

  async #follow(entry: Entry<T>): Promise<T> {
    const task = await this.#made(entry);
    try {
      await task.open({ standby: true });
      if (this.#closed || entry.ended) throw new NotOwnerError();
    } catch (error) {
      if (!entry.ended)
        this.#options.logger.warn({ err: error, slotKey: entry.key }, 'no standby of the tenant is kept');
      await task.close();
      throw error;
    }
    // Who opens it meanwhile has put an entry of its own there, and goes on with the task.
    if (entry.stage === 'FOLLOWING') entry.stage = 'STANDBY';
    if (this.#entries.get(entry.key) === entry) for (const listener of this.#standbyListeners) listener(task);
    return task;
  }

  /** Puts an entry there whose task is made by `fill`; where that fails, there is none. */
  #enter(key: string, stage: Stage, fill: (entry: Entry<T>) => Promise<T>): Promise<T> {
    const section = this.#options.sectionOf === undefined ? key : this.#options.sectionOf(key);
    if (section === undefined) return Promise.reject(noTenant(key));
    const entry: Entry<T> = {
      ...{ key, section, stage, task: undefined, ended: false, usedAt: performance.now() },
      ready: new Promise<T>(() => undefined),
    };
    this.#entries.set(key, entry);
    entry.ready = fill(entry).catch((error: unknown) => {
      if (this.#entries.get(key) === entry) this.#entries.delete(key);
      throw error;
    });
    entry.ready.catch(() => undefined);
    return entry.ready;
  }

  /** The task of the entry: `standby`, or a new one once the section is free. */
  async #made(entry: Entry<T>, standby?: T): Promise<T> {
    const { key, section } = entry;
    let task = standby;
    if (task === undefined) {
      // Whoever ended the entry waits for what is asked here.
      if (entry.ended) throw new NotOwnerError();
      await this.#closing.get(section);
      if (entry.ended) throw new NotOwnerError();
      await this.#options.prepare?.(section);
      if (entry.ended) throw new NotOwnerError();
      task = this.#options.create(key, (error) => this.#stopped(key, task, error));
      if (task === undefined) throw noTenant(key);
    }
    entry.task = task;
    return task;
  }

  onActivated(listener: (task: T) => void): void {
    this.#listeners.push(listener);
  }

  /** Called for each standby when it follows. */
  onFollowed(listener: (standby: T) => void): void {
    this.#standbyListeners.push(listener);
  }

  /**
   * Takes out what is here under the key now, also what is only being opened: from the call on it answers nothing, and the next one
   * can be opened. Resolves when nothing of it is left.
   */
  async remove(key: string): Promise<void> {
    this.#broken.delete(key);
    this.#failing.delete(key);
    const entry = this.#entries.get(key);
    if (entry !== undefined) await this.#end(entry);
  }

  /** Closes what is used no more, or another's. */
  async passivate(key: string): Promise<void> {
    const entry = this.#entries.get(key);
    if (entry?.stage === 'ACTIVE' || entry?.stage === 'STANDBY') return this.#end(entry);
    const section = entry?.section ?? (this.#options.sectionOf === undefined ? key : this.#options.sectionOf(key));
    await this.#closing.get(section ?? key);
  }

  /** The one way out of the registry. */
  #end(entry: Entry<T>): Promise<void> {
    const { key, section, stage, task, ready } = entry;
    if (entry.ended) return this.#closing.get(section) ?? Promise.resolve();
    entry.ended = true;
    if (this.#entries.get(key) === entry) this.#entries.delete(key);
    if (stage === 'ACTIVE' && task !== undefined) this.#options.onClosed?.(task);
    // What has no task yet makes none any more.
    const closed = task === undefined ? ready.then(() => undefined) : task.close();
    const closing = Promise.all([this.#closing.get(section), closed.catch(() => undefined)]).then(() => {
      if (this.#closing.get(section) === closing) this.#closing.delete(section);
    });
    this.#closing.set(section, closing);
    return closing;
  }

  /** What is being opened ends too: a log that is away would keep it waiting, and the others with it. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#sweeper);
    await Promise.allSettled([...this.#entries.values()].map((entry) => this.#end(entry)));
    await Promise.allSettled(this.#closing.values());
  }

  #stopped(key: string, task: T | undefined, error: Error): void {
    const entry = this.#entries.get(key);
    const deposed = error instanceof NotOwnerError;
    if (deposed) this.#deposed.set(key, performance.now());
    const held = entry !== undefined && entry.task === task && (entry.stage === 'ACTIVE' || entry.stage === 'STANDBY');
    if (deposed) this.#options.logger.info({ slotKey: key }, 'another process has claimed the tenant');
    else if (held) this.#options.logger.error({ err: error, slotKey: key }, 'a tenant stopped; it is restored again');
    if (held) void this.#end(entry);
    this.#options.onEnded?.(key, deposed);
  }

  #of(stage: Stage): Entry<T>[] {
    return [...this.#entries.values()].filter((entry) => entry.stage === stage);
  }

  #passivate(): void {
    const before = performance.now() - this.#options.idleMs;
    for (const { key, task, usedAt } of this.#of('ACTIVE'))
      if (usedAt < before && task?.idle === true && this.#options.keeps?.(key) !== true) void this.passivate(key);
  }
}

/** Another process has it, or the catalog has none: nothing is wrong with it. */
const isExpected = (error: unknown): boolean => error instanceof NotOwnerError || hasCode(error, 'NOT_FOUND');

const noTenant = (key: string): StatefoldError => new StatefoldError('NOT_FOUND', `there is no tenant '${key}'`);
