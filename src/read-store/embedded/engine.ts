import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { drainPending, Session } from 'chdb';
import { EngineError, onceTold } from './engine-error.js';
import { ENGINE_FOLDER } from './lost-definitions.js';
import { identifier, quoted } from '../sql-text.js';

export interface EngineOptions {
  /** Holds the engine's own directory and the spool of the HTTP interface. */
  readonly directory: string;
  /** Bytes of the whole process that the engine may allocate. */
  readonly memoryLimit: number;
}

export interface StatementContext {
  readonly database: string | undefined;
  readonly settings: ReadonlyMap<string, string>;
  /** Values of `{name:Type}` placeholders, in ClickHouse's escaped text. */
  readonly parameters: ReadonlyMap<string, string>;
  /** As who asks calls it: the beginning of its `log_comment`, by which it can be killed. */
  readonly queryId?: string | undefined;
}

/** Characters. */
const MOST_OF_ID = 100;

export interface StatementSummary {
  readonly rowsRead: number;
  readonly bytesRead: number;
  readonly text: string;
}

interface PooledSession {
  readonly key: string;
  readonly session: Session;
}

const IDLE_SESSIONS = 16;

/**
 * The in-process ClickHouse of one data directory. Each running statement has a session of its own, so that settings and
 * parameters never leak between them; sessions with equal settings are used again. All calls of the engine run off the event loop.
 */
export class Engine {
  readonly #directory: string;
  readonly #path: string;
  readonly #connectionArgs: string[];
  readonly #idle: PooledSession[] = [];
  #control: Session | undefined;

  constructor(options: EngineOptions) {
    this.#directory = options.directory;
    this.#path = join(options.directory, ENGINE_FOLDER);
    const cache = Math.floor(options.memoryLimit / 16);
    this.#connectionArgs = [
      `--max_server_memory_usage=${options.memoryLimit}`,
      `--mark_cache_size=${cache}`,
      `--primary_index_cache_size=${cache}`,
      `--query_condition_cache_size=${Math.floor(cache / 4)}`,
    ];
  }

  /** Where rows on their way in and out pass through; emptied at start. */
  get spool(): string {
    return join(this.#directory, 'spool');
  }

  /** @throws Error with ClickHouse's reason when the data directory is damaged or in use. */
  async open(): Promise<void> {
    await rm(this.spool, { recursive: true, force: true });
    await mkdir(this.spool, { recursive: true, mode: 0o700 });
    this.#control = this.#session();
    await this.#control.queryAsync('SELECT 1');
  }

  /** Named pipes that results leave through: the engine writes, the event loop reads. */
  async makePipes(count: number): Promise<string[]> {
    const paths = Array.from({ length: count }, (_, i) => join(this.spool, `result-${i}`));
    await promisify(execFile)('mkfifo', ['-m', '600', ...paths]);
    return paths;
  }

  /** Runs one statement. An aborted one is cancelled in the engine; the promise settles when the engine has let go of it. */
  async run(
    sql: string,
    context: StatementContext,
    signal: AbortSignal,
    changesSession = false,
  ): Promise<StatementSummary> {
    signal.throwIfAborted();
    // Who asks may use an id twice.
    const id = `${context.queryId?.slice(0, MOST_OF_ID) ?? ''} ${randomUUID()}`;
    const pooled = this.#take(context);
    let reusable = false;
    const cancel = (): void => void this.#cancel(id);
    try {
      // Separate from the statement, so that positions in syntax errors are the analyst's.
      for (const prelude of pooled.prelude) await pooled.session.queryAsync(prelude);
      await pooled.session.queryAsync(`SET log_comment = ${quoted(id)}`);
      signal.throwIfAborted();
      signal.addEventListener('abort', cancel, { once: true });
      const result = await pooled.session.queryAsync(sql, { format: 'TabSeparated' });
      reusable = !changesSession && context.parameters.size === 0;
      return { rowsRead: result.rowsRead, bytesRead: result.bytesRead, text: result.text() };
    } catch (error) {
      throw engineError(error);
    } finally {
      signal.removeEventListener('abort', cancel);
      if (reusable) this.#give(pooled);
      else pooled.session.close();
    }
  }

  async close(): Promise<void> {
    for (const { session } of this.#idle.splice(0)) session.close();
    this.#control?.close();
    this.#control = undefined;
    await drainPending();
  }

  async #cancel(id: string): Promise<void> {
    try {
      await this.#control?.queryAsync(`KILL QUERY WHERE Settings['log_comment'] = ${quoted(id)} ASYNC`);
    } catch {
      // It ended by itself, or its time limit ends it.
    }
  }

  #session(): Session {
    return new Session(this.#path, { connectionArgs: this.#connectionArgs });
  }

  #take(context: StatementContext): PooledSession & { readonly prelude: readonly string[] } {
    const settings = [...context.settings].sort(([a], [b]) => (a < b ? -1 : 1));
    const key = JSON.stringify([context.database, settings]);
    const parameters = [...context.parameters].map(([name, value]) => `SET param_${name} = ${quoted(value)}`);
    const at = this.#idle.findLastIndex((idle) => idle.key === key);
    const [idle] = at < 0 ? [] : this.#idle.splice(at, 1);
    if (idle !== undefined) return { ...idle, prelude: parameters };
    const prelude = [
      ...(context.database === undefined ? [] : [`USE ${identifier(context.database)}`]),
      ...(settings.length === 0
        ? []
        : [`SET ${settings.map(([name, value]) => `${name} = ${quoted(value)}`).join(', ')}`]),
      ...parameters,
    ];
    return { key, session: this.#session(), prelude };
  }

  #give(pooled: PooledSession): void {
    this.#idle.push({ key: pooled.key, session: pooled.session });
    if (this.#idle.length > IDLE_SESSIONS) this.#idle.shift()?.session.close();
  }
}

function engineError(error: unknown): unknown {
  const text = error instanceof Error ? error.message : String(error);
  const code = /Code: (\d+)\./.exec(text)?.[1];
  if (code === undefined) return error;
  return new EngineError(Number(code), onceTold(text).trim());
}
