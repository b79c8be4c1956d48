import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { brotliDecompressSync } from 'node:zlib';
import { StatefoldError } from '../../src/core/errors.js';
import { ROOT } from '../support/service.js';
import { JsonSchema } from '../../src/event-schemas/json-schema.js';
import { LinearPattern } from '../../src/event-schemas/linear-pattern.js';
import { Run, stepsFor, TooCostlyError } from '../../src/event-schemas/run.js';

interface Suite {
  /** What of github.com/json-schema-org/JSON-Schema-Test-Suite speaks of draft 2020-12 and needs no other document. */
  readonly files: Readonly<
    Record<
      string,
      readonly {
        readonly description: string;
        readonly schema: unknown;
        readonly tests: readonly { readonly description: string; readonly data: unknown; readonly valid: boolean }[];
      }[]
    >
  >;
}
const suite = JSON.parse(
  brotliDecompressSync(readFileSync(join(ROOT, 'test', 'support', 'json-schema-test-suite.json.br'))).toString(),
) as Suite;

/** Groups that need what is refused here, and what it is refused for. */
const REFUSED = new Map([
  ['validate definition against metaschema', 'nothing is fetched'],
  ['strict-tree schema, guards against misspelled properties', 'nothing is fetched'],
  ['tests for implementation dynamic anchor and reference link', 'nothing is fetched'],
  ['$ref and $dynamicAnchor are independent of order - $defs first', 'nothing is fetched'],
  ['$ref and $dynamicAnchor are independent of order - $ref first', 'nothing is fetched'],
  ['$ref to $dynamicRef finds detached $dynamicAnchor', 'nothing is fetched'],
  ['remote ref, containing refs itself', 'nothing is fetched'],
  // \p{Letter}: RE2 knows the short names, \p{L}.
  ['pattern with Unicode property escape requires unicode mode', 'linear time'],
  ['patternProperties with Unicode property escape', 'linear time'],
]);

const sizeOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));
const violations = (schema: unknown, value: unknown) => new JsonSchema(schema).violations(value, '', sizeOf(value));
const places = (schema: unknown, value: unknown): string[] => violations(schema, value).map(({ pointer }) => pointer);
function refusal(schema: unknown): StatefoldError {
  try {
    new JsonSchema(schema, '/schema');
  } catch (error) {
    assert.ok(error instanceof StatefoldError, String(error));
    assert.equal(error.code, 'INVALID_REQUEST');
    return error;
  }
  throw new assert.AssertionError({ message: 'the schema was taken' });
}

for (const [file, groups] of Object.entries(suite.files))
  test(`the official tests of JSON Schema 2020-12: ${file}`, () => {
    for (const { description, schema, tests } of groups) {
      const refused = REFUSED.get(description);
      if (refused !== undefined) {
        assert.match(refusal(schema).message, new RegExp(refused), description);
        continue;
      }
      const compiled = new JsonSchema(schema);
      for (const { description: of, data, valid } of tests)
        assert.equal(compiled.violations(data, '', sizeOf(data)).length === 0, valid, `${description}: ${of}`);
    }
  });

test('what does not fit is told by its place', () => {
  const schema = {
    type: 'object',
    required: ['id', 'lines'],
    properties: {
      id: { type: 'string', pattern: '^[A-Z]-\\d+$' },
      lines: { type: 'array', minItems: 1, items: { type: 'object', properties: { 'a/b': { minimum: 1 } } } },
      currency: { enum: ['EUR', 'USD'] },
    },
    additionalProperties: false,
  };
  assert.deepEqual(violations(schema, { id: 'A-1', lines: [{}] }), []);
  assert.deepEqual(violations(schema, { lines: [{ 'a/b': 0 }, 7], currency: 'DM', more: 1 }), [
    { pointer: '/id', message: 'is required' },
    { pointer: '/lines/0/a~1b', message: 'must be at least 1' },
    { pointer: '/lines/1', message: 'must be an object' },
    { pointer: '/currency', message: 'must be one of "EUR","USD"' },
    { pointer: '/more', message: 'is not a member that the schema knows' },
  ]);
  assert.deepEqual(new JsonSchema(schema).violations({ id: 'a', lines: [] }, '/events/3/data', 20), [
    { pointer: '/events/3/data/id', message: 'must match ^[A-Z]-\\d+$' },
    { pointer: '/events/3/data/lines', message: 'must have at least 1 items' },
  ]);
});

test('members with names of the language are members like others', () => {
  const strict = { properties: { a: true }, additionalProperties: false, required: ['a'] };
  assert.deepEqual(places(strict, JSON.parse('{"a":1,"__proto__":2,"constructor":3}')), ['/__proto__', '/constructor']);
  assert.deepEqual(places({ required: ['toString', '__proto__'] }, {}), ['/toString', '/__proto__']);
  const typed = JSON.parse('{"properties":{"__proto__":{"type":"string"}}}') as unknown;
  assert.deepEqual(places(typed, JSON.parse('{"__proto__":1}')), ['/__proto__']);
});

test('a number that JavaScript does not have is no multiple, and no fault', () => {
  assert.deepEqual(places({ multipleOf: 0.1 }, JSON.parse('1e400')), ['']);
});

test('at most twenty places are told', () => {
  const many = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`m${i}`, i]));
  assert.equal(places({ additionalProperties: { type: 'string' } }, many).length, 20);
});

test('a schema that is none is refused with each place', () => {
  assert.deepEqual(
    refusal({
      type: 'sring',
      required: 'id',
      properties: { a: { minLength: -1 }, b: 7 },
      items: [true],
      $ref: 'https://example.com/other.json',
    }).errors?.map(({ pointer }) => pointer),
    ['/schema/properties/b'],
  );
  assert.deepEqual(
    refusal({ type: 'sring', required: 'id', properties: { a: { minLength: -1 } }, $ref: 'other.json' })
      .errors?.map(({ pointer }) => pointer)
      .sort(),
    ['/schema/$ref', '/schema/properties/a/minLength', '/schema/required', '/schema/type'],
  );
  assert.match(refusal('text').message, /must be a schema/);
  assert.match(refusal({ $schema: 'http://json-schema.org/draft-07/schema#' }).message, /other versions/);
  assert.match(refusal({ $ref: '#/$defs/gone' }).message, /where there is no schema/);
  assert.match(refusal({ $ref: '#gone' }).message, /anchor gone/);
  assert.match(refusal({ items: [true] }).message, /prefixItems/);
});

test('what checks nothing is told: a misspelt keyword is a check that is not made', () => {
  const { ignored } = new JsonSchema({ requierd: ['a'], 'x-owner': 'us', properties: { a: { nullable: true } } }, '/s');
  assert.deepEqual(ignored, [
    { pointer: '/s/requierd', keyword: 'requierd' },
    { pointer: '/s/properties/a/nullable', keyword: 'nullable' },
  ]);
});

test('of very much that checks nothing the first places are kept: each may be as long as the schema', () => {
  const many = Object.fromEntries(Array.from({ length: 2_000 }, (_, i) => [`k${i}`, 1]));
  const { ignored, ignoredCount } = new JsonSchema({ properties: { ['p'.repeat(30_000)]: many } });
  assert.deepEqual([ignored.length, ignoredCount], [20, 2_000]);
});

test('schemas that lead back to themselves without going into the value are refused', () => {
  for (const schema of [
    { $ref: '#' },
    { allOf: [{ anyOf: [true, { $ref: '#' }] }] },
    { $defs: { a: { $ref: '#/$defs/b' }, b: { not: { $ref: '#/$defs/a' } } } },
    { if: true, then: { $dynamicRef: '#self' }, $dynamicAnchor: 'self' },
  ])
    assert.match(refusal(schema).message, /would never end/, JSON.stringify(schema));
  const tree = { properties: { children: { items: { $ref: '#' } } }, required: ['id'] };
  assert.deepEqual(places(tree, { id: 1, children: [{ id: 2, children: [{}] }] }), ['/children/0/children/0/id']);
});

/** How long it takes, milliseconds. */
function timed(work: () => void): number {
  const began = performance.now();
  work();
  return performance.now() - began;
}

test('hostile schemas: what a check costs is bounded by the size of the value', () => {
  // 2^30 ways through the references.
  const doubling = Object.fromEntries(
    Array.from({ length: 30 }, (_, i) => [
      `d${i}`,
      i === 29 ? { type: 'number' } : { anyOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] },
    ]),
  );
  const cases: [name: string, schema: unknown, value: unknown][] = [
    ['references that double', { $ref: '#/$defs/d0', $defs: doubling }, 'x'],
    [
      'a thousand alternatives an item',
      { items: { anyOf: Array.from({ length: 1000 }, (_, i) => ({ const: `${i}` })) } },
      Array.from({ length: 20_000 }, () => 'none'),
    ],
    [
      'a pattern a member',
      { patternProperties: Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`(a|b|ab)*c{${i + 1}}$`, true])) },
      Object.fromEntries(Array.from({ length: 2000 }, (_, i) => [`${'ab'.repeat(100)}${i}`, 1])),
    ],
    [
      'a tree in a tree',
      {
        $ref: '#/$defs/t',
        $defs: { t: { anyOf: [{ items: { $ref: '#/$defs/t' } }, { items: { $ref: '#/$defs/t' } }] } },
      },
      JSON.parse(`${'['.repeat(60)}1${']'.repeat(60)}`),
    ],
  ];
  for (const [name, schema, value] of cases) {
    const compiled = new JsonSchema(schema);
    const bytes = sizeOf(value);
    const run = new Run('', stepsFor(bytes));
    let costly = false;
    const took = timed(() => {
      try {
        compiled.check(value, run);
      } catch (error) {
        assert.ok(error instanceof TooCostlyError, `${name}: ${String(error)}`);
        costly = true;
      }
    });
    assert.ok(costly || run.steps >= 0, name);
    // As much as a loaded machine may take; unbounded it were minutes.
    assert.ok(took < 2_000, `${name} took ${took} ms`);
  }
  // The first and the last never end otherwise.
  assert.throws(() => violations(cases[0]?.[1], 'x'), TooCostlyError);
});

test('hostile patterns run in linear time, or are refused', () => {
  const attack = `${'a'.repeat(50_000)}!`;
  for (const source of ['^(a+)+$', '^(a|aa)+$', '(.*)*x$', '^([a-z]+)*\\d$']) {
    const pattern = new LinearPattern(source);
    const took = timed(() => assert.equal(pattern.matches(attack), false, source));
    assert.ok(took < 2_000, `${source} took ${took} ms`);
  }
  for (const source of [
    '(a)\\1',
    '(?=a)b',
    '(?<!a)b',
    '(',
    'x'.repeat(501),
    '((((a{100}){10}){10}){10})',
    'a{1000}b{1000}c{1000}',
    `(${'ab'.repeat(100)}){1000}`,
  ])
    assert.throws(() => new LinearPattern(source), /linear time|too large|at most/, source);
  for (const [source, text] of [
    ['^\\d{4}-\\d\\d$', '2024-05'],
    ['^\\u0041+$', 'AAA'],
    ['^[\\w.+-]{1,64}@[\\w-]{1,63}(\\.[\\w-]{1,63}){1,8}$', 'a.b@example.com'],
    ['é|\\p{L}+$', 'ß'],
    ['^(?<year>\\d+)$', '7'],
  ] as const)
    assert.ok(new LinearPattern(source).matches(text), source);
});

test('large and deep schemas are refused quickly', () => {
  const deep = Array.from({ length: 100 }).reduce<unknown>((inner) => ({ properties: { a: inner } }), true);
  assert.match(refusal(deep).message, /too deep/);
  const wide = { properties: Object.fromEntries(Array.from({ length: 3000 }, (_, i) => [`p${i}`, {}])) };
  assert.match(refusal(wide).message, /one schema too many/);
  const chain = Object.fromEntries(Array.from({ length: 1900 }, (_, i) => [`c${i}`, { $ref: `#/$defs/c${i + 1}` }]));
  const took = timed(() => {
    const compiled = new JsonSchema({ $ref: '#/$defs/c0', $defs: { ...chain, c1900: true } });
    assert.throws(() => compiled.violations(1, '', 1), TooCostlyError);
  });
  assert.ok(took < 2_000, `${took} ms`);
  const values = Array.from({ length: 8000 }, (_, i) => `value-${i}`);
  assert.deepEqual(places({ enum: values }, 'value-7999'), []);
  assert.deepEqual(places({ enum: values }, 'none'), ['']);
});

test('what many patterns take together is bounded', () => {
  const patterns = Array.from({ length: 40 }, (_, i) => ({ pattern: `^[a-z]{900}${i}$` }));
  assert.match(refusal({ allOf: patterns }).message, /too much with the patterns before it/);
});

test('what dynamic references may lead to is bounded, all of them together', () => {
  const schema = (n: number): object => ({
    $defs: Object.fromEntries(
      Array.from({ length: n }, (_, i) => [i.toString(36), { $id: i.toString(36), $dynamicAnchor: 'n' }]),
    ),
    allOf: Array.from({ length: n }, () => ({ $dynamicRef: '0#n' })),
  });
  assert.doesNotThrow(() => new JsonSchema(schema(90)));
  assert.throws(
    () => new JsonSchema(schema(900)),
    /dynamicRef is one too many: such references may lead to 10000 places/,
  );
});

test('whatever a schema is made of, it is compiled in pieces, and each tells what it cost', () => {
  const many = <T>(count: number, make: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));
  const schemas: Readonly<Record<string, object>> = {
    members: { properties: Object.fromEntries(many(1_900, (i) => [`p${i}`, { type: 'string' }])) },
    references: { $defs: { a: true }, allOf: many(1_900, () => ({ $ref: '#/$defs/a' })) },
    classes: { allOf: many(100, (i) => ({ pattern: `\\p{L}\\p{Lu}${i}` })) },
    names: { patternProperties: Object.fromEntries(many(100, (i) => [`\\p{L}\\p{Lu}${i}`, true])) },
  };
  for (const [name, schema] of Object.entries(schemas)) {
    const costs: number[] = [];
    const pieces = JsonSchema.pieces(schema);
    for (let piece = pieces.next(); piece.done !== true; piece = pieces.next()) costs.push(piece.value);
    assert.ok(costs.length >= 100, `${name}: ${costs.length} pieces`);
    assert.ok(Math.max(...costs) < 10_000, `${name}: one piece takes ${Math.max(...costs)} steps`);
  }
});

test('past the bounds of its patterns none of a schema is compiled any more', () => {
  const pieces = JsonSchema.pieces({
    allOf: Array.from({ length: 1_500 }, (_, i) => ({ pattern: `\\p{L}\\p{Lu}\\p{N}${i}` })),
  });
  const costs: number[] = [];
  assert.throws(() => {
    for (let piece = pieces.next(); piece.done !== true; piece = pieces.next()) costs.push(piece.value);
  }, /too much with the patterns before it/);
  // 20 places are told, and what lies behind them is not looked at.
  assert.ok(costs.reduce((sum, cost) => sum + cost, 0) < 2_000_000);
  assert.ok(costs.length < 2_000, `${costs.length} pieces`);
});

test('names that must be there are compared with each other in time that grows with their number', () => {
  const names = Array.from({ length: 13_000 }, (_, i) => i.toString(36));
  assert.doesNotThrow(() => new JsonSchema({ required: names }));
  assert.throws(() => new JsonSchema({ required: [...names, names[7]] }), /\/required\/13000 is there twice/);
});
