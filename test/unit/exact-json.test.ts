import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exactText, parseExactly } from '../../src/core/exact-json.js';

test('numbers that a double would round stay as they are written', () => {
  const text =
    '{"big":12345678901234567890,"small":0.10000000000000001,"text":"12345678901234567890","n":-1.5e3,"one":1.0}';
  assert.notDeepEqual(parseExactly(text), parseExactly(text.replace('67890,"s', '67891,"s')));
  assert.equal(
    exactText(parseExactly(text)),
    '{"big":12345678901234567890,"small":0.10000000000000001,"text":"12345678901234567890","n":-1500,"one":1}',
  );
});

test('numbers that a double has no place for stay too, and those that it holds are the same however they are written', () => {
  for (const kept of ['1e400', '-1e400', '1e-400', '1.2345e-320', '9007199254740993', '-0.12345678901234567e-7'])
    assert.equal(exactText(parseExactly(`[${kept},1]`)), `[${kept},1]`);
  for (const [one, other] of [
    ['1e2', '100'],
    ['100000000000000000000', '1e20'],
    ['0.50000000000000000', '0.5'],
    ['0.0000000000000000', '0'],
  ] as const)
    assert.deepEqual(parseExactly(`{"n":${one}}`), parseExactly(`{"n":${other}}`));
});

test('strings and names stay as they are, whatever is in them', () => {
  for (const text of [
    '{"12345678901234567890":12345678901234567890}',
    '["12345678901234567890","\\u0000123","a \\"quoted\\" 12345678901234567890",12345678901234567890]',
    '{"__proto__":{"n":12345678901234567890}}',
    '["😀 1234567890123456789",1234567890123456789]',
    '{"\\u00001":"\\u0000x","a":"\\u0000\\"1","b":"x\\"\\u00001","c":"\\u00001e5","n":1e400}',
  ])
    assert.equal(exactText(parseExactly(text)), text);
});

test('what comes out is JSON, also of halves of surrogate pairs, which the service takes from nobody', () => {
  for (const odd of [{ '\ud8001': 1 }, ['a"\ud8001'], ['"\ud8001"'], ['\\"\ud8001'], ['\ud800x']])
    assert.deepEqual(JSON.parse(exactText(odd)), odd);
});

test('what is no JSON is refused as by JSON.parse', () => {
  for (const text of ['{', '1234567890123456789x', '12345678901234567890 12345678901234567890', '01', '1.e5', ''])
    assert.throws(() => parseExactly(text), SyntaxError);
});

test('a number of a million digits takes no longer than reading it', () => {
  const before = process.cpuUsage();
  for (const number of [`1${'0'.repeat(1_000_000)}1`, `0.${'0'.repeat(1_000_000)}1`])
    assert.equal(exactText(parseExactly(`[${number}]`)), `[${number}]`);
  assert.deepEqual(parseExactly(`[0.${'0'.repeat(1_000_000)}]`), [0]);
  const { user } = process.cpuUsage(before);
  assert.ok(user < 5_000_000, `${user} µs`);
});
