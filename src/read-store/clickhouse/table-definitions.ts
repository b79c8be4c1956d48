import { quoted } from '../sql-text.js';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** In the order in which rows are removed: without a watermark, the log fills again what was dropped. */
export const TABLES = ['watermarks', 'events', 'aggregate_states', 'projection_states', 'notifications'] as const;
export type TableName = (typeof TABLES)[number];

/** `second`: what a rebuild fills beside the live tables; `former`: what it took the place of, where that needs a name of its own. */
export type TableSet = 'live' | 'second' | 'former';

const SUFFIXES: Readonly<Record<TableSet, string>> = { live: '', second: '__rebuild', former: '__former' };

export const nameIn = (set: TableSet, table: TableName): string => `${table}${SUFFIXES[set]}`;

/** For how many days rows are kept, by table; without a number for ever. */
export interface KeptDays {
  readonly events?: number | undefined;
  readonly notifications?: number | undefined;
}

export interface TableDefinitionsOptions {
  /** Of the definitions, `schemas/clickhouse`. */
  readonly directory: string;
  /** A cluster of the server's configuration whose servers all hold the tables; undefined: this server alone. */
  readonly cluster?: string | undefined;
  readonly keptDays?: KeptDays | undefined;
}

/** The time of a row, of the tables whose rows may go by it. States are of now, however old. */
const TIMES: Readonly<Record<keyof KeptDays, string>> = { events: 'timestamp', notifications: 'last_modified' };
const COMMENTS = /^--.*\n/gm;
/** The definitions have a column a line. */
const COLUMN = /^ {4}(\w+) +(.+?),?$/gm;

/** The statements that make the read store's tables, as the settings want them. */
export class TableDefinitions {
  readonly #options: TableDefinitionsOptions;

  constructor(options: TableDefinitionsOptions) {
    this.#options = options;
  }

  createDatabase(): string {
    return `CREATE DATABASE IF NOT EXISTS {name:Identifier}${this.#onCluster}`;
  }

  /** @throws Error when the definition is not as it is taken for */
  create(table: TableName): string {
    const { directory, cluster } = this.#options;
    const ttl = this.#ttl(table);
    let text = readFileSync(join(directory, `${table}.sql`), 'utf8').replace(COMMENTS, '');
    if (ttl !== undefined) text = replaced(text, '\nSETTINGS ', `\nTTL ${ttl}\nSETTINGS `);
    if (cluster === undefined) return text;
    text = replaced(text, `IF NOT EXISTS ${table}`, `IF NOT EXISTS ${table}${this.#onCluster}`);
    return replaced(text, 'ENGINE = ReplacingMergeTree(', 'ENGINE = ReplicatedReplacingMergeTree(');
  }

  /** The same table in the second set, with a comment that says what it is. A cluster's tables are never rebuilt beside. */
  createSecond(table: TableName, comment: string): string {
    const named = replaced(this.create(table), `IF NOT EXISTS ${table}`, nameIn('second', table));
    return `${named.trimEnd()}\nCOMMENT ${quoted(comment)}`;
  }

  /** What brings a table to the days of the settings; undefined: it has them. `engine` is `engine_full` of `system.tables`. */
  changeOfTtl(table: TableName, engine: string): string | undefined {
    const wanted = this.#ttl(table);
    const has = / TTL (.*?)(?: SETTINGS |$)/s.exec(engine)?.[1];
    if (wanted === has) return undefined;
    const alter = `ALTER TABLE ${table}${this.#onCluster}`;
    return wanted === undefined ? `${alter} REMOVE TTL` : `${alter} MODIFY TTL ${wanted}`;
  }

  /**
   * What gives a table of an earlier version the columns that it has not yet; its rows have their defaults. Columns that only another
   * version knows stay, and take their defaults. `types`: of the columns that are there, by name, as `system.columns` has them.
   * @throws Error when a column has another type: that is not for an ALTER to mend, since its rows say something else
   */
  missingColumns(table: TableName, types: ReadonlyMap<string, string>): readonly string[] {
    const changes: string[] = [];
    let before: string | undefined;
    for (const { name, definition } of this.#columns(table)) {
      const type = types.get(name);
      const place = before === undefined ? 'FIRST' : `AFTER ${before}`;
      if (type === undefined)
        changes.push(`ALTER TABLE ${table}${this.#onCluster} ADD COLUMN IF NOT EXISTS ${name} ${definition} ${place}`);
      else if (!`${plain(definition)} `.startsWith(`${plain(type)} `))
        throw new Error(
          `its table ${table} is of another version: the column ${name} is ${type}, and should be ${definition}; drop the table, and rebuild the read store from the log (POST /admin/read-store/rebuild)`,
        );
      before = name;
    }
    return changes;
  }

  columnNames(table: TableName): readonly string[] {
    return this.#columns(table).map(({ name }) => name);
  }

  #columns(table: TableName): readonly { readonly name: string; readonly definition: string }[] {
    const text = readFileSync(join(this.#options.directory, `${table}.sql`), 'utf8').replace(COMMENTS, '');
    return [...text.matchAll(COLUMN)].flatMap(([, name = '', definition = '']) =>
      name === 'INDEX' ? [] : [{ name, definition }],
    );
  }

  #ttl(table: TableName): string | undefined {
    if (table !== 'events' && table !== 'notifications') return undefined;
    const days = this.#options.keptDays?.[table];
    return days === undefined ? undefined : `toDateTime(${TIMES[table]}) + toIntervalDay(${days})`;
  }

  get #onCluster(): string {
    const { cluster } = this.#options;
    return cluster === undefined ? '' : ` ON CLUSTER \`${cluster}\``;
  }
}

/** ClickHouse writes the arguments of types with other spaces than people do. */
const plain = (type: string): string => type.replace(/ *= */g, '=');

function replaced(text: string, from: string, to: string): string {
  if (!text.includes(from)) throw new Error(`a table's definition has no '${from.trim()}'`);
  return text.replace(from, () => to);
}
