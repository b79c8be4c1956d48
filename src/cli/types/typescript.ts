/** JSON Schema as it comes from the service: of states by the compiler, of events by whoever has set it. */
export type Schema = Readonly<Record<string, unknown>>;

const IDENTIFIER = /^[A-Za-z_$][\w$]*$/;
const REFERENCE = '#/$defs/';
/** What they would stand for is another thing. */
const RESERVED = new Set([
  ...[
    'any',
    'unknown',
    'never',
    'string',
    'number',
    'boolean',
    'object',
    'symbol',
    'bigint',
    'null',
    'undefined',
    'void',
  ],
  // Words of the language, of which no type may have the name.
  ...'break case catch class const continue debugger default delete do else enum export extends false finally for function if import in instanceof new return super switch this throw true try typeof var while with implements interface let package private protected public static yield await'.split(
    ' ',
  ),
  ...['Record', 'Array', 'ReadonlyArray', 'Object', 'String', 'Number', 'Boolean', 'Date', 'Map', 'Set', 'Promise'],
]);
/** Past it a type is `unknown`: schemas of events may be anything. */
const MAX_DEPTH = 40;

const isSchema = (value: unknown): value is Schema =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const quoted = (name: string): string => (IDENTIFIER.test(name) ? name : JSON.stringify(name));
const listed = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** Of a text that goes into a comment. */
const commented = (text: string): string => text.replaceAll('*/', '*\\/').replaceAll(/\s+/g, ' ');

/** The named types of one file: each has a name of its own, whatever it is called where it comes from. */
export class TypeNames {
  readonly #taken = new Set<string>(RESERVED);
  readonly #types: string[] = [];

  /** A free name as close to the wanted one as can be: the last part of `Shop.Sales.Order`. */
  name(wanted: string): string {
    const simple = wanted
      .replace(/<.*$/s, '')
      .split(/[.+/]/)
      .at(-1)
      ?.replaceAll(/[^\w$]+(\w?)/g, (_, next: string) => next.toUpperCase());
    const base = simple !== undefined && IDENTIFIER.test(simple) ? simple : `T${simple ?? ''}`;
    let name = base;
    for (let n = 2; this.#taken.has(name); n++) name = `${base}${n}`;
    this.#taken.add(name);
    return name;
  }

  add(declaration: string): void {
    this.#types.push(declaration);
  }

  get declarations(): readonly string[] {
    return this.#types;
  }
}

/** Writes the TypeScript of one schema, whose `$defs` become types with names. */
export class SchemaWriter {
  readonly #names: TypeNames;
  readonly #definitions: Schema;
  /** By the name in `$defs`. */
  readonly #named: Map<string, string>;

  /** `named`: names that were given before, where several schemas have definitions in common. */
  constructor(schema: Schema, names: TypeNames, named = new Map<string, string>()) {
    this.#names = names;
    this.#named = named;
    this.#definitions = isSchema(schema['$defs']) ? schema['$defs'] : {};
  }

  /** A type expression. */
  typeOf(schema: unknown, depth = 0): string {
    if (schema === false) return 'never';
    if (!isSchema(schema) || depth > MAX_DEPTH) return 'unknown';
    if (typeof schema['$ref'] === 'string') return this.#reference(schema['$ref']);
    if (Object.hasOwn(schema, 'const')) return literal(schema['const']);
    if (Array.isArray(schema['enum'])) return union(schema['enum'].map(literal));
    const parts: string[] = [];
    for (const keyword of ['anyOf', 'oneOf'])
      if (Array.isArray(schema[keyword])) parts.push(union(schema[keyword].map((one) => this.typeOf(one, depth + 1))));
    for (const one of listed(schema['allOf'])) parts.push(this.typeOf(one, depth + 1));
    const own = this.#own(schema, depth);
    if (own !== 'unknown') parts.unshift(own);
    const known = parts.filter((part) => part !== 'unknown');
    if (known.length === 0) return 'unknown';
    return known.length === 1 ? (known[0] ?? 'unknown') : known.map((part) => `(${part})`).join(' & ');
  }

  #reference(uri: string): string {
    const name = uri.startsWith(REFERENCE)
      ? uri.slice(REFERENCE.length).replaceAll('~1', '/').replaceAll('~0', '~')
      : undefined;
    const target = name === undefined ? undefined : this.#definitions[name];
    // Anchors and places within: rare, and not worth a wrong type.
    if (name === undefined || target === undefined) return 'unknown';
    let given = this.#named.get(name);
    if (given === undefined) {
      this.#named.set(name, (given = this.#names.name(name)));
      this.#names.add(`export type ${given} = ${this.typeOf(target)};`);
    }
    return given;
  }

  /** By `type` and what goes with it. */
  #own(schema: Schema, depth: number): string {
    const { type } = schema;
    if (Array.isArray(type)) return union(type.map((one) => this.#own({ ...schema, type: one as unknown }, depth)));
    switch (type) {
      case 'string':
        return 'string';
      case 'integer':
      case 'number':
        return 'number';
      case 'boolean':
        return 'boolean';
      case 'null':
        return 'null';
      case 'array':
        return this.#array(schema, depth);
      case 'object':
        return this.#object(schema, depth);
      default:
        return isSchema(schema['properties']) ? this.#object(schema, depth) : 'unknown';
    }
  }

  #array(schema: Schema, depth: number): string {
    const first = listed(schema['prefixItems']).map((one) => `${this.typeOf(one, depth + 1)}?`);
    const rest = schema['items'] === undefined ? 'unknown' : this.typeOf(schema['items'], depth + 1);
    if (first.length === 0) return `readonly (${rest})[]`;
    return `readonly [${[...first, ...(rest === 'never' ? [] : [`...(${rest})[]`])].join(', ')}]`;
  }

  #object(schema: Schema, depth: number): string {
    const properties = isSchema(schema['properties']) ? schema['properties'] : {};
    const required = new Set(listed(schema['required']));
    const additional = schema['additionalProperties'];
    const names = Object.keys(properties);
    for (const name of required) if (typeof name === 'string' && !Object.hasOwn(properties, name)) names.push(name);
    const isOpen = additional !== false && schema['unevaluatedProperties'] !== false;
    if (names.length === 0 || isSchema(schema['patternProperties']))
      if (names.length === 0)
        return isOpen
          ? `{ readonly [name: string]: ${additional === undefined ? 'unknown' : this.typeOf(additional, depth + 1)} }`
          : '{ readonly [name: string]: never }';
    const lines = names.map((name) => {
      const one = properties[name];
      const says =
        isSchema(one) && typeof one['description'] === 'string' ? `/** ${commented(one['description'])} */ ` : '';
      return `${says}readonly ${quoted(name)}${required.has(name) ? '' : '?'}: ${this.typeOf(one, depth + 1)};`;
    });
    // What else there may be can be anything: an index of its own type would have to hold for the named ones too.
    if (isOpen) lines.push('readonly [name: string]: unknown;');
    return `{ ${lines.join(' ')} }`;
  }
}

const union = (types: readonly string[]): string => {
  const all = [...new Set(types)];
  if (all.includes('unknown')) return 'unknown';
  const some = all.filter((one) => one !== 'never');
  return some.length === 0 ? 'never' : some.map((one) => (/[&=]|^readonly/.test(one) ? `(${one})` : one)).join(' | ');
};

/** Of a value of JSON. */
function literal(value: unknown): string {
  if (Array.isArray(value)) return `readonly [${value.map(literal).join(', ')}]`;
  if (isSchema(value))
    return `{ ${Object.entries(value)
      .map(([name, one]) => `readonly ${quoted(name)}: ${literal(one)};`)
      .join(' ')} }`;
  return JSON.stringify(value);
}
