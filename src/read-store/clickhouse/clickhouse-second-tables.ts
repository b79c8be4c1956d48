import { DAY_MS } from '../../core/clock.js';
import { StatefoldError } from '../../core/errors.js';
import type { Lagging, RebuildPhase, RebuildRecord, SecondTables } from '../second-tables.js';
import type { ClickHouseConnection } from './connection.js';
import { lacksDatabase } from './errors.js';
import { quoted } from '../sql-text.js';
import { nameIn, TABLES, type TableDefinitions, type TableName } from './table-definitions.js';
import { streamOf } from './watermark-streams.js';

export interface ClickHouseSecondTablesOptions {
  readonly connection: ClickHouseConnection;
  readonly definitions: TableDefinitions;
}

/** What a table says of itself in its comment. */
interface Mark {
  /** One more than that of the live table whose place it is to take: so a former table is told from a new one. */
  readonly generation: number;
  readonly record?: RebuildRecord;
}

type Marks = ReadonlyMap<string, Mark>;

/** The watermarks are exchanged last, so it is their table that has the record. */
const OF_RECORD = 'watermarks' satisfies TableName;
const SWAP_ORDER: readonly TableName[] = [...TABLES.filter((table) => table !== OF_RECORD), OF_RECORD];
/** For what goes through all rows of tenants, be they billions: what is broken off is begun again. */
export const COPY_MS = DAY_MS;

/** The second set as tables beside the live ones, in the same database of one server or of the embedded engine. */
export class ClickHouseSecondTables implements SecondTables {
  readonly #options: ClickHouseSecondTablesOptions;

  constructor(options: ClickHouseSecondTablesOptions) {
    this.#options = options;
  }

  async find(): Promise<RebuildRecord | undefined> {
    const marks = await this.#marks();
    const record = marks.get(nameIn('second', OF_RECORD))?.record;
    if (record === undefined || !isNew(marks, OF_RECORD)) return undefined;
    // While they are exchanged, some of those that are second are former ones.
    if (record.phase === 'swapping') return record;
    if (!TABLES.every((table) => isNew(marks, table))) return undefined;
    return (await this.#areOfThisVersion()) ? record : { ...record, phase: 'preparing' };
  }

  async #areOfThisVersion(): Promise<boolean> {
    const { connection, definitions } = this.#options;
    const columns = await connection.rows<{ table: string; name: string }>('did not tell the columns of its tables', {
      query: 'SELECT table, name FROM system.columns WHERE database = currentDatabase()',
    });
    const there = new Set(columns.map(({ table, name }) => `${table}.${name}`));
    return TABLES.every((table) =>
      definitions.columnNames(table).every((name) => there.has(`${nameIn('second', table)}.${name}`)),
    );
  }

  async make(record: RebuildRecord): Promise<void> {
    await this.drop();
    const marks = await this.#marks();
    const generation = Math.max(0, ...TABLES.map((table) => marks.get(table)?.generation ?? 0)) + 1;
    // The one with the record comes last: without it there is no set.
    for (const table of SWAP_ORDER)
      await this.#run(
        `could not make the table ${nameIn('second', table)}`,
        this.#options.definitions.createSecond(
          table,
          JSON.stringify(table === OF_RECORD ? { generation, record } : { generation }),
        ),
      );
  }

  async mark(record: RebuildRecord): Promise<void> {
    const name = nameIn('second', OF_RECORD);
    const generation = (await this.#marks()).get(name)?.generation;
    if (generation === undefined) throw gone(name);
    await this.#run(
      'could not note how far its rebuild is',
      `ALTER TABLE ${name} MODIFY COMMENT ${quoted(JSON.stringify({ generation, record } satisfies Mark))}`,
    );
  }

  async copy(
    whose: { readonly of: readonly string[] } | { readonly butOf: readonly string[] },
    signal?: AbortSignal,
  ): Promise<void> {
    const { connection, definitions } = this.#options;
    const [are, tenants] = 'of' in whose ? ['IN', whose.of] : ['NOT IN', whose.butOf];
    const where = `tenant ${are} {tenants:Array(String)}`;
    const parameters = { tenants: [...tenants] };
    for (const table of TABLES) {
      const query = `DELETE FROM ${nameIn('second', table)} WHERE ${where}`;
      const settings = { lightweight_deletes_sync: '2' };
      await connection.run(
        `could not drop rows of ${nameIn('second', table)}`,
        { query, parameters, settings, signal },
        COPY_MS,
      );
    }
    // Not the parts as they are: rows keep in them the numbers of blocks of the former table, which copies for SQL go by.
    for (const table of SWAP_ORDER) {
      const columns = definitions.columnNames(table).join(', ');
      const query = `INSERT INTO ${nameIn('second', table)} (${columns}) SELECT ${columns} FROM ${table} WHERE ${where} SETTINGS max_threads = 1, max_insert_threads = 1`;
      await connection.run(`could not copy rows of ${table}`, { query, parameters, signal }, COPY_MS);
    }
  }

  async lagging(): Promise<readonly Lagging[]> {
    const rows = await this.#options.connection.rows<{ tenant: string; stream: string }>(
      'did not tell its watermarks',
      {
        query: `SELECT tenant, stream FROM (SELECT tenant, stream, log_offset AS live, 0 AS second FROM ${nameIn('live', OF_RECORD)} UNION ALL SELECT tenant, stream, 0 AS live, log_offset AS second FROM ${nameIn('second', OF_RECORD)}) GROUP BY tenant, stream HAVING max(live) > max(second)`,
      },
    );
    return rows.flatMap(({ tenant, stream }) => {
      const named = streamOf(stream);
      return named === undefined ? [] : [{ tenantId: tenant, ...named }];
    });
  }

  async exchange(): Promise<boolean> {
    const marks = await this.#marks();
    const next = SWAP_ORDER.find((table) => isNew(marks, table));
    if (next !== undefined) await this.#exchange(next, marks);
    return next !== undefined;
  }

  async drop(): Promise<void> {
    const names = [...(await this.#marks()).keys()];
    // The one with the record goes first: without it there is no set, whatever else is left.
    for (const set of ['second', 'former'] as const)
      for (const table of TABLES)
        if (names.includes(nameIn(set, table)))
          await this.#options.connection.run(
            `could not drop ${nameIn(set, table)}`,
            // Not SYNC, which waits for analysts that read a former table.
            { query: `DROP TABLE IF EXISTS ${nameIn(set, table)}` },
          );
  }

  close(): Promise<void> {
    return this.#options.connection.close();
  }

  /** Databases of other engines than Atomic know no exchange; there a kill between the two names leaves none, and the table is renamed at the start. */
  async #exchange(table: TableName, marks: Marks): Promise<void> {
    const what = `could not put the new ${table} in its place`;
    const second = nameIn('second', table);
    if (!marks.has(table)) return void (await this.#run(what, `RENAME TABLE ${second} TO ${table}`));
    if (await this.#canExchange()) return void (await this.#run(what, `EXCHANGE TABLES ${table} AND ${second}`));
    const former = nameIn('former', table);
    await this.#run(what, `DROP TABLE IF EXISTS ${former} SYNC`);
    await this.#run(what, `RENAME TABLE ${table} TO ${former}, ${second} TO ${table}`);
  }

  async #canExchange(): Promise<boolean> {
    const [database] = await this.#options.connection.rows<{ engine: string }>('did not tell of its database', {
      query: 'SELECT engine FROM system.databases WHERE name = currentDatabase()',
    });
    return database?.engine !== 'Ordinary';
  }

  /** Of all tables of the read store, by name. */
  async #marks(): Promise<Marks> {
    const tables = await this.#options.connection
      .rows<{ name: string; comment: string }>('did not tell its tables', {
        query: 'SELECT name, comment FROM system.tables WHERE database = currentDatabase()',
      })
      .catch((error: unknown) => {
        // Before the first block there is no database.
        if (error instanceof Error && lacksDatabase(error.cause)) return [];
        throw error;
      });
    const ours = new Set(
      TABLES.flatMap((table) => (['live', 'second', 'former'] as const).map((set) => nameIn(set, table))),
    );
    return new Map(tables.filter(({ name }) => ours.has(name)).map(({ name, comment }) => [name, markIn(comment)]));
  }

  #run(what: string, query: string): Promise<unknown> {
    return this.#options.connection.run(what, { query });
  }
}

const isNew = (marks: Marks, table: TableName): boolean =>
  (marks.get(nameIn('second', table))?.generation ?? -1) > (marks.get(table)?.generation ?? 0);

const gone = (name: string): StatefoldError =>
  new StatefoldError('UNAVAILABLE', `The read store's table ${name} is gone, which its rebuild had filled`);

const PHASES: readonly RebuildPhase[] = ['preparing', 'filling', 'swapping'];

/** Of any table: one that somebody gave another comment is as old as one without. */
function markIn(comment: string): Mark {
  try {
    const { generation, record } = JSON.parse(comment) as Partial<Mark>;
    if (typeof generation !== 'number') return { generation: 0 };
    return record !== undefined && PHASES.includes(record.phase) ? { generation, record } : { generation };
  } catch {
    return { generation: 0 };
  }
}
