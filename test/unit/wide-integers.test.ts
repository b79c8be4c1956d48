import assert from 'node:assert/strict';
import test from 'node:test';
import { threadClock } from '../support/holds.js';
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

const LAST = '18446744073709551616';

test('whatever stands around it', () => {
  for (const around of ['1,', '{"a":1},', '"\\\\\\"",', `"${LAST}",`, `${LAST},`]) {
    const text = around.repeat(1000);
    const floats = around.startsWith('"') ? text : text.replaceAll(LAST, `${LAST}e0`);
    assert.equal(written(`[${text}${LAST}]`), `[${floats}${LAST}e0]`);
  }
});

test('a megabyte of small numbers is gone through in milliseconds', () => {
  const json = Buffer.from(`[${'1,'.repeat(500_000)}${LAST}]`);
  const clock = threadClock();
  const began = clock.now();
  for (let i = 0; i < 5; i++) assert.equal(wideAsFloats(json)?.length, json.length + 2);
  const took = clock.now() - began;
  clock.close();
  // By a pattern that finds each number: 80 ms each.
  assert.ok(took < 200, `${took} ms of a processor`);
});
