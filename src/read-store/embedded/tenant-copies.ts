import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { StatefoldError } from '../../core/errors.js';
import { overSlices } from '../../core/slices.js';
import type { ClickHouseEndpoint } from '../endpoint.js';
import type { Path } from '../tenant-views.js';
import { quoted } from '../sql-text.js';

/** Tables of which a tenant has a copy, and the JSON column that its views are made of. */
const COPIED = ['events', 'aggregate_states', 'projection_states', 'notifications'] as const;
export type CopiedTable = (typeof COPIED)[number];

/** What of a tenant is to be read: the parts of a table are immutable, and stay for minutes after they were merged away. */
export interface CopiedParts {
  readonly table: CopiedTable;
  /** As `ATTACH TABLE` takes it. */
  readonly attach: string;
  readonly uuid: string;
  /** Folder of the copy's table, which holds the parts. */
  readonly folder: string;
  /** Names of the folders of parts. */
  readonly parts: readonly string[];
}

export interface TenantCopy {
  readonly tables: readonly CopiedParts[];
  /** Paths of JSON columns that the rows have. */
  readonly paths: readonly Path[];
}

/** What the paths of a table belong to, its column of JSON, and what tells which of them came first. */
const PATHS = {
  events: { kind: 'aggregate_type', column: 'data', since: "leftPad(toString(min(log_offset)), 20, '0')" },
  aggregate_states: { kind: 'aggregate_type', column: 'state', since: "''" },
  // Ids of projections ascend with their age.
  projection_states: { kind: 'class_name', column: 'state', since: 'min(projection_id)' },
} as const;

export interface TenantCopiesOptions {
  readonly endpoint: () => ClickHouseEndpoint | undefined;
  /** Makes the tables that are missing: before the first block there are none. @throws StatefoldError UNAVAILABLE */
  readonly ensureSchema: () => Promise<void>;
  /** Of the tables' definitions, `schemas/clickhouse`. */
  readonly schemaDirectory: string;
  /** Of one statement that copies. */
  readonly deadlineMs?: number;
  /** A copy that no statement has asked for so long is removed; longer than a statement may run. */
  readonly idleMs: number;
  /** Milliseconds of a clock that goes steadily; unless given, the process's. */
  readonly now?: () => number;
}

type Sources = Readonly<Record<CopiedTable, string>>;

interface Known {
  /** The name of its tables begins with this; a new one for each time that it is made anew. */
  readonly prefix: string;
  /** UUIDs of the tables that it is of: a rebuild puts others in their place, in which blocks have other numbers. */
  readonly sources: Sources;
  /** Of each table: the rows of all inserts up to this one are in the copy. */
  readonly upTo: Record<CopiedTable, number>;
  readonly owners: Map<string, KnownOwner>;
}

/** An aggregate type, or a class of a projection, that has rows in a table. */
interface KnownOwner {
  readonly table: Path['table'];
  readonly owner: string;
  since: string | undefined;
  paths: Map<string, KnownPath>;
}

interface KnownPath {
  readonly types: Set<string>;
  readonly rows?: number;
}

interface Retired {
  readonly tenantId: string;
  readonly known: Known;
  readonly at: number;
}

const DATABASE = 'statefold_sql';
/** Of the paths in a tenant's JSON that become columns of views; what is past it is read by `data.path` all the same. */
const LONGEST_PATH = 200;
const MOST_PATHS = 1000;
/** Of each table, of one tenant; those past it have no views. */
const MOST_OWNERS = 1000;
const MOST_NOTED = 100_000;
/** Of the names and types that one look at the rows tells: it is parsed in this process. */
const MOST_TOLD_BYTES = 4 * 1024 * 1024;
/** Of an owner with more paths than columns, so many rows say which of them are columns, and for so long they are counted. */
const COUNTED_ROWS = 10_000;
const COUNTING_SECONDS = 5;
const DEADLINE_MS = 120_000;
/** Tables are exchanged one after another, and once in a rebuild. */
const MOST_REPLACED = 10;

/**
 * Copies of single tenants' rows, in tables of their own beside those that the sink writes: made when a tenant asks for the first
 * time, brought up to date by what was inserted since. Who runs a tenant's statements is given the files of its copy and no others.
 */
export class TenantCopies {
  readonly #options: TenantCopiesOptions;
  readonly #known = new Map<string, Known>();
  readonly #refreshing = new Map<string, Promise<TenantCopy>>();
  /** When a statement last asked for the copy of a tenant. */
  readonly #asked = new Map<string, number>();
  readonly #dropped = new Map<string, number>();
  /** Of all tenants at once: also of those whose first copy is still being made. */
  #allDropped = 0;
  /** Of which rows are to go. */
  readonly #doomed = new Set<Known>();
  /** Of tables that others took the place of: statements that have begun read them to their end. */
  #retired: Retired[] = [];
  /** Tables that keep the numbers of blocks over merges. */
  readonly #numbered = new Set<string>();
  #ready: Promise<void> | undefined;

  constructor(options: TenantCopiesOptions) {
    this.#options = options;
  }

  /** All rows that are in the tables at the call. @throws StatefoldError UNAVAILABLE */
  async refresh(tenantId: string): Promise<TenantCopy> {
    this.#asked.set(tenantId, this.#now());
    // One that is under way may have looked before the caller's rows came.
    const before = this.#refreshing.get(tenantId);
    const refreshed = (before ?? Promise.resolve()).then(
      () => this.#refresh(tenantId),
      () => this.#refresh(tenantId),
    );
    this.#refreshing.set(tenantId, refreshed);
    try {
      return await refreshed;
    } finally {
      if (this.#refreshing.get(tenantId) === refreshed) this.#refreshing.delete(tenantId);
    }
  }

  /**
   * Rows were removed from the tables: they go from the copy of the tenant, or from all, which is made anew at the next statement. One
   * that runs may break off. @throws StatefoldError UNAVAILABLE: some of it may be there; to be called again
   */
  async drop(tenantId?: string): Promise<void> {
    if (tenantId === undefined) this.#allDropped++;
    for (const id of tenantId === undefined ? [...this.#known.keys()] : [tenantId]) {
      this.#dropped.set(id, (this.#dropped.get(id) ?? 0) + 1);
      const known = this.#known.get(id);
      this.#known.delete(id);
      if (known !== undefined) this.#doomed.add(known);
    }
    this.#doom((retired) => tenantId === undefined || retired.tenantId === tenantId);
    // What an earlier process left is of any tenant.
    if (this.#ready === undefined) await this.#run(`DROP DATABASE IF EXISTS ${DATABASE} SYNC`);
    else await this.#ready;
    await this.#dropDoomed();
  }

  async #dropDoomed(): Promise<void> {
    for (const known of this.#doomed) {
      for (const table of COPIED) await this.#run(`DROP TABLE IF EXISTS ${DATABASE}.${nameOf(known, table)} SYNC`);
      this.#doomed.delete(known);
    }
  }

  /** Removes the copies that nobody has asked for of late, those of an earlier process too: they take as much of the disk as the rows. @throws StatefoldError UNAVAILABLE */
  async removeIdle(): Promise<void> {
    await this.#prepared();
    const since = this.#now() - this.#options.idleMs;
    for (const [tenantId, asked] of this.#asked) {
      if (asked > since || this.#refreshing.has(tenantId)) continue;
      this.#asked.delete(tenantId);
      await this.drop(tenantId);
    }
    this.#doom(({ at }) => at <= since);
    await this.#dropDoomed();
  }

  #doom(isTo: (retired: Retired) => boolean): void {
    for (const retired of this.#retired) if (isTo(retired)) this.#doomed.add(retired.known);
    this.#retired = this.#retired.filter(({ known }) => !this.#doomed.has(known));
  }

  #now(): number {
    return (this.#options.now ?? (() => performance.now()))();
  }

  async #refresh(tenantId: string): Promise<TenantCopy> {
    await this.#prepared();
    for (let replaced = 0; ; replaced++) {
      const copy = await this.#refreshed(tenantId);
      if (copy !== undefined) return copy;
      if (replaced >= MOST_REPLACED)
        throw new StatefoldError(
          'UNAVAILABLE',
          'The tables of the read store are being replaced; send the statement again',
        );
    }
  }

  /** Undefined: other tables took the place of those that the copy is of. */
  async #refreshed(tenantId: string): Promise<TenantCopy | undefined> {
    const generation = this.#generationOf(tenantId);
    const sources = await this.#sources();
    let known = this.#known.get(tenantId);
    if (known !== undefined && !isOf(known, sources)) {
      this.#retire(tenantId, known);
      known = undefined;
    }
    known ??= await this.#make(sources);
    try {
      for (const table of COPIED) await this.#copy(tenantId, known, table);
    } catch (error) {
      // Some rows may be in it and not be counted, or somebody has dropped a table of it.
      this.#known.set(tenantId, known);
      if (await this.#isReplaced(known)) return void this.#retire(tenantId, known);
      await this.drop(tenantId).catch(() => undefined);
      throw error;
    }
    if (await this.#isReplaced(known)) return void this.#retire(tenantId, known);
    const copy = { tables: await this.#partsOf(known), paths: [...known.owners.values()].flatMap(pathsOf) };
    if (this.#generationOf(tenantId) !== generation)
      throw new StatefoldError(
        'UNAVAILABLE',
        'The rows of the tenant were removed meanwhile; send the statement again',
      );
    this.#known.set(tenantId, known);
    return copy;
  }

  #retire(tenantId: string, known: Known): void {
    this.#known.delete(tenantId);
    this.#retired.push({ tenantId, known, at: this.#now() });
  }

  async #isReplaced(known: Known): Promise<boolean> {
    return !isOf(known, await this.#sources().catch(() => known.sources));
  }

  async #sources(): Promise<Sources> {
    const found = await this.#rows<{ name: CopiedTable; uuid: string }>(
      `SELECT name, toString(uuid) AS uuid FROM system.tables WHERE database = currentDatabase() AND name IN (${COPIED.map(quoted).join(', ')})`,
    );
    const of = (table: CopiedTable): string => found.find(({ name }) => name === table)?.uuid ?? '';
    return Object.fromEntries(COPIED.map((table) => [table, of(table)])) as Sources;
  }

  #generationOf(tenantId: string): number {
    return this.#allDropped + (this.#dropped.get(tenantId) ?? 0);
  }

  #prepared(): Promise<void> {
    this.#ready ??= this.#prepare().catch((error: unknown) => {
      this.#ready = undefined;
      throw error;
    });
    return this.#ready;
  }

  /** What an earlier process left has no known end. */
  async #prepare(): Promise<void> {
    await this.#options.ensureSchema();
    await this.#run(`DROP DATABASE IF EXISTS ${DATABASE} SYNC`);
  }

  async #make(sources: Sources): Promise<Known> {
    for (const table of COPIED)
      if (!this.#numbered.has(sources[table]))
        await this.#run(`ALTER TABLE ${table} MODIFY SETTING enable_block_number_column = 1`);
    // Where they were exchanged meanwhile, it was done to others.
    if (isSame(sources, await this.#sources())) for (const uuid of Object.values(sources)) this.#numbered.add(uuid);
    const upTo = { events: -1, aggregate_states: -1, projection_states: -1, notifications: -1 };
    const known: Known = { prefix: randomUUID().replaceAll('-', ''), sources, upTo, owners: new Map() };
    await this.#run(`CREATE DATABASE IF NOT EXISTS ${DATABASE}`);
    for (const table of COPIED) await this.#run(`CREATE TABLE ${DATABASE}.${nameOf(known, table)} AS ${table}`);
    return known;
  }

  async #copy(tenantId: string, known: Known, table: CopiedTable): Promise<void> {
    const [newest] = await this.#rows<{ newest: number }>(
      `SELECT toInt64(max(max_block_number)) AS newest FROM system.parts WHERE active AND database = currentDatabase() AND table = ${quoted(table)}`,
    );
    const upTo = Number(newest?.newest ?? 0);
    const from = known.upTo[table];
    if (upTo === from) return;
    // Rows that the copy has were removed: who catches it drops the copy.
    if (upTo < from)
      throw new StatefoldError(
        'UNAVAILABLE',
        'The rows of the tenant were removed meanwhile; send the statement again',
      );
    // Of parts that were merged before the column was there it is that of their first row: the whole of them is in the first copy.
    const added = `tenant = ${quoted(tenantId)} AND _block_number > ${from} AND _block_number <= ${upTo}`;
    await this.#run(
      `INSERT INTO ${DATABASE}.${nameOf(known, table)} SELECT * FROM ${table} WHERE ${added} SETTINGS max_threads = 1, max_insert_threads = 1`,
    );
    if (table !== 'notifications') await this.#notePaths(known, table, added);
    known.upTo[table] = upTo;
  }

  async #notePaths(known: Known, table: Exclude<CopiedTable, 'notifications'>, added: string): Promise<void> {
    const { kind, column, since } = PATHS[table];
    const ofOwners = `
      SELECT ${kind} AS owner, ${since} AS since,
        mapFilter((path, types) -> length(path) <= ${LONGEST_PATH}, distinctJSONPathsAndTypes(${column})) AS found
      FROM ${table} WHERE ${added} GROUP BY owner ORDER BY owner LIMIT ${MOST_OWNERS}`;
    const bounded = `
      SELECT owner, since, length(found) AS count,
        mapFromArrays(arraySlice(mapKeys(found), 1, ${MOST_PATHS}), arraySlice(mapValues(found), 1, ${MOST_PATHS})) AS kept,
        arraySum(arrayMap(
          (path, types) -> length(path) + length(arrayStringConcat(types)) + 8, mapKeys(kept), mapValues(kept)
        )) AS bytes
      FROM (${ofOwners})`;
    const summed = `
      SELECT owner, since, count, kept,
        sum(bytes) OVER (ORDER BY owner ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS told
      FROM (${bounded})`;
    const found = await this.#rows<{ owner: string; since: string; count: number; paths: Record<string, string[]> }>(
      `SELECT owner, since, count, mapFilter((path, types) -> told <= ${MOST_TOLD_BYTES}, kept) AS paths
       FROM (${summed}) ORDER BY owner`,
    );
    let owners = 0;
    for (const one of known.owners.values()) if (one.table === table) owners++;
    let noted = 0;
    for (const { paths } of known.owners.values()) noted += paths.size;
    for (const { owner, since: first, count, paths } of found) {
      const id = JSON.stringify([table, owner]);
      const had = known.owners.get(id);
      if (had === undefined && owners++ >= MOST_OWNERS) continue;
      const one = had ?? { table, owner, since: undefined, paths: new Map<string, KnownPath>() };
      known.owners.set(id, one);
      if (first !== '' && (one.since === undefined || first < one.since)) one.since = first;
      const size = one.paths.size;
      for (const [path, types] of Object.entries(paths)) {
        const before = one.paths.get(path);
        if (before === undefined && noted >= MOST_NOTED) continue;
        one.paths.set(path, { ...before, types: new Set([...(before?.types ?? []), ...types]) });
        if (before === undefined) noted++;
      }
      const isNew = one.paths.size > size || count > MOST_PATHS;
      if (isNew && Math.max(count, one.paths.size) > MOST_PATHS) await this.#rank(known, one);
    }
  }

  /** Of more paths than there can be columns, those that most rows have: a few odd rows are not to take the place of the usual ones. */
  async #rank(known: Known, one: KnownOwner): Promise<void> {
    const { kind, column } = PATHS[one.table];
    const rows = `SELECT ${column} FROM ${DATABASE}.${nameOf(known, one.table)} WHERE ${kind} = ${quoted(one.owner)} LIMIT ${COUNTED_ROWS}`;
    const counted = await this.#rows<{ path: string; types: string[]; rows: number }>(
      `SELECT found.1 AS path, groupUniqArray(found.2) AS types, count() AS rows FROM (SELECT arrayJoin(JSONAllPathsWithTypes(${column})) AS found FROM (${rows})) WHERE length(path) <= ${LONGEST_PATH} GROUP BY path ORDER BY rows DESC, path LIMIT ${MOST_PATHS} SETTINGS max_execution_time = ${COUNTING_SECONDS}, timeout_overflow_mode = 'break', max_threads = 1`,
    );
    const paths = counted.map(({ path, types, rows: count }): [string, KnownPath] => [
      path,
      { types: new Set([...types, ...(one.paths.get(path)?.types ?? [])]), rows: Number(count) },
    ]);
    if (paths.length > 0) one.paths = new Map(paths);
  }

  async #partsOf(known: Known): Promise<CopiedParts[]> {
    const tables = await this.#rows<{ name: string; uuid: string; folder: string; parts: string[] }>(
      `SELECT name, toString(uuid) AS uuid, data_paths[1] AS folder, (SELECT groupArray((table, name)) FROM system.parts WHERE active AND database = ${quoted(DATABASE)}) AS all, arrayMap(p -> p.2, arrayFilter(p -> p.1 = tables.name, all)) AS parts FROM system.tables AS tables WHERE database = ${quoted(DATABASE)} AND startsWith(name, ${quoted(`t${known.prefix}`)})`,
    );
    return COPIED.map((table) => {
      const found = tables.find(({ name }) => name === nameOf(known, table));
      if (found === undefined)
        throw new StatefoldError('UNAVAILABLE', `The copy of ${table} is gone; send the statement again`);
      const { uuid, folder, parts } = found;
      const definition = readFileSync(join(this.#options.schemaDirectory, `${table}.sql`), 'utf8');
      const attach = definition
        .replace(/^--.*\n/gm, '')
        .replace(`CREATE TABLE IF NOT EXISTS ${table}`, `ATTACH TABLE ${table} UUID ${quoted(uuid)}`);
      return { table, attach, uuid, folder, parts };
    });
  }

  async #run(sql: string): Promise<string> {
    const endpoint = this.#options.endpoint();
    if (endpoint === undefined) throw new StatefoldError('UNAVAILABLE', 'The read store is away');
    const target = new URL(endpoint.url);
    target.search = new URLSearchParams({
      database: endpoint.database,
      default_format: 'JSONEachRow',
      output_format_json_quote_64bit_integers: '0',
    }).toString();
    let response: Response;
    let text: string;
    try {
      response = await fetch(target, {
        method: 'POST',
        body: sql,
        headers: { 'X-ClickHouse-User': endpoint.user, 'X-ClickHouse-Key': endpoint.password },
        signal: AbortSignal.timeout(this.#options.deadlineMs ?? DEADLINE_MS),
      });
      text = await response.text();
    } catch (error) {
      throw new StatefoldError(
        'UNAVAILABLE',
        `The read store did not copy the rows of the tenant: ${messageOf(error)}`,
        { cause: error },
      );
    }
    if (!response.ok)
      throw new StatefoldError(
        'UNAVAILABLE',
        `The read store did not copy the rows of the tenant: ${text.slice(0, 500)}`,
      );
    return text;
  }

  async #rows<T>(sql: string): Promise<T[]> {
    const lines = (await this.#run(sql)).split('\n').filter((line) => line !== '');
    const rows: T[] = [];
    await overSlices('read_store', lines, (line) => rows.push(JSON.parse(line) as T));
    return rows;
  }
}

const nameOf = ({ prefix }: Known, table: CopiedTable): string => `t${prefix}_${table}`;
const isSame = (one: Sources, other: Sources): boolean => COPIED.every((table) => one[table] === other[table]);
const isOf = ({ sources }: Known, tables: Sources): boolean => isSame(sources, tables);
const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
const pathsOf = ({ table, owner, since, paths }: KnownOwner): readonly Path[] => [
  { table, owner, path: '', types: [], since },
  ...[...paths].map(([path, { types, rows }]) => ({ table, owner, path, types: [...types].sort(), rows })),
];
