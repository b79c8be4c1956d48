import assert from 'node:assert/strict';
import test from 'node:test';
import { wideAsFloats } from '../../src/read-store/clickhouse/wide-integers.js';

const written = (json: string): string | undefined => wideAsFloats(Buffer.from(json))?.toString();

test('integers past 64 bits are written as floats, at whatever place, and nothing else is', () => {
  for (let before = 0; before < 40; before++) {
    const text = ' '.repeat(before);
    assert.equal(written(`${text}[18446744073709551616]`), `${text}[18446744073709551616e0]`);
  }
  assert.equal(
    written('{"é\\"":-9223372036854775809,"12345678901234567890123":"\\\\","b":1e400}'),
    '{"é\\"":-9223372036854775809e0,"12345678901234567890123":"\\\\","b":1e400}',
  );
});

test('a text without one stays as it is', () => {
  for (const json of [
    '[18446744073709551615,-9223372036854775808]',
    '{"id":"12345678901234567890123"}',
    '[12345678901234567890123.5,12345678901234567890123e2,0.12345678901234567890123]',
    // Past a double, too.
    `[${'9'.repeat(400)}]`,
    '',
  ])
    assert.equal(written(json), undefined, json);
});
