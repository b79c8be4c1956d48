import { spawn, type ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { TestContext } from 'node:test';
import { exchange } from './exchange.js';
import { asPeer } from './peers.js';

/** The compiled tree that the test itself is part of. */
const BUILT = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
export const ROOT = findRoot(BUILT);

function findRoot(from: string): string {
  const here = readdirSync(from);
  return here.includes('package.json') && here.includes('samples') ? from : findRoot(dirname(from));
}

/** What `npm start` runs, as compiled beside the test. */
export const PROGRAM = join(BUILT, 'src', 'main.js');
/** Programs of tests, named here: who starts one needs nothing of what it is made of, which is the whole service. */
export const FAULTY_SERVICE = join(BUILT, 'test', 'support', 'faulty-service.js');
export const WATCHED_SERVICE = join(BUILT, 'test', 'support', 'watched-service.js');
/** `npm test` builds the programs as they are shipped (scripts/bundle.mjs) and names their folder. */
const SHIPPED = process.env['STATEFOLD_TEST_PROGRAMS'];

/** The file to start for a program: the shipped one, or for a test that runs by itself the module `compiled`. */
export const programOf = (compiled: string): string =>
  SHIPPED === undefined ? compiled : join(SHIPPED, basename(compiled));
/** Of Node, as `npm start` and the image give them. */
export const SERVE_FLAGS = ['--max-semi-space-size=8', '--v8-pool-size=1'];
export const API_KEY = 'a-key-that-the-tests-chose';
export const ADMIN_KEY = 'an-admin-key-that-the-tests-chose';
const START_MS = 60_000;
/**
 * Most of them are given the same few sources: scripts/test.mjs names a folder that is empty when a run begins, so that each is
 * compiled once in a run. A test that looks at the compiler itself sets COMPILATIONS_DIR to an empty text.
 */
export const compiledOnce: Readonly<Record<string, string>> =
  process.env['STATEFOLD_TEST_COMPILATIONS'] === undefined
    ? {}
    : { COMPILATIONS_DIR: process.env['STATEFOLD_TEST_COMPILATIONS'] };

export interface ServiceOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** With ClickHouse, which costs each start more than all else; none unless given. */
  readonly readStore?: boolean;
  /** Kept over restarts by the test; a new temporary one unless given. */
  readonly dataDirectory?: string;
  /** The compiled entry; that of the service unless given. */
  readonly program?: string;
  /** Behind `serve`. */
  readonly args?: readonly string[];
  /** A command that starts it, as a container would. */
  readonly within?: readonly string[];
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The parsed body; the test says what it expects of it. */
  json<T = Record<string, unknown>>(): T;
}

export interface RequestOptions {
  readonly body?: unknown;
  readonly raw?: string | Buffer | FormData;
  readonly headers?: Readonly<Record<string, string>>;
  readonly key?: string | null;
  /** As another process of the cluster would send it on. */
  readonly asPeer?: boolean;
}

/** Of whoever runs the service: with its admin key, and no tenant's. */
export const AS_ADMIN: RequestOptions = { key: null, headers: { 'x-admin-key': ADMIN_KEY } };

/** A real service: a process of its own on a free port. */
export class Service {
  readonly url: string;
  readonly dataDirectory: string;
  readonly #child: ChildProcess;
  readonly #log: string[];

  constructor(child: ChildProcess, url: string, dataDirectory: string, log: string[]) {
    this.#child = child;
    this.url = url;
    this.dataDirectory = dataDirectory;
    this.#log = log;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Resolves when the process has ended, however it did, with its exit code; null where a signal ended it. */
  async exited(): Promise<number | null> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) await once(this.#child, 'exit');
    return this.#child.exitCode;
  }

  /** What the process has said so far. */
  get output(): string {
    return this.#log.join('');
  }

  async request(method: string, path: string, options: RequestOptions = {}): Promise<Answer> {
    const { body, raw, key = API_KEY } = options;
    const headers: Record<string, string> = { ...(key === null ? {} : { 'x-api-key': key }), ...options.headers };
    if (body !== undefined) headers['content-type'] ??= 'application/json';
    const payload = raw ?? (body === undefined ? undefined : JSON.stringify(body));
    const sent = options.asPeer === true ? asPeer(method, path, headers) : headers;
    const { text, ...answer } = await exchange(method, this.url + path, sent, payload);
    return { ...answer, text, json: <T>() => JSON.parse(text) as T };
  }

  get(path: string, options?: RequestOptions): Promise<Answer> {
    return this.request('GET', path, options);
  }
  post(path: string, body?: unknown, options?: RequestOptions): Promise<Answer> {
    return this.request('POST', path, { ...options, ...(body === undefined ? {} : { body }) });
  }

  /** Uploads loose sources, by file name. */
  upload(
    kind: 'reducers' | 'projections',
    sources: Readonly<Record<string, string>>,
    fields: Readonly<Record<string, string>> = {},
  ): Promise<Answer> {
    const form = new FormData();
    for (const [name, text] of Object.entries(sources)) form.append('file', new Blob([text]), name);
    for (const [name, value] of Object.entries(fields)) form.append(name, value);
    return this.request('POST', `/${kind}/upload`, { raw: form });
  }

  /** Uploads and waits until it is compiled; gives its id. */
  async deploy(
    kind: 'reducers' | 'projections',
    sources: Readonly<Record<string, string>>,
    fields?: Readonly<Record<string, string>>,
  ): Promise<string> {
    const answer = await this.upload(kind, sources, fields);
    if (answer.status !== 202) throw new Error(`the upload was answered ${answer.status}: ${answer.text}`);
    const ids = answer.json<{ reducerId?: string; projectionId?: string }>();
    const id = ids.reducerId ?? ids.projectionId ?? '';
    await until(async () => {
      const status = (await this.get(`/${kind}/${id}/status`)).json<{ status: string; compilationError?: string }>();
      if (status.status === 'failed') throw new Error(status.compilationError);
      return status.status === 'compiled';
    });
    return id;
  }

  kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    return endOf(this.#child, signal);
  }

  /** Ends it as Ctrl-C would. */
  stop(): Promise<void> {
    return this.kill('SIGTERM');
  }
}

async function endOf(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill(signal);
  if (signal === 'SIGKILL') child.kill('SIGCONT');
  await exited;
}

/** Starts a service; it is ended, and a temporary data directory removed, when the test ends. */
export async function startService(t: Pick<TestContext, 'after'>, options: ServiceOptions = {}): Promise<Service> {
  const dataDirectory = options.dataDirectory ?? temporaryDirectory(t);
  const env: NodeJS.ProcessEnv = {
    PATH: process.env['PATH'],
    HOME: process.env['HOME'],
    PORT: '0',
    LOG_LEVEL: 'warn',
    STATEFOLD_DATA_DIR: dataDirectory,
    STATEFOLD_API_KEY: API_KEY,
    STATEFOLD_ADMIN_KEY: ADMIN_KEY,
    WEBHOOK_ALLOW_PRIVATE: 'true',
    READ_STORE: options.readStore === true ? 'clickhouse' : 'none',
    // Most of the many services of a run compile nothing, or nothing that is urgent.
    COMPILERS_WARM: '0',
    ...compiledOnce,
    ...(process.env['STATEFOLD_TEST_LOG'] === 'kafka' ? onKafka(dataDirectory) : {}),
    ...options.env,
  };
  const [command = process.execPath, ...args] = [
    ...(options.within ?? []),
    ...[process.execPath, ...SERVE_FLAGS, options.program ?? programOf(PROGRAM), 'serve'],
    ...(options.args ?? []),
  ];
  const child = spawn(command, args, {
    cwd: ROOT,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const log: string[] = [];
  const url = await new Promise<string>((resolve, reject) => {
    const failed = (reason: string): void =>
      reject(new Error(`the service did not start (${reason}):\n${log.join('')}`));
    const timer = setTimeout(() => failed(`nothing after ${START_MS} ms`), START_MS);
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => {
        log.push(chunk.toString());
        const [, found] = /listens on (http:\S+)/.exec(log.join('')) ?? [];
        if (found === undefined) return;
        clearTimeout(timer);
        resolve(found);
      });
    child.once('exit', (code, signal) => {
      clearTimeout(timer);
      failed(`exit ${code ?? signal}`);
    });
  });
  const kill = (): Promise<void> => endOf(child, 'SIGKILL');
  using.set(dataDirectory, [...(using.get(dataDirectory) ?? []), kill]);
  t.after(kill);
  return new Service(child, url, dataDirectory, log);
}

/** The log in the Kafka of this run, under a prefix that goes with the data directory: a restart finds it again. */
function onKafka(dataDirectory: string): NodeJS.ProcessEnv {
  const brokers = process.env['STATEFOLD_TEST_KAFKA'];
  if (brokers === undefined) throw new Error('STATEFOLD_TEST_LOG is kafka, but STATEFOLD_TEST_KAFKA names no brokers');
  const prefix = `s${createHash('sha256').update(dataDirectory).digest('hex').slice(0, 10)}`;
  return { KAFKA_BROKERS: brokers, KAFKA_TOPIC_PREFIX: prefix, KAFKA_SESSION_TIMEOUT_MS: '6000' };
}

/** What ends the services of a data directory. */
const using = new Map<string, (() => Promise<void>)[]>();

export function temporaryDirectory(t: Pick<TestContext, 'after'>): string {
  const directory = mkdtempSync(join(tmpdir(), 'statefold-'));
  // Hooks run in the order of their registration: what was started on the directory later has to end first.
  t.after(async () => {
    await endUsersOf(directory);
    // The ClickHouse child of a killed service writes for a moment more, until it sees that its parent is gone.
    await until(() => removed(directory));
  });
  return directory;
}

/** Ends what uses the directory: what is to end before its services, then these. */
export async function endUsersOf(dataDirectory: string): Promise<void> {
  for (const end of using.get(dataDirectory) ?? []) await end();
}

/** At the end of the test it runs before the services on the directory end. */
export function beforeTheEndOf(dataDirectory: string, end: () => Promise<void>): void {
  using.set(dataDirectory, [end, ...(using.get(dataDirectory) ?? [])]);
}

function removed(directory: string): boolean {
  try {
    rmSync(directory, { recursive: true, force: true });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOTEMPTY') return false;
    throw error;
  }
}

const LEAST_PAUSE_MS = 10;
const MOST_PAUSE_MS = 100;

/** Waits until the condition holds. Rejects with what it last saw once the deadline is over. */
export async function until(holds: () => boolean | Promise<boolean>, deadlineMs = 60_000): Promise<void> {
  const begun = performance.now();
  while (!(await holds())) {
    const waited = performance.now() - begun;
    if (waited > deadlineMs) throw new Error(`the condition did not hold within ${deadlineMs} ms: ${holds.toString()}`);
    // What is long in coming is asked for less often: to ask takes the cores that it is waited for on.
    const pause = Math.min(MOST_PAUSE_MS, Math.max(LEAST_PAUSE_MS, waited / 10));
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

/** The `.cs` files of a sample, by name. */
export function sample(name: string): Record<string, string> {
  const directory = join(ROOT, 'samples', name);
  return Object.fromEntries(
    readdirSync(directory)
      .filter((file) => file.endsWith('.cs'))
      .map((file) => [relative(directory, join(directory, file)), readFileSync(join(directory, file), 'utf8')]),
  );
}
