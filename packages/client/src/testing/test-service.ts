import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { StatefoldClient } from '../client.js';
import type { Diagnostic } from '../wire.js';
import { programOf } from './program.js';
import { readSources } from './sources.js';

/** What calls a function when the test, or the file of tests, has ended: the context of a test of node:test, `after` of node:test, `afterAll` of Jest, `afterAll` or `onTestFinished` of Vitest. */
export type EndWith = { after(end: () => Promise<void>): void } | ((end: () => Promise<void>) => unknown);

export interface TestServiceOptions {
  /** Stops the service then. Without it, stop it yourself, by `stop()` or `await using`; with the process of the tests it ends in any case. */
  readonly endWith?: EndWith | undefined;
  /** A folder of C#: its reducers and projections are deployed to the tenant, and live, before the service is given. */
  readonly code?: string | undefined;
  /** The time of events that are appended, until it is set to another; unset: that of the machine. */
  readonly time?: Date | string | number | undefined;
  /** Further settings, as `docs/reference/settings.md` has them. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** A checkout of Statefold that is built; unless given, STATEFOLD_HOME, or the one that this package lies in, or that of the `statefold` on the PATH. */
  readonly home?: string | undefined;
  /** How long it may take to start, milliseconds. */
  readonly startMs?: number | undefined;
}

/** A tenant of a test service. */
export interface TestTenant {
  readonly tenantId: string;
  readonly apiKey: string;
  readonly client: StatefoldClient;
  /** Of the code that was deployed to it; undefined: it has no reducers. */
  readonly reducerId: string | undefined;
  /** The same of projections. */
  readonly projectionId: string | undefined;
}

/** The service did not start, or did not take the code; the message has what it said. */
export class TestServiceError extends Error {
  override readonly name = 'TestServiceError';
}

const START_MS = 60_000;
const STOP_MS = 10_000;
/** Most that an upload waits. */
const DEPLOY_SECONDS = 30;
/** Of the environment of the tests, what a program needs; settings of a service of the developer's own are none of it. */
const PASSED = /^(?:PATH|HOME|USER|TMPDIR|TEMP|TMP|TZ|LANG|LC_\w+|LD_LIBRARY_PATH|DOTNET_\w+|SystemRoot)$/;

type Child = ChildProcessByStdio<Writable, Readable, Readable>;

/** A service of its own for tests: nothing is shared, nothing is kept. */
export class TestService implements AsyncDisposable {
  readonly url: string;
  readonly adminKey: string;
  /** The tenant that it starts with. */
  readonly tenant: TestTenant;
  readonly #child: Child;
  readonly #files: Files;
  readonly #output: string[];
  #stopped: Promise<void> | undefined;

  /** Of `startTestService`. */
  constructor(child: Child, files: Files, output: string[], url: string, adminKey: string, tenant: TestTenant) {
    this.#child = child;
    this.#files = files;
    this.#output = output;
    this.url = url;
    this.adminKey = adminKey;
    this.tenant = tenant;
  }

  /** Of its tenant. */
  get client(): StatefoldClient {
    return this.tenant.client;
  }
  get apiKey(): string {
    return this.tenant.apiKey;
  }
  get reducerId(): string | undefined {
    return this.tenant.reducerId;
  }
  get projectionId(): string | undefined {
    return this.tenant.projectionId;
  }
  /** What the service has said, for the message of a test that fails. */
  get output(): string {
    return this.#output.join('');
  }

  /** Another tenant, which shares nothing with the others: one a test is quicker than a service a test. @throws TestServiceError */
  async newTenant({ code }: { readonly code?: string } = {}): Promise<TestTenant> {
    const admin = new StatefoldClient({ url: this.url, adminKey: this.adminKey });
    const tenantId = `test-${randomUUID().slice(0, 13)}`;
    const { apiKey } = await admin.request('createTenant', { body: { tenantId, name: tenantId } });
    return deployed({ tenantId, apiKey, client: new StatefoldClient({ url: this.url, apiKey }) }, code);
  }

  /** Events that are appended from now on have this time, until it is set again; undefined: that of the machine. @throws RangeError where it is none */
  setTime(time: Date | string | number | undefined): void {
    this.#files.setTime(timeOf(time));
  }

  /** Ends it, and removes what it has stored. */
  stop(): Promise<void> {
    return (this.#stopped ??= ended(this.#child, this.#files));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

/**
 * Starts a service on a free port, with its log in a temporary folder: it needs a checkout of Statefold that is built, and no network. It
 * ends, and its folder is removed, with `endWith`, by `stop()`, or when this process ends, however it does.
 * @throws TestServiceError; Error where there is no Statefold
 */
export async function startTestService(options: TestServiceOptions = {}): Promise<TestService> {
  const { endWith, code, time, env, home, startMs = START_MS } = options;
  const program = programOf(home);
  const said = timeOf(time);
  const files = new Files();
  const adminKey = `test-${randomUUID()}`;
  const apiKey = `test-${randomUUID()}`;
  files.setTime(said);
  const child: Child = spawn(process.execPath, [program, 'serve'], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: {
      ...Object.fromEntries(Object.entries(process.env).filter(([name]) => PASSED.test(name))),
      LOG_LEVEL: 'warn',
      WEBHOOK_ALLOW_PRIVATE: 'true',
      ...env,
      PORT: '0',
      TEST_MODE: 'true',
      TEST_CLOCK: files.clock,
      STATEFOLD_DATA_DIR: files.data,
      STATEFOLD_API_KEY: apiKey,
      STATEFOLD_ADMIN_KEY: adminKey,
      ...(code === undefined ? { COMPILERS_WARM: '0' } : {}),
    },
  });
  const output: string[] = [];
  let service: TestService;
  try {
    const url = await listening(child, output, startMs);
    const client = new StatefoldClient({ url, apiKey });
    const tenant = await deployed({ tenantId: 'default', apiKey, client }, code);
    service = new TestService(child, files, output, url, adminKey, tenant);
  } catch (error) {
    await ended(child, files);
    throw error;
  }
  // It keeps no process of tests that is done: that one's end closes its standard input, on which it ends.
  holding(child, false);
  const stop = (): Promise<void> => service.stop();
  if (typeof endWith === 'function') endWith(stop);
  else endWith?.after(stop);
  return service;
}

/** As the service reads it; empty: that of the machine. @throws RangeError */
function timeOf(time: Date | string | number | undefined): string {
  if (time === undefined) return '';
  const date = new Date(time);
  if (Number.isNaN(date.getTime()))
    throw new RangeError(
      `time must be a Date, an ISO 8601 text or milliseconds since the epoch, and is ${String(time)}`,
    );
  return date.toISOString();
}

/** What a service of a test leaves on the disk. */
class Files {
  readonly data = mkdtempSync(join(tmpdir(), 'statefold-test-'));
  /** Beside it: the service starts in an empty folder only. */
  readonly clock = `${this.data}.time`;

  /** Whole, for the service may read it at any moment. */
  setTime(time: string): void {
    const draft = `${this.clock}.new`;
    writeFileSync(draft, time);
    renameSync(draft, this.clock);
  }

  remove(): void {
    for (const path of [this.data, this.clock])
      rmSync(path, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  }
}

function holding(child: Child, holds: boolean): void {
  for (const one of [
    child,
    child.stdin as unknown as Socket,
    child.stdout as unknown as Socket,
    child.stderr as unknown as Socket,
  ])
    if (holds) one.ref();
    else one.unref();
}

function listening(child: Child, output: string[], startMs: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const failed = (why: string): void => {
      clearTimeout(timer);
      reject(new TestServiceError(`The service of the test did not start (${why}). It said:\n${output.join('')}`));
    };
    const timer = setTimeout(() => failed(`nothing after ${startMs} ms`), startMs);
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => {
        output.push(chunk.toString());
        const url = /listens on (http:\S+)/.exec(output.join(''))?.[1];
        if (url === undefined) return;
        clearTimeout(timer);
        resolve(url);
      });
    child.once('error', (error) => failed(error.message));
    child.once('exit', (code, signal) => failed(`it ended with ${code ?? signal}`));
    // It may end while it is written to.
    child.stdin.on('error', () => undefined);
  });
}

async function ended(child: Child, files: Files): Promise<void> {
  holding(child, true);
  if (child.exitCode === null && child.signalCode === null && child.pid !== undefined) {
    const exited = once(child, 'exit');
    child.stdin.end();
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
    await exited;
    clearTimeout(timer);
  }
  files.remove();
}

/** Deploys the code of a folder, and waits until it is live. */
async function deployed(
  tenant: Pick<TestTenant, 'tenantId' | 'apiKey' | 'client'>,
  code: string | undefined,
): Promise<TestTenant> {
  if (code === undefined) return { ...tenant, reducerId: undefined, projectionId: undefined };
  const { client } = tenant;
  const { files, hasReducers, hasProjections } = readSources(code);
  const form = (): FormData => {
    const data = new FormData();
    for (const [path, text] of files) data.append('file', new Blob([text]), path);
    return data;
  };
  const query = { waitSeconds: DEPLOY_SECONDS };
  const reducers = async (): Promise<string> => {
    const { reducerId, status } = await client.request('uploadReducer', { body: form(), query, timeoutMs: DEPLOY_MS });
    if (status !== 'compiled') refuse(code, status, await client.request('getReducer', { path: { id: reducerId } }));
    return reducerId;
  };
  const projections = async (): Promise<string> => {
    const body = form();
    body.append('config', '{"sse":true}');
    const { projectionId, status } = await client.request('uploadProjection', { body, query, timeoutMs: DEPLOY_MS });
    if (status !== 'compiled')
      refuse(code, status, await client.request('getProjection', { path: { id: projectionId } }));
    return projectionId;
  };
  const [reducerId, projectionId] = await Promise.all([
    hasReducers ? reducers() : undefined,
    hasProjections ? projections() : undefined,
  ]);
  return { ...tenant, reducerId, projectionId };
}

const DEPLOY_MS = (DEPLOY_SECONDS + 15) * 1000;

function refuse(
  folder: string,
  status: string,
  {
    compilationError,
    diagnostics = [],
  }: { readonly compilationError?: string; readonly diagnostics?: readonly Diagnostic[] },
): never {
  const errors = diagnostics.filter(({ severity }) => severity === 'error');
  const told = errors.map(({ file, line, code, message }) => `  ${file ?? ''}:${line ?? ''} ${code} ${message}`);
  const why = told.length > 0 ? told.join('\n') : (compilationError ?? `it is ${status} after ${DEPLOY_SECONDS} s`);
  throw new TestServiceError(`The code of ${folder} was not deployed:\n${why}`);
}
