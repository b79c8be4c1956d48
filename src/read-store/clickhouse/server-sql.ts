import { createHmac } from 'node:crypto';
import { Readable } from 'node:stream';
import { StatefoldError } from '../../core/errors.js';
import type { ClickHouseEndpoint } from '../endpoint.js';
import type { SqlAnswer, SqlLimits, SqlStatement, TenantSql } from '../tenant-sql.js';
import { dropStatements, fixedSettings, openStatements, statementUserOf } from './account-statements.js';
import { post, reached, refusedBy, runAsOwner } from './owner-statements.js';

export interface ServerSqlOptions {
  readonly endpoint: () => ClickHouseEndpoint | undefined;
  /** Makes the tables that are missing. @throws StatefoldError UNAVAILABLE */
  readonly ensureSchema: () => Promise<void>;
  readonly limits: SqlLimits;
  /** A cluster of the server's configuration: users are made on all its servers. */
  readonly cluster?: string | undefined;
  /** The passwords of the tenants' users are made of it: the same in every process. */
  readonly secret: string;
  /** Whether there is such a tenant, as of the call or later. */
  readonly isTenant: (tenantId: string) => Promise<boolean>;
}

const GRACE_MS = 5_000;
/** ClickHouse's code of a user that is not there, or has another password. */
const NO_SUCH_USER = '516';

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
    const endpoint = reached(this.#options.endpoint);
    await this.#user(endpoint, tenantId);
    const target = new URL(endpoint.url);
    target.search = new URLSearchParams({
      database: endpoint.database,
      default_format: format,
      ...Object.fromEntries([...parameters].map(([name, value]) => [`param_${name}`, value])),
    }).toString();
    const asker = { user: statementUserOf(endpoint.database, tenantId), password: this.#passwordOf(tenantId) };
    const late = AbortSignal.timeout(this.#options.limits.seconds * 1000 + GRACE_MS);
    const ask = (): Promise<Response> => post(target, asker, query, AbortSignal.any([signal, late]));
    let response = await ask();
    if (response.headers.get('x-clickhouse-exception-code') === NO_SUCH_USER) {
      // Dropped by whoever saw a former tenant of the id deleted, or by the server's owner.
      await response.body?.cancel();
      this.#users.delete(tenantId);
      await this.#user(endpoint, tenantId);
      response = await ask();
    }
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

  async #makeUser(endpoint: ClickHouseEndpoint, tenantId: string): Promise<void> {
    const { ensureSchema, cluster, limits, isTenant } = this.#options;
    await ensureSchema();
    const { database } = endpoint;
    const user = {
      name: statementUserOf(database, tenantId),
      tenantId,
      secret: { password: this.#passwordOf(tenantId) },
    };
    await runAsOwner(endpoint, openStatements({ database, cluster }, user, fixedSettings(limits)));
    // One that was deleted while it asked: its user may have been dropped before this one was made, and nobody would look again.
    if (await isTenant(tenantId)) return;
    await runAsOwner(endpoint, dropStatements({ database, cluster }, user.name));
    throw new StatefoldError('NOT_FOUND', `there is no tenant '${tenantId}'`);
  }

  #passwordOf(tenantId: string): string {
    return createHmac('sha256', this.#options.secret).update(`sql of ${tenantId}`).digest('base64url');
  }
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
