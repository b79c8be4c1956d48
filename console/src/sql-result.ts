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
/** That its times are written in: the one that its type names, else the service's, which is UTC. */
export const zoneOf = ({ type }: SqlColumn): string => /'([^']+)'\)/.exec(type)?.[1] ?? 'UTC';
const bare = (type: string): string => type.replaceAll(/^(?:(?:Nullable|LowCardinality)\()+/g, '');

/** Values of the column as numbers on an axis: times in seconds since 1970; null where one is none. */
export function numbersOf(column: SqlColumn): (value: unknown) => number | null {
  const number = isTime(column) ? secondsIn(zoneOf(column)) : Number;
  return (value) => {
    const text = textOf(value);
    const found = text === undefined || text === '' ? Number.NaN : number(text);
    return Number.isFinite(found) ? found : null;
  };
}

/** Of times as ClickHouse writes them, by a clock of the zone; of an hour that the clock shows twice, its first. */
function secondsIn(zone: string): (text: string) => number {
  const offsetAt = offsetsOf(zone);
  return (text) => {
    const written = Date.parse(/\d:\d/.test(text) ? `${text.replace(' ', 'T')}Z` : text) / 1000;
    if (zone === 'UTC' || !Number.isFinite(written)) return written;
    // The offset of before a change of the clock is tried first.
    const early = written - offsetAt(written - DAY_S);
    return early + offsetAt(early) === written ? early : written - offsetAt(written - offsetAt(written + DAY_S));
  };
}

const DAY_S = 86_400;
/** Clocks are changed at quarters of an hour. */
const QUARTER_S = 900;

/** How many seconds the clock of the zone is ahead of UTC at a time. */
function offsetsOf(zone: string): (seconds: number) => number {
  const clock = new Intl.DateTimeFormat('sv-SE', { timeZone: zone, dateStyle: 'short', timeStyle: 'medium' });
  const known = new Map<number, number>();
  return (seconds) => {
    const quarter = Math.floor(seconds / QUARTER_S) * QUARTER_S;
    const offset =
      known.get(quarter) ?? Date.parse(`${clock.format(new Date(quarter * 1000)).replace(' ', 'T')}Z`) / 1000 - quarter;
    known.set(quarter, offset);
    return offset;
  };
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
