import { Readable } from 'node:stream';
import type { ClickHouseSettings } from '@clickhouse/client';
import type { Logger } from '../../core/logger.js';
import {
  bytesOfRow,
  type Block,
  type ReadStore,
  type Row,
  type SinkStream,
  type StoredTenantRows,
  type Watermark,
} from '../read-store.js';
import type { ClickHouseEndpoint } from '../endpoint.js';
import { connect, ClickHouseConnection } from './connection.js';
import { refusesForMemory, refusesRows, statementError, unavailable } from './errors.js';
import { byWidth, encodeBlock, lesserThan, type JsonColumns, type Portion } from './row-binary.js';
import { nameIn, TableDefinitions, TABLES, type KeptDays, type TableName, type TableSet } from './table-definitions.js';
import { streamName, streamOf } from './watermark-streams.js';

export interface ClickHouseReadStoreOptions {
  /** Asked at every call: an embedded engine comes and goes; undefined while it is away. */
  readonly endpoint: () => ClickHouseEndpoint | undefined;
  /** Of the tables' definitions, `schemas/clickhouse`. */
  readonly schemaDirectory: string;
  /** A cluster of the server's configuration on whose servers the tables are replicated. */
  readonly cluster?: string | undefined;
  readonly keptDays?: KeptDays | undefined;
  /** Which set of the tables it writes and reads; unless given, the live one. The second one is made by who rebuilds. */
  readonly set?: TableSet;
  readonly logger: Logger;
  /** Of every call but `query`, whose deadline is the first byte. */
  readonly deadlineMs?: number;
  /** A row that the engine refuses in every form was left out. */
  readonly onRowRejected?: (table: Block['table'], reason: string) => void;
}

/** Rows of one block that may be left out before the block counts as refused for a reason that isn't theirs. */
const MAX_REJECTED = 16;
/** A statement takes about so much at most: its rows are in memory here, in the engine's answer to a retry, and in the engine. */
const MAX_INSERT_BYTES = 16 * 1024 * 1024;
/** Of one tenant's rows in a block; each row that is refused takes some ten, of a thousand. */
const MAX_HALVINGS = 64;
/** `async_insert=0`: an acknowledged block is in its table. `workload`: in the embedded engine, the places kept for the service. */
const SETTINGS = { async_insert: 0, workload: 'statefold', type_json_skip_duplicated_paths: 0 } as const;

/**
 * A block that is acknowledged is on the majority of the replicas. Equal blocks are written again: after rows were removed the log
 * gives the same ones, and would be believed to have them still.
 */
const REPLICATED = { insert_quorum: 'auto', insert_deduplicate: 0 } as const;

interface Rejection {
  readonly table: Block['table'];
  readonly reason: string;
}

/** The read store over ClickHouse's HTTP interface, for the embedded engine and for a server alike. */
export class ClickHouseReadStore implements ReadStore {
  readonly #options: ClickHouseReadStoreOptions;
  readonly #deadlineMs: number;
  readonly #connection: ClickHouseConnection;
  readonly #definitions: TableDefinitions;
  readonly #set: TableSet;
  readonly #inserts: ClickHouseSettings;
  #removed: (tenantId?: string) => Promise<void> = () => Promise.resolve();

  constructor(options: ClickHouseReadStoreOptions) {
    this.#options = options;
    this.#deadlineMs = options.deadlineMs ?? 30_000;
    this.#connection = new ClickHouseConnection({ endpoint: options.endpoint, deadlineMs: this.#deadlineMs });
    this.#set = options.set ?? 'live';
    const { schemaDirectory: directory, cluster, keptDays } = options;
    this.#definitions = new TableDefinitions({ directory, cluster, keptDays });
    this.#inserts = cluster === undefined ? SETTINGS : { ...SETTINGS, ...REPLICATED };
  }

  /** Calls `removed` when rows were removed, of one tenant or of all: what was made from them is to go too. Where it rejects, so does the removal. */
  onRemoved(removed: (tenantId?: string) => Promise<void>): void {
    this.#removed = removed;
  }

  async ensureSchema(): Promise<void> {
    // To make one of the second set that is gone would pass off its rows as being there: who rebuilds looks for all of them.
    if (this.#set === 'second') return;
    const connection = this.#connection;
    const endpoint = connection.endpoint();
    await connection.call('could not make its database', async (signal) => {
      // The database of a connection must exist, so this connection names none.
      const client = connect({ ...endpoint, database: undefined });
      try {
        await client.command({
          query: this.#definitions.createDatabase(),
          query_params: { name: endpoint.database },
          abort_signal: signal,
        });
      } finally {
        await client.close();
      }
    });
    for (const table of TABLES)
      await connection.run(`could not make its table ${table}`, { query: this.#definitions.create(table) });
    await this.#complete();
    await this.#keep();
  }

  /** Tables that were there may be of an earlier version. */
  async #complete(): Promise<void> {
    const what = 'can not use its tables';
    const columns = await this.#connection.rows<{ table: string; name: string; type: string }>(what, {
      query: 'SELECT table, name, type FROM system.columns WHERE database = currentDatabase()',
    });
    for (const table of TABLES) {
      const types = new Map(columns.filter((one) => one.table === table).map(({ name, type }) => [name, type]));
      for (const change of this.#missing(table, types)) {
        this.#options.logger.info({ table, change }, 'a table of the read store is brought to this version');
        await this.#connection.run(what, { query: change });
      }
    }
  }

  #missing(table: TableName, types: ReadonlyMap<string, string>): readonly string[] {
    try {
      return this.#definitions.missingColumns(table, types);
    } catch (error) {
      throw unavailable('can not use its tables', error);
    }
  }

  /** Of tables that were there the settings may have said something else. */
  async #keep(): Promise<void> {
    const what = 'could not tell for how long its tables keep rows';
    const found = await this.#connection.rows<{ name: string; engine_full: string }>(what, {
      query: 'SELECT name, engine_full FROM system.tables WHERE database = currentDatabase()',
    });
    for (const { name, engine_full: engine } of found) {
      const table = TABLES.find((one) => one === name);
      const change = table && this.#definitions.changeOfTtl(table, engine);
      if (change !== undefined) await this.#connection.run(what, { query: change });
    }
  }

  async insert(block: Block): Promise<void> {
    const rejections: Rejection[] = [];
    // What is refused of one is not to have others written again: until they are merged, analysts would count them twice.
    for (const portion of portionsOf(block))
      for (const one of await byWidth(portion)) await this.#insert(one, rejections, { left: MAX_HALVINGS });
    for (const { table, reason } of rejections) {
      this.#options.logger.error({ table, reason }, 'A row was left out of the read store: the engine refuses it');
      this.#options.onRowRejected?.(table, reason);
    }
  }

  /**
   * Parts refused rows by tenants, then halves them until the row that is refused stands alone; that one goes in without the JSON columns
   * that the engine refuses, or not at all. Of a tenant with many such rows the rest goes in without them, rather than one by one while
   * others wait.
   */
  async #insert(portion: Portion, rejections: Rejection[], halvings: { left: number }): Promise<void> {
    const { block } = portion;
    const of = (rows: readonly Row[]): Portion => ({ ...portion, block: { ...block, rows } as Block });
    const refusal = await this.#refusalOf(block, portion.json);
    if (refusal === undefined) return;
    const rows: readonly Row[] = block.rows;
    const tenants = new Set(rows.map(({ tenant }) => tenant));
    if (tenants.size > 1) {
      for (const one of tenants)
        await this.#insert(of(rows.filter(({ tenant }) => tenant === one)), rejections, { left: MAX_HALVINGS });
      return;
    }
    if (rows.length === 1) return this.#insertAlone(portion, rejections);
    if (halvings.left-- <= 0 && !refusesForMemory(refusal) && (await this.#refusalOfLess(portion)) === undefined)
      return;
    const half = Math.ceil(rows.length / 2);
    for (const some of [rows.slice(0, half), rows.slice(half)]) await this.#insert(of(some), rejections, halvings);
  }

  async #insertAlone(portion: Portion, rejections: Rejection[]): Promise<void> {
    const { table } = portion.block;
    const refusal = await this.#refusalOfLess(portion);
    if (refusal === undefined) return;
    if (refusesForMemory(refusal)) throw unavailable(`did not take a row of ${table}`, refusal);
    rejections.push({ table, reason: (refusal as Error).message.slice(0, 1_000) });
    if (rejections.length > MAX_REJECTED)
      throw unavailable(`refuses every row of ${table}; are its tables as the service made them?`, refusal);
  }

  /** Of the least that can be written of the rows; undefined: they are in. @throws StatefoldError UNAVAILABLE */
  async #refusalOfLess({ block, json }: Portion): Promise<unknown> {
    let refusal: unknown;
    for (const less of lesserThan(json)) {
      refusal = await this.#refusalOf(block, less);
      if (refusal === undefined) break;
    }
    return refusal;
  }

  /** Why the engine refuses the rows themselves; undefined: they are in. @throws StatefoldError UNAVAILABLE */
  async #refusalOf(block: Block, json: JsonColumns): Promise<unknown> {
    try {
      await this.#write(block, json);
      return undefined;
    } catch (error) {
      if (!refusesRows(error)) throw unavailable(`did not take a block of ${block.table}`, error);
      return error;
    }
  }

  async #write(block: Block, json: JsonColumns): Promise<void> {
    const { columns, bytes } = await encodeBlock(block, json);
    const signal = AbortSignal.timeout(this.#deadlineMs);
    const { stream } = await this.#connection.client().exec({
      query: `INSERT INTO ${this.#name(block.table)} (${columns.join(', ')}) FORMAT RowBinary`,
      values: Readable.from([bytes], { objectMode: false }),
      clickhouse_settings: {
        ...this.#inserts,
        ...(json === 'derived' ? {} : { input_format_binary_read_json_as_string: 1 as const }),
      },
      abort_signal: signal,
    });
    for await (const _ of stream);
  }

  async watermarks(tenantId: string, incarnation?: string): Promise<Readonly<Record<SinkStream, number>>> {
    const rows = await this.#connection.rows<{ stream: string; log_offset: string | number }>(
      'did not tell its watermarks',
      {
        query: `SELECT stream, max(log_offset) AS log_offset FROM ${this.#name('watermarks')} WHERE tenant = {tenant:String} GROUP BY stream`,
        parameters: { tenant: tenantId },
      },
    );
    const offsets = new Map(rows.map((row) => [row.stream, Number(row.log_offset)]));
    const at = (stream: SinkStream): number => offsets.get(streamName(stream, incarnation)) ?? 0;
    return { events: at('events'), states: at('states'), changes: at('changes') };
  }

  async tenants(): Promise<readonly StoredTenantRows[]> {
    const rows = await this.#connection.rows<{ tenant: string; streams: string[] }>('did not tell whose rows it has', {
      query: `SELECT tenant, groupUniqArray(stream) AS streams FROM ${this.#name('watermarks')} GROUP BY tenant`,
    });
    return rows.flatMap(({ tenant, streams }) => {
      const incarnations = new Set(
        streams.flatMap((name) => streamOf(name) ?? []).map(({ incarnation }) => incarnation),
      );
      return [...incarnations].map((incarnation) => ({ tenantId: tenant, incarnation }));
    });
  }

  async setWatermarks(watermarks: readonly Watermark[]): Promise<void> {
    if (watermarks.length === 0) return;
    await this.#connection.call('did not take a watermark', (signal, client) =>
      client.insert({
        table: this.#name('watermarks'),
        columns: ['tenant', 'stream', 'log_offset'],
        values: watermarks.map(({ tenantId, incarnation, stream, offset }) => ({
          tenant: tenantId,
          stream: streamName(stream, incarnation),
          log_offset: offset,
        })),
        format: 'JSONEachRow',
        clickhouse_settings: this.#inserts,
        abort_signal: signal,
      }),
    );
  }

  async query(sql: string, format: string): Promise<NodeJS.ReadableStream> {
    const controller = new AbortController();
    const timer = setTimeout(
      () => controller.abort(new Error(`no answer within ${this.#deadlineMs} ms`)),
      this.#deadlineMs,
    );
    try {
      // A parameter of the HTTP interface rather than a clause, so that the statement's own FORMAT wins.
      const settings = { default_format: format } as Record<string, string>;
      const { stream } = await this.#connection.client().exec({
        query: sql,
        clickhouse_settings: settings,
        abort_signal: controller.signal,
      });
      return stream;
    } catch (error) {
      throw statementError(error);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Watermarks go first: whatever happens in between, the log fills again what was dropped. */
  async reset(tenantId?: string): Promise<void> {
    for (const table of TABLES) {
      const name = this.#name(table);
      await this.#connection.run(
        `could not drop the rows of ${name}`,
        tenantId === undefined
          ? { query: `TRUNCATE TABLE ${name}` }
          : {
              query: `DELETE FROM ${name} WHERE tenant = {tenant:String}`,
              parameters: { tenant: tenantId },
              settings: { lightweight_deletes_sync: '2' },
            },
      );
    }
    await this.#removed(tenantId);
  }

  async dropProjection(tenantId: string, projectionId: string): Promise<void> {
    for (const table of ['projection_states', 'notifications'] as const)
      await this.#connection.run(`could not drop the rows of a projection from ${this.#name(table)}`, {
        query: `DELETE FROM ${this.#name(table)} WHERE tenant = {tenant:String} AND projection_id = {projection:String}`,
        parameters: { tenant: tenantId, projection: projectionId },
        settings: { lightweight_deletes_sync: '2' },
      });
    await this.#removed(tenantId);
  }

  async eraseAggregates(tenantId: string, aggregateIds: readonly string[]): Promise<void> {
    for (const table of ['events', 'aggregate_states'] as const)
      await this.#connection.run(`could not take the rows of erased aggregates out of ${this.#name(table)}`, {
        // Not a lightweight delete: that only hides rows, and leaves them in their parts until those are merged.
        query: `ALTER TABLE ${this.#name(table)} DELETE WHERE tenant = {tenant:String} AND aggregate_id IN {aggregates:Array(String)}`,
        parameters: { tenant: tenantId, aggregates: [...aggregateIds] },
        settings: { mutations_sync: '2' },
      });
    await this.#removed(tenantId);
  }

  async ping(): Promise<boolean> {
    try {
      const client = this.#connection.client();
      const { success } = await client.ping({ select: true, abort_signal: AbortSignal.timeout(this.#deadlineMs) });
      return success;
    } catch {
      return false;
    }
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  #name(table: TableName): string {
    return nameIn(this.#set, table);
  }
}

function* portionsOf(block: Block): Generator<Block> {
  const rows: readonly Row[] = block.rows;
  let [first, bytes] = [0, 0];
  for (let i = 0; i < rows.length; i++) {
    const own = bytesOfRow(rows[i] as Row);
    if (i > first && bytes + own > MAX_INSERT_BYTES) {
      yield { ...block, rows: rows.slice(first, i) } as Block;
      [first, bytes] = [i, 0];
    }
    bytes += own;
  }
  if (first < rows.length) yield first === 0 ? block : ({ ...block, rows: rows.slice(first) } as Block);
}
