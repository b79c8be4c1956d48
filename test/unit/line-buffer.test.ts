import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { uuidText } from '../../src/core/ids.js';
import { LineBuffer } from '../../src/feed/line-buffer.js';

test('what is gathered is taken as one piece, and then there is nothing', () => {
  const lines = new LineBuffer();
  lines.ascii('{"a":');
  lines.text('"ä€😀"');
  lines.ascii(',"b":');
  lines.json(Buffer.from('{"c":\r\n [1,\n2]}'), true);
  lines.ascii(',"d":');
  lines.json(Buffer.from('{"c":\r\n [1,\n2]}'), false);
  lines.ascii('}\n');
  const line = '{"a":"ä€😀","b":{"c":   [1, 2]},"d":{"c":\r\n [1,\n2]}}\n';
  assert.equal(lines.length, Buffer.byteLength(line));
  assert.equal(lines.take().toString(), line);
  assert.equal(lines.length, 0);
  assert.equal(lines.take().length, 0);
});

test('what was taken stays as it was, and what is too much is taken back', () => {
  const lines = new LineBuffer();
  lines.ascii('one\n');
  const { length } = lines;
  lines.ascii('another\n');
  lines.cutTo(length);
  lines.ascii('two\n');
  const taken = lines.take();
  lines.ascii('three and more\n');
  assert.equal(taken.toString(), 'one\ntwo\n');
  assert.equal(lines.take().toString(), 'three and more\n');
});

test('it grows with what is larger than it, whatever wrote that', () => {
  const large = 'x'.repeat(3 * 1024 * 1024);
  const lines = new LineBuffer();
  lines.ascii('before,');
  lines.ascii(large);
  lines.text(`,${large}é,`);
  lines.json(Buffer.from(large), true);
  assert.equal(lines.take().toString(), `before,${large},${large}é,${large}`);
  lines.ascii('after');
  assert.equal(lines.take().toString(), 'after');
});

test('numbers and ids are written as their texts', () => {
  const lines = new LineBuffer();
  const number = fc.oneof(fc.maxSafeNat(), fc.nat(), fc.constantFrom(0, 9, 10, 99_999_999, 100_000_000, 10 ** 15));
  const id = fc.uint8Array({ minLength: 16, maxLength: 16 });
  fc.assert(
    fc.property(fc.array(fc.tuple(number, id)), (all) => {
      for (const [value, bytes] of all) {
        lines.integer(value);
        lines.uuid(Buffer.concat([Buffer.from('before'), bytes]), 6);
      }
      const texts = all.map(([value, bytes]) => `${value}${uuidText(bytes)}`);
      assert.equal(lines.take().toString(), texts.join(''));
    }),
  );
});
