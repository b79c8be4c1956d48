import { z } from 'zod';
import { StatefoldError } from '../core/errors.js';
import { isAggregateType, isName } from '../core/names.js';
import { pointerPart, unknownMember } from './nearest-name.js';

/** A value that comes as text, in a query or in a field of a form: what it may be, for the reader of the document, and how it is read. */
export interface Parameter<T> {
  /** JSON Schema (2020-12). */
  readonly schema: Readonly<Record<string, unknown>>;
  /** @throws StatefoldError INVALID_REQUEST that names the parameter */
  read(given: string | undefined, name: string): T;
  /** It may be given more than once: how all of it is read. */
  all?(given: readonly string[], name: string): T;
}
export type Parameters = Readonly<Record<string, Parameter<unknown>>>;
/** What the parameters are read as. */
export type Values<Q extends Parameters> = { readonly [N in keyof Q]: Q[N] extends Parameter<infer T> ? T : never };

const invalid = (message: string): StatefoldError => new StatefoldError('INVALID_REQUEST', message);

export function integerText(given: string, name: string, min: number, max: number): number {
  const value = /^\d{1,16}$/.test(given) ? Number(given) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw invalid(`${name} must be an integer from ${min} to ${max}`);
}

/** Decimal, from `min` to `max`; `usual` where it is left out. */
export function integerFrom(min: number, max?: number): Parameter<number | undefined>;
export function integerFrom(min: number, max: number, usual: number): Parameter<number>;
export function integerFrom(min: number, max = Number.MAX_SAFE_INTEGER, usual?: number): Parameter<number | undefined> {
  return {
    schema: {
      type: 'integer',
      minimum: min,
      ...(max === Number.MAX_SAFE_INTEGER ? {} : { maximum: max }),
      ...(usual === undefined ? {} : { default: usual }),
    },
    read: (given, name) => (given === undefined ? usual : integerText(given, name, min, max)),
  };
}

/** Any text, also an empty one. */
export const anyText: Parameter<string | undefined> = { schema: { type: 'string' }, read: (given) => given };

/** `true` or `false`, which it is where it is left out. */
export const flag: Parameter<boolean> = {
  schema: { type: 'boolean', default: false },
  read: (given, name) => {
    if (given === undefined || given === 'false') return false;
    if (given === 'true') return true;
    throw invalid(`${name} must be true or false`);
  },
};

export function oneOf<const T extends string>(first: T, second: T, usual: T): Parameter<T> {
  return {
    schema: { enum: [first, second], default: usual },
    read: (given = usual, name) => {
      if (given === first || given === second) return given as T;
      throw invalid(`${name} must be ${first} or ${second}`);
    },
  };
}

/** One of the values, or none. */
export function only<const T extends string>(...values: readonly [T, ...T[]]): Parameter<T | undefined> {
  return {
    schema: { enum: values },
    read: (given, name) => {
      if (given === undefined || (values as readonly string[]).includes(given)) return given as T | undefined;
      throw invalid(`${name} must be ${values.join(' or ')}, or be left out`);
    },
  };
}

/** An id or a name, as `core/names.ts` has them; `empty`: it may also be empty, which is as if it were left out. */
export function nameUpTo(max: number, { empty = false } = {}): Parameter<string | undefined> {
  return {
    schema: empty ? { type: 'string', maxLength: max } : { type: 'string', minLength: 1, maxLength: max },
    read: (given, name) => (given === undefined || (empty && given === '') ? undefined : requireName(given, name, max)),
  };
}

export const aggregateTypeName: Parameter<string | undefined> = {
  schema: { type: 'string' },
  read: (given) => (given === undefined ? undefined : requireAggregateType(given)),
};

const RFC_3339 = z.iso.datetime({ offset: true });

const MAX_REPEATED = 100;

/** One that may be given more than once; undefined where it is left out. */
export function repeated<T>(parameter: Parameter<T | undefined>): Parameter<ReadonlySet<T> | undefined> {
  const all = (given: readonly string[], name: string): ReadonlySet<T> | undefined => {
    if (given.length > MAX_REPEATED)
      throw invalid(`${name} is given ${given.length} times, and may be ${MAX_REPEATED}`);
    return given.length === 0 ? undefined : new Set(given.map((one) => parameter.read(one, name) as T));
  };
  return {
    schema: { type: 'array', items: parameter.schema, maxItems: MAX_REPEATED },
    read: (given, name) => all(given === undefined ? [] : [given], name),
    all,
  };
}

/** Milliseconds since the epoch. */
export const time: Parameter<number | undefined> = {
  schema: { type: 'string', format: 'date-time' },
  read: (text, name) => {
    if (text === undefined) return undefined;
    // A plus that was not escaped is a space by now.
    const given = RFC_3339.safeParse(text.replace(/ (?=\d\d:\d\d$)/, '+'));
    if (given.success) return Date.parse(given.data);
    throw invalid(`${name} must be a time of RFC 3339, for instance 2026-03-01T12:00:00Z`);
  },
};

const MAX_CURSOR = 2_048;
const cursor: Parameter<string | undefined> = {
  schema: { type: 'string' },
  read: (given) => {
    if (given !== undefined && (given.length === 0 || given.length > MAX_CURSOR)) throw badCursor();
    return given;
  },
};

/** Of a list; the cursor is opaque, from the page before. */
export const paging = { limit: integerFrom(1, 1_000, 100), cursor };

export const badCursor = (): StatefoldError => invalid('cursor is not one that this list gave');

/** The parameter with words of its own in the document. */
export const described = <T>(parameter: Parameter<T>, description: string, more: object = {}): Parameter<T> => ({
  schema: { ...parameter.schema, ...more, description },
  read: (given, name) => parameter.read(given, name),
  ...(parameter.all && { all: (given: readonly string[], name: string) => parameter.all?.(given, name) as T }),
});

/** Read with the key, before the query is. */
export const TICKET = described(anyText, 'A ticket of POST /auth/tickets, in place of the header X-API-Key.');

/** The path of a URL, without its query. */
export function pathOf(url: string): string {
  const query = url.indexOf('?');
  return query < 0 ? url : url.slice(0, query);
}

/** The query of a URL, without its path. */
export function queryOf(url: string): URLSearchParams {
  const start = url.indexOf('?');
  return new URLSearchParams(start < 0 ? '' : url.slice(start + 1));
}

/** @throws StatefoldError INVALID_REQUEST where one is given twice, or is not as it must be */
export function readQuery<Q extends Parameters>(query: URLSearchParams, parameters: Q): Values<Q> {
  const values: Record<string, unknown> = {};
  for (const [name, parameter] of Object.entries(parameters)) {
    const given = query.getAll(name);
    if (parameter.all !== undefined) {
      values[name] = parameter.all(given, name);
      continue;
    }
    if (given.length > 1) throw invalid(`${name} is given ${given.length} times`);
    values[name] = parameter.read(given[0], name);
  }
  return values as Values<Q>;
}

/** @throws StatefoldError INVALID_REQUEST for a parameter that is none of these, where to drop one would do something else than was asked */
export function onlyParameters(query: URLSearchParams, known: readonly string[]): void {
  for (const name of query.keys())
    if (!known.includes(name)) throw invalid(`${pointerPart(name)} ${unknownMember(name, known, 'query parameter')}`);
}

/** A path parameter or query value that must be an id or a name, as `core/names.ts` has them. */
export function requireName(value: string, name: string, max: number): string {
  if (isName(value, max)) return value;
  throw invalid(`${name} must have 1 to ${max} characters, none of them a control character`);
}

export function requireAggregateType(value: string): string {
  if (isAggregateType(value)) return value;
  throw invalid('an aggregate type has 1 to 128 characters of A-Z, a-z, 0-9, _, . and -');
}
