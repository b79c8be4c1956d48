import { quoted } from './sql-text.js';

/** What the code of a tenant says that its states are, whether there are rows of it or not. */
export interface DeclaredStates {
  readonly table: 'aggregate_states' | 'projection_states';
  /** The aggregate type, or the class of the projection. */
  readonly owner: string;
  /** JSON Schema (2020-12), complete in itself, as the compiler describes states. */
  readonly schema: () => Promise<Schema>;
}

export type Schema = Readonly<Record<string, unknown>>;

/** A column of one type, whatever values rows have. */
export interface DeclaredColumn {
  /** The member of the state, or of an object within it; empty: the state itself, which is no object. */
  readonly path: readonly string[];
  /** ClickHouse's. */
  readonly type: string;
  /** Where rows have values of these types alone, the column of JSON is read, and else the text of the state. */
  readonly asFound: readonly string[];
  /** Undefined: JSON becomes one of the type as it is. */
  readonly parse?: Parse;
}

/** What JSON becomes first, of a type that takes any text, and how that becomes one of the column's type, or NULL. */
interface Parse {
  readonly from: string;
  readonly value: (extracted: string) => string;
}

/** Of objects in objects; what lies deeper has the columns that rows have. */
const MOST_DEPTH = 8;
const MOST_COLUMNS = 1000;
const DEFINITION = /^#\/\$defs\/(.+)$/;

interface Scalar extends Pick<DeclaredColumn, 'type' | 'asFound'> {
  readonly parse?: (text: string) => string;
  /** That JSON Schema says, beside the name of the type in .NET. */
  readonly format?: string;
  /** Within arrays and maps, where it is not parsed; undefined: elements are as the value alone is. */
  readonly inner?: string;
}

const INTEGER: Scalar = { type: 'Int64', asFound: ['Int64'] };
const INTEGERS: ReadonlySet<string> = new Set([
  'sbyte',
  'byte',
  'short',
  'ushort',
  'int',
  'uint',
  'long',
  'nint',
  'nuint',
]);
const WIDE: Scalar = { type: 'Int128', asFound: ['Int64', 'UInt64'] };
const UNSIGNED: Scalar = { type: 'UInt64', asFound: ['Int64', 'UInt64'] };
const NUMBER: Scalar = { type: 'Float64', asFound: ['Float64', 'Int64', 'UInt64'] };
const BOOLEAN: Scalar = { type: 'Bool', asFound: ['Bool'] };
const TEXT: Scalar = { type: 'String', asFound: ['String'] };
/** As ISO 8601 has times: the engine takes hour 25 or day 0 for another time, and a number for a day. */
const TIME = String.raw`^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])([T ]([01]\d|2[0-3])(:[0-5]\d){1,2}([.,]\d+)?(Z|[+-]([01]\d|2[0-3])(:?[0-5]\d)?)?)?$`;
export const MOMENT_TYPE = "DateTime64(7, 'UTC')";
/** NULL for a text that is no time. */
export const momentOf = (text: string): string =>
  `if(match(${text}, ${quoted(TIME)}), parseDateTime64BestEffortOrNull(${text}, 7, 'UTC'), NULL)`;
const MOMENT: Scalar = {
  type: MOMENT_TYPE,
  // Values of JSON were taken for dates where they look like ones, and lost their offset.
  asFound: [],
  parse: momentOf,
  inner: 'String',
};
const DECIMAL: Scalar = {
  type: 'Decimal(38, 10)',
  asFound: [],
  // JSON as such a type ends the whole statement where one value is out of its range.
  parse: (text) => `toDecimal128OrNull(${text}, 10)`,
};
/** A day that the type has not, it would have as its first or last one. */
const dateOf = (text: string): string =>
  `if(toString(toDate32OrNull(${text})) = ${text}, toDate32OrNull(${text}), NULL)`;
const BY_DOTNET: ReadonlyMap<unknown, Scalar> = new Map<unknown, Scalar>([
  ['ulong', UNSIGNED],
  ['decimal', DECIMAL],
  ['Int128', WIDE],
  ['UInt128', { type: 'UInt128', asFound: ['Int64', 'UInt64'] }],
  ['DateTime', { ...MOMENT, format: 'date-time' }],
  ['DateTimeOffset', { ...MOMENT, format: 'date-time' }],
  ['DateOnly', { type: 'Date32', asFound: [], parse: dateOf, inner: 'String', format: 'date' }],
  ['Guid', { type: 'UUID', asFound: [], parse: (text) => `toUUIDOrNull(${text})`, inner: 'String', format: 'uuid' }],
]);
const BY_TYPE: ReadonlyMap<unknown, Scalar> = new Map([
  ['integer', INTEGER],
  ['number', NUMBER],
  ['boolean', BOOLEAN],
  ['string', TEXT],
]);

/** The columns that a state has by its type in C#: members in their order, objects by theirs, lists and dictionaries of simple values whole. */
export function declaredColumns(schema: Schema): DeclaredColumn[] {
  const columns: DeclaredColumn[] = [];
  const visit = (path: readonly string[], at: Schema, within: readonly Schema[]): void => {
    if (columns.length >= MOST_COLUMNS || path.some((name) => name === '' || name.includes('.'))) return;
    const { schema: one } = resolved(schema, at);
    const column = one && columnOf(schema, one);
    if (column !== undefined) return void columns.push({ path, ...column });
    const properties = one?.['properties'];
    if (one === undefined || !isObject(properties) || within.includes(one) || within.length >= MOST_DEPTH) return;
    for (const [name, member] of Object.entries(properties))
      if (isObject(member)) visit([...path, name], member, [...within, one]);
  };
  visit([], schema, []);
  return columns;
}

/** Undefined: it has columns of its own, or is of no one type. */
function columnOf(root: Schema, schema: Schema): Omit<DeclaredColumn, 'path'> | undefined {
  const scalar = scalarOf(schema);
  if (scalar !== undefined) {
    const { type, asFound, parse } = scalar;
    return { type: `Nullable(${type})`, asFound, ...(parse && { parse: { from: TEXT_OR_NULL, value: parse } }) };
  }
  const { type, items, properties, additionalProperties: values } = schema;
  if (type === 'array' && isObject(items)) return listed(root, items, LIST);
  if (type === 'object' && properties === undefined && isObject(values)) return listed(root, values, DICTIONARY);
  return undefined;
}

const TEXT_OR_NULL = 'Nullable(String)';

interface Container {
  readonly type: (inner: string) => string;
  /** One with another value in the place of each. */
  readonly mapped: (extracted: string, value: (element: string) => string) => string;
}
const LIST: Container = {
  type: (inner) => `Array(${inner})`,
  mapped: (extracted, value) => `arrayMap(element -> ${value('element')}, ${extracted})`,
};
const DICTIONARY: Container = {
  type: (inner) => `Map(String, ${inner})`,
  mapped: (extracted, value) => `mapApply((name, element) -> (name, ${value('element')}), ${extracted})`,
};

function listed(root: Schema, element: Schema, container: Container): Omit<DeclaredColumn, 'path'> | undefined {
  const { schema, orNull } = resolved(root, element);
  const scalar = schema && scalarOf(schema);
  if (scalar === undefined) return undefined;
  const { type, inner, parse } = scalar;
  if (inner !== undefined || parse === undefined) {
    const plain = inner ?? type;
    return { type: container.type(orNull ? `Nullable(${plain})` : plain), asFound: [] };
  }
  return {
    type: container.type(`Nullable(${type})`),
    asFound: [],
    parse: { from: container.type(TEXT_OR_NULL), value: (extracted) => container.mapped(extracted, parse) },
  };
}

function scalarOf(schema: Schema): Scalar | undefined {
  const values = schema['enum'];
  if (!Array.isArray(values)) return ofDotnet(schema);
  if (values.every((value) => typeof value === 'string')) return TEXT;
  if (!values.every((value) => typeof value === 'number')) return undefined;
  return values.some((value) => value >= 2 ** 63) ? UNSIGNED : INTEGER;
}

function ofDotnet({ type, format, 'x-dotnet': name }: Schema): Scalar | undefined {
  const byType = BY_TYPE.get(type);
  const known = BY_DOTNET.get(name);
  // A class of the tenant's may have the name of one of .NET's.
  if (byType !== undefined && known !== undefined && known.format === format) return known;
  // Flags of an enum, of which it is not said how many bits they have.
  return byType === INTEGER && typeof name === 'string' && !INTEGERS.has(name) ? WIDE : byType;
}

/** What a reference names, and what may be null besides. */
function resolved(root: Schema, schema: Schema): { readonly schema: Schema | undefined; readonly orNull: boolean } {
  const { $ref: reference, anyOf } = schema;
  if (Array.isArray(anyOf)) {
    const branches: readonly unknown[] = anyOf;
    const [one, ...others] = branches.filter((branch) => !isObject(branch) || branch['type'] !== 'null');
    const only = others.length === 0 && isObject(one) ? resolved(root, one).schema : undefined;
    return { schema: only, orNull: true };
  }
  if (typeof reference !== 'string') return { schema, orNull: false };
  const name = DEFINITION.exec(reference)?.[1]?.replaceAll('~1', '/').replaceAll('~0', '~');
  const definitions = root['$defs'];
  const target = name !== undefined && isObject(definitions) ? definitions[name] : undefined;
  // A definition is a class, or what may be one of several.
  return { schema: isObject(target) && target['anyOf'] === undefined ? target : undefined, orNull: false };
}

const isObject = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
