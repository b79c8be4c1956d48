import { randomUUID } from 'node:crypto';
import { ClickHouseLogLevel, createClient, type ClickHouseClient } from '@clickhouse/client';
import { StatefoldError } from '../../core/errors.js';
import type { ClickHouseEndpoint } from '../endpoint.js';
import { quoted } from '../sql-text.js';
import { unavailable } from './errors.js';

export interface ClickHouseConnectionOptions {
  /** Asked at every call: an embedded engine comes and goes; undefined while it is away. */
  readonly endpoint: () => ClickHouseEndpoint | undefined;
  /** Of every call. */
  readonly deadlineMs: number;
  /** How long the engine may say nothing in the middle of a call, whatever its deadline. */
  readonly silenceMs?: number;
}

export interface Statement {
  readonly query: string;
  readonly parameters?: Readonly<Record<string, unknown>>;
  readonly settings?: Readonly<Record<string, string>>;
  /** Of one that may take long: says when nobody waits for it any more. Then, and when its answer is lost, the engine is told to end it. */
  readonly signal?: AbortSignal | undefined;
}

/** `workload`: in the embedded engine, the places kept for the service. */
const WORKLOAD = { workload: 'statefold' } as const;

/** Statements of the service itself, over ClickHouse's HTTP interface. */
export class ClickHouseConnection {
  readonly #options: ClickHouseConnectionOptions;
  readonly #closing = new AbortController();
  #client: { readonly endpoint: ClickHouseEndpoint; readonly client: ClickHouseClient } | undefined;

  constructor(options: ClickHouseConnectionOptions) {
    this.#options = options;
  }

  /** @throws StatefoldError UNAVAILABLE while the engine is away. */
  endpoint(): ClickHouseEndpoint {
    const endpoint = this.#options.endpoint();
    if (endpoint === undefined) throw new StatefoldError('UNAVAILABLE', 'The read store is away');
    return endpoint;
  }

  client(): ClickHouseClient {
    const endpoint = this.endpoint();
    const known = this.#client;
    if (known !== undefined && known.endpoint.url === endpoint.url && known.endpoint.password === endpoint.password)
      return known.client;
    void known?.client.close();
    const client = connect(endpoint, this.#options.silenceMs);
    this.#client = { endpoint, client };
    return client;
  }

  /** @throws StatefoldError UNAVAILABLE, which says `what` the read store did not do */
  async call<T>(
    what: string,
    call: (signal: AbortSignal, client: ClickHouseClient) => Promise<T>,
    deadlineMs = this.#options.deadlineMs,
  ): Promise<T> {
    try {
      const signal = AbortSignal.any([AbortSignal.timeout(deadlineMs), this.#closing.signal]);
      return await call(signal, this.client());
    } catch (error) {
      throw error instanceof StatefoldError ? error : unavailable(what, error);
    }
  }

  /** One statement without an answer. */
  async run(what: string, statement: Statement, deadlineMs?: number): Promise<unknown> {
    const { query, parameters, settings, signal: unwanted } = statement;
    const id = unwanted && randomUUID();
    try {
      return await this.call(
        what,
        (signal, client) => {
          unwanted?.throwIfAborted();
          return client.command({
            query,
            clickhouse_settings: { ...WORKLOAD, ...settings },
            abort_signal: unwanted === undefined ? signal : AbortSignal.any([signal, unwanted]),
            ...(parameters && { query_params: { ...parameters } }),
            ...(id !== undefined && { query_id: id }),
          });
        },
        deadlineMs,
      );
    } catch (error) {
      if (id !== undefined) await this.#kill(id);
      throw error;
    }
  }

  /** A server goes on with a statement that writes when its client is gone. Also while this connection is being closed. */
  async #kill(queryId: string): Promise<void> {
    const endpoint = this.#options.endpoint();
    if (endpoint === undefined) return;
    const client = connect(endpoint);
    try {
      // The embedded engine has it at the beginning of a statement's comment.
      const query = `KILL QUERY WHERE query_id = ${quoted(queryId)} OR startsWith(Settings['log_comment'], ${quoted(queryId)}) ASYNC`;
      await client.command({ query, clickhouse_settings: WORKLOAD, abort_signal: AbortSignal.timeout(KILL_MS) });
    } catch {
      // One that is away, or refuses, comes to the end by itself.
    } finally {
      await client.close();
    }
  }

  rows<T>(what: string, { query, parameters, settings }: Statement): Promise<T[]> {
    return this.call(what, async (signal, client) => {
      const found = await client.query({
        query,
        format: 'JSONEachRow',
        clickhouse_settings: { ...WORKLOAD, ...settings },
        abort_signal: signal,
        ...(parameters && { query_params: { ...parameters } }),
      });
      return found.json<T>();
    });
  }

  /** Statements under way are given up. */
  async close(): Promise<void> {
    this.#closing.abort(new Error('its service ends'));
    await this.#client?.client.close();
    this.#client = undefined;
  }
}

const SILENCE_MS = 300_000;
const KILL_MS = 5_000;

/** The client's own timeout is for silence in a long answer; calls have deadlines of their own. */
export const connect = (
  endpoint: Omit<ClickHouseEndpoint, 'database'> & { readonly database: string | undefined },
  silenceMs = SILENCE_MS,
): ClickHouseClient =>
  createClient({
    url: endpoint.url,
    username: endpoint.user,
    password: endpoint.password,
    ...(endpoint.database === undefined ? {} : { database: endpoint.database }),
    application: 'statefold',
    request_timeout: silenceMs,
    log: { level: ClickHouseLogLevel.OFF },
  });
