import { parseJson } from './exact-json';

/** An answer of ClickHouse as a table. */
export interface SqlResult {
  readonly columns: readonly SqlColumn[];
  readonly rows: readonly (readonly unknown[])[];
}

export interface SqlColumn {
  readonly name: string;
  /** ClickHouse's. */
  readonly type: string;
}

/** What is asked for where the statement names no format itself: a line of names, one of types, and one a row. */
export const FORMAT = 'JSONCompactEachRowWithNamesAndTypes';
/** Rows between two looks at what else the page has to do. */
const AT_ONCE = 5_000;

/** Of a text in `FORMAT`. @throws the reason of the signal */
export async function readResult(text: string, signal: AbortSignal): Promise<SqlResult> {
  const rows: unknown[][] = [];
  let names: readonly unknown[] | undefined;
  let columns: readonly SqlColumn[] | undefined;
  for (let begin = 0; begin < text.length;) {
    const found = text.indexOf('\n', begin);
    const end = found < 0 ? text.length : found;
    const line = text.slice(begin, end);
    begin = end + 1;
    if (line === '') continue;
    const values = parseJson(line) as unknown[];
    if (names === undefined) names = values;
    else if (columns === undefined) columns = names.map((name, n) => ({ name: String(name), type: String(values[n]) }));
    else if (rows.push(values) % AT_ONCE === 0) {
      await new Promise((resolve) => setTimeout(resolve));
      signal.throwIfAborted();
    }
  }
  return { columns: columns ?? [], rows };
}

/** A value as it is shown in a cell; undefined: NULL. */
export function textOf(value: unknown): string | undefined {
  if (value === null || value === undefined) return undefined;
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Of a column of numbers. Wrappers like `Nullable(…)` make no difference. */
export const isNumeric = ({ type }: SqlColumn): boolean => /^(U?Int|Float|BFloat|Decimal)\d*/.test(bare(type));
export const isTime = ({ type }: SqlColumn): boolean => /^Date/.test(bare(type));
/** A time of day, too. */
export const isClock = ({ type }: SqlColumn): boolean => /^DateTime/.test(bare(type));
/** It is written in the zone that its type names; else in UTC, the service's. */
export const hasZone = ({ type }: SqlColumn): boolean => /'[^']+'\)/.test(type);
const bare = (type: string): string => type.replaceAll(/^(?:(?:Nullable|LowCardinality)\()+/g, '');

/** A value as a number on an axis: a time in seconds since 1970, of UTC where its text names no zone; null where it is none. */
export function numberOf(value: unknown, column: SqlColumn): number | null {
  const text = textOf(value);
  if (text === undefined || text === '') return null;
  const iso = /\d:\d/.test(text) ? `${text.replace(' ', 'T')}Z` : text;
  const number = isTime(column) ? Date.parse(iso) / 1000 : Number(text);
  return Number.isFinite(number) ? number : null;
}

/** A spreadsheet would take the text for a formula, and run it: whoever appends events may have written it. */
const isFormula = (text: string): boolean => /^[=+\-@\t\r]/.test(text);

/**
 * As RFC 4180 has it, with the names first; NULL is nothing between two commas. A text that a spreadsheet would run begins with `'`, by
 * which it is taken for text.
 */
export function csvOf({ columns, rows }: SqlResult): string {
  const field = (value: unknown): string => {
    const plain = textOf(value) ?? '';
    const text = typeof value === 'string' && isFormula(plain) ? `'${plain}` : plain;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = [columns.map(({ name }) => name), ...rows].map((row) => row.map(field).join(','));
  return `${lines.join('\r\n')}\r\n`;
}

/** A list of objects, a row a line. */
export function jsonOf({ columns, rows }: SqlResult): string {
  const heads = columns.map(({ name }) => JSON.stringify(name));
  const lines = rows.map((row) => `  {${heads.map((head, n) => `${head}: ${JSON.stringify(row[n])}`).join(', ')}}`);
  return lines.length === 0 ? '[]\n' : `[\n${lines.join(',\n')}\n]\n`;
}
