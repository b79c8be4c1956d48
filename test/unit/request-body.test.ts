import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { z } from 'zod';
import { StatefoldError } from '../../src/core/errors.js';
import { checked } from '../../src/http/bodies.js';
import { readBody } from '../../src/http/body.js';

const requestOf = (...chunks: readonly string[]): IncomingMessage =>
  Object.assign(Readable.from(chunks.map((chunk) => Buffer.from(chunk))), {
    headers: {},
    complete: true,
  }) as unknown as IncomingMessage;

test('a short body has memory of its own: an event that is kept of it keeps nothing else', async () => {
  for (const chunks of [['{"id":1}'.padEnd(200)], ['{"id"', ':1}'.padEnd(200)]]) {
    const body = await readBody(requestOf(...chunks), 1000);
    assert.equal(body.toString(), chunks.join(''));
    assert.equal(body.buffer.byteLength, body.length);
  }
  assert.equal((await readBody(requestOf(), 1000)).length, 0);
});

test('a body past the limit is refused, however it comes', async () => {
  const refused = (error: unknown): boolean => error instanceof StatefoldError && error.code === 'PAYLOAD_TOO_LARGE';
  await assert.rejects(readBody(requestOf('12345', '67890', '1'), 10), refused);
  assert.equal((await readBody(requestOf('12345', '67890'), 10)).length, 10);
});

test('of members of an inner object that are not known no more is told than a thousand characters', () => {
  const schema = z.object({ quotas: z.strictObject({}) });
  const quotas = Object.fromEntries(Array.from({ length: 4_000 }, (_, i) => [`${'q'.repeat(200)}${i}`, 1]));
  assert.throws(
    () => checked({ quotas }, schema, 'The body is invalid'),
    (error: unknown) => error instanceof StatefoldError && error.message.length < 1_100,
  );
});
