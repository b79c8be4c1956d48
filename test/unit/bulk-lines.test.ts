import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { StatefoldError } from '../../src/core/errors.js';
import { parseAppendBody, parseBulkLine } from '../../src/http/append-body.js';
import { LineSplitter } from '../../src/http/bulk/line-source.js';

const LIMITS = { maxDepth: 16, maxEvents: 10 };

test('lines are the same however the bytes come in pieces', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.string({ maxLength: 40 }).map((text) => text.replaceAll('\n', '')),
        { maxLength: 20 },
      ),
      fc.array(fc.integer({ min: 1, max: 17 }), { minLength: 1, maxLength: 5 }),
      (lines, sizes) => {
        const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(''));
        const splitter = new LineSplitter(30);
        const found: [number, string | undefined][] = [];
        for (let at = 0, i = 0; at < bytes.length; i++) {
          const size = sizes[i % sizes.length] ?? 1;
          for (const { number, text } of splitter.push(bytes.subarray(at, at + size)))
            found.push([number, text?.toString()]);
          at += size;
        }
        const expected = lines
          .map((line, i): [number, string | undefined] => [i + 1, Buffer.byteLength(line) > 30 ? undefined : line])
          .filter(([, line]) => line === undefined || !/^[ \t\r]*$/.test(line));
        assert.deepEqual(found, expected);
        assert.equal(splitter.isOpen, false);
        assert.equal(splitter.next, lines.length + 1);
      },
    ),
  );
});

test('lines with nothing in them are counted, so that whoever sends them pays', () => {
  const splitter = new LineSplitter(100);
  assert.deepEqual([...splitter.push(Buffer.alloc(65_536, '\n'))], []);
  assert.deepEqual([splitter.blank, splitter.next], [65_536, 65_537]);
  assert.deepEqual([...splitter.push(Buffer.from(' \r\n \t'))], []);
  assert.deepEqual(
    [...splitter.push(Buffer.from('\n{}\n\n'))].map(({ number }) => number),
    [65_539],
  );
  assert.deepEqual([splitter.blank, splitter.next], [65_539, 65_541]);
});

test('a line that is too long holds no more than it may', () => {
  const splitter = new LineSplitter(100);
  for (let i = 0; i < 50; i++) assert.deepEqual([...splitter.push(Buffer.alloc(60, 'x'))], []);
  assert.ok(splitter.partial <= 100 && splitter.isOpen);
  assert.deepEqual(
    [...splitter.push(Buffer.from('x\n{}\n{'))].map(({ number, text }) => [number, text?.toString()]),
    [
      [1, undefined],
      [2, '{}'],
    ],
  );
  splitter.drop();
  assert.deepEqual(
    [...splitter.push(Buffer.from('}\n{}\n'))].map(({ number, text }) => [number, text?.toString()]),
    [
      [3, undefined],
      [4, '{}'],
    ],
  );
});

test('a line is a body of an append, with a key of its own', () => {
  const body = '"aggregateId":"a-1","eventType":"T","data":{"idempotencyKey":"x"}';
  const plain = parseAppendBody(Buffer.from(`{${body}}`), false, LIMITS);
  for (const line of [
    `{"idempotencyKey":"k,1",${body}}`,
    `{${body},"idempotencyKey":"k,1"}`,
    `{"aggregateId":"a-1","idempotencyKey":"k,1","eventType":"T","data":{"idempotencyKey":"x"}}`,
  ]) {
    const { idempotencyKey, keyless, ...parsed } = parseBulkLine(Buffer.from(line), LIMITS);
    assert.equal(idempotencyKey, 'k,1');
    // As it would be sent with the key in a header: one hash, whichever way it is repeated.
    assert.equal(keyless.toString(), `{${body}}`);
    assert.deepEqual({ ...parsed, idempotencyKey: undefined, keyless: plain }.events, plain.events);
  }
  const refused = (line: string): unknown => {
    try {
      return parseBulkLine(Buffer.from(line), LIMITS);
    } catch (error) {
      return error instanceof StatefoldError ? error.errors : error;
    }
  };
  assert.deepEqual(refused(`{${body},"idempotencyKey":""}`), [
    { pointer: '/idempotencyKey', message: 'must be a string of 1 to 255 printable ASCII characters' },
  ]);
  assert.deepEqual(refused(`{${body},"idempotencykey":"k"}`), [
    { pointer: '/idempotencykey', message: 'is not a known member; did you mean "idempotencyKey"?' },
  ]);
  assert.deepEqual(refused(`{"aggregateId":"a-1","events":[],"eventType":"T","data":{}}`), [
    { pointer: '/events', message: 'is for POST /events/batch: a line has one event' },
  ]);
  // Elsewhere it is a header.
  assert.throws(() => parseAppendBody(Buffer.from(`{${body},"idempotencyKey":"k"}`), false, LIMITS), StatefoldError);
});
