import { createHmac } from 'node:crypto';
import { Readable } from 'node:stream';
import { StatefoldError } from '../../core/errors.js';
import type { ClickHouseEndpoint } from '../endpoint.js';
import {
  settingsOf,
  SqlRefusedError,
  type SqlAnswer,
  type SqlLimits,
  type SqlStatement,
  type TenantSql,
} from '../tenant-sql.js';

export interface ServerSqlOptions {
  readonly endpoint: () => ClickHouseEndpoint | undefined;
  /** Makes the tables that are missing. @throws StatefoldError UNAVAILABLE */
  readonly ensureSchema: () => Promise<void>;
  readonly limits: SqlLimits;
  /** The passwords of the tenants' users are made of it: the same in every process. */
  readonly secret: string;
}

/** What a tenant sees of the database. */
const TABLES = ['events', 'aggregate_states', 'projection_states', 'notifications'] as const;
const GRACE_MS = 5_000;
const NO_ACCESS = 497;
const ACCESS_STORAGE_READONLY = 495;
const NO_STORAGE = 514;

/**
 * Tenants' SQL on a ClickHouse server: each tenant is a user there, who may read the tables and nothing else, and for whom row
 * policies leave that tenant's rows. Limits are settings of the user that it can't change.
 */
export class ServerSql implements TenantSql {
  readonly #options: ServerSqlOptions;
  /** Users that this process has seen to. */
  readonly #users = new Map<string, Promise<void>>();

  constructor(options: ServerSqlOptions) {
    this.#options = options;
  }

  async query(tenantId: string, { query, format, parameters }: SqlStatement, signal: AbortSignal): Promise<SqlAnswer> {
    const endpoint = this.#options.endpoint();
    if (endpoint === undefined) throw new StatefoldError('UNAVAILABLE', 'The read store is away');
    await this.#user(endpoint, tenantId);
    const target = new URL(endpoint.url);
    target.search = new URLSearchParams({
      database: endpoint.database,
      default_format: format,
      ...Object.fromEntries([...parameters].map(([name, value]) => [`param_${name}`, value])),
    }).toString();
    const response = await this.#post(
      target,
      userOf(endpoint.database, tenantId),
      this.#passwordOf(tenantId),
      query,
      signal,
    );
    if (!response.ok) throw refusedBy(response, await response.text());
    const tag = response.headers.get('x-clickhouse-exception-tag');
    return {
      contentType: response.headers.get('content-type') ?? 'text/plain; charset=UTF-8',
      format: response.headers.get('x-clickhouse-format') ?? format,
      chunks: chunksOf(response, tag === null ? undefined : Buffer.from(`\r\n__exception__\r\n${tag}\r\n`)),
    };
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  #user(endpoint: ClickHouseEndpoint, tenantId: string): Promise<void> {
    const known = this.#users.get(tenantId);
    if (known !== undefined) return known;
    const made = this.#makeUser(endpoint, tenantId);
    this.#users.set(tenantId, made);
    made.catch(() => this.#users.delete(tenantId));
    return made;
  }

  /** Policies and rights come before the password that opens them. */
  async #makeUser(endpoint: ClickHouseEndpoint, tenantId: string): Promise<void> {
    await this.#options.ensureSchema();
    const statements = accountStatements(endpoint.database, tenantId, this.#passwordOf(tenantId), this.#options.limits);
    for (const sql of statements) {
      const response = await this.#post(
        new URL(endpoint.url),
        endpoint.user,
        endpoint.password,
        sql,
        AbortSignal.timeout(30_000),
      );
      const text = await response.text();
      if (response.ok) continue;
      const { engineCode, message } = refusedBy(response, text);
      if ([NO_ACCESS, ACCESS_STORAGE_READONLY, NO_STORAGE].includes(engineCode))
        throw new StatefoldError(
          'SQL_NOT_ISOLATED',
          `SQL of tenants needs a user and row policies for each on the ClickHouse server, which its user ${endpoint.user} may not make: grant it CREATE USER, CREATE ROW POLICY, ALTER USER and the tables WITH GRANT OPTION. ClickHouse says: ${message.slice(0, 300)}`,
        );
      throw new StatefoldError(
        'UNAVAILABLE',
        `The read store could not make the user of the tenant: ${message.slice(0, 500)}`,
      );
    }
  }

  async #post(target: URL, user: string, password: string, sql: string, signal: AbortSignal): Promise<Response> {
    const late = AbortSignal.timeout(this.#options.limits.seconds * 1000 + GRACE_MS);
    try {
      return await fetch(target, {
        method: 'POST',
        body: sql,
        headers: {
          'X-ClickHouse-User': user,
          'X-ClickHouse-Key': password,
          'Content-Type': 'text/plain; charset=utf-8',
        },
        signal: AbortSignal.any([signal, late]),
      });
    } catch (error) {
      throw new StatefoldError('UNAVAILABLE', 'The read store gave no answer', { cause: error });
    }
  }

  #passwordOf(tenantId: string): string {
    return createHmac('sha256', this.#options.secret).update(`sql of ${tenantId}`).digest('base64url');
  }
}

/** One database may hold the tables of several services. */
const userOf = (database: string, tenantId: string): string => `${database}_tenant_${tenantId}`;

/**
 * What makes an account that sees one tenant's rows: without rights first, then its policies, then the right to read. A permissive
 * policy gives it the rows, a restrictive one holds whatever other policies of the server would give it besides.
 */
export function accountStatements(database: string, tenantId: string, password: string, limits: SqlLimits): string[] {
  const name = identifier(userOf(database, tenantId));
  const settings = Object.entries(settingsOf(limits))
    .map(([setting, value]) => `${setting} = ${typeof value === 'number' ? value : quoted(value)} CONST`)
    .join(', ');
  const secret = `IDENTIFIED WITH sha256_password BY ${quoted(password)}`;
  return [
    `CREATE USER IF NOT EXISTS ${name} ${secret} HOST NONE`,
    `REVOKE ALL ON *.* FROM ${name}`,
    ...TABLES.flatMap((table) =>
      ['PERMISSIVE', 'RESTRICTIVE'].map(
        (kind) =>
          `CREATE ROW POLICY OR REPLACE ${identifier(`${userOf(database, tenantId)}_${kind.toLowerCase()}`)} ON ${identifier(database)}.${table} FOR SELECT USING tenant = ${quoted(tenantId)} AS ${kind} TO ${name}`,
      ),
    ),
    ...TABLES.map((table) => `GRANT SELECT ON ${identifier(database)}.${table} TO ${name}`),
    `ALTER USER ${name} ${secret} HOST ANY SETTINGS ${settings}`,
  ];
}

function refusedBy(response: Response, text: string): SqlRefusedError {
  const code = Number(response.headers.get('x-clickhouse-exception-code') ?? /Code: (\d+)\./.exec(text)?.[1] ?? 0);
  return new SqlRefusedError(code, text.replace(/ \(version [^)]*\)\s*$/, '').trim());
}

/** The server ends an answer that fails halfway with a block behind the marker: it is thrown in place of it. */
async function* chunksOf(response: Response, marker: Buffer | undefined): AsyncGenerator<Buffer> {
  if (response.body === null) return;
  let held: Buffer = Buffer.alloc(0);
  let failure: Buffer | undefined;
  try {
    for await (const chunk of Readable.fromWeb(response.body)) {
      if (failure !== undefined) {
        failure = Buffer.concat([failure, chunk as Buffer]);
        continue;
      }
      held = Buffer.concat([held, chunk as Buffer]);
      const at = marker === undefined ? -1 : held.indexOf(marker);
      if (at >= 0) {
        failure = held.subarray(at + (marker?.length ?? 0));
        held = held.subarray(0, at);
      }
      const upTo = at >= 0 ? at : Math.max(0, held.length - (marker?.length ?? 1) + 1);
      if (upTo > 0) yield held.subarray(0, upTo);
      held = held.subarray(upTo);
    }
  } catch (error) {
    if (failure === undefined)
      throw new StatefoldError('UNAVAILABLE', 'The read store broke off its answer', { cause: error });
  }
  if (failure !== undefined)
    throw refusedBy(response, failure.toString('utf8').replace(/\r?\n?\d+ \S+\r\n__exception__\r\n$/, ''));
  if (held.length > 0) yield held;
}

const quoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
const identifier = (text: string): string => `\`${text.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
