import { canonical, codePoints, isMultiple, isObject, own, type JsonObject } from './json-values.js';
import { Evaluated, type Run } from './run.js';
import { apply, FaultyKeyword, type Check, type Keyword, type KeywordContext, type Node } from './schema-node.js';

const TYPES: Readonly<Record<string, { readonly is: (value: unknown) => boolean; readonly called: string }>> = {
  null: { is: (value) => value === null, called: 'null' },
  boolean: { is: (value) => typeof value === 'boolean', called: 'true or false' },
  object: { is: isObject, called: 'an object' },
  array: { is: Array.isArray, called: 'an array' },
  number: { is: (value) => typeof value === 'number', called: 'a number' },
  string: { is: (value) => typeof value === 'string', called: 'a string' },
  integer: { is: Number.isInteger, called: 'an integer' },
};
/** Of each match of a pattern, however short the text. */
const MATCH_STEPS = 4;
/** Of a multiple that is told by decimal digits, not by what the processor has. */
const MULTIPLE_STEPS = 80;
/** Characters of a text that are compared with another in a step. */
const COMPARED_PER_STEP = 256;
/** How much of a value of the schema a message shows. */
const SHOWN = 80;

const type: Keyword = (value) => {
  const names: readonly unknown[] = Array.isArray(value) ? value : [value];
  const types = names.map((name, i) => {
    const known = typeof name === 'string' && Object.hasOwn(TYPES, name) ? TYPES[name] : undefined;
    if (known === undefined || names.indexOf(name) !== i)
      throw new FaultyKeyword(`must be one of ${Object.keys(TYPES).join(', ')}, or a list of some of them, each once`);
    return known;
  });
  if (types.length === 0) throw new FaultyKeyword('must not be empty');
  const message = `must be ${types.map(({ called }) => called).join(' or ')}`;
  return (given, run) => types.some(({ is }) => is(given)) || run.violated(message);
};

const constant: Keyword = (value) => {
  const expected = canonical(value, () => undefined);
  const message = `must be ${shown(JSON.stringify(value))}`;
  return (given, run) => sameText(given, expected, value, run) || run.violated(message);
};

const enumeration: Keyword = (value) => {
  if (!Array.isArray(value)) throw new FaultyKeyword('must be an array');
  const texts = new Set(value.map((one) => canonical(one, () => undefined)));
  const simple = new Set<unknown>(value.filter((one) => typeof one !== 'object' || one === null));
  const message =
    value.length === 0
      ? 'must not be there: no value is allowed'
      : `must be one of ${shown(JSON.stringify(value).slice(1, -1))}`;
  return (given, run) => {
    const fits =
      typeof given === 'object' && given !== null
        ? texts.has(canonical(given, (steps) => run.spend(steps)))
        : simple.has(compared(given, run));
    return fits || run.violated(message);
  };
};

/** Paid for: texts that are the same are gone through, and a thousand schemas may ask. */
function compared(given: unknown, run: Run): unknown {
  if (typeof given === 'string') run.spend(given.length / COMPARED_PER_STEP);
  return given;
}

const sameText = (given: unknown, expected: string, value: unknown, run: Run): boolean =>
  typeof given === 'object' && given !== null
    ? typeof value === 'object' && canonical(given, (steps) => run.spend(steps)) === expected
    : compared(given, run) === value;

/** Of numbers. */
const bound =
  (fits: (value: number, limit: number) => boolean, words: string): Keyword =>
  (limit) => {
    if (typeof limit !== 'number') throw new FaultyKeyword('must be a number');
    const message = `must be ${words} ${limit}`;
    return (value, run) => typeof value !== 'number' || fits(value, limit) || run.violated(message);
  };

const multipleOf: Keyword = (of) => {
  if (typeof of !== 'number' || of <= 0) throw new FaultyKeyword('must be a number greater than 0');
  return (value, run) => {
    if (typeof value !== 'number') return true;
    run.spend(Number.isSafeInteger(value) && Number.isSafeInteger(of) ? 1 : MULTIPLE_STEPS);
    return isMultiple(value, of) || run.violated(`must be a multiple of ${of}`);
  };
};

function count(limit: unknown): number {
  if (typeof limit !== 'number' || !Number.isInteger(limit) || limit < 0)
    throw new FaultyKeyword('must be an integer of at least 0');
  return limit;
}

/** Of texts, lists and objects. */
const size =
  (sizeOf: (value: unknown, run: Run) => number | undefined, least: boolean, what: string): Keyword =>
  (given) => {
    const limit = count(given);
    const message = `must have at ${least ? 'least' : 'most'} ${limit} ${what}`;
    return (value, run) => {
      const found = sizeOf(value, run);
      return found === undefined || (least ? found >= limit : found <= limit) || run.violated(message);
    };
  };
const lengthOf = (value: unknown, run: Run): number | undefined => {
  if (typeof value !== 'string') return undefined;
  run.spend(value.length / 32);
  return codePoints(value);
};
const itemsOf = (value: unknown): number | undefined => (Array.isArray(value) ? value.length : undefined);
const membersOf = (value: unknown, run: Run): number | undefined =>
  isObject(value) ? run.namesOf(value).length : undefined;

const pattern: Keyword = (source, context) => {
  if (typeof source !== 'string') throw new FaultyKeyword('must be a string');
  const compiled = context.pattern(source);
  return (value, run) => {
    if (typeof value !== 'string') return true;
    run.spend(MATCH_STEPS + value.length * compiled.costPerCharacter);
    return compiled.matches(value) || run.violated(`must match ${shown(source)}`);
  };
};

const uniqueItems: Keyword = (value) => {
  if (typeof value !== 'boolean') throw new FaultyKeyword('must be true or false');
  if (!value) return undefined;
  return (given, run) => {
    if (!Array.isArray(given)) return true;
    const seen = new Set<string>();
    for (const [i, one] of given.entries()) {
      const text = canonical(one, (steps) => run.spend(steps));
      if (seen.has(text)) return run.violated('is in the array before', i);
      seen.add(text);
    }
    return true;
  };
};

function names(value: unknown, ...parts: (string | number)[]): readonly string[] {
  if (!Array.isArray(value)) throw new FaultyKeyword('must be an array of names', parts);
  const known = new Set<string>();
  for (const [i, name] of value.entries()) {
    if (typeof name !== 'string') throw new FaultyKeyword('must be a string', [...parts, i]);
    if (known.has(name)) throw new FaultyKeyword('is there twice', [...parts, i]);
    known.add(name);
  }
  return value as string[];
}

const required: Keyword = (value) => {
  const all = names(value);
  return (given, run) => {
    if (!isObject(given)) return true;
    run.spend(all.length);
    let fits = true;
    for (const name of all) {
      if (Object.hasOwn(given, name)) continue;
      fits = run.violated('is required', name);
      if (run.isDecided) break;
    }
    return fits;
  };
};

const dependentRequired: Keyword = (value) => {
  const entries = Object.entries(objectOf(value)).map(([name, needs]) => [name, names(needs, name)] as const);
  return (given, run) => {
    if (!isObject(given)) return true;
    let fits = true;
    for (const [name, needs] of entries) {
      run.spend(1 + needs.length);
      if (!Object.hasOwn(given, name)) continue;
      for (const need of needs)
        if (!Object.hasOwn(given, need)) fits = run.violated(`is required where ${shown(name)} is there`, need);
    }
    return fits;
  };
};

function objectOf(value: unknown): JsonObject {
  if (!isObject(value)) throw new FaultyKeyword('must be an object');
  return value;
}

function schemasOf(value: unknown): readonly unknown[] {
  if (!Array.isArray(value) || value.length === 0)
    throw new FaultyKeyword('must be an array of schemas, and not empty');
  return value;
}

/** Applies it to the same value; what it has evaluated counts where it fits. */
function applied(node: Node, value: unknown, run: Run, evaluated: Evaluated | undefined): boolean {
  if (evaluated === undefined) return apply(node, value, run, undefined);
  const inner = new Evaluated();
  const fits = apply(node, value, run, inner);
  if (fits) evaluated.add(inner, run);
  return fits;
}

const allOf: Keyword = (value, context) => {
  const nodes = schemasOf(value).map((one, i) => context.inPlace(one, i));
  return (given, run, evaluated) => {
    let fits = true;
    for (const node of nodes) {
      if (applied(node, given, run, evaluated)) continue;
      fits = false;
      if (run.isDecided) break;
    }
    return fits;
  };
};

const anyOf: Keyword = (value, context) => {
  const nodes = schemasOf(value).map((one, i) => context.inPlace(one, i));
  return (given, run, evaluated) => {
    let fits = false;
    for (const node of nodes) {
      if (!run.quietly(() => applied(node, given, run, evaluated))) continue;
      fits = true;
      // The others may have evaluated more.
      if (evaluated === undefined) break;
    }
    return (
      fits ||
      (nodes.length === 1 && nodes[0] ? apply(nodes[0], given, run, context.evaluated()) : none(nodes.length, run))
    );
  };
};

const oneOf: Keyword = (value, context) => {
  const nodes = schemasOf(value).map((one, i) => context.inPlace(one, i));
  return (given, run, evaluated) => {
    let fitting = 0;
    for (const node of nodes) {
      if (run.quietly(() => applied(node, given, run, evaluated))) fitting++;
      if (fitting > 1) return run.violated('must fit exactly one of the alternatives of oneOf, and fits more');
    }
    return fitting === 1 || none(nodes.length, run);
  };
};

const none = (alternatives: number, run: Run): boolean =>
  run.violated(`must fit one of the ${alternatives} alternatives, and fits none`);

const not: Keyword = (value, context) => {
  const node = context.inPlace(value);
  return (given, run) =>
    !run.quietly(() => apply(node, given, run, context.evaluated())) ||
    run.violated('must not be what the schema excludes by not');
};

const conditional: Keyword = (value, context) => {
  const condition = context.inPlace(value);
  const [then, otherwise] = ['then', 'else'].map((name) => {
    const schema = own(context.schema, name);
    return schema === undefined ? undefined : context.inPlace(schema);
  });
  return (given, run, evaluated) => {
    const chosen = run.quietly(() => applied(condition, given, run, evaluated)) ? then : otherwise;
    return chosen === undefined || applied(chosen, given, run, evaluated);
  };
};

const dependentSchemas: Keyword = (value, context) => {
  const entries = Object.entries(objectOf(value)).map(([name, one]) => [name, context.inPlace(one, name)] as const);
  return (given, run, evaluated) => {
    if (!isObject(given)) return true;
    let fits = true;
    for (const [name, node] of entries) {
      run.spend(1);
      if (Object.hasOwn(given, name)) fits = applied(node, given, run, evaluated) && fits;
    }
    return fits;
  };
};

function referenceText(value: unknown): string {
  if (typeof value !== 'string') throw new FaultyKeyword('must be a string');
  return value;
}

const reference: Keyword = (value, context) => {
  const node = context.reference(referenceText(value));
  return (given, run, evaluated) => applied(node, given, run, evaluated);
};

const dynamicReference: Keyword = (value, context) => {
  const find = context.dynamicReference(referenceText(value));
  return (given, run, evaluated) => applied(find(run), given, run, evaluated);
};

/** Each of the value's parts that `partsOf` names fits; what was looked at is noted. */
const members =
  (context: KeywordContext, nodeOf: (name: string, run: Run) => readonly Node[], all: boolean): Check =>
  (value, run, evaluated) => {
    if (!isObject(value)) return true;
    let fits = true;
    for (const name of run.namesOf(value)) {
      run.spend(1);
      for (const node of nodeOf(name, run)) {
        evaluated?.names.add(name);
        if (!run.at(name, () => apply(node, value[name], run, context.evaluated()))) fits = false;
      }
      if (!fits && run.isDecided) return false;
    }
    if (all && evaluated !== undefined) evaluated.all = true;
    return fits;
  };

const NONE: readonly Node[] = [];

const properties: Keyword = (value, context) => {
  const nodes = new Map(Object.entries(objectOf(value)).map(([name, one]) => [name, context.node(one, name)]));
  const lists = new Map([...nodes].map(([name, node]) => [name, [node]]));
  return members(context, (name) => lists.get(name) ?? NONE, false);
};

const patternProperties: Keyword = (value, context) => {
  const nodes = Object.entries(objectOf(value)).map(([source, one]) => {
    try {
      const pattern = context.pattern(source);
      const node = context.node(one, source);
      return { pattern, node, alone: [node] };
    } catch (error) {
      throw error instanceof FaultyKeyword ? new FaultyKeyword(error.message, [source, ...error.parts]) : error;
    }
  });
  const nodesOf = (name: string, run: Run): readonly Node[] => {
    let found = NONE;
    let several: Node[] | undefined;
    for (const { pattern: compiled, node, alone } of nodes) {
      run.spend(MATCH_STEPS + name.length * compiled.costPerCharacter);
      if (!compiled.matches(name)) continue;
      // As a rule one fits at most: a list for each name would take longer than the match.
      if (found === NONE) found = alone;
      else if (several === undefined) found = several = [...found, node];
      else several.push(node);
    }
    return found;
  };
  return members(context, nodesOf, false);
};

const additionalProperties: Keyword = (value, context) => {
  const node = context.node(value);
  const known = own(context.schema, 'properties');
  const listed = new Set(isObject(known) ? Object.keys(known) : []);
  const byPattern = own(context.schema, 'patternProperties');
  const patterns = isObject(byPattern) ? Object.keys(byPattern).map((source) => context.pattern(source)) : [];
  const isOther = (name: string, run: Run): boolean =>
    !listed.has(name) &&
    !patterns.some((compiled) => {
      run.spend(MATCH_STEPS + name.length * compiled.costPerCharacter);
      return compiled.matches(name);
    });
  if (node.never)
    return (given, run) => {
      if (!isObject(given)) return true;
      let fits = true;
      for (const name of run.namesOf(given)) {
        run.spend(1);
        if (isOther(name, run)) fits = run.violated('is not a member that the schema knows', name);
        if (!fits && run.isDecided) break;
      }
      return fits;
    };
  const others = [node];
  return members(context, (name, run) => (isOther(name, run) ? others : NONE), false);
};

const propertyNames: Keyword = (value, context) => {
  const node = context.node(value);
  return (given, run) => {
    if (!isObject(given)) return true;
    let fits = true;
    for (const name of run.namesOf(given))
      if (!run.quietly(() => apply(node, name, run, context.evaluated())))
        fits = run.violated('has a name that the schema does not allow', name);
    return fits;
  };
};

/** Each item from the first on, up to the end, fits. */
function itemsFit(
  value: readonly unknown[],
  [first, end]: readonly [number, number],
  nodeAt: (index: number) => Node,
  run: Run,
  context: KeywordContext,
): boolean {
  let fits = true;
  for (let i = first; i < end; i++) {
    if (!run.at(i, () => apply(nodeAt(i), value[i], run, context.evaluated()))) fits = false;
    if (!fits && run.isDecided) break;
  }
  return fits;
}

const prefixItems: Keyword = (value, context) => {
  const nodes = schemasOf(value).map((one, i) => context.node(one, i));
  return (given, run, evaluated) => {
    if (!Array.isArray(given)) return true;
    if (evaluated !== undefined) evaluated.upTo = Math.max(evaluated.upTo, nodes.length);
    const end = Math.min(nodes.length, given.length);
    return itemsFit(given, [0, end], (i) => nodes[i] as Node, run, context);
  };
};

const items: Keyword = (value, context) => {
  if (Array.isArray(value)) throw new FaultyKeyword('must be one schema: a list of them, item by item, is prefixItems');
  const node = context.node(value);
  const before = own(context.schema, 'prefixItems');
  const first = Array.isArray(before) ? before.length : 0;
  return (given, run, evaluated) => {
    if (!Array.isArray(given)) return true;
    if (evaluated !== undefined) evaluated.all = true;
    return itemsFit(given, [first, given.length], () => node, run, context);
  };
};

const contains: Keyword = (value, context) => {
  const node = context.node(value);
  const least = own(context.schema, 'minContains');
  const most = own(context.schema, 'maxContains');
  const [min, max] = [least === undefined ? 1 : count(least), most === undefined ? Infinity : count(most)];
  return (given, run, evaluated) => {
    if (!Array.isArray(given)) return true;
    let found = 0;
    for (const [i, one] of given.entries()) {
      if (!run.quietly(() => apply(node, one, run, context.evaluated()))) continue;
      found++;
      evaluated?.items.add(i);
    }
    if (found < min) return run.violated(`must contain at least ${min} of what the schema asks for by contains`);
    return found <= max || run.violated(`must contain at most ${max} of what the schema asks for by contains`);
  };
};

const unevaluatedProperties: Keyword = (value, context) => {
  const node = context.node(value);
  return (given, run, evaluated) => {
    if (!isObject(given) || evaluated === undefined || evaluated.all) return true;
    let fits = true;
    for (const name of run.namesOf(given)) {
      run.spend(1);
      if (evaluated.names.has(name)) continue;
      if (node.never) fits = run.violated('is not a member that the schema knows', name);
      else if (!run.at(name, () => apply(node, given[name], run, new Evaluated()))) fits = false;
      if (!fits && run.isDecided) break;
    }
    evaluated.all = true;
    return fits;
  };
};

const unevaluatedItems: Keyword = (value, context) => {
  const node = context.node(value);
  return (given, run, evaluated) => {
    if (!Array.isArray(given) || evaluated === undefined || evaluated.all) return true;
    let fits = true;
    for (let i = evaluated.upTo; i < given.length; i++) {
      run.spend(1);
      if (!evaluated.items.has(i) && !run.at(i, () => apply(node, given[i], run, new Evaluated()))) fits = false;
      if (!fits && run.isDecided) break;
    }
    evaluated.all = true;
    return fits;
  };
};

const shown = (text: string): string => (text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text);

/** Every keyword that checks something, in the order in which they are checked. */
export const CHECKS: ReadonlyMap<string, Keyword> = new Map<string, Keyword>([
  ['type', type],
  ['const', constant],
  ['enum', enumeration],
  ['required', required],
  ['maximum', bound((value, limit) => value <= limit, 'at most')],
  ['exclusiveMaximum', bound((value, limit) => value < limit, 'less than')],
  ['minimum', bound((value, limit) => value >= limit, 'at least')],
  ['exclusiveMinimum', bound((value, limit) => value > limit, 'greater than')],
  ['multipleOf', multipleOf],
  ['maxLength', size(lengthOf, false, 'characters')],
  ['minLength', size(lengthOf, true, 'characters')],
  ['pattern', pattern],
  ['maxItems', size(itemsOf, false, 'items')],
  ['minItems', size(itemsOf, true, 'items')],
  ['uniqueItems', uniqueItems],
  ['maxProperties', size(membersOf, false, 'members')],
  ['minProperties', size(membersOf, true, 'members')],
  ['dependentRequired', dependentRequired],
  ['$ref', reference],
  ['$dynamicRef', dynamicReference],
  ['allOf', allOf],
  ['anyOf', anyOf],
  ['oneOf', oneOf],
  ['not', not],
  ['if', conditional],
  ['dependentSchemas', dependentSchemas],
  ['prefixItems', prefixItems],
  ['items', items],
  ['contains', contains],
  ['properties', properties],
  ['patternProperties', patternProperties],
  ['additionalProperties', additionalProperties],
  ['propertyNames', propertyNames],
  // What the others have evaluated is known by now.
  ['unevaluatedItems', unevaluatedItems],
  ['unevaluatedProperties', unevaluatedProperties],
]);
