import { overSlices, overWaitingSlices } from '../core/slices.js';
import { identifier, quoted } from './sql-text.js';
import {
  declaredColumns,
  momentOf,
  MOMENT_TYPE,
  type DeclaredColumn,
  type DeclaredStates,
} from './declared-columns.js';

/** A path of a JSON column that rows have, with the types that its values had. */
export interface Path {
  readonly table: 'events' | 'aggregate_states' | 'projection_states';
  /** The aggregate type, or the class of the projection. */
  readonly owner: string;
  /** Empty: the column is there, whatever it holds. */
  readonly path: string;
  /** ClickHouse's, e.g. `Int64`, `String`, `Array(Nullable(String))`. */
  readonly types: readonly string[];
  /** Of the owner, with the empty path: sorts before that of an owner that came later. */
  readonly since?: string | undefined;
  /** How many rows have it, of those that were counted; undefined: all paths of the owner have room. */
  readonly rows?: number | undefined;
}

export interface TypedView {
  readonly name: string;
  /** The `SELECT` behind it. */
  readonly select: string;
  /** The same with the JSON as one column, where the engine does not take the other. */
  readonly untyped: string;
}

const COLUMNS: Record<Path['table'], readonly string[]> = {
  events: ['aggregate_id', 'version', 'event_id', 'event_type', 'timestamp', 'correlation_id', 'causation_id'],
  aggregate_states: ['aggregate_id', 'version', 'last_modified'],
  projection_states: ['projection_id', 'key', 'sequence', 'last_modified'],
};
const MOST_COLUMNS = 1000;
/** Sorts behind each `since`. */
const LAST = '\uffff';
/** The table of a view. Columns are named with it: a bare name may be that of a member, which would be taken in its place. */
const SOURCE = 'source';
/** ClickHouse takes a statement of 256 KiB. */
const MOST_TEXT = 128 * 1024;
/** Characters of all views of a statement; those past it have their JSON as one column. */
const MOST_OF_ALL = 4 * 1024 * 1024;
/** Of the code of a tenant so many classes, the first ones, have views beside those that have rows. */
const MOST_DECLARED = 10_000;
/** Types of texts that look like days or times, also within lists. */
const TIMES = /\bDate\w*(?:\([^)]*\))?/g;
const isTime = (type: string): boolean => type.search(TIMES) >= 0;
const NUMBERS = /^(?:U?Int\d+|Float\d+)$/;

const UNREAD =
  "SELECT throwIf(materialize(1), 'a view is read where the statement has its name in one piece') AS unread";
/** A name may be there without being written: all columns are listed, tables are picked by a pattern, characters are escaped. */
const BEYOND_NAMES = /system|information_schema|merge|\\/i;
/** Names of views have these characters alone. */
const WORD = /[a-z0-9_]+/g;

/** Which views the statement may read; its parameters may be names. */
export async function readBy(
  statement: string,
  parameters: ReadonlyMap<string, string>,
): Promise<(name: string) => boolean> {
  const texts = [statement, ...parameters.values()];
  if (texts.some((text) => BEYOND_NAMES.test(text))) return () => true;
  const words = new Set<string>();
  await overSlices('read_store', texts, (text) => {
    for (const [word] of text.toLowerCase().matchAll(WORD)) words.add(word);
  });
  return (name) => words.has(name);
}

/** What is known of the columns of one view. */
interface Known {
  readonly declared: DeclaredStates[];
  readonly found: Path[];
  /** Of who came after all others unless given: there are no rows. */
  since: string;
}

/**
 * One view for the events and one for the states of each aggregate type, and one for each class of a projection: paths are columns
 * of one type, so that they can be grouped, ordered and computed with as they are. Columns of states are those that the code declares, and
 * what rows have besides. Of owners whose views would have one name, whoever came first has it. A view takes the engine some milliseconds, of which there may be hundreds for a statement that reads one: what
 * is not read is there by its name alone.
 */
export async function typedViews(
  paths: readonly Path[],
  declared: readonly DeclaredStates[] = [],
  isRead: (name: string) => boolean = () => true,
): Promise<TypedView[]> {
  const owners = new Map<string, Known>();
  const of = (table: Path['table'], owner: string): Known => {
    const id = idOf(table, owner);
    let known = owners.get(id);
    if (known === undefined) owners.set(id, (known = { declared: [], found: [], since: LAST }));
    return known;
  };
  await overSlices('read_store', paths, (path) => of(path.table, path.owner).found.push(path));
  await overSlices('read_store', paths, ({ table, owner, since }) => {
    if (since === undefined) return;
    for (const one of tablesOf(table)) if (owners.has(idOf(one, owner))) of(one, owner).since = since;
  });
  const inForce = declared.slice(0, MOST_DECLARED);
  await overSlices('read_store', inForce, (one) => of(one.table, one.owner).declared.push(one));
  const taken = new Set<string>(['events', 'aggregate_states', 'projection_states', 'notifications']);
  const views: TypedView[] = [];
  /** By the name that is wanted, the number that the last one got it with. */
  const numbers = new Map<string, number>();
  let length = 0;
  const first = ([id, { since }]: readonly [string, Known], [other, than]: readonly [string, Known]): number =>
    since < than.since || (since === than.since && id < other) ? -1 : 1;
  const add = ({ select, ...view }: TypedView): void => {
    length += select.length;
    views.push({ select: length > MOST_OF_ALL ? view.untyped : select, ...view });
  };
  await overWaitingSlices('read_store', [...owners].sort(first), ([id, { found, declared: ofOwner }]) => {
    const [table, owner] = JSON.parse(id) as [Path['table'], string];
    // Of a class without its namespace.
    const named = table === 'projection_states' ? (owner.split(/[.+]/).at(-1) ?? owner) : owner;
    const wanted = `${snake(named)}_${table === 'events' ? 'events' : 'states'}`;
    let name = wanted;
    for (let i = numbers.get(wanted) ?? 1; taken.has(name); numbers.set(wanted, i)) name = `${wanted}_${++i}`;
    taken.add(name);
    const untyped = fromRows(table, owner, [...COLUMNS[table], jsonOf(table)].map(fixedColumn));
    if (!isRead(name)) return add({ name, select: UNREAD, untyped });
    if (length > MOST_OF_ALL) return add({ name, select: untyped, untyped });
    return columnsOf(ofOwner).then((columns) => add({ name, select: selectOf(table, owner, found, columns), untyped }));
  });
  return views;
}

function selectOf(
  table: Path['table'],
  owner: string,
  found: readonly Path[],
  declared: ReadonlyMap<string, DeclaredColumn>,
): string {
  const json = jsonOf(table);
  const fixed = COLUMNS[table];
  const taken = new Set<string>([...fixed, json]);
  const columns = fixed.map(fixedColumn);
  let length = 0;
  const add = (path: string, value: string): void => {
    if (columns.length >= MOST_COLUMNS || length > MOST_TEXT) return;
    const name = taken.has(path) ? `${json}.${path}` : path;
    if (taken.has(name)) return;
    taken.add(name);
    const column = `${value} AS ${identifier(name)}`;
    length += column.length;
    columns.push(column);
  };
  const types = new Map(found.map((path) => [path.path, path.types]));
  for (const [path, column] of declared) add(path || 'value', declaredValue(json, column, types.get(path)));
  const byRows = [...found].sort((a, b) => (b.rows ?? 0) - (a.rows ?? 0) || (a.path < b.path ? -1 : 1));
  for (const { path, types: ofPath } of byRows)
    if (isColumn(path) && !isWithin(path, declared)) add(path, valueOf(json, path, ofPath));
  return fromRows(table, owner, columns);
}

/** Of states those that are there: a key whose state is gone has a row all the same. */
function fromRows(table: Path['table'], owner: string, columns: readonly string[]): string {
  const from = `SELECT ${columns.join(', ')} FROM ${table} AS ${SOURCE}`;
  const kind = table === 'projection_states' ? 'class_name' : 'aggregate_type';
  const where = `WHERE ${SOURCE}.${kind} = ${quoted(owner)}`;
  return table === 'events' ? `${from} ${where}` : `${from} FINAL ${where} AND ${SOURCE}.state_raw IS NOT NULL`;
}

/** By their paths. Two projections may have a class of one name, whose states differ: what they declare otherwise is as rows have it. */
async function columnsOf(declared: readonly DeclaredStates[]): Promise<ReadonlyMap<string, DeclaredColumn>> {
  const columns = new Map<string, DeclaredColumn>();
  const differing = new Set<string>();
  for (const { schema } of declared)
    for (const column of declaredColumns(await schema())) {
      const path = column.path.join('.');
      const before = columns.get(path);
      if (before !== undefined && before.type !== column.type) differing.add(path);
      columns.set(path, column);
    }
  for (const path of differing) columns.delete(path);
  return columns;
}

/** Whether a column is declared for it, or for a dictionary that it lies in. */
function isWithin(path: string, declared: ReadonlyMap<string, DeclaredColumn>): boolean {
  for (let end = path.length; end > 0; end = path.lastIndexOf('.', end - 1))
    if (declared.has(path.slice(0, end))) return true;
  return false;
}

/** A value that is not of the declared type, of a former revision, is NULL, or what ClickHouse makes of it. */
function declaredValue(
  json: string,
  { path, type, asFound, parse }: DeclaredColumn,
  found: readonly string[] | undefined,
): string {
  const bare = /^Nullable\((.+)\)$/.exec(type)?.[1];
  const isFound = found?.every((one) => asFound.includes(one)) === true && path.every(isWritable);
  if (path.length > 0 && bare !== undefined && isFound)
    return castOf(placeOf(json, path), bare, asFound.length === 1 ? 'one type' : 'several');
  // A list or dictionary that is not there is empty: ClickHouse has no NULL for it.
  const text = bare === undefined ? `ifNull(${rawOf(json)}, '')` : rawOf(json);
  return parse === undefined ? extracted(text, path, type) : parse.value(extracted(text, path, parse.from));
}

/** A value of any other type than the column's is shown as text where the column is text, and else is NULL. */
function valueOf(json: string, path: string, types: readonly string[]): string {
  const names = path.split('.');
  const type = columnType(types);
  // The engine took the text for a time of whole seconds from 1970 to 2106, and one of ISO 8601 that there is not for another one.
  if (type === MOMENT_TYPE) return momentOf(fromText(json, path, 'String'));
  if (!names.every(isWritable)) return fromText(json, path, type);
  const place = placeOf(json, names);
  const hasTimes = types.some(isTime);
  if (type?.startsWith('Array(') === true && hasTimes) return fromText(json, path, type);
  if (type === undefined) return hasTimes ? fromText(json, path, type) : `toJSONString(${place})`;
  // A text that looked like a time was taken for one, and is written otherwise.
  if (type === 'String' && hasTimes)
    return `if(startsWith(dynamicType(${place}), 'Date'), ${fromText(json, path, type)}, ${place}::Nullable(String))`;
  return castOf(place, type, types.length === 1 || type.startsWith('Array(') ? 'one type' : 'several');
}

/** Of a value of any of the types that rows have there. */
function castOf(place: string, type: string, has: 'one type' | 'several'): string {
  if (type === 'String') return `${place}::Nullable(String)`;
  if (has === 'one type') return `${place}.:${identifier(type)}`;
  // Whole numbers that a double has not all digits of are the nearest one.
  return type === 'Float64'
    ? `toFloat64OrNull(${place}::Nullable(String))`
    : `accurateCastOrNull(${place}, ${quoted(type)})`;
}

/** What the text has there: also under a name that means something to the engine where it is part of a path. Its dots may be of the name. */
function fromText(json: string, path: string, type: string | undefined): string {
  const value = (names: readonly string[]): string => fromTextAt([rawOf(json), ...names.map(quoted)].join(', '), type);
  const whole = value([path]);
  if (!path.includes('.')) return whole;
  const within = value(path.split('.'));
  // A list is empty where there is none, and not NULL.
  return type?.startsWith('Array(') === true
    ? `if(JSONHas(${rawOf(json)}, ${quoted(path)}), ${whole}, ${within})`
    : `coalesce(${whole}, ${within})`;
}

function fromTextAt(place: string, type: string | undefined): string {
  if (type === undefined) return `nullIf(JSONExtractRaw(${place}), '')`;
  return `JSONExtract(${place}, ${quoted(type.startsWith('Array(') ? type : `Nullable(${type})`)})`;
}

const extracted = (text: string, path: readonly string[], type: string): string =>
  `JSONExtract(${[text, ...path.map(quoted), quoted(type)].join(', ')})`;

/** Undefined: values of no common type, shown as JSON. */
function columnType(types: readonly string[]): string | undefined {
  const found = types.filter((type) => type !== 'None');
  // Times in lists are texts, as those of declared types are.
  const known = [...new Set(found.map((type) => (type.startsWith('Array(') ? type.replace(TIMES, 'String') : type)))];
  const [first] = known;
  if (first === undefined) return 'String';
  if (known.every((type) => type.startsWith('Date'))) return MOMENT_TYPE;
  if (known.length === 1) return first.includes('JSON') || first.startsWith('Tuple') ? undefined : first;
  if (known.every((type) => NUMBERS.test(type)))
    return known.some((type) => type.startsWith('Float')) ? 'Float64' : 'Int128';
  return known.some((type) => type.startsWith('Array(') || type.startsWith('Tuple')) ? undefined : 'String';
}

const idOf = (table: Path['table'], owner: string): string => JSON.stringify([table, owner]);
const jsonOf = (table: Path['table']): string => (table === 'events' ? 'data' : 'state');
/** A type is as old as its first event, that of its states too. */
const tablesOf = (table: Path['table']): readonly Path['table'][] =>
  table === 'projection_states' ? [table] : ['events', 'aggregate_states'];
const fixedColumn = (name: string): string => `${SOURCE}.${name} AS ${name}`;
/** Where it has an integer past 64 bits the engine reads nothing of it. To read the JSON column in its place would cost all rows twice the time. */
const rawOf = (json: string): string => `${SOURCE}.${json}_raw`;
const placeOf = (json: string, path: readonly string[]): string => [SOURCE, json, ...path.map(identifier)].join('.');

/** In a path, `:` and `^` before a backtick stand for a type and for an object. */
const isWritable = (name: string): boolean => !/^[:^]|[`\\\0]/.test(name);

/** A name without a character can't be written: such a member is read from the JSON itself. */
const isColumn = (path: string): boolean => path.split('.').every((name) => name !== '');

const snake = (name: string): string =>
  name
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replace(/[^A-Za-z0-9]+/g, '_')
    .toLowerCase();
