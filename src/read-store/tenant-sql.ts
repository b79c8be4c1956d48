import type { DeclaredStates } from './declared-columns.js';

/**
 * The port of tenants' SQL: one statement over the rows of one tenant, and nothing else. Adapters hold the tenants apart by what
 * the statement can reach, never by what its text looks like.
 */
export interface TenantSql {
  /**
   * Resolves when the answer begins: short ones are whole by then, so that what fails soon fails here.
   * @throws SqlRefusedError with ClickHouse's own code and words; StatefoldError RATE_LIMITED where the tenant, UNAVAILABLE where
   * the process has as many statements under way as it may, or the read store is away; SQL_NOT_ISOLATED where tenants can't be held apart.
   */
  query(tenantId: string, statement: SqlStatement, signal: AbortSignal): Promise<SqlAnswer>;
  close(): Promise<void>;
}

export interface SqlStatement {
  readonly query: string;
  /** ClickHouse's name of a format; the statement's own FORMAT wins. */
  readonly format: string;
  /** Values of `{name:Type}`, as text. */
  readonly parameters: ReadonlyMap<string, string>;
  /** Of the tenant's code that is in force: what views of states have as columns, beside what rows have. */
  readonly states: readonly DeclaredStates[];
}

export interface SqlAnswer {
  readonly contentType: string;
  readonly format: string;
  /** To be read to its end, or returned. @throws SqlRefusedError from within, when the statement fails halfway */
  readonly chunks: AsyncIterable<Buffer>;
}

/** Of one statement. */
export interface SqlLimits {
  readonly seconds: number;
  /** Of the answer. */
  readonly rows: number;
  readonly bytes: number;
  /** Of the process, or on a server of the statement. */
  readonly memoryBytes: number;
}

/** ClickHouse refused the statement, or a limit ended it. */
export class SqlRefusedError extends Error {
  override readonly name = 'SqlRefusedError';

  constructor(
    /** ClickHouse's error code. */
    readonly engineCode: number,
    /** ClickHouse's text: `Code: N. DB::Exception: …`. */
    message: string,
  ) {
    super(message);
  }
}

/** ClickHouse's settings that bound a statement, and say how its answer is written. */
export const settingsOf = ({
  seconds,
  rows,
  bytes,
  memoryBytes,
}: SqlLimits): Readonly<Record<string, number | string>> => ({
  max_execution_time: seconds,
  timeout_overflow_mode: 'throw',
  max_result_rows: rows,
  max_result_bytes: bytes,
  result_overflow_mode: 'throw',
  max_memory_usage: memoryBytes,
  max_query_size: 1024 * 1024,
  max_ast_depth: 1000,
  max_ast_elements: 50_000,
  max_threads: 2,
  // No file of its own for what doesn't fit into memory: it is refused.
  max_bytes_before_external_group_by: 0,
  max_bytes_before_external_sort: 0,
  max_bytes_ratio_before_external_group_by: 0,
  max_bytes_ratio_before_external_sort: 0,
  allow_introspection_functions: 0,
  log_queries: 0,
  // In JSON infinities and NaN would come as null, as if there were no value.
  output_format_json_quote_denormals: 1,
  readonly: 1,
});
