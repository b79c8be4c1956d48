import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { applyPatch, type Operation } from 'rfc6902';
import { patchText } from '../../src/inspection/json-patch.js';

const text = (value: unknown): Buffer => Buffer.from(JSON.stringify(value));
const patch = (before: unknown, after: unknown): Operation[] =>
  JSON.parse(patchText(text(before), text(after))) as Operation[];

/** What the patch makes of it. */
function patched(before: unknown, operations: Operation[]): unknown {
  const root = { value: structuredClone(before) };
  const failures = applyPatch(
    root,
    operations.map((operation) => ({ ...operation, path: `/value${operation.path}` })),
  );
  assert.deepEqual(
    failures.filter((failure) => failure !== null),
    [],
  );
  return root.value;
}

test('what differs, by its place', () => {
  assert.deepEqual(patch({ a: 1, 'b/c': [1, 2] }, { a: 2, 'b/c': [1, 2, 3] }), [
    { op: 'replace', path: '/a', value: 2 },
    { op: 'add', path: '/b~1c/-', value: 3 },
  ]);
  assert.deepEqual(patch({ a: 1 }, { a: 1 }), []);
  assert.deepEqual(JSON.parse(patchText(null, text({ a: 1 }))), [{ op: 'replace', path: '', value: { a: 1 } }]);
  assert.deepEqual(JSON.parse(patchText(text({ a: 1 }), null)), [{ op: 'replace', path: '', value: null }]);
});

test('another order of members is no difference', () => {
  assert.equal(patchText(Buffer.from('{"a":1,"b":2}'), Buffer.from('{"b":2,"a":1}')), '[]');
});

test('numbers keep their digits', () => {
  assert.equal(
    patchText(Buffer.from('{"n":9007199254740993}'), Buffer.from('{"n":9007199254740992}')),
    '[{"op":"replace","path":"/n","value":9007199254740992}]',
  );
  assert.equal(
    patchText(Buffer.from('{"n":9007199254740992}'), Buffer.from('{"n":9007199254740993}')),
    '[{"op":"replace","path":"/n","value":9007199254740993}]',
  );
  assert.equal(
    patchText(Buffer.from('{"n":10.5}'), Buffer.from('{"n":10.50}')),
    '[{"op":"replace","path":"/n","value":10.50}]',
  );
  assert.equal(patchText(Buffer.from('{"n":1E400,"s":"1.50"}'), Buffer.from('{"n":1E400,"s":"1.50"}')), '[]');
});

test('large arrays take no longer than reading them, and the patch still leads from one to the other', () => {
  const before = { rows: Array.from({ length: 3000 }, (_, i) => ({ i, deep: [[i], [i + 1]] })) };
  const after = {
    rows: [...before.rows.slice(0, 1500), { i: -1, deep: [] }, ...before.rows.slice(1501), { i: 3001, deep: [[0]] }],
  };
  const operations = patch(before, after);
  assert.ok(operations.length < 20, JSON.stringify(operations));
  assert.deepEqual(patched(before, operations), after);
});

test('a state that differs everywhere is replaced as a whole', () => {
  const before = Array.from({ length: 20_000 }, (_, i) => i);
  const after = before.map((i) => i + 1);
  assert.deepEqual(patch(before, after), [{ op: 'replace', path: '', value: after }]);
});

test('a member named __proto__ is one as any other', () => {
  const patchOf = (before: string, after: string): unknown =>
    JSON.parse(patchText(Buffer.from(before), Buffer.from(after)));
  assert.deepEqual(patchOf('{"__proto__":1}', '{"__proto__":2}'), [{ op: 'replace', path: '/__proto__', value: 2 }]);
  assert.deepEqual(patchOf('{"a":{"__proto__":[1]}}', '{"a":{}}'), [{ op: 'remove', path: '/a/__proto__' }]);
  assert.equal(
    patchText(Buffer.from('{}'), Buffer.from('{"a":{"__proto__":1}}')),
    '[{"op":"add","path":"/a","value":{"__proto__":1}}]',
  );
});

/** Without a member that `applyPatch`, with which the test checks, leaves out of what it adds. */
const anyState = fc.jsonValue({ maxDepth: 5 }).filter((value) => !JSON.stringify(value).includes('__proto__'));

test('any patch leads from one state to the other', () => {
  fc.assert(
    fc.property(anyState, anyState, (before, after) => {
      assert.deepEqual(
        patched(JSON.parse(JSON.stringify(before)), patch(before, after)),
        JSON.parse(JSON.stringify(after)),
      );
    }),
    { numRuns: 300 },
  );
});

test('arrays that are emptied, and many of them, take no longer than reading them', () => {
  const of = (length: number): object =>
    Object.fromEntries(Array.from({ length: 120 }, (_, i) => [`a${i}`, Array.from({ length }, () => 1)]));
  const before = process.cpuUsage();
  for (const [one, other] of [
    [of(4000), of(0)],
    [of(0), of(4000)],
  ] as const)
    assert.deepEqual(patched(one, patch(one, other)), other);
  const { user } = process.cpuUsage(before);
  assert.ok(user < 10_000_000, `${user} µs`);
});

const WHOLE = (text: string): string => `[{"op":"replace","path":"","value":${text}}]`;

test('what takes long to compare is replaced as a whole', () => {
  const [before, after] = ['[{"a":1},{"b":[1,2]}]', '[{"a":2},{"b":[2]}]'];
  let at = 0;
  const slow = (): number => (at += 11);
  assert.equal(patchText(Buffer.from(before), Buffer.from(after), slow), WHOLE(after));
  assert.notEqual(patchText(Buffer.from(before), Buffer.from(after)), WHOLE(after));
  const equal = Buffer.from(`[${'1.0,'.repeat(500_000)}1.0]`);
  assert.equal(patchText(equal, Buffer.from(equal), slow), '[]');
});

test('states of so many members that they take long to parse are replaced as a whole; texts and numbers of any length are compared', () => {
  const state = (list: unknown, last: number): Buffer => Buffer.from(JSON.stringify({ list, last }));
  const names = (count: number): unknown => Array.from({ length: count }, (_, i) => ({ [`k${i}`]: 0 }));
  const patchOf = (list: unknown): string => patchText(state(list, 1), state(list, 2), () => 0);
  assert.equal(patchOf(names(12_000)), WHOLE(state(names(12_000), 2).toString()));
  const fine = '[{"op":"replace","path":"/last","value":2}]';
  assert.equal(patchOf(names(8_000)), fine);
  assert.equal(patchOf(Array(20_000).fill(7)), fine);
  assert.equal(patchOf('a:'.repeat(30_000)), fine);
});

test('large states with long numbers are not searched for them', () => {
  const numbers = (last: string): string => `[${'12345678901234567890,'.repeat(10_000)}${last}]`;
  assert.equal(patchText(Buffer.from(numbers('1')), Buffer.from(numbers('2.50'))), WHOLE(numbers('2.50')));
});

test('numbers that a double writes otherwise are told as they are written', () => {
  for (const number of ['1.0', '-0', '-0.0', '0.0000001', '1e3', '1E+3', '123456789012345678', '0.10', '100.0'])
    assert.equal(
      patchText(Buffer.from('{"n":7}'), Buffer.from(`{"n":${number}}`)),
      `[{"op":"replace","path":"/n","value":${number}}]`,
    );
});
