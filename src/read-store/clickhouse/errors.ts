import { ClickHouseError } from '@clickhouse/client';
import { StatefoldError } from '../../core/errors.js';

/**
 * Codes with which ClickHouse refuses the rows themselves: parsing, conversion, ranges, a constraint, or more than fits in
 * memory at once. Any other error of an insert (no table, no access, no space, overload) would refuse every row, and is waited out.
 */
const ROWS_REFUSED = new Set([
  6, 25, 26, 27, 32, 33, 38, 41, 43, 53, 69, 70, 72, 117, 131, 190, 241, 306, 321, 469, 636,
]);
const MEMORY_LIMIT = 241;
const UNKNOWN_DATABASE = 81;
/** Codes of a statement that can't succeed later, unchanged. */
const STATEMENT_REFUSED = new Set([
  6, 16, 27, 36, 41, 42, 43, 46, 47, 48, 50, 53, 57, 60, 62, 63, 70, 73, 81, 115, 117, 164, 179, 184, 215, 395, 456,
  457,
]);

const codeOf = (error: unknown): number | undefined =>
  error instanceof ClickHouseError ? Number(error.code) : undefined;

export const refusesRows = (error: unknown): boolean => ROWS_REFUSED.has(codeOf(error) ?? 0);
export const refusesForMemory = (error: unknown): boolean => codeOf(error) === MEMORY_LIMIT;
export const lacksDatabase = (error: unknown): boolean => codeOf(error) === UNKNOWN_DATABASE;

export function unavailable(what: string, cause: unknown): StatefoldError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new StatefoldError('UNAVAILABLE', `The read store ${what}: ${reason.slice(0, 500)}`, { cause });
}

/** Of an analyst's statement: its own fault is `INVALID_REQUEST` with ClickHouse's words. */
export function statementError(cause: unknown): StatefoldError {
  if (cause instanceof StatefoldError) return cause;
  const code = codeOf(cause);
  if (code === undefined || !STATEMENT_REFUSED.has(code)) return unavailable('failed', cause);
  return new StatefoldError('INVALID_REQUEST', (cause as ClickHouseError).message, { cause });
}
