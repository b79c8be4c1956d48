import { hash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import type { StatementContext } from './engine.js';
import { CODE, exception } from './http-answer.js';

export interface Credentials {
  readonly user: string;
  readonly password: string;
}

/** Parameters of the HTTP interface itself; every other one is a setting of the engine. */
const RESERVED = new Set([
  'query',
  'database',
  'default_format',
  'query_id',
  'user',
  'password',
  'compress',
  'decompress',
  'quota_key',
  'session_id',
  'session_timeout',
  'session_check',
  'close_session',
  'role',
  'buffer_size',
  'wait_end_of_query',
  'client_protocol_version',
  'stacktrace',
  'enable_http_compression',
  'log_comment',
]);
const NAME = /^[A-Za-z_][A-Za-z0-9_.]*$/;

export interface RequestParameters extends StatementContext {
  readonly query: string;
  readonly defaultFormat: string;
  readonly compressAnswer: boolean;
}

/** @throws EngineError for what this interface doesn't do, rather than an answer that the client would misread. */
export function readParameters(request: IncomingMessage, url: URL): RequestParameters {
  const search = url.searchParams;
  const settings = new Map<string, string>();
  const parameters = new Map<string, string>();
  for (const [name, value] of search) {
    if (RESERVED.has(name)) continue;
    if (!NAME.test(name)) throw exception(115, `Unknown setting '${name.slice(0, 100)}'`, 'UNKNOWN_SETTING');
    if (name.startsWith('param_')) parameters.set(name.slice('param_'.length), value);
    else settings.set(name, value);
  }
  if (search.get('compress') === '1' || search.get('decompress') === '1')
    throw exception(
      CODE.notImplemented,
      "Native compression (compress=1, decompress=1) isn't offered here: use HTTP compression (enable_http_compression=1)",
      'NOT_IMPLEMENTED',
    );
  // As a ClickHouse server does: a GET may change settings, but no data.
  if (request.method !== 'POST' && !settings.has('readonly')) settings.set('readonly', '2');
  return {
    query: search.get('query') ?? '',
    database: search.get('database') ?? single(request, 'x-clickhouse-database'),
    queryId: search.get('query_id') ?? undefined,
    defaultFormat: search.get('default_format') ?? single(request, 'x-clickhouse-format') ?? 'TabSeparated',
    compressAnswer: search.get('enable_http_compression') === '1',
    settings,
    parameters,
  };
}

/** @throws EngineError 194 without credentials, 516 with wrong ones. */
export function authenticate(request: IncomingMessage, url: URL, owner: Credentials): void {
  const given = credentials(request, url);
  if (given === undefined)
    throw exception(
      CODE.requiredPassword,
      'Authentication is required: user and password are missing',
      'REQUIRED_PASSWORD',
    );
  if (!same(given.user, owner.user) || !same(given.password, owner.password))
    throw exception(
      CODE.authenticationFailed,
      'Authentication failed: password is incorrect, or there is no user with such name',
      'AUTHENTICATION_FAILED',
    );
}

function credentials(request: IncomingMessage, url: URL): Credentials | undefined {
  const key = single(request, 'x-clickhouse-key');
  const user = single(request, 'x-clickhouse-user');
  if (key !== undefined || user !== undefined) return { user: user ?? 'default', password: key ?? '' };
  const basic = /^Basic\s+(\S+)$/i.exec(request.headers.authorization ?? '')?.[1];
  if (basic !== undefined) {
    const text = Buffer.from(basic, 'base64').toString('utf8');
    const colon = text.indexOf(':');
    return colon < 0 ? { user: text, password: '' } : { user: text.slice(0, colon), password: text.slice(colon + 1) };
  }
  const password = url.searchParams.get('password');
  const named = url.searchParams.get('user');
  return password === null && named === null ? undefined : { user: named ?? 'default', password: password ?? '' };
}

/** Compared as digests, so that neither length nor prefix shows in the time it takes. */
const same = (a: string, b: string): boolean =>
  timingSafeEqual(hash('sha256', a, 'buffer'), hash('sha256', b, 'buffer'));

function single(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name];
  return Array.isArray(value) ? value[0] : value;
}

/** The body, inflated when the client deflated it. */
export function bodyOf(request: IncomingMessage): Readable {
  const encoding = single(request, 'content-encoding') ?? 'identity';
  if (encoding === 'identity' || encoding === '') return request;
  const inflate =
    encoding === 'gzip'
      ? createGunzip()
      : encoding === 'deflate'
        ? createInflate()
        : encoding === 'br'
          ? createBrotliDecompress()
          : undefined;
  if (inflate === undefined)
    throw exception(
      CODE.notImplemented,
      `Content-Encoding ${encoding.slice(0, 40)} isn't offered here: gzip, deflate and br are`,
      'NOT_IMPLEMENTED',
    );
  request.on('error', (error) => inflate.destroy(error));
  return request.pipe(inflate);
}
