import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { join, resolve as resolvePath } from 'node:path';
import { fileURLToPath } from 'node:url';
import { backOff, type BackOff } from '../../core/back-off.js';
import { StatefoldError } from '../../core/errors.js';
import type { Logger } from '../../core/logger.js';
import { giveWay } from '../../core/priority.js';
import { makeFolder } from '../../core/private-folder.js';
import { readOrMakeSecret } from '../../core/secret-file.js';
import { SYSTEM_PATH } from '../../jail/fork-server.js';
import type { ClickHouseEndpoint } from '../endpoint.js';
import type { EngineProcessMessage, EngineProcessSettings } from './engine-process.js';
import { ENGINE_FOLDER, lostDefinition } from './lost-definitions.js';

/**
 * ```
 * STOPPED ─ start ─► STARTING ─ ready ─► READY
 *                       ▲                  │ exit, or pings unanswered (killed)
 *                       └──── BACKOFF ◄────┘ (also from STARTING)
 * any ─ stop ─► STOPPED
 * ```
 */
export type EngineState = 'STOPPED' | 'STARTING' | 'READY' | 'BACKOFF';

export interface EmbeddedEngineOptions {
  /** Of the engine's data; made when missing. It may be deleted while the engine is stopped: the log refills it. */
  readonly directory: string;
  /** Of the HTTP interface on 127.0.0.1; 0: any free one, kept across restarts of the engine while it stays free. */
  readonly port: number;
  /** Undefined: one made at first use and kept in the directory, mode 0600. */
  readonly password: string | undefined;
  readonly memoryLimitBytes: number;
  readonly logger: Logger;
  readonly onState?: (state: EngineState) => void;
  /** Between health checks, and how long each may take before the engine counts as hung. */
  readonly pingIntervalMs?: number;
  readonly pingDeadlineMs?: number;
  readonly startDeadlineMs?: number;
}

/** Blocks and analysts wait for appends, not the reverse. */
const ENGINE_NICENESS = 10;
const USER = 'statefold';
const DATABASE = 'statefold';
const BACK_OFF_MS: BackOff = { first: 250, last: 30_000 };
const HTTP_LIMITS = {
  queries: 4,
  reserved: 3,
  queueMs: 10_000,
  maxInsertBytes: 64 * 1024 * 1024,
  maxQueryBytes: 1024 * 1024,
  stallMs: 60_000,
};

/** Keeps one embedded ClickHouse running as a child process; the service never waits for it. */
export class EmbeddedEngine {
  readonly #options: EmbeddedEngineOptions;
  #state: EngineState = 'STOPPED';
  #child: ChildProcess | undefined;
  #port: number | undefined;
  #password: string | undefined;
  #failures = 0;
  #readyAt = 0;
  #lastError: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  #waiting: { resolve(): void; reject(error: Error): void }[] = [];

  constructor(options: EmbeddedEngineOptions) {
    this.#options = options;
  }

  get state(): EngineState {
    return this.#state;
  }

  /** It has not been there yet, and nothing has gone wrong so far. */
  get isStarting(): boolean {
    return this.#state === 'STARTING' && this.#lastError === undefined;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Why the engine last failed to start. */
  get lastError(): string | undefined {
    return this.#lastError;
  }

  /** Undefined until the engine is ready, and while it is away. */
  endpoint(): ClickHouseEndpoint | undefined {
    if (this.#state !== 'READY' || this.#port === undefined || this.#password === undefined) return undefined;
    return { url: `http://127.0.0.1:${this.#port}`, user: USER, password: this.#password, database: DATABASE };
  }

  /** Returns at once; see `ready`. */
  start(): void {
    if (this.#state !== 'STOPPED') return;
    this.#failures = 0;
    this.#spawn();
  }

  /** Resolves when the engine answers. @throws StatefoldError UNAVAILABLE after `deadlineMs` or when stopped. */
  async ready(deadlineMs: number): Promise<void> {
    if (this.#state === 'READY') return;
    await new Promise<void>((resolve, reject) => {
      const waiter = {
        resolve: () => (clearTimeout(timer), resolve()),
        reject: (error: Error) => (clearTimeout(timer), reject(error)),
      };
      const timer = setTimeout(() => {
        this.#waiting = this.#waiting.filter((other) => other !== waiter);
        reject(this.#unavailable(`did not start within ${deadlineMs} ms`));
      }, deadlineMs);
      this.#waiting.push(waiter);
    });
  }

  /** Ends the child and waits for its end. */
  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    this.#to('STOPPED');
    for (const waiter of this.#waiting.splice(0)) waiter.reject(this.#unavailable('was stopped'));
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
    child.stdin?.end();
    const killer = setTimeout(() => child.kill('SIGKILL'), 5_000);
    await exited;
    clearTimeout(killer);
  }

  #to(state: EngineState): void {
    if (this.#state === state) return;
    this.#state = state;
    this.#options.onState?.(state);
  }

  #unavailable(what: string): StatefoldError {
    return new StatefoldError(
      'UNAVAILABLE',
      `The embedded read store ${what}${this.#lastError === undefined ? '' : `: ${this.#lastError}`}`,
    );
  }

  #spawn(): void {
    this.#to('STARTING');
    let settings: EngineProcessSettings;
    let child: ChildProcess;
    try {
      // Made and read here, so that a directory that can't be written is retried and reported like any other failure.
      this.#password = this.#ownersPassword();
      settings = {
        directory: resolvePath(this.#options.directory),
        port: this.#port ?? this.#options.port,
        user: USER,
        password: this.#password,
        memoryLimit: this.#options.memoryLimitBytes,
        ...HTTP_LIMITS,
      };
      child = spawn(process.execPath, [fileURLToPath(new URL('./engine-process.js', import.meta.url))], {
        stdio: ['pipe', 'pipe', 'pipe'],
        // The engine works on libuv's threads: one a statement, and some for files.
        env: {
          PATH: SYSTEM_PATH,
          TZ: 'UTC',
          UV_THREADPOOL_SIZE: String(HTTP_LIMITS.queries + HTTP_LIMITS.reserved + 5),
        },
      });
      if (child.pid !== undefined) giveWay(child.pid, ENGINE_NICENESS);
    } catch (error) {
      this.#failed(error instanceof Error ? error.message : String(error));
      return;
    }
    this.#child = child;
    child.once('error', (error) => {
      this.#lastError = error.message;
      if (child.pid === undefined) this.#exited(child, 'could not be started');
    });
    child.once('exit', (code, signal) => this.#exited(child, signal ?? `exit code ${code}`));
    child.stdin?.on('error', () => undefined);
    child.stdin?.write(`${JSON.stringify(settings)}\n`);
    if (child.stdout !== null) createInterface({ input: child.stdout }).on('line', (line) => this.#said(child, line));
    if (child.stderr !== null)
      createInterface({ input: child.stderr }).on('line', (line) =>
        this.#options.logger.debug({ engine: line.slice(0, 2_000) }, 'Read store engine'),
      );
    this.#timer = setTimeout(() => this.#kill(child, 'did not start in time'), this.#options.startDeadlineMs ?? 60_000);
  }

  #said(child: ChildProcess, line: string): void {
    if (child !== this.#child || this.#state !== 'STARTING' || !line.startsWith('{"type":')) return;
    const message = JSON.parse(line) as EngineProcessMessage;
    if (message.type === 'failed') {
      // Someone else took the port while the engine was away.
      if (message.code === 'EADDRINUSE' && this.#options.port === 0) this.#port = undefined;
      this.#lastError = message.message;
      return;
    }
    clearTimeout(this.#timer);
    this.#port = message.port;
    this.#readyAt = Date.now();
    this.#lastError = undefined;
    this.#to('READY');
    this.#options.logger.info({ pid: child.pid, port: message.port }, 'The embedded read store is ready');
    for (const waiter of this.#waiting.splice(0)) waiter.resolve();
    this.#schedulePing(child);
  }

  #exited(child: ChildProcess, how: string): void {
    if (child !== this.#child) return;
    clearTimeout(this.#timer);
    this.#child = undefined;
    if (this.#state !== 'STOPPED') this.#failed(this.#lastError ?? how);
  }

  #failed(reason: string): void {
    this.#lastError = reason;
    if (this.#state === 'READY' && Date.now() - this.#readyAt > 60_000) this.#failures = 0;
    const wait = backOff(this.#failures++, BACK_OFF_MS);
    this.#to('BACKOFF');
    this.#options.logger.warn(
      { reason, directory: this.#options.directory, retryMs: Math.round(wait) },
      reason.includes('EADDRINUSE')
        ? 'The embedded read store is away: its port is taken by another program. End that one, or choose another READ_STORE_PORT'
        : 'The embedded read store is away; it is rebuilt from the log if its directory is deleted',
    );
    this.#timer = setTimeout(() => void this.#again(), wait);
  }

  async #again(): Promise<void> {
    // Of what has been up in this process others know how far it is.
    if (this.#readyAt === 0) await this.#removeLost();
    if (this.#state === 'BACKOFF') this.#spawn();
  }

  /** A table without its definition can't be had back, but from the log. */
  async #removeLost(): Promise<void> {
    const { directory, logger } = this.#options;
    const data = join(directory, ENGINE_FOLDER);
    let lost: string | undefined;
    try {
      lost = lostDefinition(data);
      if (lost === undefined) return;
      await rm(data, { recursive: true, force: true });
      logger.warn(
        { lost },
        'The embedded read store had lost a definition, as on a full disk; it is filled from the log',
      );
    } catch (error) {
      logger.warn(
        { err: error, lost },
        lost === undefined
          ? 'Whether the embedded read store has lost a definition can not be seen'
          : 'The embedded read store has lost a definition, and can not be removed',
      );
    }
  }

  #schedulePing(child: ChildProcess): void {
    this.#timer = setTimeout(() => void this.#ping(child), this.#options.pingIntervalMs ?? 5_000);
  }

  /** A statement through the engine, in the places kept for the service: a busy engine answers it, a hung one doesn't. */
  async #ping(child: ChildProcess): Promise<void> {
    const endpoint = this.endpoint();
    if (child !== this.#child || endpoint === undefined) return;
    const deadline = this.#options.pingDeadlineMs ?? 15_000;
    try {
      const answer = await fetch(`${endpoint.url}/?workload=statefold`, {
        method: 'POST',
        body: 'SELECT 1',
        headers: { 'X-ClickHouse-User': endpoint.user, 'X-ClickHouse-Key': endpoint.password },
        signal: AbortSignal.timeout(deadline),
      });
      await answer.arrayBuffer();
      // 503: all places are taken, by statements that have deadlines of their own.
      if (!answer.ok && answer.status !== 503) throw new Error(`status ${answer.status}`);
      if (child === this.#child && this.#state === 'READY') this.#schedulePing(child);
    } catch (error) {
      if (child !== this.#child || this.#state !== 'READY') return;
      this.#kill(
        child,
        `gave no answer to a health check within ${deadline} ms (${error instanceof Error ? error.message : String(error)})`,
      );
    }
  }

  #kill(child: ChildProcess, reason: string): void {
    this.#lastError = reason;
    child.kill('SIGKILL');
  }

  #ownersPassword(): string {
    if (this.#options.password !== undefined) return this.#options.password;
    const { directory } = this.#options;
    makeFolder(directory, 0o700);
    return readOrMakeSecret(join(directory, 'password'), () => randomBytes(24).toString('base64url'));
  }
}
