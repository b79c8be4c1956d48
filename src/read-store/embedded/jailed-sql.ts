import { randomUUID } from 'node:crypto';
import { lstatSync, readdirSync } from 'node:fs';
import { copyFile, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join, resolve as resolvePath } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { isFull, LOG_RESERVE_BYTES } from '../../core/disk-space.js';
import { StatefoldError } from '../../core/errors.js';
import { forkServer, SYSTEM_PATH, type Forked, type Program } from '../../jail/fork-server.js';
import type { Logger } from '../../core/logger.js';
import { LAST } from '../../core/priority.js';
import {
  settingsOf,
  SqlRefusedError,
  type SqlAnswer,
  type SqlLimits,
  type SqlStatement,
  type TenantSql,
} from '../tenant-sql.js';
import { readBy, typedViews } from '../tenant-views.js';
import { onceTold } from './engine-error.js';
import { contentTypeOf } from './http-answer.js';
import { Pool, PoolFullError } from './pool.js';
import type { QueryOutcome, QueryRequest } from './query-process.js';
import { ResultPipe } from './result-pipe.js';
import { identifier, quoted } from '../sql-text.js';
import { readStatement } from './statement.js';
import type { TenantCopies, TenantCopy } from './tenant-copies.js';

/** How a program is started in the jail. */
export type JailedLaunch = (
  jail: {
    readonly folder: string;
    readonly fileBytes: number;
    readonly readable: readonly string[];
    readonly dataBytes: number;
    readonly addressBytes: number;
    readonly threads: number;
  },
  program: string,
  args: readonly string[],
) => Program;

export interface JailedSqlOptions {
  /** Folders of the processes are made in it; emptied at the start. */
  readonly directory: string;
  readonly copies: TenantCopies;
  /** Undefined: this machine has no jail, for the reason. */
  readonly launch: JailedLaunch | { readonly refused: string };
  readonly limits: SqlLimits;
  /** Processes at once, of all tenants; more wait. */
  readonly processes: number;
  readonly logger: Logger;
}

const MIB = 1024 * 1024;
/** Beside the engine's own memory: Node.js, the engine's code and caches. */
const DATA_BEYOND_ENGINE = 512 * MIB;
const ADDRESSES_BEYOND_ENGINE = 16 * 1024 * MIB;
const FILE_BYTES = 64 * MIB;
const FOLDER_BYTES = 256 * MIB;
const POLL_MS = 250;
const QUEUE = 64;
const QUEUE_MS = 10_000;
/** Past the engine's own limit of time, and for the start. */
const GRACE_MS = 5_000;
/** What of an answer is held back before it begins: so that a short one that fails still gets the right status. */
const HELD_BACK = 64 * 1024;
const DATABASE = 'statefold';
/** Of the answer as it is written, beside what the engine counts. */
const FORMAT_FACTOR = 4;
const SYNTAX_ERROR = 62;
const UNKNOWN_FORMAT = 73;
const TIMEOUT_EXCEEDED = 159;
const TOO_MANY_BYTES = 396;
const MEMORY_LIMIT = 241;

const refusal = (code: number, text: string, name: string): SqlRefusedError =>
  new SqlRefusedError(code, `Code: ${code}. DB::Exception: ${text}. (${name})`);

/**
 * Tenants' SQL where the read store is the embedded engine. Each statement has a process of its own: an engine in the kernel's jail,
 * that can read the files of its tenant's copy, change its own folder, and do nothing else. Other tenants' rows are not there to be
 * read, whatever the statement is; the engine that the sink writes with never sees it.
 */
export class JailedSql implements TenantSql {
  readonly #options: JailedSqlOptions;
  readonly #pool: Pool<number>;
  readonly #running = new Set<Forked>();
  #emptied: Promise<void> | undefined;
  #closed = false;

  constructor(options: JailedSqlOptions) {
    this.#options = options;
    this.#pool = new Pool(
      Array.from({ length: options.processes }, (_, i) => i + 1),
      QUEUE,
    );
  }

  /** Processes that run now. */
  get running(): number {
    return this.#running.size;
  }

  /** Of the processes, for those who watch them. */
  get pids(): readonly number[] {
    return [...this.#running].map(({ pid }) => pid);
  }

  async query(tenantId: string, statement: SqlStatement, signal: AbortSignal): Promise<SqlAnswer> {
    const { launch, copies } = this.#options;
    if ('refused' in launch)
      throw new StatefoldError(
        'SQL_NOT_ISOLATED',
        `SQL of tenants is not run here, because it could not be jailed (${launch.refused}): use Linux 5.13 or newer with landlock on, or let a ClickHouse server be the read store (CLICKHOUSE_URL).`,
      );
    if (this.#closed) throw new StatefoldError('UNAVAILABLE', 'The service is stopping');
    const sent = outgoing(statement);
    const started = new Promise<SqlAnswer>((resolve, reject) => {
      // The place is held until the process has ended, which is after the answer has begun.
      this.#pool
        .use(QUEUE_MS, signal, async () => {
          this.#requireRoom();
          this.#emptied ??= this.#empty().catch((error: unknown) => {
            this.#emptied = undefined;
            throw error;
          });
          await this.#emptied;
          const copy = await copies.refresh(tenantId);
          signal.throwIfAborted();
          await this.#run(launch, copy, statement, sent, signal, resolve);
        })
        .catch(reject);
    });
    try {
      return await started;
    } catch (error) {
      if (error instanceof PoolFullError)
        throw new StatefoldError(
          'UNAVAILABLE',
          'As many statements are under way as this process runs at once; send it again',
          {
            retryAfterSeconds: 5,
          },
        );
      throw error;
    }
  }

  /** What a statement needs of the disk is not taken from the log; and on a full one ClickHouse loses the definitions that it changes. */
  #requireRoom(): void {
    if (isFull(dirname(this.#options.directory), LOG_RESERVE_BYTES))
      throw new StatefoldError(
        'UNAVAILABLE',
        'the disk of the service is full, and a statement needs room for its rows; send it again later',
      );
  }

  async close(): Promise<void> {
    this.#closed = true;
    const running = [...this.#running];
    for (const child of running) child.kill();
    await Promise.all(running.map(({ exited }) => exited));
    await rm(this.#options.directory, { recursive: true, force: true });
  }

  async #empty(): Promise<void> {
    await rm(this.#options.directory, { recursive: true, force: true });
    await mkdir(this.#options.directory, { recursive: true, mode: 0o700 });
  }

  async #run(
    launch: JailedLaunch,
    copy: TenantCopy,
    statement: SqlStatement,
    { format, sqlInto }: Outgoing,
    signal: AbortSignal,
    begun: (answer: SqlAnswer) => void,
  ): Promise<void> {
    const folder = resolvePath(this.#options.directory, randomUUID());
    try {
      await layOut(folder, copy);
      const path = join(folder, 'result');
      const request = await this.#request(folder, copy, statement, sqlInto(path));
      await writeFile(join(folder, 'request.json'), JSON.stringify(request), { mode: 0o600 });
      await makePipe(path);
      const pipe = await ResultPipe.open(path);
      let running: Running;
      try {
        running = await this.#start(launch, folder, copy, signal);
      } catch (error) {
        await pipe.finish();
        pipe.destroy();
        throw error;
      }
      // oxlint-disable-next-line typescript/no-misused-promises -- finally waits for what it is given
      const ended = running.outcome.finally(() => pipe.finish());
      ended.catch(() => undefined);
      const chunks = this.#chunks(pipe, ended, running.end);
      const head: Buffer[] = [];
      let held = 0;
      // Whoever goes away meanwhile leaves a descriptor behind that nobody reads.
      const finish = (): void => {
        running.end('nobody reads the answer');
        pipe.destroy();
      };
      try {
        for (let next = await chunks.next(); next.done !== true; next = await chunks.next()) {
          head.push(next.value);
          held += next.value.length;
          if (held > HELD_BACK) break;
        }
      } catch (error) {
        finish();
        throw error;
      }
      signal.addEventListener('abort', finish, { once: true });
      if (signal.aborted) finish();
      begun({ contentType: contentTypeOf(format), format, chunks: rest(head, chunks, finish) });
      // The place is free when the process has ended: what it wrote is in the pipe, whether it is read or not.
      await running.ended;
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }

  async #request(
    folder: string,
    copy: TenantCopy,
    { parameters, states }: SqlStatement,
    statement: string,
  ): Promise<QueryRequest> {
    const { limits } = this.#options;
    const views = await typedViews(copy.paths, states, await readBy(statement, parameters));
    const settings = Object.entries(settingsOf(limits)).filter(([name]) => name !== 'readonly');
    return {
      directory: join(folder, 'engine'),
      memoryBytes: limits.memoryBytes,
      database: DATABASE,
      prepare: [...copy.tables.map(({ attach }) => attach), 'SYSTEM STOP MERGES'],
      views: views.map(({ name, select, untyped }) =>
        [select, untyped].map((one) => `CREATE VIEW ${identifier(name)} AS ${one}`),
      ),
      confine: [
        ...[...parameters].map(([name, value]) => `SET param_${name} = ${quoted(value)}`),
        `SET ${settings.map(([name, value]) => `${name} = ${quoted(String(value))}`).join(', ')}`,
        'SET readonly = 1',
      ],
      statement,
    };
  }

  async #start(launch: JailedLaunch, folder: string, copy: TenantCopy, signal: AbortSignal): Promise<Running> {
    const { limits, logger } = this.#options;
    const worker = fileURLToPath(new URL('./query-process.js', import.meta.url));
    const jail = {
      folder,
      fileBytes: FILE_BYTES,
      readable: [...readableOf(worker), ...copy.tables.map((table) => table.folder)],
      dataBytes: limits.memoryBytes + DATA_BEYOND_ENGINE,
      addressBytes: limits.memoryBytes + ADDRESSES_BEYOND_ENGINE,
      threads: 512,
    };
    const child = await forkServer
      .fork({ ...launch(jail, process.execPath, [worker]), cwd: folder, pipes: [1, 2], niceness: LAST })
      .catch((cause: unknown) => {
        const message = 'The engine of the statement could not be started; send it again';
        throw new StatefoldError('UNAVAILABLE', message, { cause });
      });
    this.#running.add(child);
    if (this.#closed) child.kill();
    let why: SqlRefusedError | StatefoldError | undefined;
    const stop = (reason: SqlRefusedError | StatefoldError): void => {
      why ??= reason;
      child.kill();
    };
    const late = setTimeout(
      () => stop(refusal(TIMEOUT_EXCEEDED, `Timeout exceeded: maximum: ${limits.seconds} seconds`, 'TIMEOUT_EXCEEDED')),
      limits.seconds * 1000 + GRACE_MS,
    );
    const watch = setInterval(() => {
      if (bytesBelow(folder) > FOLDER_BYTES)
        stop(refusal(TOO_MANY_BYTES, 'Limit for temporary files exceeded', 'TOO_MANY_ROWS_OR_BYTES'));
    }, POLL_MS);
    const aborted = (): void => stop(new StatefoldError('UNAVAILABLE', 'the client has gone'));
    signal.addEventListener('abort', aborted, { once: true });
    if (signal.aborted) aborted();
    let stderr = '';
    child
      .pipe(2)
      .on('data', (chunk: Buffer) => {
        if (stderr.length < 16_384) stderr += chunk.toString('utf8');
      })
      .resume();
    let told: QueryOutcome | undefined;
    createInterface({ input: child.pipe(1) }).on('line', (line) => {
      if (told === undefined && line.startsWith('{"ok":') && line.length < MIB) told = outcomeOf(line);
    });
    let markEnded: () => void = () => undefined;
    const ended = new Promise<void>((resolve) => (markEnded = resolve));
    const outcome = new Promise<void>((resolve, reject) => {
      const done = (how: string): void => {
        clearTimeout(late);
        clearInterval(watch);
        signal.removeEventListener('abort', aborted);
        this.#running.delete(child);
        markEnded();
        if (why !== undefined) reject(why);
        else if (told?.ok === true) resolve();
        else if (told !== undefined && !told.preparing) reject(refusedBy(told.message));
        else {
          logger.warn(
            { how, message: told?.message, stderr: stderr.slice(0, 2_000) },
            'A statement of a tenant had no answer',
          );
          reject(unanswered(told, stderr, how, limits.memoryBytes));
        }
      };
      void child.closed.then(({ code, signal: by, isLost }) => {
        if (isLost === true)
          why ??= new StatefoldError('UNAVAILABLE', 'The process of the statement was ended; send the statement again');
        done(by ?? `exit code ${code ?? 'unknown'}`);
      });
    });
    return { outcome, ended, end: (reason) => stop(new StatefoldError('UNAVAILABLE', reason)) };
  }

  async *#chunks(pipe: ResultPipe, ended: Promise<void>, stop: (reason: string) => void): AsyncGenerator<Buffer> {
    let bytes = 0;
    const most = this.#options.limits.bytes * FORMAT_FACTOR;
    for (let chunk = await pipe.next(); chunk !== undefined; chunk = await pipe.next()) {
      bytes += chunk.length;
      if (bytes > most) {
        stop('the answer is too long');
        throw refusal(TOO_MANY_BYTES, `Limit for result exceeded, max bytes: ${most}`, 'TOO_MANY_ROWS_OR_BYTES');
      }
      yield chunk;
    }
    await ended;
  }
}

interface Running {
  /** @throws SqlRefusedError, StatefoldError */
  readonly outcome: Promise<void>;
  readonly ended: Promise<void>;
  readonly end: (reason: string) => void;
}

interface Outgoing {
  readonly format: string;
  /** The text that is sent to the engine, which writes its rows to the path. */
  readonly sqlInto: (path: string) => string;
}

/** A statement without rows goes as it is. */
function outgoing({ query, format }: SqlStatement): Outgoing {
  const read = readStatement(query);
  if (read.kind === 'empty' || read.kind === 'incomplete')
    throw refusal(SYNTAX_ERROR, 'Syntax error: Empty query', 'SYNTAX_ERROR');
  if (read.kind === 'multiple')
    throw refusal(SYNTAX_ERROR, 'Syntax error (Multi-statements are not allowed)', 'SYNTAX_ERROR');
  if (read.kind !== 'rows') return { format, sqlInto: () => query };
  const wanted = read.format ?? format;
  if (!/^\w+$/.test(wanted)) throw refusal(UNKNOWN_FORMAT, `Unknown format ${wanted.slice(0, 100)}`, 'UNKNOWN_FORMAT');
  return {
    format: wanted,
    sqlInto: (path) => `${read.body}\n INTO OUTFILE ${quoted(path)} TRUNCATE FORMAT ${wanted} ${read.tail}`,
  };
}

/** The folder of the engine, with the tables' parts where it looks for them: links to files that the process can't change. */
async function layOut(folder: string, copy: TenantCopy): Promise<void> {
  await mkdir(folder, { mode: 0o700 });
  for (const { uuid, folder: source, parts } of copy.tables) {
    const target = join(folder, 'engine', 'store', uuid.slice(0, 3), uuid);
    await mkdir(target, { recursive: true, mode: 0o700 });
    await copyFile(join(source, 'format_version.txt'), join(target, 'format_version.txt'));
    for (const part of parts) await symlink(join(source, part), join(target, part));
  }
}

function readableOf(worker: string): string[] {
  const require = createRequire(import.meta.url);
  const chdb = dirname(require.resolve('chdb/package.json'));
  const modules = dirname(chdb);
  const root = dirname(modules);
  return [dirname(worker), chdb, join(modules, '@chdb'), join(root, 'package.json')];
}

function outcomeOf(line: string): QueryOutcome | undefined {
  try {
    return JSON.parse(line) as QueryOutcome;
  } catch {
    return undefined;
  }
}

/** What a statement is refused with whose process has ended without an answer to it. */
function unanswered(
  told: QueryOutcome | undefined,
  stderr: string,
  how: string,
  memoryBytes: number,
): StatefoldError | SqlRefusedError {
  if (told !== undefined)
    return new StatefoldError('UNAVAILABLE', 'The rows of the tenant could not be opened; send the statement again');
  if (stderr !== '')
    return new StatefoldError('UNAVAILABLE', 'The engine of the statement could not be started; send it again');
  return refusal(
    MEMORY_LIMIT,
    `The process of the statement ended (${how}): it may have used more memory than ${memoryBytes} bytes`,
    'MEMORY_LIMIT_EXCEEDED',
  );
}

/** ClickHouse's words, without what the layers around them repeat, and without paths of the process. */
function refusedBy(message: string): SqlRefusedError {
  const text = onceTold(message.replace(/^(?:Query failed: )+/, ''))
    .replace(/\s*INTO OUTFILE '[^']*' TRUNCATE/g, '')
    .replace(/: \(in file\/uri [^)]*\)/g, '')
    .trim();
  return new SqlRefusedError(Number(/Code: (\d+)\./.exec(text)?.[1] ?? 0), text);
}

/** Files that it made itself: links lead to what is not its own. */
function bytesBelow(folder: string): number {
  let bytes = 0;
  try {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) bytes += bytesBelow(path);
      else if (entry.isFile()) bytes += lstatSync(path).size;
    }
  } catch {
    // It went meanwhile.
  }
  return bytes;
}

async function* rest(
  head: readonly Buffer[],
  chunks: AsyncGenerator<Buffer>,
  finish: () => void,
): AsyncGenerator<Buffer> {
  try {
    yield* head;
    yield* chunks;
  } finally {
    finish();
  }
}

/** A named pipe that the engine writes its answer to. */
async function makePipe(path: string): Promise<void> {
  const env = { PATH: SYSTEM_PATH };
  const made = await forkServer.fork({
    command: 'mkfifo',
    args: ['-m', '600', path],
    cwd: dirname(path),
    env,
    pipes: [],
  });
  const { code } = await made.exited;
  if (code !== 0) throw new Error(`mkfifo ended with ${code}`);
}
