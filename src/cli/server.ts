import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { text as textOf } from 'node:stream/consumers';
import { DATA_FILES } from '../config/data-files.js';
import { readSettings, type Settings } from '../config/settings.js';
import {
  RefusedError,
  StatefoldClient,
  TimeoutError,
  Transport,
  UnexpectedAnswerError,
  UnreachableError,
  type Received,
  type TransportOptions,
} from '../../packages/client/src/index.js';
import { AwayError, CliError, CommandRefusedError, type CliIo } from './io.js';

const TIMEOUT_MS = 30_000;
/** What is folded over history, an upload or what is stored, may take as long as the service lets it. */
const LONG_TIMEOUT_MS = 120_000;
/** Entries of one page of a list. */
const PAGE = 500;

const NO_API_KEY =
  'Set STATEFOLD_API_KEY to an API key of your tenant: the first start of the service prints one, `statefold keys create default` makes another.';

export type Fields = Readonly<Record<string, unknown>>;

const REFUSED =
  'refuses the API key: set STATEFOLD_API_KEY to one of your tenant; `statefold keys create <tenantId>` makes one';
const ADMIN_REFUSED =
  'refuses the admin key: set STATEFOLD_ADMIN_KEY to the one that it was started with, or STATEFOLD_DATA_DIR to its data directory';

export interface TenantAccess {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** What an answer other than 200 says, of which `text` is the body. */
  readonly refusal: (status: number, text: string) => CliError;
}

/**
 * A running service, as its owner and its tenants talk to it. What goes wrong with a request is a CliError that says what to do; but what
 * `client` gives throws errors of the client package, and who reads the answer of `stream` meets what breaks off in it.
 */
export class Server {
  readonly url: string;
  readonly #settings: Settings;

  /** @param url as given on the command line, else `STATEFOLD_URL`, else where the settings make the service listen */
  constructor({ env }: Pick<CliIo, 'env'>, url: string | undefined) {
    this.#settings = readSettings(env);
    this.url = (url ?? env['STATEFOLD_URL'] ?? localUrl(this.#settings)).replace(/\/+$/, '');
    if (!URL.canParse(this.url) || !/^https?:\/\//.test(this.url))
      throw new CliError(
        `${this.url} is not an http or https URL: give one like ${/^[\w.-]+(:\d+)?$/.test(this.url) ? `http://${this.url}` : 'http://127.0.0.1:8080'} with --url or STATEFOLD_URL.`,
      );
  }

  /** Asks with the admin key and gives the answer's JSON; undefined when it has no body. */
  async admin(method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: object): Promise<unknown> {
    return this.#ask(method, path, { adminKey: this.#adminKey() }, body, ADMIN_REFUSED);
  }

  /** Asks with the API key of a tenant. @param body a form, or what becomes JSON */
  async tenant(method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE', path: string, body?: object): Promise<unknown> {
    return this.#ask(method, path, { apiKey: this.#apiKey() }, body, REFUSED);
  }

  /** With the API key of a tenant. It throws the client package's errors: who lets one out of a command makes a CliError of it, as `#failure` does. */
  client(options: Pick<TransportOptions, 'parseJson'> = {}): StatefoldClient {
    return new StatefoldClient({ ...options, url: this.url, apiKey: this.#apiKey() });
  }

  /** Where a request with the API key of a tenant goes, for who reads the answer as it comes. */
  tenantAccess(path: string): TenantAccess {
    return {
      url: `${this.url}${path}`,
      headers: { 'X-API-Key': this.#apiKey(), 'Content-Type': 'application/json' },
      refusal: (status, text) => this.#refusal(status, parse(text), path, REFUSED),
    };
  }

  /** All pages of a list of a tenant. @param path may have a query */
  async tenantList(path: string, member: string): Promise<readonly Fields[]> {
    return this.#pages((page) => this.tenant('GET', page), path, member);
  }

  /** All pages of a list. */
  async list(path: string, member: string): Promise<readonly Fields[]> {
    return this.#pages((page) => this.admin('GET', page), path, member);
  }

  async #pages(get: (path: string) => Promise<unknown>, path: string, member: string): Promise<readonly Fields[]> {
    const entries: Fields[] = [];
    const asked = `${path}${path.includes('?') ? '&' : '?'}limit=${PAGE}`;
    let cursor: unknown;
    do {
      const page = (await get(
        `${asked}${typeof cursor === 'string' ? `&cursor=${encodeURIComponent(cursor)}` : ''}`,
      )) as Fields;
      entries.push(...(page[member] as Fields[]));
      cursor = page['nextCursor'];
    } while (cursor !== undefined);
    return entries;
  }

  /**
   * Asks for an answer, or sends a body, of whatever length; both are read as they come. Where the service answers before it has read
   * all, `body` is left as it is. @throws CliError where it refuses
   */
  async stream(
    credentials: 'tenant' | 'admin',
    path: string,
    headers: Readonly<Record<string, string>>,
    body?: Readable,
  ): Promise<IncomingMessage> {
    const target = new URL(`${this.url}${path}`);
    const key = credentials === 'admin' ? { 'X-Admin-Key': this.#adminKey() } : { 'X-API-Key': this.#apiKey() };
    const request = (target.protocol === 'https:' ? httpsRequest : httpRequest)(target, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { ...key, ...headers },
    });
    let answered: IncomingMessage | undefined;
    try {
      const answer = once(request, 'response') as Promise<[IncomingMessage]>;
      if (body === undefined) request.end();
      else body.on('error', (error) => request.destroy(error)).pipe(request);
      [answered] = await answer;
    } catch (error) {
      throw unreachable(this.url, error);
    }
    if (answered.statusCode === 200) {
      // What breaks off while it is read is told by its reader.
      request.on('error', () => undefined);
      return answered;
    }
    request.on('error', () => undefined);
    body?.unpipe(request);
    const text = await textOf(answered);
    request.destroy();
    throw this.#refusal(answered.statusCode ?? 0, parse(text), path, credentials === 'admin' ? ADMIN_REFUSED : REFUSED);
  }

  /** Asks without a key. */
  async open(path: string): Promise<unknown> {
    return this.#ask('GET', path, {}, undefined, 'asks for a key');
  }

  async #ask(
    method: string,
    path: string,
    keys: Pick<TransportOptions, 'apiKey' | 'adminKey'>,
    body: object | undefined,
    refused: string,
  ): Promise<unknown> {
    const isForm = body instanceof FormData;
    // Whoever typed the command sees what came of it, and says whether to try again.
    const transport = new Transport({ ...keys, url: this.url, retry: { attempts: 1 } });
    let answered: Received;
    try {
      answered = await transport.send({
        method,
        path,
        key: keys.apiKey !== undefined ? 'tenant' : keys.adminKey !== undefined ? 'admin' : 'none',
        body: isForm || body === undefined ? body : JSON.stringify(body),
        repeatable: false,
        timeoutMs: isForm || path.endsWith('/verify') ? LONG_TIMEOUT_MS : TIMEOUT_MS,
      });
    } catch (error) {
      throw this.#failure(error, path, refused);
    }
    const { text } = answered;
    const answer = parse(text);
    if (text !== '' && answer === undefined)
      throw new CliError(
        `${this.url} is not a Statefold service: it answered something other than JSON. Say where the service is with --url or STATEFOLD_URL.`,
      );
    return answer;
  }

  #failure(error: unknown, path: string, refused: string): unknown {
    if (error instanceof RefusedError || error instanceof UnexpectedAnswerError) {
      return this.#refusal(error.status, error instanceof RefusedError ? error.problem : undefined, path, refused);
    }
    if (error instanceof UnreachableError || error instanceof TimeoutError)
      return unreachable(this.url, error instanceof TimeoutError ? error : error.cause);
    // What was asked for has no URL.
    if (error instanceof TypeError) return new CliError(`${error.message}.`);
    return error;
  }

  #refusal(status: number, answer: unknown, path: string, refused: string): CliError {
    if (status === 401) return new CliError(`The service at ${this.url} ${refused}.`);
    const problem = describeProblem(answer, path);
    if (problem === undefined) {
      const what = `${this.url} is not a Statefold service: it answered ${status} to ${path.replace(/\?.*/s, '')}, and no reason. Say where the service is with --url or STATEFOLD_URL.`;
      // What stands before the service answers so while it is away.
      return status < 500 ? new CliError(what) : new AwayError(what);
    }
    return status < 500 && status !== 429
      ? new CommandRefusedError(problem.text, problem.code)
      : new AwayError(problem.text);
  }

  #apiKey(): string {
    const { apiKey } = this.#settings;
    if (apiKey === undefined) throw new CliError(NO_API_KEY);
    return apiKey;
  }

  #adminKey(): string {
    const { adminKey, dataDirectory } = this.#settings;
    if (adminKey !== undefined) return adminKey;
    const file = join(dataDirectory, DATA_FILES.adminKey);
    try {
      return readFileSync(file, 'utf8').trim();
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'EACCES')
        throw new CliError(
          `The admin key in ${file} is readable only by the user who runs the service: run this as that user, or set STATEFOLD_ADMIN_KEY.`,
        );
      throw new CliError(
        `There is no admin key in ${file}: start the service once with \`npm start\`, or set STATEFOLD_DATA_DIR to its data directory, or STATEFOLD_ADMIN_KEY to its key.`,
      );
    }
  }
}

/** Why nothing came back. */
export function unreachable(url: string, error: unknown): CliError {
  const reason = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const code = reason instanceof Error ? ((reason as NodeJS.ErrnoException).code ?? reason.name) : '';
  if (code === 'ECONNREFUSED')
    return new AwayError(
      `Nothing listens at ${url}: start the service with \`npm start\`, or say where it is with --url.`,
    );
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return new AwayError(`There is no host ${new URL(url).hostname}: look at --url or STATEFOLD_URL.`);
  if (code === 'ERR_SSL_WRONG_VERSION_NUMBER' || code === 'ERR_SSL_PACKET_LENGTH_TOO_LONG')
    return new CliError(`${url} does not speak TLS: say http rather than https.`);
  if (reason instanceof Error && reason.message === 'unexpected redirect')
    return new CliError(`${url} redirects elsewhere: say where the service itself is, with --url or STATEFOLD_URL.`);
  if (code === 'TimeoutError')
    return new AwayError(
      `${url} did not answer within ${TIMEOUT_MS / 1000} s: \`statefold health\` says whether the service works.`,
    );
  return new AwayError(
    `${url} cannot be reached: ${reason instanceof Error ? reason.message || code : String(reason)}. Look at --url or STATEFOLD_URL, and whether the service runs.`,
  );
}

/** A problem document in one or more lines, with what to do next; undefined when it is none. */
function describeProblem(answer: unknown, path: string): { readonly text: string; readonly code: string } | undefined {
  if (typeof answer !== 'object' || answer === null || !('detail' in answer) || typeof answer.detail !== 'string')
    return undefined;
  const code = 'code' in answer ? String(answer.code) : '';
  const errors =
    'errors' in answer && Array.isArray(answer.errors)
      ? (answer.errors as { pointer?: unknown; message?: unknown }[])
      : [];
  const lines = [
    // ClickHouse's own words end in a code of its own.
    `${answer.detail}${code === '' || code === 'SQL_REFUSED' ? '' : ` (${code})`}`,
    ...errors.map(({ pointer, message }) => `  ${String(pointer)} ${String(message)}`),
  ];
  const next = nextStep(code, path);
  if (next !== undefined) lines.push(next);
  return { text: lines.join('\n'), code };
}

/** What the one who typed the command can do about a problem, where the problem itself does not say. */
function nextStep(code: string, path: string): string | undefined {
  switch (code) {
    case 'NOT_FOUND':
      if (/^\/admin\/tenants\/[^/]+\/keys\/./.test(path))
        return 'The tenant comes first, then the key: `statefold tenants list` and `statefold keys list <tenantId>` show both.';
      if (path.startsWith('/admin/')) return '`statefold tenants list` shows all tenants.';
      if (path.startsWith('/webhooks/endpoints/')) return '`statefold webhooks list` shows all endpoints.';
      return /^\/(reducers|projections)\//.test(path) ? '`statefold history` shows what is deployed.' : undefined;
    case 'NO_REDUCER_BOUND':
      return '`statefold history` shows the types that have a reducer, `statefold deploy` binds one.';
    case 'ALREADY_EXISTS':
      return path === '/admin/tenants'
        ? '`statefold keys create <tenantId>` makes a key for a tenant that is there.'
        : undefined;
    case 'UNAVAILABLE':
    case 'INTERNAL':
      return '`statefold health` says which part does not work.';
    case 'RATE_LIMITED':
      return 'Run the command again in a moment.';
    default:
      return undefined;
  }
}

/** An address that means "all of them" is reached by loopback. */
function localUrl({ host, port }: Settings): string {
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}`;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
