/**
 * Entry of the process that runs one statement of one tenant, in the jail: all that it can reach is a copy of that tenant's rows,
 * which it can't change, and its own folder. What it is to do stands in `request.json` there; the answer goes into a named pipe, and
 * what came of it is one line on stdout. It ends with its parent, and runs nothing else.
 */
import { readFileSync, writeSync } from 'node:fs';
import { Session } from 'chdb';

export interface QueryRequest {
  readonly directory: string;
  readonly memoryBytes: number;
  readonly database: string;
  /** Make the tables. */
  readonly prepare: readonly string[];
  /** Make the views: the first way of each that the engine takes; one of which it takes none is left out, and takes nothing with it. */
  readonly views: readonly (readonly string[])[];
  /** Bind parameters and limits. */
  readonly confine: readonly string[];
  readonly statement: string;
}

export type QueryOutcome =
  | { readonly ok: true }
  | {
      readonly ok: false;
      readonly message: string;
      /** Of the service, not of the statement. */ readonly preparing: boolean;
    };

/** Nothing here outlives the statement. What is forced to disk is forced there before the appends of everybody that come after it. */
const FORGETFUL = 'SET fsync_metadata = 0';

function tell(outcome: QueryOutcome): void {
  writeSync(1, `${JSON.stringify(outcome)}\n`);
  // Native threads are still there, and what they hold is of no use.
  process.kill(process.pid, 'SIGKILL');
}

function run({ directory, memoryBytes, database, prepare, views, confine, statement }: QueryRequest): void {
  const cache = Math.floor(memoryBytes / 16);
  let preparing = true;
  try {
    const session = new Session(directory, {
      connectionArgs: [
        `--max_server_memory_usage=${memoryBytes}`,
        `--mark_cache_size=${cache}`,
        `--primary_index_cache_size=${cache}`,
      ],
    });
    for (const sql of [FORGETFUL, `CREATE DATABASE \`${database}\``, `USE \`${database}\``, ...prepare])
      session.query(sql, 'Null');
    const isTaken = (sql: string): boolean => {
      try {
        session.query(sql, 'Null');
        return true;
      } catch {
        // What its JSON has can't be columns.
        return false;
      }
    };
    for (const ways of views) ways.some(isTaken);
    for (const sql of confine) session.query(sql, 'Null');
    preparing = false;
    session.query(statement, 'TabSeparated');
    tell({ ok: true });
  } catch (error) {
    tell({ ok: false, message: error instanceof Error ? error.message : String(error), preparing });
  }
}

run(JSON.parse(readFileSync('request.json', 'utf8')) as QueryRequest);
